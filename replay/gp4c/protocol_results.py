"""Results of the experiment: each method's figures in the five tests, and the evolved formulas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, get_args

from streamsched.evolution.gp.final_selection import Selection
from streamsched.replay.gp4c.comparison import (
    Contest,
    compare_cycles,
    compare_folds,
    estimate_folds,
)
from streamsched.replay.gp4c.protocol_settings import SPANS, ProtocolSettings

if TYPE_CHECKING:
    from streamsched.connectors.source import Rejection
    from streamsched.evolution.gp.evolution_settings import Metric
    from streamsched.evolution.gp.symbols import TerminalSet
    from streamsched.numerics.arrays import Floats
    from streamsched.replay.confidence_intervals import Estimate
    from streamsched.replay.truth.ground_truth import Window

__all__ = [
    "BASELINES",
    "NAMES",
    "SELECTIONS",
    "Choice",
    "Evolved",
    "Outcome",
    "ProtocolResult",
]

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
