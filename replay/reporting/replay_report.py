"""The report of a replay: figures by policy, differences, metrics over time, calibration, sources, evolved formulas."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from streamsched.replay.confidence_intervals import BATCH_DAYS
from streamsched.replay.replay_results import PolicyResult, ReplayResult
from streamsched.replay.replay_settings import format_time
from streamsched.replay.reporting.replay_findings import (
    describe_scope,
    describe_signals,
    find_beaten,
    find_best,
    find_identical,
    find_promotions,
)
from streamsched.replay.reporting.replay_tables import (
    FEWEST_VISITS,
    SMOOTHED_CYCLES,
    calibration_table,
    comparison_table,
    evolution_table,
    policy_table,
    source_table,
)
from streamsched.replay.reporting.report import Figures, Legend, Part, Report, Section, Text, drawn_by, pick
from streamsched.replay.reporting.sentences import describe, describe_all
from streamsched.replay.simulation.metrics import Calibration
from streamsched.replay.simulation.policies import choose_line_styles
from streamsched.scheduler.monitoring import BIN_EDGES, Reliability

_WAITS: Final = (
    "Time from a change to the next visit of its page, for all changes after the warm-up and the learning. Visits take "
    "place at the end of a cycle, so even the oracle has delays. Lines further left and higher are better. A line that "
    "ends below 1 belongs to a policy that did not revisit the remaining pages before the replay ended."
)
_DECILES: Final = (
    "Pages ordered by how often they changed, least often on the left; each column is a decile. Uniform visits give "
    "ten per cent everywhere. High values on the right mean that a policy follows frequent changes. Zeros on the left "
    "mean pages that are never revisited, whose changes stay unseen."
)
_CALIBRATION: Final = (
    "For each visit the policy predicted the probability that the page had changed. Visits are sorted into 20 bins by "
    "it: the diagrams show each bin's mean probability and the share of its pages that had changed. On the diagonal "
    "they agree; below it too much was expected. Both axes are square roots; bins of fewer than "
    f"{FEWEST_VISITS} visits are not drawn. Error is the mean of |predicted - observed| over all bins, weighted by "
    "visits. "
    "A surge is shown if visits to pages of the same group, or to pages with related names, found changes that this "
    "page may share."
)
_EVOLUTIONS: Final = (
    "Each evolution trains on the data known at its date. Gain is how much the challenger's fitness exceeds the "
    "champion's on held-out pages in later cycles, ± the noise: what chance can explain. A challenger is promoted if "
    "its gain is more than twice the noise. Hover over a decision to see its reason."
)
_draw: Final = partial(drawn_by, "streamsched.replay.reporting.replay_figures")


def report_replay(result: ReplayResult) -> Report:
    """Return the report of a replay. O(policies · seeds · cycles)."""
    scope = describe_all([describe_scope(result), *describe_signals(result)])
    beaten = find_beaten(result)
    names = [policy.name for policy in result.policies]
    lines = [(place, *named) for place, named in enumerate(zip(names, choose_line_styles(names), strict=True))]
    shaded = "Shaded: the best policy of each column. The oracle, which knows what changed, does not compete."
    return Report(
        title=f"Replay of {Path(result.settings.log).name}",
        lead=describe_all([*find_best(result), *beaten]),
        scope=scope,
        sections=[
            Section(
                "",
                [policy_table(result), Text(shaded, "page", quiet=True), comparison_table(result), Legend(lines)],
                scope,
            ),
            _metrics_over_time(result),
            Section("Time until a change is seen", [Figures(_draw("waits", result), [Text(_WAITS)])]),
            Section("Visits by change rate", [Figures(_draw("deciles", result), [Text(_DECILES)])]),
            *_optional_sections(result),
        ],
        content=_content(result),
        summary=[Text(describe(finding), "terminal") for finding in beaten],
        narrow=True,
    )


def _metrics_over_time(result: ReplayResult) -> Section:
    weighted = "" if result.window.importance is None else " and weighted by importance"
    text = (
        f"Each line is the mean of the last {SMOOTHED_CYCLES} cycles. ChangeRate is the share of visits that found a "
        "changed page, over all cycles. NDCG also rewards changed pages at the top of the ranking; the oracle reaches "
        "1 and is not drawn. Freshness is the share of pages with a current copy, averaged over each cycle"
        f"{weighted}. Finding many changes and keeping copies fresh are different goals: compare the first panel with "
        f"the third. {describe_all(find_identical(result))}"
    )
    return Section("Metrics over time", [Figures(_draw("metrics", result)), Text(text.rstrip(), "page")])


def _optional_sections(result: ReplayResult) -> list[Section]:
    """Return the sections on calibration, sources and evolutions, as far as there are any."""
    sections = []
    calibration, sources, evolutions = calibration_table(result), source_table(result), evolution_table(result)
    if calibration.rows:
        parts: list[Part] = [Figures(_draw("calibration", result)), calibration, Text(_CALIBRATION, "page")]
        sections.append(Section("Calibration", parts))
    elif calibration.caption:
        sections.append(Section("Calibration", [calibration]))
    if sources.rows:
        sections.append(Section("Sources of signals", [sources]))
    if evolutions.rows:
        parts = [Text(_EVOLUTIONS, "page"), evolutions]
        promotions = [f"  {describe_all([promotion])}" for promotion in find_promotions(result)]
        if promotions:
            parts.append(Text("\n".join(["Promoted:", *promotions]), "terminal"))
        sections.append(Section("Evolved formulas", parts))
    return sections


def _content(result: ReplayResult) -> dict[str, Any]:
    """Return the figures for machines; docs/replay.md describes them."""
    settings, window = result.settings, result.window
    return {
        **pick(settings, "log", "budget", "warmup", "changed", "seeds", "signal_files", "later_pages"),
        **pick(result, "cycles", "rejected", "note"),
        "pages": window.pages,
        "measured_cycles": result.measured.counted.size,
        "ndcg_cycles": result.measured.counted.sum(),
        "batches": result.measured.edges.size - 1,
        "least_batch_days": BATCH_DAYS,
        "cycle": settings.cycle_s,
        "from": format_time(result.start_s),
        "to": format_time(window.edge(window.cycles)),
        "learn_from": None if settings.learn_from_s is None else format_time(window.start_s),
        "against": settings.compared_with,
        "signals": [source.to_json() for source in settings.signals],
        "changes": result.changes.sum(),
        "delay_unit": "days",
        "findings": [*find_best(result), *find_beaten(result), *find_identical(result), *find_promotions(result)],
        "policies": {policy.name: _policy_content(policy, settings.seeds) for policy in result.policies},
    }


def _policy_content(policy: PolicyResult, seeds: Sequence[int]) -> dict[str, Any]:
    return {
        **pick(policy, "formula", "figures", "seeds", "against", "visits", "detections", "undetected", "stale_pages"),
        "promotions": [
            {
                "seed": seed,
                "date": format_time(evolution.start_s),
                "formula": evolution.challenger,
                **pick(evolution, "cycle", "gain", "noise"),
            }
            for seed, trace in zip(seeds, policy.traces, strict=True)
            for evolution in trace.evolutions
            if evolution.promoted
        ],
        "calibration": None if policy.calibration is None else _calibration_content(policy.calibration),
        "sources": policy.sources,
    }


def _calibration_content(calibration: Calibration) -> dict[str, Any]:
    parts = ("all_visits", "without_surge", "with_surge")
    return {part: _reliability_content(getattr(calibration, part)) for part in parts}


def _reliability_content(part: Reliability) -> dict[str, Any]:
    """Return the figures and the bins that have visits."""
    bins = zip(BIN_EDGES[:-1], BIN_EDGES[1:], part.visits, part.predicted, part.observed, strict=True)
    return {
        "visits": part.total,
        "predicted": part.mean_predicted,
        "observed": part.share_observed,
        "error": part.error,
        "bins": [
            {"low": low, "high": high, "visits": visits, "predicted": predicted / visits, "observed": observed / visits}
            for low, high, visits, predicted, observed in bins
            if visits
        ],
    }
