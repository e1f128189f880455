"""What the terminal's table and the report say in the same words: heads, figures, and what they mean."""

from __future__ import annotations

from typing import Final

from streamsched.formula.champion import METRIC_NAMES
from streamsched.replay.confidence_intervals import BATCH_CYCLES, Estimate
from streamsched.replay.replay_results import ReplayResult
from streamsched.replay.replay_settings import spell_time
from streamsched.replay.simulation.promotions import Evolution
from streamsched.replay.simulation.simulator import DAY_S

__all__ = [
    "HEADS",
    "best_policies",
    "describe_replay",
    "explain_figures",
    "spell_count",
    "spell_figure",
    "spell_findings",
    "spell_gain",
    "spell_promotions",
    "spell_twins",
]

HEADS: Final = {
    "change_rate": "ChangeRate",
    "ndcg": "NDCG",
    "freshness": "Freshness",
    "delay_mean": "Delay, mean",
    "delay_p95": "Delay, p95",
}
_RANKED: Final = ("change_rate", "ndcg", "freshness")  # the more the better; delays alone do not rank, see below
_READINGS: Final = {"since_visit": "since its last visit", "that_day": "within the cycle of the visit"}
_PLAIN: Final = "age"  # what a crawler without a model does: the oldest copy first
_FINDINGS: Final = {
    "change_rate": "{names} found most: {value} changed pages a visit{rival}.",
    "freshness": "{names} kept copies most current: {value} of them at any time{rival}.",
}


def best_policies(result: ReplayResult) -> dict[str, set[str]]:
    """Return for `undetected` and each metric that ranks policies which are best at it, the oracle left out.

    Delays do not: they are of the changes found, so a policy that never returns to most pages has short ones.
    """
    rivals = [policy for policy in result.policies if policy.name != "oracle"]
    standing: dict[str, dict[str, float]] = {"undetected": {policy.name: -policy.undetected for policy in rivals}}
    for metric in _RANKED:
        values = {policy.name: policy.figures[metric].value for policy in rivals}
        standing[metric] = {name: value for name, value in values.items() if value is not None}
    return {
        column: {name for name, value in values.items() if value == max(values.values())}
        for column, values in standing.items()
    }


def describe_replay(result: ReplayResult) -> str:
    """Return one line on what was replayed: pages, window, budget and reading."""
    settings, window = result.settings, result.window
    cycle = "day" if window.cycle_s == DAY_S else f"cycle of {window.cycle_s:g} s"
    span = f"{spell_time(window.start_s)} to {spell_time(window.edge(window.cycles))}"
    visits = settings.schedule.visits(window.known(window.cycles - 1))
    return (
        f"{window.pages:,} pages, {int(result.changes.sum()):,} changes, {span}; {visits:,} visits a {cycle} "
        f"({settings.budget:.3g} of the pages) after {settings.warmup} that visit all; "
        f"changed: {_READINGS[settings.changed]}"
    )


def explain_figures(result: ReplayResult) -> str:
    """Return what the intervals and the delays are, and what the log's times are worth, in a few sentences."""
    seeds = len(result.settings.seeds)
    spread = f"over {seeds} seeds" if seeds > 1 else f"by batch means over {BATCH_CYCLES} cycles each"
    spreads = any(figure.half_width is not None for policy in result.policies for figure in policy.figures.values())
    said = [
        *([f"± is half the 95 % interval, {spread}."] if spreads else []),
        (
            "Delays are in days, from a change to the visit that found it; changes never found have none, so read them "
            "beside the changes unseen at the end."
        ),
    ]
    if result.rejected:
        said.append(f"{result.rejected:,} malformed records of the log were left out.")
    return " ".join([*said, result.note]).rstrip()


def spell_findings(result: ReplayResult) -> str:
    """Return in two sentences who found most and who kept copies most current; the oracle is no rival."""
    if not any(trace.counted.any() for policy in result.policies for trace in policy.traces):
        return "No page changed in the cycles that were ranked: there was nothing to find."
    figures = {policy.name: policy.figures for policy in result.policies}
    best = best_policies(result)
    said = []
    for metric, text in _FINDINGS.items():
        winners = [name for name in figures if name in best[metric]]
        if not winners:
            continue
        value = figures[winners[0]][metric].value
        plain = figures[_PLAIN][metric].value if _PLAIN in figures and _PLAIN not in winners else None
        rival = f", {_PLAIN} {plain:.3f}" if plain is not None else ""
        said.append(text.format(names=_join(winners), value=f"{value:.3f}", rival=rival))
    return " ".join(said)


def spell_twins(result: ReplayResult) -> str:
    """Return a sentence for each set of policies that visited alike, so that a hidden line is not missed. O(cycles)."""
    alike: dict[bytes, list[str]] = {}
    for policy in result.policies:
        series = [part.tobytes() for trace in policy.traces for part in (trace.change_rate, trace.freshness)]
        alike.setdefault(b"".join(series), []).append(policy.name)
    return " ".join(
        f"The lines of {_join(names)} coincide: they visited the same pages."
        for names in alike.values()
        if len(names) > 1
    )


def spell_promotions(result: ReplayResult) -> list[str]:
    """Return a line for each formula that evolution put in charge. O(evolutions)."""
    several = len(result.settings.seeds) > 1
    return [
        f"{policy.name}{f', seed {seed}' if several else ''}, {spell_time(evolution.when_s)}: "
        f"{evolution.challenger}  ({spell_gain(evolution)})"
        for policy in result.policies
        for seed, trace in zip(result.settings.seeds, policy.traces, strict=True)
        for evolution in trace.evolutions
        if evolution.promoted
    ]


def spell_gain(evolution: Evolution) -> str:
    """Return by how much a challenger beat the champion in the contest, in per cent of its fitness. O(1).

    >>> spell_gain(Evolution(16, 0.0, "t", "X", 0.031, 0.0125, "ndcg", True, ""))
    '+3.1 ±1.2 % NDCG'
    """
    if evolution.gain is None:
        return "no contest"
    noise = "" if evolution.noise is None else f" ±{100 * evolution.noise:.1f}"
    return f"{100 * evolution.gain:+.1f}{noise} % {METRIC_NAMES[evolution.metric or 'ndcg']}"


def _join(names: list[str]) -> str:
    """Return the names as a list in a sentence.

    >>> _join(["nad"]), _join(["nad", "aad", "cg"])
    ('nad', 'nad, aad and cg')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def spell_figure(figure: Estimate, metric: str) -> str:
    """Return a figure as people read it, with half its interval's width: three decimals, one for days.

    >>> spell_figure(Estimate(0.27, 0.25, 0.29), "ndcg"), spell_figure(Estimate(None), "delay_mean")
    ('0.270 ±0.020', '–')
    """
    if figure.value is None:
        return "–"
    digits = 1 if metric.startswith("delay") else 3
    spread = "" if figure.half_width is None else f" ±{figure.half_width:.{digits}f}"
    return f"{figure.value:.{digits}f}{spread}"


def spell_count(count: float) -> str:
    """Return a count, or a mean of counts, as people read it.

    >>> spell_count(12361), spell_count(12361.125)
    ('12,361', '12,361')
    """
    return f"{count:,.0f}"
