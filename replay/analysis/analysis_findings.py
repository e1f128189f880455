"""Findings of an analysis: page types, change rates, intervals near one mean, the week, and limits of the log."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from streamsched.numerics.arrays import Floats
from streamsched.numerics.durations import format_date
from streamsched.replay.analysis.analysis import Analysis
from streamsched.replay.analysis.analysis_settings import DAY_S, HOUR_S, OTHERS, WEEK_S
from streamsched.replay.analysis.intervals import resolves, share_within
from streamsched.replay.analysis.page_types import MIN_INTERVALS, PERIODS_S
from streamsched.replay.analysis.week import RegionWeek
from streamsched.replay.reporting.report import pick
from streamsched.replay.reporting.sentences import Finding

_FREQUENCIES_S: Final = {
    "hourly": HOUR_S,
    "four-hourly": 4 * HOUR_S,
    "daily": DAY_S,
    "weekly": WEEK_S,
    "monthly": 30 * DAY_S,
}
_SHOWN_FREQUENCIES: Final = 3
_SMALL_SAMPLE: Final = 100  # intervals in a figure; below, chance dominates its shape
_MIN_WEEK_CHANGES: Final = 500  # of a region: three per hour of the week


def describe_scope(result: Analysis) -> Finding:
    """Return what was analyzed: pages, changes, span and steps."""
    return Finding(
        "analysis_scope",
        {
            **pick(result, "pages", "changes", "seen", "exact", "step_s", "resolution_s"),
            "changing_pages": result.changing,
            "from": format_date(result.span[0]),
            "to": format_date(result.span[1]),
        },
    )


def find_page_types(result: Analysis) -> list[Finding]:
    """Return how many pages are of each type, and how many Poisson pages would be classified otherwise."""
    types = result.page_types
    fast = types.counts["fast"]
    findings = []
    if types.tested:
        other_types = (*PERIODS_S, "other")
        values = {
            "tested": types.tested,
            "min_changes": MIN_INTERVALS + 1,
            "poisson": types.counts["poisson"],
            "poisson_share": types.counts["poisson"] / types.tested,
            "other_types": {name: types.counts[name] for name in other_types if name not in types.untestable},
            "expected_false": types.tested * sum(types.simulated[name] for name in other_types),
            "max_false": types.tested * types.level,
            "level": types.level,
        }
        findings.append(Finding("page_types", values))
    elif not fast:
        findings.append(Finding("no_page_tested", {"min_changes": MIN_INTERVALS + 1}))
    if fast:
        findings.append(Finding("changed_at_every_visit", {"pages": fast}))
    return findings


def find_rates(result: Analysis) -> list[Finding]:
    """Return the median interval by each estimator, and the shares of pages that change often. O(log pages).

    A median of None is longer than the time observed. ``counted``: whether all changes are known.
    """
    if not result.changing:
        return [Finding("no_change")]
    rates = result.rates
    if _median(rates.modified_s) is None:
        first = Finding("share_changed", {"share": result.changing / result.pages})
    else:
        values = {
            "simple_s": _median(rates.simple_s),
            "modified_s": _median(rates.modified_s),
            "counted": rates.counted_s is not None,
            "counted_s": None if rates.counted_s is None else _median(rates.counted_s),
        }
        first = Finding("median_interval", values)
    shares = share_within(rates.modified_s, np.array(list(_FREQUENCIES_S.values()))).tolist()
    often = {name: share for name, share in zip(_FREQUENCIES_S, shares, strict=True) if share > 0}
    if not often:
        return [first, Finding("rare_changes")]
    return [first, Finding("change_frequency", {"shares": dict([*often.items()][:_SHOWN_FREQUENCIES])})]


def _median(intervals_s: Floats) -> float | None:
    middle = float(intervals_s[(intervals_s.size - 1) // 2]) if intervals_s.size else np.inf
    return middle if np.isfinite(middle) else None


def find_near(result: Analysis) -> list[Finding]:
    """Return the share of intervals close to the mean of their pages, seen and under exponential intervals.

    ``asked_s``: the mean asked for if another is shown instead, else None. ``alternative``: another mean with more
    intervals, None unless the sample is small.
    """
    near = result.near
    if near is None:
        return []
    if not near.intervals:
        return [Finding("no_page_near", {"near_s": near.near_s, "alternative": _alternative(result)})]
    asked_s = result.settings.near_s or DAY_S
    replaced = near.near_s != asked_s and resolves(result.step_s, asked_s)
    small = near.intervals < _SMALL_SAMPLE
    values = {
        **pick(near, "near_s", "pages", "intervals", "within_s"),
        "asked_s": asked_s if replaced else None,
        "share": near.peak[0],
        "poisson_share": near.peak[1],
        "small_sample": small,
        "alternative": _alternative(result) if small else None,
    }
    return [Finding("near_interval", values)]


def _alternative(result: Analysis) -> dict[str, Any] | None:
    if result.alternative is None:
        return None
    return {"near_s": result.alternative[0], "intervals": result.alternative[1]}


def find_week(result: Analysis) -> list[Finding]:
    """Return when in the week the pages of each region change most and least, and the time zone."""
    week = result.week
    if week is None or result.week_detail == "none" or not week.regions:
        return []
    alone = len(week.regions) == 1
    findings = [_find_peak(region, alone, hours=result.week_detail == "hours") for region in week.regions]
    return [*findings, Finding("time_zone", {"zone": week.zone, "local": week.local})]


def _find_peak(region: RegionWeek, alone: bool, *, hours: bool) -> Finding:
    """Return the region's peak; hours are counted from Monday 0:00, days from Monday, rates relative to the mean."""
    values: dict[str, Any] = {"region": name_region(region, alone), "changes": region.changes}
    if region.changes < _MIN_WEEK_CHANGES:
        return Finding("too_few_for_week", values)
    days = region.by_day()
    weekend, workdays = np.nanmean(days[5:]) if np.isfinite(days[5:]).any() else np.nan, np.nanmean(days[:5])
    values["weekend"] = float(weekend / workdays) if np.isfinite(weekend) and workdays > 0 else None
    if not hours:
        return Finding("busiest_day", {**values, "busiest_day": int(np.nanargmax(days))})
    rates = region.relative(1)  # not smoothed: smoothing may merge two peaks into one between them
    busiest, quietest = int(np.nanargmax(rates)), int(np.nanargmin(rates))
    values |= {"busiest_hour": busiest, "busiest": float(rates[busiest])}
    return Finding("busiest_hour", {**values, "quietest_hour": quietest, "quietest": float(rates[quietest])})


