"""Tables of a replay: figures by policy, and the evolutions of policies that evolve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsched.replay.replay_results import METRICS, PolicyResult, ReplayResult
from streamsched.replay.replay_settings import format_time
from streamsched.replay.reporting.number_format import format_count, format_gain, format_half_width, format_number
from streamsched.replay.reporting.palette import LineStyle, choose_line_styles
from streamsched.replay.reporting.replay_findings import best_policies
from streamsched.replay.reporting.sentences import METRIC_TITLES
from streamsched.replay.reporting.tables import Cell, Column, Table

if TYPE_CHECKING:
    from streamsched.replay.simulation.promotions import Evolution

__all__ = ["evolution_table", "policy_table"]


def policy_table(result: ReplayResult) -> Table:
    """Return a row for each policy: its metrics with half their 95 % intervals, and the changes unseen at the end."""
    best = best_policies(result)
    titles = [METRIC_TITLES[metric].replace(", ", ",\n") for metric in METRICS]
    styles = choose_line_styles([policy.name for policy in result.policies])
    rows = [
        _policy_row(policy, style, {column for column, names in best.items() if policy.name in names})
        for policy, style in zip(result.policies, styles, strict=True)
    ]
    return Table([Column("Policy", "text"), *map(Column, titles), Column("Changes\nunseen")], rows)


def _policy_row(policy: PolicyResult, style: LineStyle, best: set[str]) -> list[Cell]:
    formula = policy.formula if policy.formula not in (None, policy.name) else ""
    cells = [Cell(policy.name, formula or "", line=style)]
    for metric in METRICS:
        figure, digits = policy.figures[metric], 1 if metric.startswith("delay") else 3
        spread = format_half_width(figure, digits) if figure.value is not None else ""
        cells.append(Cell(format_number(figure.value, digits), spread, "best" if metric in best else ""))
    return [*cells, Cell(format_count(policy.undetected), mark="best" if "undetected" in best else "")]


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
