"""Examining pages: those that may be needed soon go into the pool, the others get certificates.

A page's line is the level above which it belongs to the pool: that of the ranking, or the floor of its host if that is
higher. A certificate is sought that lasts until the page is about to reach its line, or three quarters of the way there
for a page far below: then a line that is lowered later leaves most certificates as they are.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple, TypeVar

import numpy as np

from streamsched.formula.formula import Formula
from streamsched.formula.terminals import linked_context
from streamsched.numerics.arrays import Floats, Hashes, Ints, Record
from streamsched.numerics.compilation.machine_operations import prefetch
from streamsched.numerics.jit import bare_kernel, inlined_kernel, mix
from streamsched.politeness.eligibility import page_not_before
from streamsched.politeness.limits import overdue_at
from streamsched.ranking.certificates import (
    BELOW_FLOOR,
    CHUNK,
    FOLLOWING,
    POOLED,
    Certificates,
    Singles,
    round_up,
    set_certificate,
)
from streamsched.ranking.line_control import Line, level_of
from streamsched.ranking.page_scorer import (
    LANES,
    PageScorer,
    bound_block,
    bound_lanes,
    gather_lane,
    make_page_scorer,
    move_lane,
    score_lanes,
)
from streamsched.records.schema import ShardArrays

Result = TypeVar("Result")

_PREFETCH_AHEAD: Final = 12  # pages
_TRIES: Final = 3  # ends tried for a certificate, each nearer than the one before
_SURE: Final = 0.97  # of the way to where a page is expected to meet its line
_PART: Final = 0.75  # of the way that a page far below its line may go before it is examined again
_FALL: Final = 0.5  # of that way that the line may fall: below it pages lie closer, as a rule, and hold it up
_FIRST_STEPS: Final = 64.0  # ahead at first if nothing is known
_LEAP: Final = 16.0  # the next end tried is at least as far ahead as one part in this many of the one before
_FEWEST_ROWS: Final = 4096  # fewer are examined faster than another thread wakes up


class RankingArrays(NamedTuple):
    """A shard and a ranking of its pages, as kernels read them."""

    shard: ShardArrays
    certificates: Certificates
    floors: Singles  # float32[groups]: see `host_floors`
    scorer: PageScorer


class Found(NamedTuple):
    """Pages of the pool with what orders them: int64[m], float64[m], float64[m], float64[m], uint64[m]."""

    rows: Ints
    scores: Floats
    levels: Floats
    overdue_s: Floats
    ties: Hashes


def _make_found(size: int) -> Found:
    """Return room for `size` pages."""
    return Found(np.empty(size, np.int64), np.empty(size), np.empty(size), np.empty(size), np.empty(size, np.uint64))


@bare_kernel
def examine(ranking: RankingArrays, rows: Ints, line: Line, found: Found, scored: bool) -> int:
    """Pool those of ``rows``: int64[m] that reach their line, into `found`, and certify the others; return how many.

    `scored`: the bounds are about the scores; pages that would be pooled are left without certificate, and one end is
    tried for each of the others. O(m). Chunks are left to `summarise`.
    """
    scorer, count = ranking.scorer, 0
    for start in range(0, rows.size, LANES):
        lanes = _admit(ranking, rows[start : start + LANES], line, scored)
        if not scored:
            score_lanes(scorer, ranking.shard, lanes, line.now, line.cycle_s)
        for lane in range(lanes - 1, -1, -1):
            overdue_s = overdue_at(scorer.pages[lane], line.limits)
            level = level_of(scorer.scores[lane], overdue_s, line)
            if round_up(level) >= _line_of(ranking, lane, line):
                count = _pool(ranking, lane, line, found, count, scored)
            elif overdue_s > line.now:
                continue
            else:
                _keep(ranking, scorer.rows[lane], level, np.inf, line)
            lanes -= 1
            move_lane(scorer, lanes, lane)
        for lane in range(_certify(ranking, lanes, line, 1 if scored else _TRIES)):
            count = _pool(ranking, lane, line, found, count, scored)
    return count


@inlined_kernel
def _prefetch(ranking: RankingArrays, rows: Ints, i: int) -> None:
    """Prefetch what is read of the page of ``rows[i]``, if there is one."""
    if i < rows.size:
        prefetch(ranking.shard.pages.records, rows[i])
        prefetch(ranking.certificates.tick, rows[i])
        prefetch(ranking.certificates.bound, rows[i])
        if ranking.scorer.linked:
            prefetch(ranking.shard.seasonality.links, rows[i])


@bare_kernel
def _admit(ranking: RankingArrays, rows: Ints, line: Line, scored: bool) -> int:
    """Gather the ranked and eligible pages of at most LANES rows, and certify the others; return how many lanes."""
    lanes = 0
    for i in range(rows.size):
        _prefetch(ranking, rows, i + _PREFETCH_AHEAD)
        if not _waits(ranking, rows[i], line):
            gather_lane(ranking.scorer, ranking.shard, lanes, rows[i])
            if scored:
                ranking.scorer.scores[lanes] = ranking.certificates.bound[rows[i]]
            lanes += 1
    return lanes


@inlined_kernel
def _waits(ranking: RankingArrays, row: int, line: Line) -> bool:
    """Return whether a page is not ranked or not eligible now, and certify it if so."""
    shard, certificates = ranking.shard, ranking.certificates
    ready_s = np.inf
    if (np.int64(shard.pages.records[row].flags) & certificates.mask) == certificates.want:
        ready_s = page_not_before(shard.pages, row, line.limits, line.now)
    if ready_s <= line.now:
        return False
    if not set_certificate(certificates, row, np.nan, ready_s, line.now):
        certificates.tick[row], certificates.bound[row] = 0, np.float32(np.nan)
    return True


@inlined_kernel
def _line_of(ranking: RankingArrays, lane: int, line: Line) -> float:
    """Return the line of a lane's page."""
    if ranking.floors.size == 0:
        return line.level
    group: Record = ranking.shard.groups.records[ranking.scorer.pages[lane].group]
    return max(line.level, float(ranking.floors[group.host]))


