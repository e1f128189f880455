"""streamsched: which pages of a crawl have changed? A re-crawl scheduler that learns from every visit."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

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

if TYPE_CHECKING:
    from streamsched.estimation.change_detection import hamming
    from streamsched.estimation.simhash import simhash
    from streamsched.evolution.plan import EvolutionPlan
    from streamsched.formula import Formula
    from streamsched.numerics.packed_urls import PackedUrls
    from streamsched.outcomes import Outcome, OutcomeBatch
    from streamsched.persistence.image_writer import SavePlan
    from streamsched.politeness.politeness_settings import HostRule, Politeness, Rule
    from streamsched.reasons import Reason, ReasonCode
    from streamsched.scheduler.durable import DurableScheduler
    from streamsched.scheduler.evolver import Evolver
    from streamsched.scheduler.explanation import Explanation
    from streamsched.scheduler.results import Batch, Observed
    from streamsched.scheduler.scheduler import Scheduler
    from streamsched.scheduler.warming.warm import warm
    from streamsched.state.stream_clock import WallClock

__all__ = [
    "Batch",
    "DurableScheduler",
    "EvolutionPlan",
    "Evolver",
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
    "SavePlan",
    "Scheduler",
    "SettingsError",
    "SnapshotError",
    "SourceError",
    "StreamschedError",
    "UnknownPage",
    "WallClock",
    "hamming",
    "simhash",
    "warm",
]

# Imported on first use: a command imports what it needs, and Ctrl-C can end it from its first milliseconds on.
_HOMES: Final = {
    "Batch": "streamsched.scheduler.results",
    "DurableScheduler": "streamsched.scheduler.durable",
    "EvolutionPlan": "streamsched.evolution.plan",
    "Evolver": "streamsched.scheduler.evolver",
    "Explanation": "streamsched.scheduler.explanation",
    "Formula": "streamsched.formula",
    "HostRule": "streamsched.politeness.politeness_settings",
    "Observed": "streamsched.scheduler.results",
    "Outcome": "streamsched.outcomes",
    "OutcomeBatch": "streamsched.outcomes",
    "PackedUrls": "streamsched.numerics.packed_urls",
    "Politeness": "streamsched.politeness.politeness_settings",
    "Reason": "streamsched.reasons",
    "ReasonCode": "streamsched.reasons",
    "Rule": "streamsched.politeness.politeness_settings",
    "SavePlan": "streamsched.persistence.image_writer",
    "Scheduler": "streamsched.scheduler.scheduler",
    "WallClock": "streamsched.state.stream_clock",
    "hamming": "streamsched.estimation.change_detection",
    "simhash": "streamsched.estimation.simhash",
    "warm": "streamsched.scheduler.warming.warm",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
