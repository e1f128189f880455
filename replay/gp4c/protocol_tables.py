"""Tables of the experiment: the paper's tables 2, 3 and 4, its Figure 5 as numbers, and its claims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from streamsched.replay.gp4c.comparison import compare_with_zero, estimate
from streamsched.replay.gp4c.protocol_findings import Claim, judge_claims
from streamsched.replay.gp4c.protocol_settings import METRICS
from streamsched.replay.reporting.number_format import (
    format_half_width,
    format_interval,
    format_number,
    format_percent,
)
from streamsched.replay.reporting.palette import LineStyle, choose_line_styles
from streamsched.replay.reporting.sentences import METRIC_TITLES, OUTCOMES, method_title
from streamsched.replay.reporting.tables import Cell, Column, Mark, Table

if TYPE_CHECKING:
    from streamsched.evolution.gp.evolution_settings import Metric
    from streamsched.replay.confidence_intervals import Estimate
    from streamsched.replay.gp4c.protocol_results import ProtocolResult

__all__ = [
    "EVOLVED_STYLES",
    "OMITTED",
    "choose_method_styles",
    "claim_table",
    "contest_table",
    "formula_table",
    "method_table",
    "sweep_table",
]

OMITTED: Final = ("rand", "age")  # in Figure 4 and Table 3, as in the paper
EVOLVED_STYLES: Final = {
    "GP4C_Basic": LineStyle("sky", width=1.8),
    "GP4C_All": LineStyle("vermilion", width=1.8),
    "GP4C_Full": LineStyle("green", width=1.8),
}
_MARKS: Final[dict[int, Mark]] = {1: "best", 0: "", -1: "worse"}


def choose_method_styles(result: ProtocolResult) -> list[LineStyle]:
    """Return each method's line style, in the order of `ProtocolResult.methods`. O(methods)."""
    return [EVOLVED_STYLES.get(name) or choose_line_styles([name])[0] for name in result.methods()]


def method_table(result: ProtocolResult) -> Table:
    """Return Table 2: each method's ChangeRate and NDCG over the test folds, the best of each column marked."""
    columns = [result.table(metric) for metric in METRICS]
    best = [max((one.value for one in column.values() if one.value is not None), default=None) for column in columns]
    rows = []
    for name, style in zip(result.methods(), choose_method_styles(result), strict=True):
        cells = [_estimate_cell(column.get(name), top) for column, top in zip(columns, best, strict=True)]
        rows.append([Cell(method_title(name), line=style), *cells])
    return Table([Column("Method", "text"), *(Column(METRIC_TITLES[metric]) for metric in METRICS)], rows)


def _estimate_cell(figure: Estimate | None, best: float | None) -> Cell:
    if figure is None:
        return Cell("")
    mark: Mark = "best" if figure.value is not None and figure.value == best else ""
    return Cell(format_number(figure.value), format_half_width(figure), mark)


def contest_table(result: ProtocolResult, metrics: Sequence[Metric] = METRICS) -> Table:
    """Return Table 3: cycles won and lost at 95 %, and the difference over all cycles, by fitness."""
    rows = []
    for one, baseline, contest, overall in result.contests():
        if one.fitness in metrics and baseline not in OMITTED:
            cells = [
                Cell(one.name),
                Cell(METRIC_TITLES[one.fitness]),
                Cell(method_title(baseline)),
                _count_cell(contest.victories, contest.gain),
                _count_cell(contest.losses, contest.drop),
                _difference_cell(overall, _MARKS[compare_with_zero(overall)]),
            ]
            rows.append(cells)
    names = [Column(title, "text") for title in ("Method", "Metric", "Baseline")]
    return Table([*names, *map(Column, ("Victories", "Losses", "Overall"))], rows, compact=True)


def _count_cell(count: int, difference: float | None) -> Cell:
    return Cell(str(count), "" if difference is None else f"({format_percent(difference)})")


def _difference_cell(difference: Estimate, mark: Mark = "") -> Cell:
    return Cell(format_percent(difference.value), format_interval(difference.low, difference.high), mark)


def formula_table(result: ProtocolResult) -> Table:
    """Return Table 4: the formula that each rotation selected, and its fitness on each of the three spans."""
    rows = [
        [
            Cell(one.name),
            Cell(METRIC_TITLES[one.fitness]),
            Cell(str(number)),
            *(Cell(format_number(figure)) for figure in (choice.train, choice.validation, choice.test)),
            Cell(choice.formula),
        ]
        for one in result.evolved
        for number, choice in enumerate(one.choices["best"], 1)
    ]
    names = [Column("Method", "text"), Column("Evolved for", "text")]
    return Table([*names, *map(Column, ("Fold", "Train", "Valid.", "Test")), Column("Formula", "formula")], rows)


def sweep_table(result: ProtocolResult) -> Table:
    """Return Figure 5 as numbers: each metric over the first part of every ranked list, by fitness."""
    rows = []
    for one in result.evolved:
        for metric, folds in one.sweep.items():
            labels = (one.name, METRIC_TITLES[one.fitness], METRIC_TITLES[metric])
            cells = [_estimate_cell(estimate(folds[:, cut]), None) for cut in range(folds.shape[1])]
            rows.append([*map(Cell, labels), *cells])
    names = [Column(title, "text") for title in ("Method", "Evolved for", "Metric")]
    return Table([*names, *(Column(f"{100 * cut:.3g} %") for cut in result.settings.cuts)], rows)


def claim_table(result: ProtocolResult) -> Table:
    """Return the paper's claims on GP4C and NAD as found here, then GP4C against the posterior."""
    names = [Column(title, "text") for title in ("Method", "Baseline", "Metric")]
    columns = [*names, Column("Here"), Column("Outcome", "text"), Column("Paper"), Column("Claim", "text")]
    return Table(columns, [_claim_row(claim) for claim in judge_claims(result)])


def _claim_row(claim: Claim) -> list[Cell]:
    published = "a tie" if claim.published == 0 else format_percent(claim.published)
    return [
        Cell(claim.name),
        Cell(method_title(claim.baseline)),
        Cell(METRIC_TITLES[claim.metric]),
        _difference_cell(claim.found),
        Cell("" if claim.outcome is None else OUTCOMES[claim.outcome]),
        Cell(published),
        Cell(claim.status or ""),
    ]