@inlined_kernel
def _pool(ranking: RankingArrays, lane: int, line: Line, found: Found, count: int, scored: bool) -> int:
    """Add a lane's page to the pool, or only count it if `scored`; return the new number of pages in `found`."""
    scorer, certificates = ranking.scorer, ranking.certificates
    row, overdue_s = scorer.rows[lane], overdue_at(scorer.pages[lane], line.limits)
    if scored:
        certificates.tick[row], certificates.bound[row] = 0, np.float32(np.nan)
        return count + 1
    found.rows[count], found.scores[count] = row, scorer.scores[lane]
    found.levels[count] = level_of(scorer.scores[lane], overdue_s, line)
    found.overdue_s[count] = overdue_s if overdue_s <= line.now else np.inf
    found.ties[count] = mix(scorer.pages[lane].url_hash ^ line.salt)
    certificates.tick[row], certificates.bound[row] = POOLED, np.float32(np.nan)
    return count + 1


@inlined_kernel
def _keep(ranking: RankingArrays, row: int, bound: float, until_s: float, line: Line) -> bool:
    """Set a certificate, below its host's floor if it may be above the line; return False if it is too short."""
    if not set_certificate(ranking.certificates, row, bound, until_s, line.now):
        return False
    if bound >= line.level:
        ranking.certificates.tick[row] |= np.uint16(BELOW_FLOOR)
    return True


@bare_kernel
def _certify(ranking: RankingArrays, lanes: int, line: Line, tries: int) -> int:
    """Certify the pages of the first lanes; return how many are left without certificate, in the first lanes then."""
    scorer = ranking.scorer
    for lane in range(lanes):
        way = _line_of(ranking, lane, line) - scorer.scores[lane]
        scorer.ends[lane] = _first_end(scorer.pages[lane], scorer.rows[lane], way, scorer.scores[lane], line)
    for i in range(tries):
        if lanes == 0:
            break
        bound_lanes(scorer, ranking.shard, lanes, line.since, line.cycle_s)
        left = 0
        for lane in range(lanes):
            end_s, bound = scorer.ends[lane], scorer.bounds[lane]
            ahead_s, level = end_s - line.now, _line_of(ranking, lane, line)
            way = level - scorer.scores[lane]
            fits = i + 1 == tries or bound <= level - max(min(line.fall * ahead_s, _FALL * way), _margin(way, line))
            if not (fits and round_up(bound) < level and _keep(ranking, scorer.rows[lane], bound, end_s, line)):
                meeting_s = _meeting(way, (bound - scorer.scores[lane]) / ahead_s, line)
                ahead_s = min(max(meeting_s, ahead_s / _LEAP), 0.5 * ahead_s)
                move_lane(scorer, lane, left)
                scorer.ends[left] = _end_after(scorer.pages[left], scorer.rows[left], ahead_s, line)
                left += 1
        lanes = left
    return lanes


@inlined_kernel
def _first_end(page: Record, row: int, way: float, score: float, line: Line) -> float:
    """Return the first end to try for a page that is `way` below its line, as if scores rose in proportion to ages."""
    age_s = line.now - page.last_visit_s
    rise = score / age_s if score > 0.0 < age_s else 0.0
    ahead_s = _meeting(way, rise, line) if 0.0 < rise < np.inf else _FIRST_STEPS * line.step_s
    return _end_after(page, row, max(ahead_s, line.step_s), line)


