"""Results of the experiment: each method's figures in the five tests, the evolved formulas, and paired comparisons.

All methods are tested on the same pages in the same cycles, so Student's t is computed over the differences within
folds (GP4C, section 5.3). Folds hold different pages but the same cycles: the intervals do not cover differences
between seasons.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, get_args

import numpy as np

from streamsched.connectors.source import Rejection
from streamsched.evolution.evolution_settings import Metric, Selection
from streamsched.formula.terminal_table import TerminalSet
from streamsched.numerics.arrays import Floats
from streamsched.replay.confidence_intervals import Estimate, over_seeds
from streamsched.replay.gp4c.protocol_settings import SPANS, ProtocolSettings
from streamsched.replay.ground_truth import Window


@dataclass(frozen=True, slots=True)
class Contest:
    """Cycles in which one method is significantly better than another, worse, and neither.

    ``gain``: the mean relative difference over the victories; ``drop``: over the losses, below 0. None if there are
    none, or the other method found nothing in them.
    """

    victories: int
    losses: int
    ties: int
    gain: float | None
    drop: float | None


def by_fold(series: Floats) -> Floats:
    """Return each fold's mean over its cycles: float64[folds] of ``series``: float64[folds, cycles]. O(size).

    Cycles that are NaN, in which no page of the fold changed, are left out; a fold with no other cycles is NaN.

    >>> by_fold(np.array([[0.25, 0.75], [0.5, np.nan]])).tolist()
    [0.5, 0.5]
    """
    counted = ~np.isnan(series)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(counted, series, 0.0).sum(1) / counted.sum(1))


def estimate(figures: Floats) -> Estimate:
    """Return the mean over the folds and its t-interval, ``figures``: float64[folds] without NaN. O(folds)."""
    return over_seeds(_known(figures))


def estimate_folds(series: Floats) -> Estimate:
    """Return the mean of the folds' means and its t-interval, ``series``: float64[folds, cycles]. O(size)."""
    return estimate(by_fold(series))


def estimate_cycles(series: Floats) -> list[Estimate]:
    """Return each cycle's mean over the folds and its t-interval, ``series``: float64[folds, cycles]. O(size)."""
    return [estimate(series[:, cycle]) for cycle in range(series.shape[1])]


def compare_folds(ours: Floats, theirs: Floats) -> Estimate:
    """Return the relative difference of `ours` to `theirs`, with the interval of the paired difference. O(size).

    Both: float64[folds, cycles]. Differences and interval are divided by the mean of `theirs`; the estimate has no
    value if that is 0.

    >>> compare_folds(np.array([[0.55], [0.54], [0.56]]), np.array([[0.5], [0.5], [0.5]]))
    Estimate(value=0.1, low=0.05..., high=0.14...)
    """
    base = over_seeds(_known(by_fold(theirs))).value
    if not base:
        return Estimate(None)
    return estimate((by_fold(ours) - by_fold(theirs)) / base)


def compare_cycles(ours: Floats, theirs: Floats) -> Contest:
    """Return the cycles in which `ours` differs from `theirs` at 95 %, both float64[folds, cycles]. O(size).

    Without a true difference, one cycle in 40 is expected as a victory and one in 40 as a loss.
    """
    gains: list[float] = []
    drops: list[float] = []
    victories = losses = 0
    for cycle in range(ours.shape[1]):
        difference = estimate(ours[:, cycle] - theirs[:, cycle])
        side = compare_with_zero(difference)
        base = over_seeds(_known(theirs[:, cycle])).value
        victories += side > 0
        losses += side < 0
        if side and base and difference.value is not None:
            (gains if side > 0 else drops).append(difference.value / base)
    return Contest(victories, losses, ours.shape[1] - victories - losses, _mean(gains), _mean(drops))


def compare_with_zero(difference: Estimate) -> int:
    """Return 1 if the interval of a difference lies above 0, -1 if below, 0 if it holds 0 or there is none.

    >>> [compare_with_zero(Estimate(0.0, *ends)) for ends in ((0.1, 0.3), (-0.3, -0.1), (-0.1, 0.5))]
    [1, -1, 0]
    """
    if difference.low is None or difference.high is None:
        return 0
    return (difference.low > 0) - (difference.high < 0)


def _known(figures: Floats) -> list[float | None]:
    return [None if np.isnan(figure) else float(figure) for figure in figures]


def _mean(shares: list[float]) -> float | None:
    return sum(shares) / len(shares) if shares else None


