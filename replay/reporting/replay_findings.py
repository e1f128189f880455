"""Findings of a replay: its scope, the best policies, those below a baseline, identical ones, promotions."""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsched.replay.confidence_intervals import BATCH_DAYS, FEWEST_BATCHES
from streamsched.replay.replay_results import ReplayResult
from streamsched.replay.replay_settings import DEFAULT_BASE, format_time
from streamsched.replay.reporting.report import pick
from streamsched.replay.reporting.sentences import Finding
from streamsched.replay.simulation.policies import STATELESS, WITHOUT_SIGNALS
from streamsched.replay.simulation.simulator import DAY_S

_RANKING_METRICS: Final = ("change_rate", "ndcg", "freshness")  # higher is better; `best_policies` excludes delays
_BASELINES: Final = {"freshness": DEFAULT_BASE, "change_rate": "posterior"}  # that policies should not be below


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

    ``days``: of the shortest batch, or of all measured cycles if they are too few for an interval.
    """
    counted, edges = result.measured
    batches, seeds, cycle_days = edges.size - 1, len(result.settings.seeds), result.window.cycle_s / DAY_S
    if batches >= FEWEST_BATCHES:
        days = float(np.diff(edges).min()) * cycle_days
        findings = [Finding("interval_method", {"batches": batches, "days": days, "seeds": seeds})]
    else:
        needed = {"fewest_batches": FEWEST_BATCHES, "batch_days": BATCH_DAYS}
        findings = [Finding("no_interval", {**needed, "days": counted.size * cycle_days, "seeds": seeds})]
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


def find_beaten(result: ReplayResult) -> list[Finding]:
    """Return which policies kept copies less fresh than "age" did, and which found fewer changes than "posterior".

    ``gaps``: what each of ``policies`` lacks, above 0. The two baselines themselves, policies without
    signals, and those that learn nothing are left out. O(policies).
    """
    figures = {policy.name: policy.figures for policy in result.policies}
    left_out = {*_BASELINES.values(), *STATELESS}
    findings = []
    for metric, baseline in _BASELINES.items():
        level = figures[baseline][metric].value if baseline in figures else None
        if level is None:
            continue
        gaps = {
            name: level - own
            for name, by_metric in figures.items()
            if name not in left_out
            and not name.endswith(WITHOUT_SIGNALS)
            and (own := by_metric[metric].value) is not None
            and own < level
        }
        if gaps:
            values = {"policies": list(gaps), "gaps": list(gaps.values()), "metric": metric, "baseline_value": level}
            findings.append(Finding(f"below_{baseline}", values))
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
