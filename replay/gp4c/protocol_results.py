"""What came out of the experiment: how each method fared in the five tests, what was evolved, and both as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, get_args

import numpy as np

from streamsched.connectors import Rejection
from streamsched.evolution.gp.evolution_settings import Metric
from streamsched.evolution.gp.final_selection import Selection
from streamsched.evolution.gp.symbols import TerminalSet
from streamsched.numerics.arrays import Floats
from streamsched.replay.confidence_intervals import Estimate
from streamsched.replay.gp4c.comparison import (
    Contest,
    compare_cycles,
    compare_folds,
    estimate_cycles,
    estimate_folds,
)
from streamsched.replay.gp4c.protocol_settings import FOLDS, METRICS, SPANS, ProtocolSettings
from streamsched.replay.replay_settings import spell_time
from streamsched.replay.truth.ground_truth import Window

__all__ = [
    "BASELINES",
    "NAMES",
    "SELECTIONS",
    "Choice",
    "Evolved",
    "Outcome",
    "ProtocolResult",
    "to_json",
]

SELECTIONS: Final[tuple[Selection, ...]] = get_args(Selection)
NAMES: Final[dict[TerminalSet, str]] = {"basic": "GP4C_Basic", "paper": "GP4C_All", "full": "GP4C_Full"}
_VARIED: Final = ("metric", "terminals", "selection", "workers")  # all of the first three; none for the last
BASELINES: Final = ("rand", "age", "cg", "nad", "sad", "aad", "gad", "posterior")


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """How one method fared in the tests: each float64[folds, ranked cycles].

    ``change_rate`` and ``ndcg``: NaN where no page of the fold had changed; ``new_share``: which share of the visited
    pages had not been visited since the warm-up.
    """

    change_rate: Floats
    ndcg: Floats
    new_share: Floats

    def of(self, metric: Metric) -> Floats:
        """Return the series of a metric."""
        return self.change_rate if metric == "change_rate" else self.ndcg


@dataclass(frozen=True, slots=True)
class Choice:
    """A formula that a rotation selected, and its fitness in training, validation and test."""

    formula: str
    train: float
    validation: float
    test: float


@dataclass(frozen=True, slots=True, eq=False)
class Evolved:
    """All five evolutions for one fitness from one terminal set.

    ``choices`` and ``outcomes``, by selection: the formulas, one a rotation, and how they fared. ``sweep``, of those
    that `best` selected: for each metric float64[folds, cuts], the mean over cycles of the first part of each list.
    ``curves``: float64[folds, seeds, generations], the best fitness found by then. ``programs``: different programs
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
        """What the paper calls formulas of these terminals."""
        return NAMES[self.terminals]


@dataclass(frozen=True, slots=True, eq=False)
class ProtocolResult:
    """The whole experiment.

    ``changes``: of all pages in the window, ``flags``: cycles in which a page changed. ``priors``: shape and mean a
    cycle of the Gamma prior that each rotation learned. ``baselines``: by name, ``evolved``: by fitness and terminals,
    in the order asked. ``rejected``, ``rejections`` and ``note`` are the `ChangeLog`'s.
    """

    settings: ProtocolSettings
    window: Window
    flags: int
    visits: int
    priors: tuple[tuple[float, float], ...]
    baselines: dict[str, Outcome]
    evolved: tuple[Evolved, ...]
    rejected: int
    rejections: tuple[Rejection, ...]
    note: str

    @property
    def span_cycles(self) -> int:
        """How many cycles a span has."""
        return self.window.cycles // SPANS

    @property
    def ranked(self) -> int:
        """How many cycles of a span are ranked."""
        return self.span_cycles - self.settings.warmup

    @property
    def baseline_names(self) -> Sequence[str]:
        """The baselines in the order of all tables."""
        return tuple(self.baselines)

    def find(self, fitness: Metric, terminals: TerminalSet) -> Evolved | None:
        """Return what was evolved for that fitness from those terminals, None where that was not asked for."""
        return next((one for one in self.evolved if (one.fitness, one.terminals) == (fitness, terminals)), None)

    def shown(self, fitness: Metric) -> Evolved | None:
        """Return whose selections, sweep and new pages are shown for a fitness: GP4C_All's, as in the paper, if any."""
        found = [one for one in self.evolved if one.fitness == fitness]
        return next((one for one in found if one.terminals == "paper"), found[-1] if found else None)

    def series(self, name: str, metric: Metric) -> Floats | None:
        """Return a method's test series in a metric: float64[folds, cycles].

        A GP4C method's formulas are those evolved for the same metric and selected by `best`, as in the paper; None
        where nothing was evolved for it.
        """
        if name in self.baselines:
            return self.baselines[name].of(metric)
        found = next((one for one in self.evolved if (one.name, one.fitness) == (name, metric)), None)
        return None if found is None else found.outcomes["best"].of(metric)

    def methods(self) -> list[str]:
        """Return the names of all methods: baselines, then what was evolved, by terminals."""
        return [*self.baselines, *(NAMES[terminals] for terminals in self.settings.terminals)]

    def table(self, metric: Metric) -> dict[str, Estimate]:
        """Return Table 2's column: each method's mean over the test folds and its interval."""
        columns = {name: self.series(name, metric) for name in self.methods()}
        return {name: estimate_folds(series) for name, series in columns.items() if series is not None}

    def contests(self) -> Iterator[tuple[Evolved, str, Contest, Estimate]]:
        """Yield Table 3: what was evolved, a baseline, victories and losses, and the difference over all cycles."""
        for one in self.evolved:
            ours = one.outcomes["best"].of(one.fitness)
            for name, baseline in self.baselines.items():
                theirs = baseline.of(one.fitness)
                yield one, name, compare_cycles(ours, theirs), compare_folds(ours, theirs)


