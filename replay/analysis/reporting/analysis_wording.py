"""What the terminal and the report say of an analysis in the same words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from streamsched.numerics.arrays import Floats
from streamsched.numerics.durations import format_date, format_duration
from streamsched.replay.analysis.statistics.analysis import Analysis
from streamsched.replay.analysis.statistics.analysis_settings import DAY_S, HOUR_S, WEEK_S
from streamsched.replay.analysis.statistics.detection_chances import FEWEST
from streamsched.replay.analysis.statistics.frequencies import shows
from streamsched.replay.analysis.statistics.page_types import PERIODS_S
from streamsched.replay.analysis.statistics.rates import share_within
from streamsched.replay.analysis.statistics.week import DAYS, WeekPart

__all__ = [
    "ESTIMATORS",
    "KIND_NAMES",
    "describe",
    "join_names",
    "name_region",
    "spell_findings",
    "spell_kinds",
    "spell_length",
    "spell_near",
    "spell_nearer",
    "spell_rates",
    "spell_share",
    "spell_week",
]

ESTIMATORS: Final = {"simple": "simple, T/X", "modified": "modified, eq. 1", "counted": "all changes counted"}
KIND_NAMES: Final = {
    "poisson": "Poisson",
    "hourly": "hourly",
    "daily": "daily",
    "weekly": "weekly",
    "other": "other",
    "fast": "at every visit",
    "few": "too few changes",
}
_OFTEN_S: Final = {
    "hourly": HOUR_S,
    "four-hourly": 4 * HOUR_S,
    "daily": DAY_S,
    "weekly": WEEK_S,
    "monthly": 30 * DAY_S,
}
_FEW_INTERVALS: Final = 100  # in a figure, with which its shape is mostly chance
_FEW_CHANGES: Final = 500  # of a region, likewise: three an hour of the week


def describe(result: Analysis) -> str:
    """Return one line on what was analyzed: pages, changes, span and steps."""
    how = (
        f"{result.seen:,} as a crawl every {spell_length(result.step_s)} would see them"
        if result.exact
        else f"seen by visits about {spell_length(result.resolution_s)} apart"
    )
    return (
        f"{_count(result.pages, 'page')}, {result.changing:,} of which changed, "
        f"{_count(result.changes, 'change')} ({how}), {format_date(result.span[0])} to {format_date(result.span[1])}"
    )


def spell_findings(result: Analysis) -> list[str]:
    """Return the findings in words: a sentence or two for the kinds, the rates, the intervals and the week."""
    return [text for text in (spell_kinds(result), spell_rates(result), spell_near(result), spell_week(result)) if text]


def spell_kinds(result: Analysis) -> str:
    """Return how many pages are of each kind and how many of them chance alone would name so."""
    kinds = result.kinds
    tested, fast = kinds.tested, kinds.counts["fast"]
    too_fast = f" {_count(fast, 'page')} changed at nearly every visit, so often that no test can tell." if fast else ""
    if not tested:
        if fast:
            return too_fast.strip()
        return f"No page changed {FEWEST + 1} times or more, so none can be told from a Poisson process."
    named = ", ".join(
        f"{kinds.counts[kind]:,} {KIND_NAMES[kind]}" for kind in (*PERIODS_S, "other") if kind not in kinds.untestable
    )
    wrong = tested * sum(kinds.simulated[kind] for kind in (*PERIODS_S, "other"))
    return (
        f"Of {tested:,} pages with {FEWEST + 1} changes or more, {spell_share(kinds.counts['poisson'] / tested)} are "
        f"consistent with a Poisson process; {named}. By chance alone about {spell_few(wrong)} would be named other "
        f"than Poisson (at most {spell_few(tested * kinds.level)} by the tests' level of {100 * kinds.level:g} %)."
        f"{too_fast}"
    )


def spell_rates(result: Analysis) -> str:
    """Return the medians of the estimators and where they part."""
    if not result.changing:
        return "No page changed."
    modified = result.rates.modified_s
    simple = result.rates.simple_s
    if not np.isfinite(modified[(modified.size - 1) // 2]):
        return f"{spell_share(result.changing / result.pages)} of the pages changed. {_spell_often(modified)}".strip()
    medians = [_spell_median(intervals_s) for intervals_s in (simple, modified)]
    known = result.rates.counted_s
    real = "" if known is None else f" (all changes counted: {_spell_median(known)})"
    same = medians[0] == medians[1]
    middle = (
        f"Half of the pages have a mean interval of {medians[0]} or less by either estimator{real}."
        if same
        else f"Half of the pages have a mean interval of {medians[0]} or less by the simple estimator, "
        f"{medians[1]} by the modified{real}."
    )
    return f"{middle} {_spell_often(modified)}"


def _spell_often(modified_s: Floats) -> str:
    """Return which shares of all pages change hourly or the like, the three most frequent that there are."""
    shares = share_within(modified_s, np.array(list(_OFTEN_S.values())))
    often = [
        f"{spell_share(share)} {often}" for often, share in zip(_OFTEN_S, shares.tolist(), strict=True) if share > 0
    ]
    if not often:
        return "None changes monthly or more often."
    first, *more = often[:3]
    share, _, how = first.rpartition(" ")
    return f"By the modified estimate {join_names([f'{share} of the pages change {how}', *more])} or more often."


def spell_near(result: Analysis) -> str:
    """Return whether pages of the mean asked for have more intervals of just that length than the exponential has."""
    near = result.near
    if near is None:
        return ""
    mean = spell_length(near.near_s)
    asked_s = result.settings.near_s or DAY_S
    instead = "" if near.near_s == asked_s else f"No page has a mean interval of about {spell_length(asked_s)}. "
    instead = instead if shows(result.step_s, asked_s) else ""
    if not near.intervals:
        return f"No page has a mean interval of about {mean}.{spell_nearer(result)}"
    few = f" (so few that chance shows){spell_nearer(result)}" if near.intervals < _FEW_INTERVALS else ""
    seen, hoped = near.peak
    return (
        f"{instead}{_count(near.pages, 'page')} with a mean interval of about {mean} had "
        f"{_count(near.intervals, 'interval')}{few}; {spell_share(seen)} of them were within "
        f"{spell_length(near.reach_s)} of {mean}, {spell_share(hoped)} would be if they were exponential."
    )


def spell_week(result: Analysis) -> str:
    """Return when in the week pages of each region change most and least."""
    if result.arrivals is None or result.week_detail == "none" or not result.arrivals.parts:
        return ""
    alone = len(result.arrivals.parts) == 1
    said = [_spell_part(part, alone, result.week_detail == "hours") for part in result.arrivals.parts]
    zone = result.arrivals.zone
    clock = f"each region's own clocks, of pages without one by {zone}" if result.arrivals.local else zone
    return f"{' '.join(said)} Times are by {clock}."


def _spell_part(part: WeekPart, alone: bool, hours: bool) -> str:
    name = name_region(part, alone)
    if part.changes < _FEW_CHANGES:
        return f"{name[0].upper()}{name[1:]}: {_count(part.changes, 'change')}, too few for a week's shape."
    days = part.by_day()
    weekend, week = np.nanmean(days[5:]) if np.isfinite(days[5:]).any() else np.nan, np.nanmean(days[:5])
    text = f"{name[0].upper()}{name[1:]}: most changes come on {_spell_day(int(np.nanargmax(days)))}"
    if hours:
        relative = part.relative(1)  # as they are: smoothed, two peaks may be taken for one between them
        most, least = int(np.nanargmax(relative)), int(np.nanargmin(relative))
        text = (
            f"{name[0].upper()}{name[1:]}: most changes come in the hour around {_spell_hour(most)}, "
            f"{relative[most]:.1f} times the average hour's, fewest in that around {_spell_hour(least)}, "
            f"{relative[least]:.1f} times"
        )
    if np.isfinite(weekend) and week > 0:
        text += f"; a weekend day has {weekend / week:.2f} of a weekday's"
    return f"{text}."


def spell_nearer(result: Analysis) -> str:
    """Return where there are more intervals to look at than near the mean asked for; nothing where there are none."""
    if result.nearer is None:
        return ""
    mean_s, intervals = result.nearer
    option = f"{mean_s / HOUR_S:g}h" if mean_s < 48 * HOUR_S else f"{mean_s / (24 * HOUR_S):g}d"
    return f" Near {spell_length(mean_s)} there are {_count(intervals, 'interval')}: --near {option}."


def spell_length(seconds: float) -> str:
    """Return a length of time as people say it, days as hours up to two.

    >>> spell_length(86400.0), spell_length(5400.0), spell_length(259200.0)
    ('24 h', '1.5 h', '3 d')
    """
    if HOUR_S - 30 <= seconds < 48 * HOUR_S:
        return f"{seconds / HOUR_S:.3g} h"
    return format_duration(seconds)


def spell_share(share: float) -> str:
    """Return a share in per cent, as precisely as it matters.

    >>> spell_share(0.4213), spell_share(0.0123), spell_share(0.00004), spell_share(0.999)
    ('42 %', '1.2 %', 'under 0.1 %', 'over 99 %')
    """
    if share in (0.0, 1.0):
        return "none" if share == 0 else "all"
    if share < 0.001:
        return "under 0.1 %"
    if share >= 0.995:
        return "over 99 %"
    return f"{100 * share:.0f} %" if share >= 0.0995 else f"{100 * share:.1f} %"


def spell_few(count: float) -> str:
    """Return an expected count: whole from 10 on.

    >>> spell_few(3.04), spell_few(1234.5)
    ('3.0', '1,234')
    """
    return f"{count:.1f}" if count < 9.95 else f"{count:,.0f}"


def name_region(part: WeekPart, alone: bool) -> str:
    """Return what a region is called; the rest, where there is nothing else, is all pages."""
    return "all pages" if alone and part.region == "other" else part.region


def _spell_median(intervals_s: Floats) -> str:
    middle = float(intervals_s[(intervals_s.size - 1) // 2]) if intervals_s.size else np.inf
    return spell_length(middle) if np.isfinite(middle) else "longer than was watched"


def _spell_hour(hour: int) -> str:
    return f"{DAYS[hour // 24]} {hour % 24:02}:30"


def _spell_day(day: int) -> str:
    return ("Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays")[day]


def _count(count: int, name: str) -> str:
    return f"{count:,} {name}" if count == 1 else f"{count:,} {name}s"


def join_names(names: Sequence[str]) -> str:
    """Return the names as a list in a sentence.

    >>> join_names(["daily"]), join_names(["hourly", "daily", "weekly"])
    ('daily', 'hourly, daily and weekly')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
