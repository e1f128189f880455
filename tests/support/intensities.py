"""Pages that change by intensities that are known, seen by visits at random times, and how well anyone could tell.

Of an interval between two visits a crawler learns whether there was a change. With counts e of the hours of the week in
it and factors f, that has the probability 1 - exp(-r e.f), so all visits together know about f the Fisher information
sum r² e e' / (exp(r e.f) - 1); the inverse of that is the least variance of any unbiased estimate (Cramér and Rao).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from streamsched.numerics.arrays import Bools, Floats, Ints
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import OutcomeBatch
from streamsched.records.seasonality_schema import WEEK_HOURS
from streamsched.scheduler.scheduler import Scheduler

HOUR = 3_600.0
MONDAY_S = 1_704_067_200.0  # 2024-01-01
DAYS = np.kron(np.eye(7), np.full(24, 1 / 24))  # float64[7, 168]: means of the days of the week, and ...
TIMES = np.kron(np.full(7, 1 / 7), np.eye(24))  # ... float64[24, 168]: of the hours of the day
HOURS = np.eye(WEEK_HOURS)
_CIRCLE = np.exp(2j * np.pi * np.arange(24) / 24)


def office() -> Floats:
    """Five times as busy from 8 to 18 on working days, of mean 1."""
    hours = np.arange(WEEK_HOURS)
    busy = np.where((hours % 24 >= 8) & (hours % 24 < 18) & (hours // 24 < 5), 3.0, 0.6)
    return np.asarray(busy / busy.mean())


def tides() -> Floats:
    """A wave over the day, weaker at the end of the week, of mean 1."""
    hours = np.arange(WEEK_HOURS)
    days = np.array([1.2, 1.5, 1.3, 1.1, 0.9, 0.5, 0.5])[hours // 24]
    wave = days * (1.0 + 0.8 * np.sin(2 * np.pi * (hours % 24 - 8) / 24))
    return np.asarray(wave / wave.mean())


def hours_before(factors: Floats, hours: Floats) -> Floats:
    """How many hours, each weighted by its factor, have passed since the first Monday."""
    sums = np.concatenate([[0.0], np.cumsum(factors)])
    weeks, hour = np.divmod(hours, WEEK_HOURS)
    place = np.minimum(hour.astype(np.int64), WEEK_HOURS - 1)
    return np.asarray(weeks * sums[-1] + sums[place] + (hour - place) * factors[place])


@dataclass
class Visits:
    """Visits in the order of their times: whose, at which hour, after which other one (NaN: none), what they saw."""

    page: Ints
    at: Floats
    since: Floats
    changed: Bools

    def batch(self, urls: PackedUrls, start_s: float = MONDAY_S) -> OutcomeBatch:
        return OutcomeBatch(urls.take(self.page), start_s + self.at * HOUR, changed=self.changed)


def merge(parts: Sequence[tuple[Visits, PackedUrls]], start_s: float = MONDAY_S) -> OutcomeBatch:
    """What was seen of all their pages, in the order of the visits' times."""
    at = np.concatenate([visits.at for visits, _ in parts])
    changed = np.concatenate([visits.changed for visits, _ in parts])
    urls = [url for visits, names in parts for url in names.take(visits.page)]
    order = np.argsort(at, kind="stable")
    return OutcomeBatch(PackedUrls.pack(urls).take(order), start_s + at[order] * HOUR, changed=changed[order])


class Clock(NamedTuple):
    """How many hours a clock is ahead, and from an hour on."""

    ahead: float = 0.0
    until: float = np.inf
    then: float = 0.0

    def before(self, factors: Floats, hours: Floats) -> Floats:
        """`hours_before`, by this clock: hours that it leaves out or shows twice are not lived, or lived twice."""
        first = hours_before(factors, np.minimum(hours, self.until) + self.ahead)
        if not np.isfinite(self.until):
            return first
        edge = hours_before(factors, np.array([self.until + self.then]))
        return np.asarray(first + hours_before(factors, np.maximum(hours, self.until) + self.then) - edge)


UTC_CLOCK = Clock()


def visit(
    rng: np.random.Generator,
    factors: Floats,
    per_day: Floats,
    every_h: Floats,
    *,
    weeks: int = 8,
    clock: Clock = UTC_CLOCK,
) -> Visits:
    """Visits to n pages, ``every_h`` apart on average, which change ``per_day`` times, by `factors` and `clock`."""
    pages, times, since, seen = [], [], [], []
    for row, (rate, gap) in enumerate(zip(per_day.tolist(), every_h.tolist(), strict=True)):
        at = np.cumsum(rng.exponential(gap, int(1.5 * weeks * WEEK_HOURS / gap) + 20))
        at = np.concatenate([[rng.uniform(0.0, 1.0)], 1.0 + at[at < weeks * WEEK_HOURS - 1]])
        weighted = np.diff(clock.before(factors, at))
        changed = rng.random(weighted.size) < -np.expm1(-rate / 24 * weighted)
        pages.append(np.full(at.size, row))
        times.append(at)
        since.append(np.concatenate([[np.nan], at[:-1]]))
        seen.append(np.concatenate([[False], changed]))
    order = np.argsort(np.concatenate(times), kind="stable")
    page, changed = np.concatenate(pages)[order], np.concatenate(seen)[order]
    return Visits(page, np.concatenate(times)[order], np.concatenate(since)[order], changed)


def least_variance(visits: Visits, factors: Floats, per_day: Floats, clock: Clock = UTC_CLOCK) -> Floats:
    """The covariance of the best unbiased estimate of factors of mean 1: float64[168, 168].

    By every eighth visit, for eight each.
    """
    known = np.flatnonzero(~np.isnan(visits.since) & (visits.at - visits.since <= WEEK_HOURS))[::8]
    begin, end = visits.since[known], visits.at[known]
    hours = np.stack([clock.before(hour, end) - clock.before(hour, begin) for hour in HOURS], axis=1)
    rate = per_day[visits.page[known]] / 24
    weight = 8.0 * rate * rate / np.expm1(rate * (hours @ factors))
    scaled = np.eye(WEEK_HOURS) - np.outer(factors, np.ones(WEEK_HOURS)) / WEEK_HOURS  # so that the mean is 1
    return np.asarray(scaled @ np.linalg.inv((hours * weight[:, None]).T @ hours) @ scaled.T)


def phase(factors: Floats) -> float:
    """At what time of the day pages are busiest, by the mean of all times as points of a circle: hours."""
    return float(np.angle(TIMES @ factors @ _CIRCLE) * 24 / (2 * np.pi))


def phase_error(factors: Floats, least: Floats) -> float:
    """The standard error of the phase of factors that vary so."""
    centre = TIMES @ factors @ _CIRCLE
    slope = np.imag(np.conj(centre) * (TIMES.T @ _CIRCLE)) / np.abs(centre) ** 2 * 24 / (2 * np.pi)
    return float(np.sqrt(slope @ least @ slope))


def size(values: Floats) -> float:
    return float(np.sqrt(np.mean(values * values)))


def published(scheduler: Scheduler, number: int) -> Floats:
    """The factors that a profile has published last: float64[168]."""
    shard = scheduler.core.pages.arrays
    age = int(shard.corpus["sweep"][0]) & 1
    result = shard.seasonality.profiles["cumulative"][number].reshape(2, -1)[age].astype(np.float64)
    return np.asarray(np.diff(result) * WEEK_HOURS / result[-1])
