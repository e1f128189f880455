"""The slow, obvious twin of the analysis: one page, one visit, one change, one hour at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any
from urllib.parse import urlsplit

from tests.reference import replay

HOUR = 3600
QUARTER = 900


@dataclass
class Page:
    visits: int = 0
    changes: int = 0
    watched: float = 0.0
    intervals: list[int] = field(default_factory=list)  # in steps


def crawl(records: Sequence[replay.Record], start: int, end: int, step: int) -> dict[str, Page]:
    """What visits at every multiple of `step` see of the changes from `start` to before `end`, oldest first.

    The last visit is the first at `end` or after it.
    """
    pages: dict[str, Page] = {}
    for url in dict.fromkeys(url for _, _, url in records):
        page = pages[url] = Page()
        own = [(when, op) for when, op, name in records if name == url and when < end]
        was_there, before, last = False, -math.inf, None
        for visit in range(-(-start // step), -(-end // step) + 1):
            new = [op for when, op in own if before < when <= visit * step]
            all_so_far = [op for when, op in own if when <= visit * step]
            is_there = bool(all_so_far) and all_so_far[-1] != "D"
            if was_there:
                page.visits += 1
                if new:
                    page.changes += 1
                    if last is not None:
                        page.intervals.append(visit - last)
                    last = visit
                if "D" in new:
                    last = None
            else:
                last = None
            was_there, before = is_there, visit * step
        page.watched = page.visits * step
    return pages


def watch(outcomes: Sequence[dict[str, Any]], threshold: int) -> tuple[dict[str, Page], list[tuple[str, float, float]]]:
    """What visits that were made saw, and each change's page, visit and the visit before."""
    seen = replay.sift(outcomes, threshold)
    pages: dict[str, Page] = {}
    changes: list[tuple[str, float, float]] = []
    last: dict[str, tuple[float, bool]] = {}
    times: dict[str, list[list[float]]] = {}
    for outcome, code in zip(outcomes, seen, strict=True):
        changed = code == "change"
        url, when, status = outcome["url"], outcome["fetched_at"], outcome.get("status", 200)
        if code in ("late", "failure"):
            continue
        page = pages.setdefault(url, Page())
        if code in ("same", "change") and last[url][1]:
            page.visits += 1
            page.watched += when - last[url][0]
            if changed:
                page.changes += 1
                changes.append((url, last[url][0], when))
                times.setdefault(url, [[]])[-1].append(when)
        elif changed:
            times.setdefault(url, [[]]).append([])
        last[url] = (when, status < 400)
    for url, lives in times.items():
        page = pages[url]
        for life in lives:
            for begin, end in pairwise(life):
                step = page.watched / page.visits
                page.intervals.append(max(1, round((end - begin) / step)))
    return pages, changes


def place(edges: Sequence[float], value: float) -> int:
    """The bin of `value`, the nearest for what lies outside."""
    for at in range(len(edges) - 1):
        if value < edges[at + 1]:
            return at
    return len(edges) - 2


def heat(pages: Sequence[Page], step: float, edges: Sequence[float]) -> dict[tuple[int, int], int]:
    counts: dict[tuple[int, int], int] = {}
    for page in pages:
        for interval in page.intervals:
            cell = place(edges, page.watched / page.changes), place(edges, interval * step)
            counts[cell] = counts.get(cell, 0) + 1
    return counts


def near(
    pages: Sequence[Page], step: float, band: tuple[float, float], edges: Sequence[float]
) -> tuple[list[int], list[float]]:
    """Intervals of the pages with a mean in the band, in each bin: seen, and by geometric draws of the same mean."""
    observed, expected = [0] * (len(edges) - 1), [0.0] * (len(edges) - 1)
    for page in pages:
        if not page.intervals or not band[0] <= page.watched / page.changes <= band[1]:
            continue
        chance = len(page.intervals) / sum(page.intervals)
        for at, (low, high) in enumerate(pairwise(edges)):
            observed[at] += sum(low <= interval * step < high for interval in page.intervals)
            lengths = [length for length in range(1, int(high / step) + 2) if low <= length * step < high]
            expected[at] += len(page.intervals) * sum(chance * (1 - chance) ** (length - 1) for length in lengths)
    return observed, expected


def exceedance(steps: int, count: int, total: int) -> Fraction:
    """P(the first interval > steps): all ways to cut `total` steps into `count` intervals, looked at one by one."""
    ways = [cuts[0] if cuts else total for cuts in combinations(range(1, total), count - 1)]
    return Fraction(sum(first > steps for first in ways), len(ways))


def binomial_tail(found: int, count: int, share: Fraction) -> Fraction:
    return sum(
        (math.comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(found, count + 1)), Fraction(0)
    )


def hour_of_week(when: float, zone: tzinfo) -> int:
    local = datetime.fromtimestamp(when, zone)
    return local.weekday() * 24 + local.hour


def arrivals(changes: Sequence[tuple[float, float]], zone: tzinfo) -> list[float]:
    """Changes, seen over intervals of whole quarters of an hour or at points of time, by the hour of the week."""
    hours = [0.0] * 168
    for since, until in changes:
        quarters = range(int(since), int(until), QUARTER)
        for quarter in quarters:
            hours[hour_of_week(quarter, zone)] += 1 / len(quarters)
        if not quarters:
            hours[hour_of_week(until, zone)] += 1
    return hours


def exposure(start: int, end: int, zone: tzinfo) -> list[float]:
    hours = [0.0] * 168
    for quarter in range(start, end, QUARTER):
        hours[hour_of_week(quarter, zone)] += QUARTER / HOUR
    return hours


def relative(counts: Sequence[float], exposed: Sequence[float]) -> list[float]:
    """Changes an hour in the five hours around each, over the mean; NaN where nothing is known."""
    mean = sum(counts) / sum(exposed)
    smoothed = []
    for hour in range(168):
        around = [(hour + shift) % 168 for shift in (-2, -1, 0, 1, 2)]
        known = sum(exposed[at] for at in around)
        smoothed.append(sum(counts[at] for at in around) / known / mean if known else math.nan)
    return smoothed


def domain(url: str) -> str | None:
    """The last label of the URL's host, where that has two or more."""
    host = (urlsplit(url if "://" in url else f"http://{url}").hostname or "").removesuffix(".")
    return host.rpartition(".")[2].lower() if "." in host and ":" not in host else None


def utc_offset(when: float, zone: tzinfo) -> timedelta:
    offset = datetime.fromtimestamp(when, zone).utcoffset()
    assert offset is not None
    return offset
