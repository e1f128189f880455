"""streamsched: which pages of a crawl have changed? A re-crawl scheduler that learns from every visit."""

from streamsched.change import hamming
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
from streamsched.explanation import Explanation
from streamsched.formula import Formula
from streamsched.manners import HostRule, Manners, Rule
from streamsched.outcomes import Outcome, OutcomeBatch
from streamsched.packed import PackedUrls
from streamsched.replies import Batch, Observed
from streamsched.scheduler import Scheduler
from streamsched.simhash import simhash

__all__ = [
    "Batch",
    "Explanation",
    "Formula",
    "FormulaError",
    "HostRule",
    "InvalidOutcome",
    "Manners",
    "Observed",
    "Outcome",
    "OutcomeBatch",
    "PackedUrls",
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
