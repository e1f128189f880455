"""Synthetic change logs of any size: realistic sites, and pages that change by known processes.

Sites are hosts with prefixes of pages. Each kind of pages has a change process, a function that returns the changes of
its pages in any order: ``pages``: int64[m] and ``seconds``: int64[m] since the start of the log. Seconds may lie
outside the log, because local days overlap its ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from streamsched.numerics.argument_checks import check_whole
from streamsched.numerics.arrays import Bools, Bytes, Floats, Ints
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.replay.ground_truth import ChangeLog
from streamsched.replay.synthetic_settings import KINDS, SyntheticSettings

_WORDS: Final = b"newsblogshopdocsteamwikilisttags"  # words of prefixes, all of ...
_WORD_BYTES: Final = 4  # ... equal length, so that all URLs have equal length


@dataclass(frozen=True, slots=True, eq=False)
class Sites:
    """Sites of n pages: neighbouring pages share p prefixes, neighbouring prefixes share h hosts.

    ``prefix``: int64[n], the prefix of each page, ascending; ``offsets``: int64[p + 1], the pages of prefix i are
    ``offsets[i]`` to ``offsets[i + 1]``; ``host``: int64[p], the host of each prefix, ascending; ``kind``: int64[p],
    the index in `KINDS` of its pages.
    """

    prefix: Ints
    offsets: Ints
    host: Ints
    kind: Ints

    def kinds(self) -> Ints:
        """Return the kind of each page: int64[n]. O(n)."""
        return self.kind[self.prefix]

    def pages(self, kind: str) -> Ints:
        """Return the pages of a kind: int64[k], ascending. O(n)."""
        return np.flatnonzero(self.kinds() == KINDS.index(kind))


def draw_sites(settings: SyntheticSettings, rng: np.random.Generator) -> Sites:
    """Return hosts with Pareto distributed sizes, divided into prefixes with one kind each. O(pages)."""
    begins_host = np.zeros(settings.pages, np.bool_)
    begins_host[_first_pages(settings, rng)] = True
    begins = begins_host | (rng.random(settings.pages) < 1 / settings.pages_per_prefix)
    starts = np.flatnonzero(begins)
    host = np.cumsum(begins_host)[starts] - 1
    offsets = np.append(starts, settings.pages)
    return Sites(np.cumsum(begins) - 1, offsets, host, _assign_kinds(settings, offsets, host, rng))


def _first_pages(settings: SyntheticSettings, rng: np.random.Generator) -> Ints:
    """Return the first page of each host: int64[h]; every host has at least one page."""
    hosts = min(settings.hosts, settings.pages)
    weights = (1 - rng.random(hosts)) ** (-1 / settings.host_tail)
    ends = np.cumsum(weights) / weights.sum()
    return np.asarray(np.arange(hosts) + np.floor(np.append(0.0, ends[:-1]) * (settings.pages - hosts)), np.int64)


def _assign_kinds(settings: SyntheticSettings, offsets: Ints, host: Ints, rng: np.random.Generator) -> Ints:
    """Return a kind for each prefix: int64[p]. O(p log p).

    Prefixes are put in random order, and their pages are divided by the shares of the kinds, which are exact to within
    a prefix. Prefixes that follow their host are adjacent and so have one kind.
    """
    own = rng.random(host.size)
    place = np.where(rng.random(host.size) < settings.host_accord, rng.random(settings.pages)[host], own)
    line = np.argsort(place, kind="stable")
    sizes = np.diff(offsets)[line]
    middles = (np.cumsum(sizes) - sizes / 2) / settings.pages
    kind = np.empty(host.size, np.int64)
    kind[line] = np.minimum(np.searchsorted(np.cumsum(settings.shares), middles, "right"), _last_kind(settings))
    return kind


def _last_kind(settings: SyntheticSettings) -> int:
    """Return the last kind with a share, which gets the rest if rounding leaves the sum of the shares below 1."""
    return max(place for place, share in enumerate(settings.shares) if share > 0)


def make_urls(settings: SyntheticSettings, sites: Sites, rng: np.random.Generator) -> PackedUrls:
    """Return the pages' URLs, such as ``https://site0000.example/news-00/0000.html``, all of one length. O(bytes).

    Numbers count hosts, the prefixes of a host and the pages of a prefix.
    """
    pages = np.arange(settings.pages)
    host = sites.host[sites.prefix]
    prefixes = np.arange(sites.host.size) - np.searchsorted(sites.host, sites.host)
    words = np.frombuffer(_WORDS, np.uint8).reshape(-1, _WORD_BYTES)
    columns = (
        _repeat(b"https://site", settings.pages),
        _format_digits(host),
        _repeat(f".{settings.domain}/".encode(), settings.pages),
        words[rng.integers(0, len(words), sites.host.size)][sites.prefix],
        _repeat(b"-", settings.pages),
        _format_digits(prefixes)[sites.prefix],
        _repeat(b"/", settings.pages),
        _format_digits(pages - sites.offsets[sites.prefix]),
        _repeat(b".html", settings.pages),
    )
    text = np.concatenate(columns, axis=1)
    return PackedUrls(text.ravel(), np.arange(settings.pages + 1) * text.shape[1])


def _repeat(text: bytes, count: int) -> Bytes:
    """Return `text` in each of `count` rows: uint8[count, bytes]."""
    return np.broadcast_to(np.frombuffer(text, np.uint8), (count, len(text)))


def _format_digits(numbers: Ints) -> Bytes:
    """Return whole numbers from 0 in decimal, padded to the length of the largest: uint8[n, digits].

    >>> _format_digits(np.array([7, 120])).tobytes()
    b'007120'
    """
    width = len(str(int(numbers.max())))
    return (48 + numbers[:, None] // 10 ** np.arange(width - 1, -1, -1) % 10).astype(np.uint8)


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


_SECOND_BITS: Final = 31  # bits of the second in a sort key, which holds page and second in one int64


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticCorpus:
    """A log of n pages, and their sites and kinds, which the log does not contain."""

    log: ChangeLog
    sites: Sites


def synthesize(settings: SyntheticSettings, seed: int = 0) -> ChangeLog:
    """Return the log of a corpus with these `settings`; the same seed gives the same bytes.

    All pages exist from ``start_s`` to the end, ``days`` later, and changes lie between the two at whole seconds, at
    most one per page and second. The last change is moved to the very end, so that the extent of the log includes its
    last day. O(changes log changes): a few seconds and 1 GB for 417,000 pages and 57 days.

    >>> log = synthesize(SyntheticSettings(pages=50, days=3), seed=7)
    >>> len(log.urls), log.last_s - log.first_s
    (50, 259200.0)
    """
    return synthesize_corpus(settings, seed).log


def synthesize_corpus(settings: SyntheticSettings, seed: int = 0) -> SyntheticCorpus:
    """Return the log of `synthesize` with its sites and kinds, at the same cost."""
    seed = check_whole("seed", seed, 0, "a whole number of 0 or more")
    streams = [np.random.default_rng(stream) for stream in np.random.SeedSequence(seed).spawn(3 + len(KINDS))]
    sites = draw_sites(settings, streams[0])
    urls = make_urls(settings, sites, streams[1])
    drawn = [draw_bulk_edits(settings, sites, streams[2])]
    for kind, stream in zip(KINDS, streams[3:], strict=True):
        pages = sites.pages(kind)
        if kind in CHANGE_PROCESSES and pages.size:
            drawn.append(CHANGE_PROCESSES[kind](settings, sites, pages, stream))
    pages, seconds = _sort_changes(settings, drawn)
    times_s = np.asarray(settings.start_s + seconds, np.float64)
    offsets = np.zeros(settings.pages + 1, np.int64)
    np.cumsum(np.bincount(pages, minlength=settings.pages), out=offsets[1:])
    end_s = float(times_s.max())
    gone = np.zeros(times_s.size, np.bool_)
    return SyntheticCorpus(ChangeLog(urls, times_s, offsets, gone, None, float(settings.start_s), end_s), sites)


def _sort_changes(settings: SyntheticSettings, drawn: list[Changes]) -> Changes:
    """Return the drawn changes within the log by page and time, without duplicates, and a change at 0 for each page."""
    keys = [np.arange(settings.pages) << _SECOND_BITS]
    for pages, seconds in drawn:
        within = (seconds > 0) & (seconds < settings.span_s)
        keys.append(pages[within] << _SECOND_BITS | seconds[within])
    key = np.concatenate(keys)
    key.sort()
    key = key[np.append(True, key[1:] != key[:-1])]
    pages, seconds = key >> _SECOND_BITS, key & (1 << _SECOND_BITS) - 1
    last = int(np.argmax(seconds))
    if seconds[last] > 0:
        seconds[last] = settings.span_s
    return pages, seconds
