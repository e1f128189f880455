"""streamsched: which pages of a crawl have changed? A re-crawl scheduler that learns from every visit."""

from streamsched.errors import (
    FormulaError,
    InvalidOutcome,
    ReplayError,
    SettingsError,
    SnapshotError,
    SourceError,
    StreamschedError,
    UnknownPage,
)
from streamsched.estimation.change_detection import hamming
from streamsched.estimation.simhash import simhash
from streamsched.formula import Formula
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import Outcome, OutcomeBatch
from streamsched.politeness.politeness_settings import HostRule, Politeness, Rule
from streamsched.reasons import Reason, ReasonCode
from streamsched.scheduler.explanation import Explanation
from streamsched.scheduler.results import Batch, Observed
from streamsched.scheduler.scheduler import Scheduler

__all__ = [
    "Batch",
    "Explanation",
    "Formula",
    "FormulaError",
    "HostRule",
    "InvalidOutcome",
    "Observed",
    "Outcome",
    "OutcomeBatch",
    "PackedUrls",
    "Politeness",
    "Reason",
    "ReasonCode",
    "ReplayError",
    "Rule",
    "Scheduler",
    "SettingsError",
    "SnapshotError",
    "SourceError",
    "StreamschedError",
    "UnknownPage",
    "hamming",
    "simhash",
]