@inlined_kernel
def _end_after(page: Record, row: int, ahead_s: float, line: Line) -> float:
    """Return the time `ahead_s` from now, or earlier if that is too far or the page is overdue before."""
    part = float(np.int64(mix(np.uint64(row // CHUNK)) >> np.uint64(11))) * 2.0**-54  # neighbours end together
    ahead_s = min(ahead_s, (1.0 - part) * line.horizon_s)
    return min(line.now + ahead_s, overdue_at(page, line.limits))


@inlined_kernel
def _margin(way: float, line: Line) -> float:
    """Return how far below its line a page's bound should be: nothing near the line, a part of the way far from it."""
    far = way - line.gap
    return (1.0 - _PART) * far if 0.0 < far < np.inf else 0.0


@inlined_kernel
def _meeting(way: float, rise: float, line: Line) -> float:
    """Return in how many seconds a page `way` below its line that rises by `rise` a second is about to meet it."""
    if not rise > 0.0:
        return np.inf
    falling_s = way / min(rise + line.fall, rise / (1.0 - _FALL))
    return _SURE * min(falling_s, (way - _margin(way, line)) / rise)


@bare_kernel
def certify_rows(ranking: RankingArrays, first: int, last: int, line: Line) -> None:
    """Certify the pages from row `first` to before `last`, and summarise their chunks, which must begin at `first`.

    The bounds are about the scores. Pages that follow others stay as they are. One end is tried for each of the others;
    where it is of no use, or the page is overdue, the page is left without certificate unless it waits. O(m), three
    fifths of what `examine` takes: pages are read where they are, and no host has a floor.
    """
    shard, certificates, scorer = ranking.shard, ranking.certificates, ranking.scorer
    soonest, peak = np.uint16(POOLED), np.float32(np.nan)  # of the chunk so far
    for start in range(first, last, LANES):
        pages, links = shard.pages.records[start : min(start + LANES, last)], shard.seasonality.links[start:last]
        for i in range(pages.size):
            score = float(certificates.bound[start + i])
            scorer.ends[i] = _first_end(pages[i], start + i, line.level - score, score, line)
        context = linked_context(shard, links[: pages.size], shard.pages.signals[start : start + pages.size])
        traces = shard.pages.traces[start : start + pages.size]
        bound_block(scorer, pages, traces, context, line.since, line.cycle_s)
        for i in range(pages.size):
            row, end_s, bound = start + i, scorer.ends[i], scorer.bounds[i]
            if certificates.tick[row] != FOLLOWING:
                kept = round_up(bound) < line.level and set_certificate(certificates, row, bound, end_s, line.now)
                if not (kept or _waits(ranking, row, line)):
                    certificates.tick[row], certificates.bound[row] = 0, np.float32(np.nan)
            if row % CHUNK == 0:
                soonest, peak = np.uint16(POOLED), np.float32(np.nan)
            soonest = min(soonest, certificates.tick[row])
            if not (np.isnan(certificates.bound[row]) or certificates.bound[row] <= peak):
                peak = certificates.bound[row]
            certificates.soonest[row // CHUNK], certificates.peak[row // CHUNK] = soonest, peak


class Examiners:
    """The scorers of one formula, one for each thread. For one call at a time."""

    def __init__(self, formula: Formula, threads: int | None) -> None:
        count = min(threads or os.cpu_count() or 1, 2)  # queries are too short for more
        self.scorer, *self._others = (make_page_scorer(formula) for _ in range(count))
        self._pool = ThreadPoolExecutor(1, "streamsched-examining")

    def run(self, ranking: RankingArrays, rows: Ints, line: Line, *, scored: bool = False) -> tuple[int, Found]:
        """Run `examine` on ``rows``: int64[m], each at most once; return what it returned, and the pages found.

        `ranking`: with the first scorer.
        """
        found = _make_found(0 if scored else rows.size)
        if not self._others or rows.size < _FEWEST_ROWS:
            count = examine(ranking, rows, line, found, scored)
            return count, Found._make(column[:count] for column in found)
        middle = rows.size // 2
        later = Found._make(column[middle:] for column in found)
        own, theirs = (rows[:middle], line, found, scored), (rows[middle:], line, later, scored)
        first, second = self._run_both(examine, ranking, own, theirs)
        joined = (np.concatenate([a[:first], b[:second]]) for a, b in zip(found, later, strict=True))
        return first + second, Found._make(joined)

    def certify(self, ranking: RankingArrays, pages: int, line: Line) -> None:
        """Run `certify_rows` on the first `pages` pages."""
        if not self._others:
            certify_rows(ranking, 0, pages, line)
            return
        middle = pages // 2 // CHUNK * CHUNK
        self._run_both(certify_rows, ranking, (0, middle, line), (middle, pages, line))

    def _run_both(
        self, kernel: Callable[..., Result], ranking: RankingArrays, own: tuple[object, ...], theirs: tuple[object, ...]
    ) -> tuple[Result, Result]:
        """Run a kernel on two parts of the pages, the second on the other thread; return both results."""
        later = self._pool.submit(kernel, ranking._replace(scorer=self._others[0]), *theirs)
        return kernel(ranking, *own), later.result()
