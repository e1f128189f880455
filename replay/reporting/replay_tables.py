"""Findings and tables of a replay: the best policies, figures by policy, differences, calibration, evolutions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from streamsched.replay.confidence_intervals import BATCH_DAYS, Estimate
from streamsched.replay.palette import LineStyle
from streamsched.replay.replay_results import COMPARED, METRICS, PolicyResult, ReplayResult
from streamsched.replay.replay_settings import DEFAULT_BASE, format_time
from streamsched.replay.reporting.number_format import (
    format_count,
    format_gain,
    format_half_width,
    format_length,
    format_number,
)
from streamsched.replay.reporting.report import Cell, Column, Table, pick, tabulate
from streamsched.replay.reporting.sentences import METRIC_TITLES, Finding, describe, describe_all
from streamsched.replay.simulation.policies import choose_line_styles
from streamsched.replay.simulation.signal_sources import SourceFigures
from streamsched.replay.simulation.signal_stream import LearnedSource
from streamsched.replay.simulation.simulator import DAY_S, Evolution
from streamsched.scheduler.monitoring import Reliability

SMOOTHED_CYCLES: Final = 7  # a week of daily cycles, so that weekdays do not show as waves
FEWEST_VISITS: Final = 20  # of a bin that is drawn: the share of fewer is chance
_DELAYS: Final = (
    "Delays are in days, from a change to the visit that found it. Changes that were never found have no delay, so "
    "compare the changes unseen at the end too."
)
_RANKING_METRICS: Final = ("change_rate", "ndcg", "freshness")  # higher is better; `best_policies` excludes delays


def best_policies(result: ReplayResult) -> dict[str, set[str]]:
    """Return the best policies in `undetected` and in each metric that ranks policies, without the oracle.

    Delays do not rank policies: they cover found changes only, so a policy that never returns to most pages has short
    ones.
    """
    rivals = [policy for policy in result.policies if policy.name != "oracle"]
    scores: dict[str, dict[str, float]] = {"undetected": {policy.name: -policy.undetected for policy in rivals}}
    for metric in _RANKING_METRICS:
        values = {policy.name: policy.figures[metric].value for policy in rivals}
        scores[metric] = {name: value for name, value in values.items() if value is not None}
    return {
        column: {name for name, value in values.items() if value == max(values.values())}
        for column, values in scores.items()
    }


def describe_scope(result: ReplayResult) -> Finding:
    """Return what was replayed: pages, changes, window, budget and reading."""
    settings, window = result.settings, result.window
    return Finding(
        "replay_scope",
        {
            "pages": window.pages,
            "changes": int(result.changes.sum()),
            "from": format_time(result.start_s),
            "learn_from": None if settings.learn_from_s is None else format_time(window.start_s),
            "to": format_time(window.edge(window.cycles)),
            "cycle_s": window.cycle_s,
            "visits": settings.schedule.visits(window.known(window.cycles - 1)),
            **pick(settings, "budget", "warmup", "changed"),
        },
    )


def describe_signals(result: ReplayResult) -> list[Finding]:
    """Return what each simulated source of signals was asked to be, and the files of recorded ones."""
    simulated = [Finding("simulated_source", source.to_json()) for source in result.settings.signals]
    recorded = [Finding("recorded_signals", {"file": file}) for file in result.settings.signal_files]
    return simulated + recorded


def explain_figures(result: ReplayResult) -> list[Finding]:
    """Return how the intervals were estimated, or why there are none, which cycles NDCG covers, and what is left out.

    ``days``: of the shortest batch, or of all measured cycles if they are too few for two batches.
    """
    counted, edges = result.measured
    days = float(np.diff(edges).min()) * result.window.cycle_s / DAY_S
    values = {"batches": edges.size - 1, "days": days, "batch_days": BATCH_DAYS, "seeds": len(result.settings.seeds)}
    findings = [Finding("interval_method", values) if edges.size > 2 else Finding("no_interval", values)]
    cycles = {"counted": int(np.count_nonzero(counted)), "cycles": counted.size, "share": float(counted.mean())}
    findings.append(Finding("ndcg_cycles", cycles))
    if result.rejected:
        findings.append(Finding("rejected_records", {"count": result.rejected}))
    return findings


def find_best(result: ReplayResult) -> list[Finding]:
    """Return which policies found the most changes and which kept copies freshest; the oracle does not compete.

    ``baseline``: the policy "age", None if it was not replayed or is among the best.
    """
    if not any(trace.counted.any() for policy in result.policies for trace in policy.traces):
        return [Finding("no_change_ranked")]
    figures = {policy.name: policy.figures for policy in result.policies}
    best = best_policies(result)
    findings = []
    for metric in ("change_rate", "freshness"):
        winners = [name for name in figures if name in best[metric]]
        if not winners:
            continue
        plain = figures[DEFAULT_BASE][metric].value if DEFAULT_BASE in figures and DEFAULT_BASE not in winners else None
        values = {
            "policies": winners,
            "value": figures[winners[0]][metric].value,
            "baseline": None if plain is None else DEFAULT_BASE,
            "baseline_value": plain,
        }
        findings.append(Finding(f"best_{metric}", values))
    return findings


def find_identical(result: ReplayResult) -> list[Finding]:
    """Return each set of policies that visited the same pages, whose lines cover one another. O(cycles)."""
    groups: dict[bytes, list[str]] = {}
    for policy in result.policies:
        series = [part.tobytes() for trace in policy.traces for part in (trace.change_rate, trace.freshness)]
        groups.setdefault(b"".join(series), []).append(policy.name)
    return [Finding("identical_policies", {"policies": names}) for names in groups.values() if len(names) > 1]


def find_promotions(result: ReplayResult) -> list[Finding]:
    """Return each formula that evolution promoted to champion; ``seed`` is None in a replay of one seed. O(evolutions).

    ``gain`` and ``noise`` are shares of the predecessor's fitness in ``metric``, None without a contest.
    """
    several = len(result.settings.seeds) > 1
    return [
        Finding(
            "promoted",
            {
                "policy": policy.name,
                "seed": seed if several else None,
                "date": format_time(evolution.start_s),
                "formula": evolution.challenger,
                **pick(evolution, "gain", "noise", "metric"),
            },
        )
        for policy in result.policies
        for seed, trace in zip(result.settings.seeds, policy.traces, strict=True)
        for evolution in trace.evolutions
        if evolution.promoted
    ]


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
        return (
            Cell("promoted", mark="best", tooltip=row[1].why) if row[1].promoted else Cell("kept", tooltip=row[1].why)
        )

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