SELECTIONS: Final[tuple[Selection, ...]] = get_args(Selection)
NAMES: Final[dict[TerminalSet, str]] = {"basic": "GP4C_Basic", "paper": "GP4C_All", "full": "GP4C_Full"}
BASELINES: Final = ("rand", "age", "cg", "nad", "sad", "aad", "gad", "posterior")


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """One method's figures in the tests, each float64[folds, ranked cycles].

    ``change_rate`` and ``ndcg``: NaN if no page of the fold had changed. ``new_share``: the share of the visited pages
    that had not been visited since the warm-up.
    """

    change_rate: Floats
    ndcg: Floats
    new_share: Floats

    def of(self, metric: Metric) -> Floats:
        """Return the series of a metric."""
        return self.change_rate if metric == "change_rate" else self.ndcg


@dataclass(frozen=True, slots=True)
class Choice:
    """A formula selected by a rotation, and its fitness in training, validation and test."""

    formula: str
    train: float
    validation: float
    test: float


@dataclass(frozen=True, slots=True, eq=False)
class Evolved:
    """All five evolutions for one fitness from one terminal set.

    ``choices`` and ``outcomes``, by selection: the formulas, one per rotation, and their figures. ``sweep``, of the
    formulas selected by `best`: for each metric float64[folds, cuts], the mean over cycles of the first part of each
    list. ``curves``: float64[folds, seeds, generations], the best fitness so far. ``programs``: distinct programs
    evaluated in training.
    """

    fitness: Metric
    terminals: TerminalSet
    choices: dict[Selection, tuple[Choice, ...]]
    outcomes: dict[Selection, Outcome]
    sweep: dict[Metric, Floats]
    curves: Floats
    programs: int

    @property
    def name(self) -> str:
        """The paper's name for formulas of these terminals."""
        return NAMES[self.terminals]


@dataclass(frozen=True, slots=True, eq=False)
class ProtocolResult:
    """Results of the whole experiment.

    ``changed_cycles``: pairs of a page and a cycle in which it changed. ``visits``: per ranked cycle and test fold.
    ``priors``: shape and mean per cycle of the Gamma prior that each rotation fitted. ``baselines`` by name;
    ``evolved`` by fitness and terminals, in the order asked. ``rejected``, ``rejections`` and ``note`` are those of the
    `ChangeLog`.
    """

    settings: ProtocolSettings
    window: Window
    changed_cycles: int
    visits: int
    priors: tuple[tuple[float, float], ...]
    baselines: dict[str, Outcome]
    evolved: tuple[Evolved, ...]
    rejected: int
    rejections: tuple[Rejection, ...]
    note: str

    @property
    def span_cycles(self) -> int:
        """Cycles of a span."""
        return self.window.cycles // SPANS

    @property
    def ranked(self) -> int:
        """Ranked cycles of a span: those after the warm-up."""
        return self.span_cycles - self.settings.warmup

    def find(self, fitness: Metric, terminals: TerminalSet) -> Evolved | None:
        """Return what was evolved for that fitness from those terminals, None if that was not asked for."""
        return next((one for one in self.evolved if (one.fitness, one.terminals) == (fitness, terminals)), None)

    def shown(self, fitness: Metric) -> Evolved | None:
        """Return the method that figures show for a fitness: GP4C_All as in the paper, else the last one, or None."""
        found = [one for one in self.evolved if one.fitness == fitness]
        return next((one for one in found if one.terminals == "paper"), found[-1] if found else None)

    def series(self, name: str, metric: Metric) -> Floats | None:
        """Return a method's test series in a metric: float64[folds, cycles].

        A GP4C method's formulas are those evolved for the same metric and selected by `best`, as in the paper; None if
        nothing was evolved for it.
        """
        if name in self.baselines:
            return self.baselines[name].of(metric)
        found = next((one for one in self.evolved if (one.name, one.fitness) == (name, metric)), None)
        return None if found is None else found.outcomes["best"].of(metric)

    def methods(self) -> list[str]:
        """Return the names of all methods: baselines, then evolved ones by terminals."""
        return [*self.baselines, *(NAMES[terminals] for terminals in self.settings.terminals)]

    def table(self, metric: Metric) -> dict[str, Estimate]:
        """Return a column of Table 2: each method's mean over the test folds and its interval."""
        columns = {name: self.series(name, metric) for name in self.methods()}
        return {name: estimate_folds(series) for name, series in columns.items() if series is not None}

    def contests(self) -> Iterator[tuple[Evolved, str, Contest, Estimate]]:
        """Yield Table 3: evolved method, baseline, victories and losses, and the difference over all cycles."""
        for one in self.evolved:
            ours = one.outcomes["best"].of(one.fitness)
            for name, baseline in self.baselines.items():
                theirs = baseline.of(one.fitness)
                yield one, name, compare_cycles(ours, theirs), compare_folds(ours, theirs)
