"""Slow reference implementation of seasonality: hours counted one by one, sets of days as sets, literal rules."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np

from streamsched.estimation.seasonality import page_schedules
from streamsched.estimation.seasonality.regions import REGIONS

HOUR = 3_600.0
DAY = 86_400.0
NAT = 16.0
ANYONE = ("",)
WEEK = frozenset(range(7))
SETS = [frozenset(day for day in range(7) if number >> day & 1) for number in range(128)]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def region_of(host: str) -> str:
    """The region with the host's top-level domain; "" for none, and for hosts of one label."""
    above, _, domain = host.partition(":")[0].removesuffix(".").rpartition(".")
    return next((name for name, region in REGIONS.items() if above and domain in region.domains), "")


def local_hours(at_s: float, quarters: int = 0) -> float:
    """Hours from Monday, 1969-12-29, 00:00, with a UTC offset of `quarters` of an hour."""
    return (min(max(at_s, -1e14), 1e14) + 900.0 * quarters) / HOUR + 72.0


def zoned_hours(at_s: float, zone: str) -> float:
    """Hours from Monday, 1969-12-29, 00:00, in the zone's local time."""
    shown = datetime.fromtimestamp(at_s, ZoneInfo(zone)).replace(tzinfo=UTC)
    return (shown - EPOCH) / timedelta(hours=1) + 72.0


def pieces(start: float, end: float) -> Iterator[tuple[int, float]]:
    """The hours of the week between two times, each with the part of it that lies between them."""
    at = start
    while at < end:
        stop = min(math.floor(at) + 1.0, end)
        yield math.floor(at) % 168, stop - at
        at = stop


@cache
def weight_of(misfit: float) -> float:
    return max(math.floor(2.0**20 * math.exp(-min(misfit, 255.0) / NAT)), 1)


def misfit_of(fit: float) -> int:
    step = int(1_023 * min(max(fit, 0.0), 1.0)) / 1_023
    return round(-NAT * math.log(max(step, 0.02)))


def first_sets() -> list[int]:
    """The prior misfits of sets of days."""
    sizes = (0.0, 0.2, 0.1, 0.1, 0.05, 0.2, 0.05, 0.3)

    def chance(days: frozenset[int]) -> float:
        if len(days) != 5:
            return sizes[len(days)] / math.comb(7, len(days))
        in_a_row = any(all((first + i) % 7 in days for i in range(5)) for first in range(7))
        return sizes[5] / 2 / (7 if in_a_row else 14)

    return [min(round(-NAT * math.log(max(chance(days) / 0.3, 1e-9))), 255) for days in SETS]


@dataclass
class Schedule:
    """A page's own schedule: the misfit of each set of days, each hour of the day and each quarter of the hour."""

    sets: list[int] = field(default_factory=lambda: [0] * 128)
    hours: list[int] = field(default_factory=lambda: [0] * 24)
    parts: list[int] = field(default_factory=lambda: [0] * 4)
    hours_updated: int = 0
    hours_quiet: int = 0
    log_odds: float = 0.0
    hourly_log_odds: float = 0.0
    log_evidence: float = 0.0
    hourly_log_evidence: float = 0.0
    first_change_s: int = 0
    last_change_s: int = 0
    gaps: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)


@dataclass
class Published:
    """One published version of a profile."""

    weights: list[int] = field(default_factory=lambda: [65_536] * 168)
    odds: float = 1 / 9
    sets: list[int] = field(default_factory=first_sets)
    hours: list[int] = field(default_factory=lambda: [0] * 24)


@dataclass
class Profile:
    """The counts of the hours of a group's pages, of a region's, or of all pages."""

    group: tuple[str, ...]
    region: str
    changes: list[float] = field(default_factory=lambda: [0.0] * 168)
    exposure: list[float] = field(default_factory=lambda: [0.0] * 168)
    published: list[Published] = field(default_factory=lambda: [Published(), Published()])
    scheduled: list[float] = field(default_factory=list)
    beliefs: list[tuple[float, list[float], list[float]]] = field(default_factory=list)
    fresh: list[tuple[float, float, float]] = field(default_factory=list)  # this sweep's intervals and their changes


@dataclass
class Link:
    """The profile and schedule that a page uses."""

    profile: Profile
    version: int = 0
    schedule: Schedule | None = None


def weighted(published: Published, start: float, end: float) -> float:
    """Hours weighted by their busyness."""
    if end - start > 400.0:  # whole weeks have the mean weight
        weeks = math.floor((end - start) / 168.0) - 1
        return 168.0 * weeks + weighted(published, start, end - 168.0 * weeks)
    mean = sum(published.weights) / 168.0
    return math.fsum(published.weights[hour] * part for hour, part in pieces(start, end)) / mean


def set_weights(schedule: Schedule, published: Published) -> list[float]:
    return [weight_of(own + common) for own, common in zip(schedule.sets, published.sets, strict=True)]


def hour_weights(schedule: Schedule, published: Published) -> list[float]:
    return [weight_of(own + common) for own, common in zip(schedule.hours, published.hours, strict=True)]


