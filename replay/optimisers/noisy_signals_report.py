"""GREEDY-NCIS's synthetic experiments: requests that find a current copy, by the budget, and what is claimed here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from streamsched.replay.confidence_intervals import Estimate, band_over_runs, over_seeds
from streamsched.replay.optimisers.experiment_report import Claim, report_experiment, section
from streamsched.replay.optimisers.noisy_signals import BUDGETS, NoisyExperiments, PolicyAccuracy, SignalExperiment
from streamsched.replay.palette import DASHED, DOTTED, LineStyle
from streamsched.replay.reporting.curves import Axis, Curve, draw_curves
from streamsched.replay.reporting.number_format import format_count, format_number
from streamsched.replay.reporting.report import Cell, Column, Report, Section, estimate_cell, pick, tabulate

_STYLES: Final = {
    "GREEDY": LineStyle("blue", width=1.4),
    "GREEDY-CIS": LineStyle("orange", width=1.4),
    "GREEDY-NCIS": LineStyle("vermilion", width=1.6),
    "GREEDY-NCIS, 1 term": LineStyle("purple", DOTTED, 1.4),
    "GREEDY-NCIS, 2 terms": LineStyle("sky", DASHED, 1.4),
    "LambdaCrawl": LineStyle("green", width=1.4),
    "optimum": LineStyle("ink", DASHED, 0.9),
}
_NEAR: Final = 1  # of the requests, per cent: how near is near
_REMARKS: Final = (
    "The formulas are derived anew and the settings are chosen here, neither is copied from the paper. Change and "
    "request rates are uniform from 0 to 1, recall is Beta(0.25, 0.25), false signals come 0.1 to 0.6 times in a unit "
    "of time. GREEDY ignores signals, "
    "GREEDY-CIS believes all of them. The optimum is that of policies in continuous time, which need not keep to a "
    "constant rate. LambdaCrawl is not simulated: its share follows from its visit rates, at equal distances, and it "
    "minimises another cost, that of all missed changes."
)


def report_noisy_signals(result: NoisyExperiments) -> Report:
    """Return the report of the experiments."""
    settings = result.settings
    scope = (
        f"{format_count(settings.runs, 'run')} of each experiment with {format_count(settings.pages, 'page')} over "
        f"{format_count(settings.time, 'unit')} of time, the last three quarters measured; all rates are known."
    )
    sections = [_section(one) for one in result.experiments]
    return report_experiment(
        "GREEDY-NCIS’s synthetic experiments", scope, _claims(result), sections, _REMARKS, _content(result)
    )


def _section(one: SignalExperiment) -> Section:
    budgets = [(f"{budget:g}", _shows(place)) for place, budget in enumerate(BUDGETS)]
    return section(
        f"Experiment {one.number}: {one.title}",
        tabulate(
            one.policies,
            (Column("Policy", "text"), lambda runs: Cell(runs.policy, line=_STYLES[runs.policy])),
            *budgets,
            caption="Requests that find a current copy, %, by visits per page and unit of time; ± over runs.",
        ),
        [lambda: _draw(one)],
        "Means over runs with 95 % bands, which cover the draw of the pages as well; dashed: the optimum.",
    )


def _shows(place: int) -> Callable[[PolicyAccuracy], Cell]:
    return lambda runs: estimate_cell(_percent(runs.accuracy[:, place]), 1)


def _percent(accuracy: Any) -> Estimate:
    return over_seeds((100.0 * accuracy).tolist())


def _draw(one: SignalExperiment) -> str:
    budgets = np.array(BUDGETS)
    curves = [
        Curve(runs.policy, _STYLES[runs.policy], budgets, *band_over_runs(runs.accuracy)) for runs in one.policies
    ]
    axis = Axis("visits per page and unit of time", "requests that find a current copy", 0.0)
    return draw_curves(f"noisy-{one.number}", f"Experiment {one.number}", axis, curves, shares=True)


def _claims(result: NoisyExperiments) -> list[Claim]:
    missing, noisy, mixed = result.experiments
    return [
        *(_near(one, "GREEDY-NCIS", "optimum") for one in result.experiments),
        _above(missing, "GREEDY-NCIS", "GREEDY", len(BUDGETS)),
        _above(noisy, "GREEDY-NCIS", "GREEDY", len(BUDGETS)),
        _above(noisy, "GREEDY-NCIS", "GREEDY-CIS", len(BUDGETS)),
        _above(noisy, "GREEDY", "GREEDY-CIS", 1),
        _near(noisy, "GREEDY-NCIS, 2 terms", "GREEDY-NCIS"),
        _above(mixed, "GREEDY-NCIS", "LambdaCrawl", 1),
    ]


def _near(one: SignalExperiment, policy: str, other: str) -> Claim:
    most = max(abs(gap) for gap in _gaps(one, policy, other))
    return Claim(
        f"{policy} is as good as {other} at every budget, experiment {one.number}",
        f"within {format_count(_NEAR, 'point')}",
        f"within {format_number(most, 2)} points",
        most <= _NEAR,
    )


def _above(one: SignalExperiment, policy: str, other: str, budgets: int) -> Claim:
    gaps = _gaps(one, policy, other)[:budgets]
    where = "at every budget" if budgets > 1 else "at the lowest budget"
    shown = " to ".join(f"{gap:+.1f}" for gap in sorted({min(gaps), max(gaps)}))
    return Claim(
        f"{policy} serves more current copies than {other} {where}, experiment {one.number}",
        "more",
        f"{shown} points".replace("-", "−"),
        min(gaps) > 0.0,
    )


def _gaps(one: SignalExperiment, policy: str, other: str) -> Sequence[float]:
    """Return by how many points of the requests one policy is above another, by budget."""
    runs = {found.policy: found.accuracy for found in one.policies}
    return [float(gap) for gap in 100.0 * (runs[policy] - runs[other]).mean(axis=0)]


def _content(result: NoisyExperiments) -> dict[str, Any]:
    experiments = [
        {
            **pick(one, "number", "title"),
            "policies": [
                {"policy": runs.policy, "percent_current": [_percent(column) for column in runs.accuracy.T]}
                for runs in one.policies
            ],
        }
        for one in result.experiments
    ]
    counts = pick(result.settings, "pages", "runs", "time", "seed")
    return {"experiment": "noisy-signals", **counts, "budgets": BUDGETS, "experiments": experiments}
