"""Change processes of a synthetic corpus, a function for each kind of pages.

Each function returns the changes of its pages in any order: ``pages``: int64[m] and ``seconds``: int64[m] since the
start of the log. Seconds may lie outside the log, because local days overlap its ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import numpy as np

from streamsched.numerics.arrays import Bools, Floats, Ints
from streamsched.replay.synthetic.sites import Sites
from streamsched.replay.synthetic.synthetic_settings import KINDS, SyntheticSettings

__all__ = ["CHANGE_PROCESSES", "Changes", "draw_bulk_edits", "draw_rates"]

Changes: TypeAlias = tuple[Ints, Ints]
ChangeProcess: TypeAlias = Callable[[SyntheticSettings, Sites, Ints, np.random.Generator], Changes]

_DAY_S: Final = 86_400
_HOUR_S: Final = 3_600
_WORKING_DAYS: Final = 5
_SETTLING_DAYS: Final = 56  # before the log, so that stretches are of any age on its first day
_THURSDAY: Final = 3  # counted from Monday: the weekday of epoch 0


def draw_rates(settings: SyntheticSettings, sites: Sites, pages: Ints, rng: np.random.Generator) -> Floats:
    """Return changes a day of Poisson pages: float64[k], a mixture over hosts, prefixes and pages. O(k + hosts)."""
    spread = settings.host_spread
    hosts = np.exp(spread * rng.standard_normal(int(sites.host[-1]) + 1) - spread**2 / 2)
    prefixes = hosts[sites.host] * _draw_factors(settings.prefix_shape, sites.host.size, rng)
    return settings.rate_per_day * prefixes[sites.prefix[pages]] * _draw_factors(settings.page_shape, pages.size, rng)


def _draw_poisson(settings: SyntheticSettings, sites: Sites, pages: Ints, rng: np.random.Generator) -> Changes:
    rates = draw_rates(settings, sites, pages, rng)
    changed = np.repeat(pages, rng.poisson(rates * settings.days))
    return changed, rng.integers(0, settings.span_s, changed.size)


def _draw_weekday(settings: SyntheticSettings, sites: Sites, pages: Ints, rng: np.random.Generator) -> Changes:
    prefixes = sites.host.size
    working = _choose_weekdays(settings, prefixes, rng)
    fixed = rng.random(prefixes) < settings.fixed_hour_share
    minute = _draw_minutes(settings, prefixes, rng)
    days = _local_days(settings)
    open_days = working[:, _weekdays(days)]
    row, column = np.nonzero(open_days[sites.prefix[pages]])
    kept = rng.random(row.size, np.float32) < settings.weekday_chance
    row, column = row[kept], column[kept]
    prefix = sites.prefix[pages[row]]
    begin, end = (int(hour * _HOUR_S) for hour in settings.office_hours)
    second = np.where(
        fixed[prefix], minute[prefix] + _draw_delays(settings, row.size, rng), rng.integers(begin, end, row.size)
    )
    return pages[row], _since_start(settings, days[column], second)


def _draw_clock(settings: SyntheticSettings, sites: Sites, pages: Ints, rng: np.random.Generator) -> Changes:
    prefixes = sites.host.size
    hourly = rng.random(prefixes) < settings.hourly_share
    minute = _draw_minutes(settings, prefixes, rng)[sites.prefix[pages]]
    often = np.where(hourly[sites.prefix[pages]], 24, 1)
    days = _local_days(settings)
    updates = often * days.size
    row = np.repeat(np.arange(pages.size), updates)
    number = np.arange(row.size) - np.repeat(np.cumsum(updates) - updates, updates)
    kept = rng.random(row.size, np.float32) < settings.clock_chance
    row, number = row[kept], number[kept]
    hours = number % often[row] * _HOUR_S
    start = np.where(often[row] == 1, minute[row], minute[row] % _HOUR_S)
    second = start + hours + _draw_delays(settings, row.size, rng)
    return pages[row], _since_start(settings, days[number // often[row]], second)


def _draw_bursty(settings: SyntheticSettings, sites: Sites, pages: Ints, rng: np.random.Generator) -> Changes:
    del sites  # bursts of pages are independent
    states = _draw_bursts(settings, pages.size, rng)
    row, day = np.nonzero(states)
    counts = rng.poisson(settings.burst_rate, row.size)
    row, day = np.repeat(row, counts), np.repeat(day, counts)
    return pages[row], day * _DAY_S + rng.integers(0, _DAY_S, row.size)


def _draw_bursts(settings: SyntheticSettings, count: int, rng: np.random.Generator) -> Bools:
    """Return the days on which each of `count` pages is in a burst: bool[count, days]. O(count · days)."""
    states = np.empty((count, settings.days), np.bool_)
    state = rng.random(count) < settings.burst_days / (settings.burst_days + settings.quiet_days)
    left = _draw_lengths(settings, state, rng)
    for day in range(-_SETTLING_DAYS, settings.days):
        if day >= 0:
            states[:, day] = state
        left -= 1
        over = left == 0
        state = state ^ over
        left[over] = _draw_lengths(settings, state[over], rng)
    return states


def _draw_lengths(settings: SyntheticSettings, bursts: Bools, rng: np.random.Generator) -> Ints:
    """Return the length of each burst or quiet stretch in days, 1 or more: int64[n]."""
    more = np.where(bursts, settings.burst_days, settings.quiet_days) - 1
    lengths = more * _draw_factors(settings.burst_regularity, bursts.size, rng)
    return 1 + np.floor(lengths + rng.random(bursts.size)).astype(np.int64)


def draw_bulk_edits(settings: SyntheticSettings, sites: Sites, rng: np.random.Generator) -> Changes:
    """Return the changes by edits of whole prefixes at random times. O(changes)."""
    alive = np.flatnonzero(sites.kind != KINDS.index("dead"))
    edits = np.repeat(alive, rng.poisson(settings.bulk_edits_per_day * settings.days, alive.size))
    begin = rng.integers(0, settings.span_s, edits.size)
    sizes = np.diff(sites.offsets)[edits]
    edit = np.repeat(np.arange(edits.size), sizes)
    page = np.arange(edit.size) - np.repeat(np.cumsum(sizes) - sizes, sizes) + sites.offsets[edits][edit]
    kept = rng.random(edit.size) < settings.bulk_reach
    return page[kept], begin[edit[kept]] + rng.integers(0, settings.bulk_s + 1, np.count_nonzero(kept))


def _choose_weekdays(settings: SyntheticSettings, prefixes: int, rng: np.random.Generator) -> Bools:
    """Return the working days of each prefix, from Monday: bool[prefixes, 7]."""
    order = rng.random((prefixes, _WORKING_DAYS)).argsort(axis=1)
    few = order < rng.integers(1, 4, prefixes)[:, None]
    office = rng.random(prefixes) < settings.office_share
    weekend = np.zeros((prefixes, 7 - _WORKING_DAYS), np.bool_)
    return np.concatenate([few | office[:, None], weekend], axis=1)


def _draw_minutes(settings: SyntheticSettings, prefixes: int, rng: np.random.Generator) -> Ints:
    """Return a minute of the day for each prefix, in seconds; no delay crosses midnight: int64[prefixes]."""
    return rng.integers(0, (_DAY_S - settings.jitter_s) // 60, prefixes) * 60


def _draw_delays(settings: SyntheticSettings, count: int, rng: np.random.Generator) -> Ints:
    return rng.integers(0, int(settings.jitter_s) + 1, count)


def _local_days(settings: SyntheticSettings) -> Ints:
    """Return all local days that overlap the log, as days since epoch 0: int64[days + 2]."""
    first = int(settings.start_s + settings.zone_hours * _HOUR_S) // _DAY_S
    return np.arange(first, first + settings.days + 2)


def _weekdays(days: Ints) -> Ints:
    """Return the weekday of each of `days` since epoch 0, counted from Monday."""
    return (days + _THURSDAY) % 7


def _since_start(settings: SyntheticSettings, days: Ints, seconds: Ints) -> Ints:
    """Return `seconds` of local `days` as seconds since the start of the log."""
    return days * _DAY_S + seconds - int(settings.zone_hours * _HOUR_S) - int(settings.start_s)


def _draw_factors(shape: float, count: int, rng: np.random.Generator) -> Floats:
    """Return `count` gamma factors of mean 1: float64[count]; larger shapes vary less."""
    return rng.gamma(shape, 1 / shape, count)


CHANGE_PROCESSES: Final[Mapping[str, ChangeProcess]] = {
    "poisson": _draw_poisson,
    "weekday": _draw_weekday,
    "clock": _draw_clock,
    "bursty": _draw_bursty,
}
"""Change process of each kind of pages; dead pages do not change."""
