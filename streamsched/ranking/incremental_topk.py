"""The maintained ranking: the k best eligible pages at any time, exactly, by looking at few of them.

Each page either is in the pool or has a certificate: a level that it does not exceed before a stated time. A query
examines the pool and the pages whose certificates have expired, gives host slots to the best, and continues with pages
whose certificates allow as much, until no page that is left can belong to the batch. The line, above which pages are
pooled, follows the batches so that the pool holds several of them; nothing but speed depends on it. Of pages that are
alike only some are ranked (`tie_classes`). If scoring all pages is faster (a clock that jumps, nearly all pages
wanted), the query scores all pages.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from streamsched.formula.formula import Formula
from streamsched.numerics.arrays import Ints
from streamsched.politeness.domain_shares import find_domains
from streamsched.politeness.eligibility import are_eligible
from streamsched.politeness.limits import DEFAULT_LIMITS
from streamsched.politeness.priority import read_overdue, select_best, tiers_of
from streamsched.ranking.certificates import (
    CHUNK,
    FOLLOWING,
    POOLED,
    CertificateTable,
    list_above,
    list_expired,
    summarise,
)
from streamsched.ranking.full_scan import FullScan, Query, Ranked, fill_slots
from streamsched.ranking.host_floors import HostFloors, list_needed, needed_level
from streamsched.ranking.host_slots import HostSlots, Singles
from streamsched.ranking.invariants import find_false_certificates
from streamsched.ranking.line_control import Line, draw_rows, estimate_level, follow_pool, levels_of, place_line
from streamsched.ranking.page_examination import (
    Examiners,
    Found,
    RankingArrays,
)
from streamsched.ranking.tie_classes import Bar, TieClasses
from streamsched.records.page_schema import VISITED
from streamsched.records.schema import ShardArrays

CLOCK_TOLERANCE_S: Final = 60.0  # clock tolerance: how far a query's time may lie before an earlier query's
_FEWEST_PAGES: Final = 1 << 16  # with fewer, scoring all pages takes less than a millisecond
_MOST_EXAMINED: Final = 12  # a query examines at most one page in this many: beyond, scoring all pages is faster
_LARGEST_K: Final = 64  # a larger part of the pages is found by scoring all; the pool should hold no larger one either
_DEPTH: Final = 4  # batches that the pool should hold
_FEWEST_POOLED: Final = 1 << 10
_MOST_SKIPPED: Final = 4  # one page in this many of the pool may be passed over since its host has no slots
_BEST: Final = 4  # times a batch: pages examined at a time beyond those that are due
_SAMPLE: Final = 1 << 13  # pages on which it is tried whether certificates are of use
_DRAWN: Final = 512  # one page in this many is drawn to place the line, but not fewer than those
_TRIES_AGAIN: Final = 64  # scans after which certificates are tried again at the latest
_DECAY: Final = 0.2  # weight of each query in the moving average of the time between queries
_LONGER: Final = 4.0  # a step counts as at most this many times the average
_LONGEST_S: Final = 2.0**21  # after which levels of overdue pages start from another origin


class IncrementalTopK:
    """The ranking of one shard's pages by one formula, kept up to date: 6.1 bytes a page, and 8 for each of the pool.

    For one call at a time. After a page's record changes, call `recheck` before the next query, also at the end of its
    lease.
    """

    def __init__(
        self, formula: Formula, threads: int | None = None, *, only_new: bool = False, fewest_pages: int = _FEWEST_PAGES
    ) -> None:
        """Begin without certificates. `only_new`: rank only pages that were never visited."""
        self.scan = FullScan(formula.compile(), threads)
        self.scans = 0  # queries that scored all pages
        self.examined = 0  # pages that the newest query examined
        self._examiners = Examiners(formula, threads)
        self._only_new = only_new
        self._table = CertificateTable(VISITED if only_new else 0, 0)
        self._ties = TieClasses()
        self._pool = np.empty(0, np.int64)
        self._fewest = fewest_pages
        self._host_slots, self._floors = HostSlots(), HostFloors()
        self._line = Line(
            -math.inf, 0.0, 0.0, 1.0, -math.inf, -math.inf, 0.0, 1.0, -math.inf, np.uint64(0), DEFAULT_LIMITS
        )
        self._is_certified = False  # whether every page is in the pool, has a certificate, or tick 0
        self._scans_in_a_row = 0  # the last of them left the scores in the bounds
        self._clock = -math.inf  # of the newest query
        self._k = 0  # pages of a batch
        self._random = np.random.default_rng(0)
        self._first_chunk = 0  # where the search for pages above a lower line continues

    @property
    def clock(self) -> float:
        """The time of the newest query; -inf before the first."""
        return self._clock

    @property
    def step_s(self) -> float:
        """The usual time between queries, in seconds; 0 before there were any."""
        return self._line.step_s

    def rank(self, shard: ShardArrays, query: Query) -> Ranked:
        """Return the best `query.k` pages that are eligible at `query.now`, as far as hosts have free slots.

        O(k) if certificates hold, O(pages) if they do not.
        """
        self._cover(shard)
        query = replace(query, only_new=self._only_new, k=min(query.k, self._table.pages))
        if self._table.pages < self._fewest or query.k <= 0 or query.k > self._table.pages // _LARGEST_K:
            return self.scan.rank(shard, query)
        self._move_clock(query)
        ranked = self._search(shard, query)
        self._host_slots.clear(shard)
        if ranked is not None:
            self._scans_in_a_row = 0
            return self.scan.set_first_scores(shard, query, ranked)
        self._is_certified = False
        self._scans_in_a_row += 1
        self.scans += 1
        return self.scan.rank(shard, query, self._table.arrays.bound)

    def recheck(self, shard: ShardArrays, rows: Ints | None) -> None:
        """Remove the certificates that no longer hold after pages changed: ``rows``: int64[m]; None for all. O(m).

        Each bound, about the page's score, leads to another certificate if that is possible: in a surge, each outcome
        changes the scores of all pages of a group, and few reach the line.
        """
        self._cover(shard)
        if rows is None:
            self._is_certified = False
        elif rows.size and self._is_certified:
            bounded = rows[~np.isnan(self._table.arrays.bound[rows]) & (self._table.arrays.tick[rows] != 0)]
            self._table.remove(rows)
            self._ties.note_changed(rows)
            self._run(shard, bounded, scored=True)
            summarise(self._table.arrays, bounded)

    def follow(self, shard: ShardArrays, other: IncrementalTopK) -> None:
        """Take over the clock of `other` and the parameters of its last query. O(new pages)."""
        self._cover(shard)
        self._clock, self._k = other._clock, other._k
        self._line = other._line._replace(level=self._line.level, gap=self._line.gap, origin_s=self._line.origin_s)

    def prepare(self, shard: ShardArrays, first: int, count: int) -> bool:
        """Certify `count` pages from row `first` on; return whether there are more after them. O(count)."""
        self._cover(shard)
        if first == 0:
            self._table.keep_time(self._clock, self._line.step_s, self._line.cycle_s)
            self._table.clear()
            self._ties.clear(self._line.salt)
            self._begin(shard, None)
            self._is_certified = True
        rows = np.arange(first, min(first + count, self._table.pages))
        rows = rows[self._table.arrays.tick[rows] != POOLED]
        self._pool = np.concatenate([self._pool, self._examine(shard, rows).rows])
        return first + count < self._table.pages

    def check(self, shard: ShardArrays) -> list[str]:
        """Return which invariants do not hold; empty if the ranking is sound. O(pages).

        Changes of pages must have been passed to `recheck` before.
        """
        line = self._line._replace(now=self._clock, since=self._clock - CLOCK_TOLERANCE_S)
        if not self._is_certified:
            return []
        faults = find_false_certificates(shard, self._table.arrays, self._floors.levels, self._pool, self.scan, line)
        scores = self.scan.score(shard, line.now, line.cycle_s)
        return faults + self._ties.find_false(shard, self._table.arrays, scores)

    def nbytes(self) -> int:
        """Return the bytes of memory in use."""
        return (
            self._table.nbytes()
            + self._host_slots.nbytes()
            + self._floors.nbytes()
            + self._pool.nbytes
            + self._ties.nbytes()
        )

    def _cover(self, shard: ShardArrays) -> None:
        pages = int(shard.corpus["pages"][0])
        if pages != self._table.pages:
            self._table.cover(pages)
        self._host_slots.cover(shard)
        self._floors.cover(int(shard.corpus["groups"][0]))

    def _move_clock(self, query: Query) -> None:
        """Move the clock to the query's time, and note the query's parameters."""
        if query.now < self._clock - CLOCK_TOLERANCE_S:
            self._is_certified, self._clock = False, query.now  # certificates do not cover earlier times
        if self._clock - self._line.origin_s > _LONGEST_S:
            self._is_certified = False
        step_s, elapsed_s = self._line.step_s, query.now - self._clock
        if 0.0 < elapsed_s < math.inf:
            step_s = step_s + _DECAY * (min(elapsed_s, _LONGER * step_s) - step_s) if step_s else elapsed_s
        self._clock = max(query.now, self._clock)
        self._k = max(query.k, self._k - self._k // 8)
        self._table.keep_time(self._clock, step_s, query.cycle_s)
        turn_s = step_s * self._table.pages / self._k  # in which batches have as many pages as there are
        self._line = self._line._replace(
            horizon_s=min(turn_s / 2.0 or math.inf, self._table.range_s),
            now=query.now,
            since=query.now - CLOCK_TOLERANCE_S,
            step_s=step_s,
            cycle_s=query.cycle_s,
            salt=np.uint64(query.salt),
            limits=query.limits,
        )

    def _search(self, shard: ShardArrays, query: Query) -> Ranked | None:
        """Return the best pages, or None if that takes examining too many."""
        if self._ties.salt != query.salt:
            self._is_certified = self._is_certified and not self._ties.size  # of another order
        if not self._is_certified and not self._certify(shard):
            return None
        self.examined, pooled = 0, self._pool
        expired = self._list_expired()
        if expired.size + pooled.size > self._most():
            return None
        released = self._ties.release_pending(shard, self._table.arrays, query.k)
        found = self._examine(shard, np.concatenate([pooled, expired, self._list_below_line(), released]))
        turn = 0
        while True:
            ranked = self._select(shard, query, found)
            rows = self._list_missing(shard, query, ranked, found)
            if rows is None or found.rows.size + rows.size > self._most():
                return None
            bar = _bar_of(query, ranked, found)
            released = self._ties.release_reached(shard, self._table.arrays, found, ranked.rows, bar, turn)
            rows, turn = np.concatenate([rows, released]), turn + 1
            if not rows.size:
                break
            found = Found._make(map(np.concatenate, zip(found, self._examine(shard, rows), strict=True)))
        self._pool = found.rows
        self._follow(shard, query, ranked, found)
        return ranked

    def _list_missing(self, shard: ShardArrays, query: Query, ranked: Ranked, found: Found) -> Ints | None:
        """Return pages that may belong to the batch and were not examined: int64[m]; None for too many."""
        slots = query.slot_limits
        if ranked.rows.size == query.k:
            bar = least = _bar_of(query, ranked, found).level
            rows = self._best(self._list_needed(shard, query, bar))
        else:
            bar, least = -math.inf, needed_level(shard, slots, self._host_slots.usage)
            count, level, rows = max(2 * query.k, self.examined), math.inf, np.empty(0, np.int64)
            while not rows.size and level > least:
                level, count = max(least, self._estimate_level(count)), 4 * count
                rows = self._list_needed(shard, query, level)
            least = level
        if rows.size > self._most():
            return None
        short = self._floors.find_short(shard, slots, self._host_slots.usage, bar)
        if not (rows.size or short.size):
            return rows
        if least < self._line.level:
            self._line = self._line._replace(level=least)
        return np.concatenate([rows, self._floors.lower(shard, self._table.arrays, short)]) if short.size else rows

    def _list_needed(self, shard: ShardArrays, query: Query, level: float) -> Ints:
        """Return pages with certificates that may reach `level` and whose hosts have slots for them: int64[m]."""
        certificates, out = self._table.arrays, np.empty(self._table.pages, np.int64)  # memory comes as it is filled
        rows = out[: list_above(certificates, self._table.chunks_above(level), level, query.now, out)]
        return rows[: list_needed(shard, certificates, self._host_slots.usage, query.slot_limits, rows, level)]

    def _best(self, rows: Ints) -> Ints:
        """Return the pages of the greatest bounds, if ``rows``: int64[m] are many: they may make the others useless."""
        most = _BEST * max(self._k, _FEWEST_POOLED)
        if rows.size <= 2 * most:
            return rows
        bounds = self._table.arrays.bound[rows]
        best: Ints = rows[bounds >= np.partition(bounds, rows.size - most)[rows.size - most]]
        return best

    def _most(self) -> int:
        """Return how many pages a query may examine."""
        return self._table.pages // _MOST_EXAMINED

    def _list_expired(self) -> Ints:
        """Return the pages without a certificate at present, or some of them if there are too many: int64[m]."""
        out, now = np.empty(self._most() + 1, np.int64), self._line.now
        return out[: list_expired(self._table.arrays, self._table.chunks_expired(now), now, out)]

    def _list_below_line(self) -> Ints:
        """Return pages with certificates for levels above the line, which was lowered, up to a bound for one query."""
        out = np.empty(4 * max(self._k, _FEWEST_POOLED), np.int64)
        above = float(np.nextafter(np.float32(self._line.level), np.float32(np.inf)))
        chunks = self._table.chunks_above(above)
        chunks = np.roll(chunks, -int(np.searchsorted(chunks, self._first_chunk)))
        count = list_above(self._table.arrays, chunks, above, self._line.now, out)
        if count > out.size:
            self._first_chunk = int(out[-1]) // CHUNK
        return out[:count]

    def _examine(self, shard: ShardArrays, rows: Ints) -> Found:
        self.examined += rows.size
        found = self._run(shard, rows)[1]
        summarise(self._table.arrays, rows)
        return found

    def _run(self, shard: ShardArrays, rows: Ints, *, scored: bool = False) -> tuple[int, Found]:
        return self._examiners.run(self._ranking(shard), rows, self._line, scored=scored)

    def _ranking(self, shard: ShardArrays) -> RankingArrays:
        return RankingArrays(shard, self._table.arrays, self._floors.levels, self._examiners.scorer)

    def _select(self, shard: ShardArrays, query: Query, found: Found) -> Ranked:
        """Return the best of the pages found that hosts have slots for."""
        wanted = query.k
        while True:
            best = select_best(found.scores, found.overdue_s, found.ties, wanted, found.rows)
            ranked = Ranked(found.rows[best], found.scores[best], tiers_of(found.overdue_s[best]))
            selected = fill_slots(self._host_slots, shard, query, ranked)
            if selected.rows.size == query.k or best.size < wanted:
                return selected
            wanted *= 4

    def _follow(self, shard: ShardArrays, query: Query, ranked: Ranked, found: Found) -> None:
        """Move the line so that the pool holds several batches, and floors so that limited hosts do not fill it."""
        bar = _bar_of(query, ranked, found).level
        above, levels = np.flatnonzero(found.levels >= bar), found.levels
        if -math.inf < bar and above.size > query.k:  # pages of full hosts do not count: they cannot be given soon
            levels = np.append(levels[levels < bar], np.full(query.k, bar))
        levels = np.append(levels, self._ties.hidden_levels(found, 2 * self._target()))
        if above.size - query.k > self._target() // _MOST_SKIPPED:
            usage, levels_above = self._host_slots.usage, found.levels[above]
            hosts = shard.groups.records["host"][shard.pages.records["group"][found.rows[above]]].astype(np.int64)
            self._floors.lift(hosts, hosts, levels_above, usage.used)
            if query.domains.share < 1.0:
                domains = find_domains(shard.groups, shard.pages.records, found.rows[above])
                self._floors.lift(domains, hosts, levels_above, usage.domain_used)
        self._line = follow_pool(self._line, levels, self._target(), self._k, self._estimate_level)

    def _target(self) -> int:
        return min(max(_DEPTH * self._k, _FEWEST_POOLED), self._table.pages // _LARGEST_K)

    def _estimate_level(self, count: int) -> float:
        """Return a level that the certificates of about `count` pages allow; -inf if there are not as many."""
        rows = self._draw()
        return estimate_level(self._table.arrays, rows, count * rows.size / self._table.pages)

    def _draw(self) -> Ints:
        return draw_rows(self._random, self._table.pages, max(self._table.pages // _DRAWN, _SAMPLE))

    def _begin(self, shard: ShardArrays, scores: Singles | None) -> None:
        """Begin with an empty pool, no floors, and a line that drawn pages suggest: -inf for few pages.

        `scores`: float32[pages]; None to score those drawn.
        """
        self._pool = np.empty(0, np.int64)
        self._floors.clear(int(shard.corpus["groups"][0]))
        drawn = self._draw()
        line = self._line._replace(origin_s=self._line.now)
        rows = drawn[are_eligible(shard, drawn, line.now, line.limits)]
        if self._only_new:
            rows = rows[(shard.pages.records["flags"][rows] & VISITED) == 0]
        own = self.scan.score(shard, line.now, line.cycle_s, rows) if scores is None else scores[rows]
        levels = levels_of(own.astype(np.float64), read_overdue(shard, rows, line.limits, line.now), line)
        target = self._target()
        self._line = place_line(line, levels, target * drawn.size / self._table.pages, self._k / max(target, 1))

    def _certify(self, shard: ShardArrays) -> bool:
        """Certify all pages, whose scores the last query left in the bounds; return False if it is of no use. O(pages).

        It is tried at the second query in a row that would score all pages, since a ranking that is queried once needs
        no certificates; then ever more rarely, for scores that nothing can be said about.
        """
        scans, pages = self._scans_in_a_row, self._table.pages
        if scans == 0 or (scans & (scans - 1) and scans % _TRIES_AGAIN):
            return False
        self._begin(shard, self._table.arrays.bound)
        self._ties.build(shard, self._table.arrays, self._line, self._random)
        sample = draw_rows(self._random, pages, _SAMPLE)
        others = sample[self._table.arrays.tick[sample] != FOLLOWING]
        if self._run(shard, others, scored=True)[0] * 2 * _MOST_EXAMINED > sample.size:
            return False
        self._examiners.certify(self._ranking(shard), pages, self._line)
        self._is_certified = True
        return True


def _bar_of(query: Query, ranked: Ranked, found: Found) -> Bar:
    """Return the last page of a batch; one of infinite level if all pages are the query's first. O(pool)."""
    if ranked.rows.size < query.k:
        return Bar(-math.inf, (1 << 64) - 1)
    place = np.flatnonzero(found.rows == ranked.rows[-1])
    return Bar(float(found.levels[place[0]]), int(found.ties[place[0]])) if place.size else Bar(math.inf, 0)
