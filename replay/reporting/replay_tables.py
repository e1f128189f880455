"""Tables of a replay: figures by policy, differences, calibration, sources of signals, evolutions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from streamsched.replay.confidence_intervals import Estimate
from streamsched.replay.palette import LineStyle
from streamsched.replay.replay_results import COMPARED, METRICS, PolicyResult, ReplayResult
from streamsched.replay.replay_settings import format_time
from streamsched.replay.reporting.number_format import (
    format_count,
    format_gain,
    format_half_width,
    format_length,
    format_number,
)
from streamsched.replay.reporting.replay_findings import best_policies, explain_figures
from streamsched.replay.reporting.report import Cell, Column, Table, tabulate
from streamsched.replay.reporting.sentences import METRIC_TITLES, Finding, describe, describe_all
from streamsched.replay.simulation.policies import choose_line_styles
from streamsched.replay.simulation.signal_sources import SourceFigures
from streamsched.replay.simulation.signal_stream import LearnedSource
from streamsched.replay.simulation.simulator import Evolution
from streamsched.scheduler.monitoring import Reliability

SMOOTHED_CYCLES: Final = 7  # a week of daily cycles, so that weekdays do not show as waves
FEWEST_VISITS: Final = 20  # of a bin that is drawn: the share of fewer is chance
_DELAYS: Final = (
    "Delays are in days, from a change to the visit that found it. Changes that were never found have no delay, so "
    "compare the changes unseen at the end too."
)


def policy_table(result: ReplayResult) -> Table:
    """Return a row for each policy: its metrics with half their 95 % intervals, and the changes unseen at the end."""
    best = best_policies(result)
    several = len(result.settings.seeds) > 1
    styles = choose_line_styles([policy.name for policy in result.policies])
    rows = [
        _policy_row(policy, style, {column for column, names in best.items() if policy.name in names}, several)
        for policy, style in zip(result.policies, styles, strict=True)
    ]
    caption = f"{describe_all(explain_figures(result))} {_DELAYS} {result.note}".rstrip()
    columns = [Column("Policy", "text"), *_metric_columns(METRICS, several), Column("Changes\nunseen")]
    return Table(columns, rows, caption=caption)


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
    base = result.settings.compared_with
    caption = "" if base is None else describe(Finding("compared_with", {"policy": base}))
    return Table([Column("Policy", "text"), *_metric_columns(COMPARED, several, "%")], rows, caption=caption)


def _relative_cell(relative: Estimate) -> Cell:
    """Return a relative difference in per cent, with half its interval."""
    if relative.value is None:
        return Cell(format_number(None))
    half_width = relative.half_width
    return Cell(f"{100 * relative.value:+.1f}", "" if half_width is None else f"±{100 * half_width:.1f}")


def calibration_table(result: ReplayResult) -> Table:
    """Return rows for each policy that gives probabilities: all visits, and those without and with a surge shown."""
    styles = choose_line_styles([policy.name for policy in result.policies])
    rows: list[tuple[Cell, str, Reliability]] = []
    for policy, style in zip(result.policies, styles, strict=True):
        if policy.calibration is None:
            continue
        parts = {"all": policy.calibration.all_visits}
        if policy.calibration.with_surge.total:
            parts["no surge shown"] = policy.calibration.without_surge
            parts["surge shown"] = policy.calibration.with_surge
        rows += [(Cell(policy.name, line=style), pages, part) for pages, part in parts.items()]
    others = [policy.name for policy in result.policies if policy.calibration is None]
    shown = result.settings.calibration and others
    return tabulate(
        rows,
        (Column("Policy", "text"), lambda row: row[0]),
        (Column("Pages", "text"), lambda row: row[1]),
        ("Visits", lambda row: format_count(row[2].total)),
        ("Predicted", lambda row: format_number(row[2].mean_predicted)),
        ("Observed", lambda row: format_number(row[2].share_observed)),
        ("Error", lambda row: format_number(row[2].error)),
        caption=describe(Finding("no_probabilities", {"policies": others})) if shown else "",
    )


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
    return Table(columns, rows, caption=describe(Finding("learned_sources")) if rows else "")


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
    rows = [
        (f"{policy.name}{f', seed {seed}' if several else ''}", evolution)
        for policy in result.policies
        for seed, trace in zip(result.settings.seeds, policy.traces, strict=True)
        for evolution in trace.evolutions
    ]

    def decision(row: tuple[str, Evolution]) -> Cell:
        text, is_new = row[1].decision.replace("_", " "), row[1].promoted
        return Cell(text, mark="best", tooltip=row[1].why) if is_new else Cell(text, tooltip=row[1].why)

    return tabulate(
        rows,
        (Column("Policy", "text"), lambda row: row[0]),
        ("Date", lambda row: format_time(row[1].start_s)),
        (Column("Champion", "formula"), lambda row: row[1].champion),
        (Column("Challenger", "formula"), lambda row: row[1].challenger or "–"),
        ("Gain", lambda row: format_gain(row[1].gain, row[1].noise, row[1].metric)),
        ("Decision", decision),
        medium="page",
    )
