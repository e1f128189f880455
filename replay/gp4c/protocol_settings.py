"""What a run of GP4C's experiment is asked to do, checked before anything runs, and the cycles that follow from it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from streamsched.errors import ReplayError
from streamsched.evolution.gp.evolution_settings import EvolutionSettings, Metric
from streamsched.evolution.gp.symbols import TERMINAL_SETS, TerminalSet
from streamsched.replay.replay_settings import ReplaySettings, format_time
from streamsched.replay.simulation.simulator import DAY_S
from streamsched.replay.truth.ground_truth import ChangeLog, Window

__all__ = ["FOLDS", "METRICS", "SPANS", "SPAN_CYCLES", "ProtocolSettings", "choose_spans"]

METRICS: Final[tuple[Metric, ...]] = ("change_rate", "ndcg")
FOLDS: Final = 5
SPANS: Final = 3  # to train, to validate and to test on, each after the one before
SPAN_CYCLES: Final = 19  # the paper's 57 days in three


@dataclass(frozen=True, slots=True)
class ProtocolSettings:
    """One run of the experiment: a log, a window of it, and how much is evolved. The defaults are the paper's.

    ``log``: file name, as `read_truth` takes it. ``metrics``: what is evolved for, one evolution each. ``terminals``:
    what formulas may be made of, one evolution each. ``cycle_s``: seconds. ``start_s``, a UTC midnight, and ``end_s``:
    epoch seconds; where both are given the spans are thirds of that window, else 19 cycles each, by default the log's
    last. ``seed``: of the folds, of chance and of the order of equals. ``evolution``: every setting of the genetic
    programming and of the simulated crawls, of which metric, terminals and selection are taken one after another.
    Raises ReplayError where a value cannot work.
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
        # What a replay would refuse too is refused in the same words.
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
        """How many cycles of each span visit every page before anything is ranked."""
        return self.evolution.warmup

    @property
    def cuts(self) -> tuple[float, ...]:
        """Shares of the pages at which Figure 5 cuts a ranking: fifths of the budget, 1 to 5 % of 5 %."""
        return tuple(self.budget * part / 5 for part in (1, 2, 3, 4, 5))


def choose_spans(log: ChangeLog, settings: ProtocolSettings) -> Window:
    """Return the window of `log` that the three spans fill; its cycles are a multiple of three. O(changes).

    Raises ReplayError where the log or the window is too short, saying how many cycles there are.
    """
    known = _describe_extent(log)
    end_s = log.last_s if settings.end_s is None else settings.end_s
    if end_s > log.last_s + max(DAY_S, settings.cycle_s):
        raise ReplayError(f"the window ends at {format_time(end_s)}, of which nothing is known: {known}")
    first_s = math.ceil(log.first_s / DAY_S) * DAY_S if settings.start_s is None else settings.start_s
    found = max(0, math.floor((end_s - first_s) / settings.cycle_s))
    wanted = SPANS * max(SPAN_CYCLES, settings.warmup + 1)
    if settings.start_s is not None and settings.end_s is not None:
        wanted = max(found // SPANS, settings.warmup + 1) * SPANS
    if found < wanted:
        raise ReplayError(
            f"from {format_time(first_s)} to {format_time(end_s)} there are {found} whole cycles: expected {wanted} or "
            f"more, {SPANS} spans of {wanted // SPANS} of which {settings.warmup} warm up; {known}"
        )
    if settings.start_s is None:
        first_s = math.floor((end_s - wanted * settings.cycle_s) / DAY_S) * DAY_S
    return log.window(first_s, settings.cycle_s, wanted)


def _describe_extent(log: ChangeLog) -> str:
    """Return from when to when the log runs. Raises ReplayError where its times are no epoch seconds."""
    try:
        return f"the log runs from {format_time(log.first_s)} to {format_time(log.last_s)}"
    except (OSError, OverflowError, ValueError):
        raise ReplayError(
            f"the log's times run from {log.first_s:.0f} to {log.last_s:.0f}: expected epoch seconds"
        ) from None