def name_region(region: RegionWeek, alone: bool) -> str:
    """Return a region's name; pages of no region are "all pages" if there is no other region."""
    return "all pages" if alone and region.region == OTHERS else region.region


def find_limits(result: Analysis) -> list[Finding]:
    """Return what the log's times, its length or its pages cannot show."""
    findings = []
    if result.exact and result.resolution_s >= HOUR_S:
        findings.append(Finding("coarse_times", {"resolution_s": result.resolution_s}))
    elif not result.exact:
        findings.append(Finding("known_from_visits", {"resolution_s": result.resolution_s}))
    asked_s = result.settings.near_s or DAY_S
    if not resolves(result.step_s, asked_s):
        shown_s = None if result.near is None else result.near.near_s
        values = {"asked_s": asked_s, "step_s": result.step_s, "shown_s": shown_s}
        findings.append(Finding("near_hidden_by_steps", {**values, "alternative": _alternative(result)}))
    findings += _find_week_limits(result)
    for code in ("untestable", "unclear"):
        periods = getattr(result.page_types, code)
        if periods:
            findings.append(Finding(f"{code}_periods", {"periods": list(periods)}))
    return findings


def _find_week_limits(result: Analysis) -> list[Finding]:
    findings = []
    if not result.dated:
        findings.append(Finding("unknown_date"))
    elif result.week_detail != "hours":
        findings.append(Finding("no_hours" if result.week_detail == "days" else "no_week"))
    span_s = result.span[1] - result.span[0]
    if result.week_detail != "none" and span_s < 4 * WEEK_S:
        findings.append(Finding("shorter_than_week" if span_s < WEEK_S else "shorter_than_four_weeks"))
    return findings