def days_between(start: float, end: float, hour: float) -> frozenset[int]:
    """The days of the week with a time between the two at that time of day."""
    first, last = math.floor(start / 24.0), math.floor(end / 24.0)
    return frozenset(day % 7 for day in range(first, last + 1) if start < 24.0 * day + hour <= end)


def moments_of(hour: int, start: float, end: float) -> Iterator[tuple[float, float]]:
    """Times within an hour of the day, and the part of it that is equivalent with respect to start and end."""
    cuts = sorted({0.0, 1.0, *(min(max(at % 24.0 - hour, 0.0), 1.0) for at in (start, end))})
    for low, high in pairwise(cuts):
        yield hour + (low + high) / 2.0, high - low


@cache
def quiet_sets(met: frozenset[int]) -> list[float]:
    """For each set of days: the probability that none of its days in `met` had its update."""
    return [float((1.0 - page_schedules.CHANCE) ** len(days & met)) for days in SETS]


def empty_by_day(schedule: Schedule, published: Published, start: float, end: float) -> float:
    """The probability of no update by days and hour: the mean over every set and every hour."""
    sets = set_weights(schedule, published)
    weeks = math.floor((end - start) / 168.0)
    if weeks > 0:
        mean = math.fsum(w * quiet for w, quiet in zip(sets, quiet_sets(WEEK), strict=True)) / sum(sets)
        return mean * math.exp(max((weeks - 1) * math.log(1.0 - page_schedules.CHANCE), -700.0))
    hours = hour_weights(schedule, published)

    @cache
    def none(met: frozenset[int]) -> float:
        return math.fsum(w * quiet for w, quiet in zip(sets, quiet_sets(met), strict=True)) / sum(sets)

    total = 0.0
    for hour in range(24):
        for moment, part in moments_of(hour, start, end):
            total += hours[hour] * part * none(days_between(start, end, moment))
    return total / sum(hours)


def chance_by_hour(schedule: Schedule) -> float:
    yes, no = schedule.hours_updated / 16.0, schedule.hours_quiet / 16.0
    return (yes + 0.5) / (yes + no + 1.0)


def passes(part: int, start: float, end: float) -> float:
    """How often the quarter of the hour passed, the first and last in part."""
    passed = 0.0
    for hour in range(math.floor(start) - 1, math.floor(end) + 1):
        low, high = hour + part / 4.0, hour + part / 4.0 + 0.25
        passed += max(min(end, high) - max(start, low), 0.0) * 4.0
    return passed


def empty_if_part(schedule: Schedule, part: int, start: float, end: float) -> float:
    return math.exp(max(math.log(max(1.0 - chance_by_hour(schedule), 1e-9)) * passes(part, start, end), -700.0))


def empty_by_hour(schedule: Schedule, start: float, end: float) -> float:
    """The probability of no update at the page's quarter of each hour."""
    if end - start > 2_000.0:
        start = end - 2_000.0  # it makes no difference any more
    weights = [weight_of(misfit) for misfit in schedule.parts]
    none = [w * empty_if_part(schedule, part, start, end) for part, w in enumerate(weights)]
    return math.fsum(none) / sum(weights)


