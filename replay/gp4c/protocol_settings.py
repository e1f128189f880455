"""Settings of GP4C's experiment, validated on construction, and the window of the log that they select."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from streamsched.errors import ReplayError
from streamsched.evolution.evolution_settings import EvolutionSettings, Metric
from streamsched.evolution.symbols import TERMINAL_SETS
from streamsched.formula.terminal_table import TerminalSet
from streamsched.replay.ground_truth import ChangeLog, Window
from streamsched.replay.replay_settings import ReplaySettings, format_time
from streamsched.replay.simulation.simulator import DAY_S

METRICS: Final[tuple[Metric, ...]] = ("change_rate", "ndcg")
FOLDS: Final = 5
SPANS: Final = 3  # for training, validation and test, in this order
SPAN_CYCLES: Final = 19  # a third of the paper's 57 days


@dataclass(frozen=True, slots=True)
class ProtocolSettings:
    """One run of the experiment: a log, a window of it, and the size of the search. The defaults are the paper's.

    ``log``: file name for `read_truth`. ``metrics``: fitness functions, one evolution each. ``terminals``: terminal
    sets of the formulas, one evolution each. ``cycle_s``: seconds. ``start_s``, a UTC midnight, and ``end_s``: epoch
    seconds. If both are given, the spans are thirds of that window, else they are 19 cycles each, by default the last
    of the log. ``seed``: for the folds, the random policy and the order of ties. ``evolution``: settings of the genetic
    programming and of the simulated crawls; metric, terminals and selection are overridden. Raises ReplayError if a
    value is invalid.
    """

    log: str
    metrics: tuple[Metric, ...] = METRICS
    terminals: tuple[TerminalSet, ...] = ("basic", "paper")
    cycle_s: float = DAY_S
    start_s: float | None = None
    end_s: float | None = None
    seed: int = 0
    evolution: EvolutionSettings = field(default_factory=EvolutionSettings)

    def __post_init__(self) -> None:
        # The same checks and messages as for a replay.
        ReplaySettings(self.log, cycle_s=self.cycle_s, start_s=self.start_s, end_s=self.end_s, seeds=(self.seed,))
        for name, chosen, known in (
            ("metrics", self.metrics, METRICS),
            ("terminals", self.terminals, tuple(TERMINAL_SETS)),
        ):
            if not chosen or len(set(chosen)) < len(chosen) or not set(chosen) <= set(known):
                raise ReplayError(f"{name}: expected some of {', '.join(known)}, each once, found {chosen!r}")

    @property
    def budget(self) -> float:
        """The share of a fold's pages that a ranked cycle visits."""
        return self.evolution.budget

    @property
    def warmup(self) -> int:
        """Cycles at the start of each span that visit every page."""
        return self.evolution.warmup

    @property
    def cuts(self) -> tuple[float, ...]:
        """Shares of the pages at which Figure 5 cuts a ranking: fifths of the budget (1 to 5 % for a budget of 5 %)."""
        return tuple(self.budget * part / 5 for part in (1, 2, 3, 4, 5))


def choose_spans(log: ChangeLog, settings: ProtocolSettings) -> Window:
    """Return the window of `log` for the three spans; its number of cycles is a multiple of three. O(changes).

    Raises ReplayError if the log or the window is too short.
    """
    known = _describe_extent(log)
    end_s = log.last_s if settings.end_s is None else settings.end_s
    if end_s > log.last_s + max(DAY_S, settings.cycle_s):
        raise ReplayError(f"the window ends at {format_time(end_s)}, after the end of the log: {known}")
    first_s = math.ceil(log.first_s / DAY_S) * DAY_S if settings.start_s is None else settings.start_s
    found = max(0, math.floor((end_s - first_s) / settings.cycle_s))
    wanted = SPANS * max(SPAN_CYCLES, settings.warmup + 1)
    if settings.start_s is not None and settings.end_s is not None:
        wanted = max(found // SPANS, settings.warmup + 1) * SPANS
    if found < wanted:
        raise ReplayError(
            f"from {format_time(first_s)} to {format_time(end_s)} there are {found} whole cycles: expected {wanted} or "
            f"more, {SPANS} spans of {wanted // SPANS}, {settings.warmup} of them to warm up; {known}"
        )
    if settings.start_s is None:
        first_s = math.floor((end_s - wanted * settings.cycle_s) / DAY_S) * DAY_S
    return log.window(first_s, settings.cycle_s, wanted)


def _describe_extent(log: ChangeLog) -> str:
    """Return the extent of the log in English. Raises ReplayError if its times are not epoch seconds."""
    try:
        return f"the log runs from {format_time(log.first_s)} to {format_time(log.last_s)}"
    except (OSError, OverflowError, ValueError):
        raise ReplayError(
            f"the log's times run from {log.first_s:.0f} to {log.last_s:.0f}: expected epoch seconds"
        ) from None