def to_json(result: ProtocolResult) -> str:
    """Return all figures as JSON; the same run gives the same bytes, however many threads worked on it. O(figures).

    ``methods`` maps each to its metrics, null where there was nothing to measure; ``ci95`` is [low, high]. ``contests``
    is Table 3, ``evolved`` has formulas, selections, learning curves and the sweep of Figure 5.
    """
    settings, window = result.settings, result.window
    content = {
        "protocol": "paper",
        "log": settings.log,
        "pages": window.pages,
        "changes": int(window.changes().sum()),
        "changed_cycles": result.flags,
        "from": spell_time(window.start_s),
        "to": spell_time(window.edge(window.cycles)),
        "cycle": window.cycle_s,
        "cycles": window.cycles,
        "folds": FOLDS,
        "span_cycles": result.span_cycles,
        "warmup": settings.warmup,
        "budget": settings.budget,
        "visits": result.visits,
        "changed": settings.evolution.reading,
        "seed": settings.seed,
        "evolution": {name: value for name, value in settings.evolution.to_json().items() if name not in _VARIED},
        "priors": [{"shape": shape, "mean": mean} for shape, mean in result.priors],
        "rejected": result.rejected,
        "note": result.note,
        "methods": {name: _spell_method(result, name) for name in result.methods()},
        "contests": [_spell_contest(*contest) for contest in result.contests()],
        "evolved": [_spell_evolved(one, settings) for one in result.evolved],
    }
    return json.dumps(_finite(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _spell_method(result: ProtocolResult, name: str) -> dict[str, Any]:
    columns = {metric: result.series(name, metric) for metric in METRICS}
    return {metric: _spell_series(series) for metric, series in columns.items() if series is not None}


def _spell_series(series: Floats) -> dict[str, Any]:
    cycles = [_spell_estimate(estimate) for estimate in estimate_cycles(series)]
    return {**_spell_estimate(estimate_folds(series)), "by_cycle": cycles, "series": series.tolist()}


def _spell_estimate(estimate: Estimate) -> dict[str, Any]:
    return {"value": estimate.value, "ci95": None if estimate.low is None else [estimate.low, estimate.high]}


def _spell_contest(one: Evolved, baseline: str, contest: Contest, overall: Estimate) -> dict[str, Any]:
    pair = {"method": one.name, "metric": one.fitness, "baseline": baseline}
    return {**pair, **asdict(contest), "difference": _spell_estimate(overall)}


def _spell_evolved(one: Evolved, settings: ProtocolSettings) -> dict[str, Any]:
    selections = {
        selection: {
            "formulas": [asdict(choice) for choice in one.choices[selection]],
            **_spell_series(one.outcomes[selection].of(one.fitness)),
            "new_share": one.outcomes[selection].new_share.tolist(),
        }
        for selection in SELECTIONS
    }
    sweep = {metric: folds.tolist() for metric, folds in one.sweep.items()}
    return {
        "method": one.name,
        "terminals": one.terminals,
        "fitness": one.fitness,
        "programs": one.programs,
        "selections": selections,
        "sweep": {"cuts": list(settings.cuts), **sweep},
        "curves": one.curves.tolist(),
    }


def _finite(content: Any) -> Any:
    """Return `content` with None for numbers that are not finite, which JSON does not have."""
    if isinstance(content, dict):
        return {name: _finite(one) for name, one in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(one) for one in content]
    return None if isinstance(content, float) and not np.isfinite(content) else content