def own_factors(schedule: Schedule, published: Published) -> list[float]:
    """The updates in each hour of the week, relative to the mean."""
    sets, hours = set_weights(schedule, published), hour_weights(schedule, published)
    by_day = [max(math.fsum(w for w, days in zip(sets, SETS, strict=True) if day in days), 1.0) for day in range(7)]
    total = sum(by_day) * sum(hours)
    return [by_day[hour // 24] * hours[hour % 24] * 168.0 / total for hour in range(168)]


def model_weights(link: Link) -> tuple[float, float, float]:
    """The probabilities of the rate, the daily and the hourly schedule as the page's model."""
    if link.schedule is None:
        return 1.0, 0.0, 0.0
    odds = (
        1.0,
        link.profile.published[link.version].odds * math.exp(link.schedule.log_odds),
        math.exp(link.schedule.hourly_log_odds) / 99,
    )
    return odds[0] / sum(odds), odds[1] / sum(odds), odds[2] / sum(odds)


def by_rate(shape: float, exposure: float, cycles: float) -> float:
    return -math.expm1(-shape * math.log1p(min(cycles, 1e15) / exposure))


def terminals(link: Link, gamma: tuple[float, float], since_s: float, now: float, cycle_s: float) -> dict[str, float]:
    """`tau`, `rhythm` and `due` of a page whose posterior is Gamma of that shape and exposure."""
    start = local_hours(since_s)
    end = max(local_hours(now), start)
    published, schedule = link.profile.published[link.version], link.schedule
    rate, days, hours = model_weights(link)
    hour = math.floor(local_hours(now)) % 168
    tau = weighted(published, start, end)
    factor = published.weights[hour] * 168.0 / sum(published.weights)
    due = by_rate(*gamma, tau * HOUR / cycle_s)
    if schedule is not None:
        whole = 168.0 * max(math.floor((end - start) / 168.0) - 1, 0)
        factors = own_factors(schedule, published)
        own = whole + math.fsum(factors[h] * part for h, part in pieces(start, end - whole))
        tau = rate * tau + days * own + hours * (end - start)
        factor = rate * factor + days * factors[hour] + hours
        due = rate * due + days * (1.0 - empty_by_day(schedule, published, start, end))
        due += hours * (1.0 - empty_by_hour(schedule, start, end))
    return {"tau": min(tau * HOUR / cycle_s, 1e15), "rhythm": factor, "due": max(due, 0.0)}


def learn_schedule(
    schedule: Schedule,
    published: Published,
    span: tuple[float, float],
    changed: bool,
    predicted: float,
    seen: tuple[int, int],
) -> None:
    """Update a schedule by what a visit found of the hours of `span`; `seen`: the visits and changes so far."""
    start, end = span
    visits, changes = seen
    counted = (changes + 0.5) / (visits + 1.0)
    if not end > start:
        return
    if end - start <= 12.0:
        none = empty_by_hour(schedule, start, end)
        schedule.hourly_log_odds = mix_odds(schedule.hourly_log_odds + gain(none, predicted, changed))
        schedule.hourly_log_evidence += min(gain(none, rival, changed) for rival in (predicted, counted))
        fits = [empty_if_part(schedule, part, start, end) for part in range(4)]
        schedule.parts = lower(add_misfits(schedule.parts, fits, changed, cut=False))
        count_hours(schedule, end - start, changed, none, visits)
    none = empty_by_day(schedule, published, *span)
    schedule.log_odds = mix_odds(schedule.log_odds + gain(none, predicted, changed))
    schedule.log_evidence += min(gain(none, rival, changed) for rival in (predicted, counted))
    if end - start >= 168.0:
        return
    sets, hours = set_weights(schedule, published), hour_weights(schedule, published)
    all_sets, all_hours = sum(sets), sum(hours)
    by_set, by_hour, weights = np.zeros(128), [0.0] * 24, np.array(sets)
    for hour in range(24):
        for moment, part in moments_of(hour, start, end):
            quiet = np.array(quiet_sets(days_between(start, end, moment)))
            by_set += hours[hour] * part * quiet / all_hours
            by_hour[hour] += math.fsum(weights * part * quiet / all_sets)
    misfits = add_misfits(schedule.sets, by_set.tolist(), changed, cut=True)
    least = min(misfits[1:])
    schedule.sets = [0, *(one - (least if least > 32 else 0) for one in misfits[1:])]
    schedule.hours = lower(add_misfits(schedule.hours, by_hour, changed, cut=False))


def gain(empty: float, predicted: float, changed: bool) -> float:
    seen, said = min(max(1.0 - empty, 0.01), 0.99), min(max(predicted, 1e-6), 1.0 - 1e-6)
    return math.log(seen / said) if changed else math.log((1.0 - seen) / (1.0 - said))


def mix_odds(edge: float) -> float:
    """With probability 1/64 per visit, a page leaves its schedule or takes one up."""
    odds = math.exp(min(max(edge, -30.0), 30.0))
    return math.log((odds * 63 + 1) / (63 + odds))


def add_misfits(misfits: list[int], empty: list[float], changed: bool, *, cut: bool) -> list[int]:
    added = [one + misfit_of(1.0 - none if changed else none) for one, none in zip(misfits, empty, strict=True)]
    return [min(one, 255) for one in added] if cut else added


def lower(misfits: list[int]) -> list[int]:
    """Subtract the least misfit."""
    return [min(one - min(misfits), 255) for one in misfits]


def count_hours(schedule: Schedule, hours: float, changed: bool, empty: float, visits: int) -> None:
    dither = visits * 0.6180339887498949 % 1.0
    had = min(chance_by_hour(schedule) * hours / max(1.0 - empty, 1e-9), max(hours, 1.0)) if changed else 0.0
    yes = schedule.hours_updated + int(16.0 * had + dither)
    no = schedule.hours_quiet + int(16.0 * max(hours - had, 0.0) + dither)
    while max(yes, no) > 255:
        yes, no = yes // 2, no // 2
    schedule.hours_updated, schedule.hours_quiet = yes, no


def note_change(schedule: Schedule, at_s: float, step: float) -> None:
    """Record the gap between two changes seen."""
    now_s = int(min(max(at_s, 0.0), 2**32 - 1))
    if schedule.first_change_s == 0:
        schedule.first_change_s = schedule.last_change_s = now_s
        return
    schedule.gaps.append((min(max(at_s, 0.0), 2**32 - 1.0) - schedule.last_change_s) / HOUR)
    schedule.steps.append(step)
    schedule.last_change_s = now_s


def count_near(schedule: Schedule, hours: float) -> int:
    """The number of gaps of `hours`, to within the interval between two visits, if that is short enough to tell."""
    most = 1.0 if hours == 1.0 else hours / 2
    return sum(abs(gap - hours) <= step <= most for gap, step in zip(schedule.gaps, schedule.steps, strict=True))


def utc(year: int, month: int, day: int, hour: int = 0) -> float:
    """Epoch seconds."""
    return (datetime(year, month, day, hour, tzinfo=UTC) - EPOCH) / timedelta(seconds=1)
