"""streamsched: which pages of a crawl have changed? A re-crawl scheduler that learns from every visit."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from streamsched.errors import (
    ChangesGone,
    FormulaError,
    InvalidOutcome,
    InvalidSignal,
    KeyReusedError,
    ReplayError,
    SettingsError,
    SnapshotError,
    SourceError,
    StreamschedError,
    UnknownPage,
)

if TYPE_CHECKING:
    from streamsched.api.views import (
        Discovered,
        Explanation,
        HostPage,
        HostView,
        Noticed,
        Observed,
        PageView,
        RulesView,
        SourceReliability,
        SurgeView,
        WeekView,
    )
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
    from streamsched.scheduler.planning.optimiser import Optimiser
    from streamsched.scheduler.planning.optimiser_settings import OptimiserSettings
    from streamsched.scheduler.results import Batch, Granted
    from streamsched.scheduler.scheduler import Scheduler
    from streamsched.scheduler.warm import warm
    from streamsched.signals import Signal, SignalBatch
    from streamsched.state.stream_clock import WallClock

    __version__: str

__all__ = [
    "Batch",
    "ChangesGone",
    "Discovered",
    "DurableScheduler",
    "EvolutionPlan",
    "Evolver",
    "Explanation",
    "Formula",
    "FormulaError",
    "Granted",
    "HostPage",
    "HostRule",
    "HostView",
    "InvalidOutcome",
    "InvalidSignal",
    "KeyReusedError",
    "Noticed",
    "Observed",
    "Optimiser",
    "OptimiserSettings",
    "Outcome",
    "OutcomeBatch",
    "PackedUrls",
    "PageView",
    "Politeness",
    "Reason",
    "ReasonCode",
    "ReplayError",
    "Rule",
    "RulesView",
    "SavePlan",
    "Scheduler",
    "SettingsError",
    "Signal",
    "SignalBatch",
    "SnapshotError",
    "SourceError",
    "SourceReliability",
    "StreamschedError",
    "SurgeView",
    "UnknownPage",
    "WallClock",
    "WeekView",
    "hamming",
    "simhash",
    "warm",
]

# Imported on first use: a command imports what it needs, and Ctrl-C can end it from its first milliseconds on.
_HOMES: Final = {
    "Batch": "streamsched.scheduler.results",
    "Discovered": "streamsched.api.views",
    "DurableScheduler": "streamsched.scheduler.durable",
    "EvolutionPlan": "streamsched.evolution.plan",
    "Evolver": "streamsched.scheduler.evolver",
    "Explanation": "streamsched.api.views",
    "Formula": "streamsched.formula",
    "Granted": "streamsched.scheduler.results",
    "HostPage": "streamsched.api.views",
    "HostRule": "streamsched.politeness.politeness_settings",
    "HostView": "streamsched.api.views",
    "Noticed": "streamsched.api.views",
    "Observed": "streamsched.api.views",
    "Optimiser": "streamsched.scheduler.planning.optimiser",
    "OptimiserSettings": "streamsched.scheduler.planning.optimiser_settings",
    "Outcome": "streamsched.outcomes",
    "OutcomeBatch": "streamsched.outcomes",
    "PackedUrls": "streamsched.numerics.packed_urls",
    "PageView": "streamsched.api.views",
    "Politeness": "streamsched.politeness.politeness_settings",
    "Reason": "streamsched.reasons",
    "ReasonCode": "streamsched.reasons",
    "Rule": "streamsched.politeness.politeness_settings",
    "RulesView": "streamsched.api.views",
    "SavePlan": "streamsched.persistence.image_writer",
    "Scheduler": "streamsched.scheduler.scheduler",
    "Signal": "streamsched.signals",
    "SignalBatch": "streamsched.signals",
    "SourceReliability": "streamsched.api.views",
    "SurgeView": "streamsched.api.views",
    "WallClock": "streamsched.state.stream_clock",
    "WeekView": "streamsched.api.views",
    "hamming": "streamsched.estimation.change_detection",
    "simhash": "streamsched.estimation.simhash",
    "warm": "streamsched.scheduler.warm",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = _version()
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def _version() -> str:
    """Return the version of the installed package, "unknown" for a checkout that is not installed."""
    metadata = import_module("importlib.metadata")
    try:
        return str(metadata.version("streamsched"))
    except metadata.PackageNotFoundError:
        return "unknown"


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
