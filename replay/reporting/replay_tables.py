"""Tables of a replay: figures by policy, differences, calibration, and the evolutions of policies that evolve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from streamsched.replay.replay_results import COMPARED, METRICS, PolicyResult, ReplayResult
from streamsched.replay.replay_settings import format_time
from streamsched.replay.reporting.number_format import (
    format_count,
    format_gain,
    format_half_width,
    format_length,
    format_number,
)
from streamsched.replay.reporting.palette import LineStyle, choose_line_styles
from streamsched.replay.reporting.replay_findings import best_policies
from streamsched.replay.reporting.sentences import METRIC_TITLES
from streamsched.replay.reporting.tables import Cell, Column, Table
from streamsched.replay.simulation.signals.signal_simulation import SourceFigures

if TYPE_CHECKING:
    from streamsched.replay.confidence_intervals import Estimate
    from streamsched.replay.simulation.promotions import Evolution
    from streamsched.replay.simulation.signals.learned_sources import LearnedSource
    from streamsched.scheduler.monitoring.reliability import Reliability

__all__ = ["calibration_table", "comparison_table", "evolution_table", "policy_table", "source_table"]


def policy_table(result: ReplayResult) -> Table:
    """Return a row for each policy: its metrics with half their 95 % intervals, and the changes unseen at the end."""
    best = best_policies(result)
    several = len(result.settings.seeds) > 1
    styles = choose_line_styles([policy.name for policy in result.policies])
    rows = [
        _policy_row(policy, style, {column for column, names in best.items() if policy.name in names}, several)
        for policy, style in zip(result.policies, styles, strict=True)
    ]
    return Table([Column("Policy", "text"), *_metric_columns(METRICS, several), Column("Changes\nunseen")], rows)


def _metric_columns(metrics: Sequence[str], several: bool, unit: str = "") -> list[Column]:
    """Return a column for each metric, and with `several` seeds another for its interval over them."""
    columns = []
    for metric in metrics:
        columns.append(Column(METRIC_TITLES[metric].replace(", ", ",\n"), note=unit))
        columns += [Column("seeds")] * several
    return columns


def _policy_row(policy: PolicyResult, style: LineStyle, best: set[str], several: bool) -> list[Cell]:
    formula = policy.formula if policy.formula not in (None, policy.name) else ""
    cells = [Cell(policy.name, formula or "", line=style)]
    for metric in METRICS:
        figure, digits = policy.figures[metric], 1 if metric.startswith("delay") else 3
        spread = format_half_width(figure, digits)
        cells.append(Cell(format_number(figure.value, digits), spread, "best" if metric in best else ""))
        cells += [Cell(format_half_width(policy.seeds[metric], digits))] * several
    return [*cells, Cell(format_count(policy.undetected), mark="best" if "undetected" in best else "")]


def comparison_table(result: ReplayResult) -> Table:
    """Return a row for each policy compared with another: its relative differences in per cent, paired."""
    several = len(result.settings.seeds) > 1
    styles = choose_line_styles([policy.name for policy in result.policies])
    rows = []
    for policy, style in zip(result.policies, styles, strict=True):
        if policy.against is None:
            continue
        cells = [Cell(policy.name, line=style)]
        for metric in COMPARED:
            compared = policy.against[metric]
            cells.append(_relative_cell(compared.relative))
            cells += [Cell(_relative_cell(compared.seeds).note)] * several
        rows.append(cells)
    return Table([Column("Policy", "text"), *_metric_columns(COMPARED, several, "%")], rows)


def _relative_cell(relative: Estimate) -> Cell:
    """Return a relative difference in per cent, with half its interval."""
    if relative.value is None:
        return Cell(format_number(None))
    half_width = relative.half_width
    return Cell(f"{100 * relative.value:+.1f}", "" if half_width is None else f"±{100 * half_width:.1f}")


def calibration_table(result: ReplayResult) -> Table:
    """Return rows for each policy that gives probabilities: all visits, and those without and with a surge shown."""
    columns = [Column("Policy", "text"), Column("Pages", "text"), *map(Column, ("Visits", "Foretold", "Came", "Error"))]
    styles = choose_line_styles([policy.name for policy in result.policies])
    rows = []
    for policy, style in zip(result.policies, styles, strict=True):
        if policy.calibration is None:
            continue
        parts = {"all": policy.calibration.all_visits}
        if policy.calibration.with_surge.total:
            parts["no surge shown"] = policy.calibration.without_surge
            parts["surge shown"] = policy.calibration.with_surge
        rows += [
            [Cell(policy.name, line=style), Cell(pages), *_reliability_cells(part)] for pages, part in parts.items()
        ]
    return Table(columns, rows)


def _reliability_cells(part: Reliability) -> list[Cell]:
    shares = (part.mean_foretold, part.share_came, part.error)
    return [Cell(format_count(part.total)), *(Cell(format_number(share)) for share in shares)]


def source_table(result: ReplayResult) -> Table:
    """Return a row for each policy and source of signals: what the policy learned of it, beside what is true."""
    pairs = [f"{figure},\n{side}" for figure in ("Precision", "Recall", "Lateness") for side in ("learned", "true")]
    columns = [Column("Policy", "text"), Column("Source", "text"), *map(Column, ("Signals", *pairs))]
    styles = choose_line_styles([policy.name for policy in result.policies])
    rows = []
    for policy, style in zip(result.policies, styles, strict=True):
        for source in policy.sources:
            cells = [Cell(text) for pair in _figure_pairs(source) for text in pair]
            rows.append([Cell(policy.name, line=style), Cell(source.kind), Cell(format_count(source.signals)), *cells])
    return Table(columns, rows)


def _figure_pairs(source: LearnedSource) -> Iterator[tuple[str, str]]:
    """Yield each figure of a source as text, as learned and as true."""
    true = source.true or SourceFigures(None, None, None)
    for name in ("precision", "recall"):
        yield format_number(getattr(source.learned, name)), format_number(getattr(true, name))
    late_s, true_s = source.learned.lateness_s, true.lateness_s
    yield "–" if late_s is None else format_length(late_s), "–" if true_s is None else format_length(true_s)


def evolution_table(result: ReplayResult) -> Table:
    """Return a row for each evolution: date, champion, challenger, gain and decision. O(evolutions)."""
    several = len(result.settings.seeds) > 1
    columns = [
        Column("Policy", "text"),
        Column("Date"),
        Column("Champion", "formula"),
        Column("Challenger", "formula"),
        Column("Gain"),
        Column("Decision"),
    ]
    rows = [
        [Cell(f"{policy.name}{f', seed {seed}' if several else ''}"), *_evolution_cells(evolution)]
        for policy in result.policies
        for seed, trace in zip(result.settings.seeds, policy.traces, strict=True)
        for evolution in trace.evolutions
    ]
    return Table(columns, rows)


def _evolution_cells(evolution: Evolution) -> list[Cell]:
    return [
        Cell(format_time(evolution.start_s)),
        Cell(evolution.champion),
        Cell(evolution.challenger or "–"),
        Cell(format_gain(evolution.gain, evolution.noise, evolution.metric)),
        Cell(
            "promoted" if evolution.promoted else "kept",
            mark="best" if evolution.promoted else "",
            tooltip=evolution.why,
        ),
    ]
