"""The ranking: the k best eligible pages at a time `now`, exactly as sorting all of them would give.

Order: score descending, NaN last; equal scores by the page's salted hash, so that neither the order of URLs nor that
of rows decides. `FullScan` scores every page at every query, in blocks that stay in cache, on several threads, and
keeps only what reaches a threshold that a sample set and that rises from there.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol

import numpy as np

from streamsched.arrays import Floats, Hashes, Ints, Records, Rows
from streamsched.formula import BLOCK, Arena, Program
from streamsched.jit import bare_kernel, mix
from streamsched.leases import are_leased
from streamsched.order import select_top, sort_keys
from streamsched.tables import LEASED, Tables
from streamsched.terminals import TerminalColumns

__all__ = ["FullScan", "Query", "Ranked", "Ranking"]

_SAMPLE_BLOCKS: Final = 64  # runs of rows that the first threshold is taken from
_SAMPLE_ROWS: Final = 256  # rows a run
_THREADED_ROWS: Final = 4 * BLOCK  # fewer rows are scored faster than threads start


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked of a ranking: `k` pages at `now`, UTC epoch seconds."""

    k: int
    now: float
    cycle_s: float
    salt: int  # of the hash that orders equal scores


@dataclass(frozen=True, slots=True)
class Ranked:
    """Pages in order, best first. ``rows``: int64[m]; ``scores``: float64[m]; m <= k."""

    rows: Ints
    scores: Floats


class Ranking(Protocol):
    """Answers which k eligible pages are best at any time, under one program."""

    def rank(self, tables: Tables, query: Query) -> Ranked:
        """Return the best `query.k` pages that are not leased at `query.now`."""
        ...


class FullScan:
    """A ranking that scores all pages at each query: O(pages) time, memory for two blocks and 2 k candidates a thread.

    For one query at a time; the threads are its own.
    """

    def __init__(self, program: Program, threads: int | None = None) -> None:
        self._threads = threads or min(os.cpu_count() or 1, 8)
        self._workers = [_Worker(program) for _ in range(self._threads)]

    def rank(self, tables: Tables, query: Query) -> Ranked:
        """Return the best `query.k` pages that are not leased at `query.now`. O(pages)."""
        pages = int(tables.corpus["pages"][0])
        query = replace(query, k=min(query.k, pages))  # candidates take memory by k
        if query.k <= 0:
            return Ranked(np.empty(0, np.int64), np.empty(0))
        start = self._first_bar(tables, query, pages)
        ranked = self._scan(tables, query, pages, start)
        if start is not None and ranked.rows.size < query.k:
            return self._scan(tables, query, pages, None)  # the sample misled, or too few pages are eligible
        return ranked

    def score(self, tables: Tables, now: float, cycle_s: float, rows: Rows | None = None) -> Floats:
        """Return the scores of `rows`, or of all pages: float64[m]. O(m)."""
        size = int(tables.corpus["pages"][0]) if rows is None else rows.size
        scores = np.empty(size)
        for start in range(0, size, BLOCK):
            stop = min(start + BLOCK, size)
            part = slice(start, stop) if rows is None else rows[start:stop]
            pages, traces = tables.pages[part], tables.traces[part]
            scores[start:stop] = self._workers[0].score(pages, traces, now, cycle_s)
        return scores

    def _first_bar(self, tables: Tables, query: Query, pages: int) -> float | None:
        """Return a score that k eligible pages very likely reach, from an evenly spread sample; None for few pages."""
        if pages < 8 * _SAMPLE_BLOCKS * _SAMPLE_ROWS or query.k > pages // 8:
            return None
        starts = np.linspace(0, pages - _SAMPLE_ROWS, _SAMPLE_BLOCKS).astype(np.int64)
        rows = (starts[:, None] + np.arange(_SAMPLE_ROWS)).ravel()
        rows = rows[~are_leased(tables, rows, query.now)]
        expected = query.k * rows.size / pages
        place = int(expected + 6 * np.sqrt(expected) + 10)  # six standard deviations on the safe side
        if place >= rows.size:
            return None
        scores = self.score(tables, query.now, query.cycle_s, rows)
        bar = float(scores[select_top(scores, np.zeros(rows.size, np.uint64), place + 1)[-1]])
        return None if np.isnan(bar) else bar

    def _scan(self, tables: Tables, query: Query, pages: int, bar: float | None) -> Ranked:
        blocks = iter(range(0, pages, BLOCK))
        workers = self._workers if pages >= _THREADED_ROWS else self._workers[:1]
        jobs = [(worker, _Candidates(query.k, bar)) for worker in workers]

        def scan(worker: _Worker, candidates: _Candidates) -> None:
            for start in blocks:  # a range's iterator hands each block to one thread only
                part = slice(start, min(start + BLOCK, pages))
                scores = worker.score(tables.pages[part], tables.traces[part], query.now, query.cycle_s)
                candidates.add(_Block(scores, tables.pages[part], tables.lease_until_s[part], start), query)

        if len(jobs) == 1:
            scan(*jobs[0])
        else:
            with ThreadPoolExecutor(len(jobs)) as pool:
                for done in [pool.submit(scan, *job) for job in jobs]:
                    done.result()
        rows, scores, ties = (np.concatenate(parts) for parts in zip(*(held.held() for _, held in jobs), strict=True))
        if len(jobs) > 1:  # equal scores with equal ties (hashes can be made to collide) go in the order of rows
            by_row = np.argsort(rows)
            rows, scores, ties = rows[by_row], scores[by_row], ties[by_row]
        best = select_top(scores, ties, query.k)
        return Ranked(rows[best], scores[best])


class _Worker:
    """One thread's buffers for scoring blocks."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._arena: Arena = program.arena(BLOCK)
        self._columns = TerminalColumns(program.terminals, BLOCK, self._arena.slots)  # where the program reads them
        self._scores = np.empty(BLOCK)

    def score(self, pages: Records, traces: Records, now: float, cycle_s: float) -> Floats:
        """Return the scores of the pages: float64[m], valid until the next call."""
        out = self._scores[: pages.size]
        self._program.run(self._columns.fill(pages, traces, now, cycle_s), out, self._arena)
        return out


class _Bar(NamedTuple):
    """The least sort key, and of rows with that key the greatest tie, that can still be among the best."""

    key: np.uint64
    tie: np.uint64


class _Held(NamedTuple):
    """Rows with their scores and ties: int64[m], float64[m], uint64[m]."""

    rows: Ints
    scores: Floats
    ties: Hashes


class _Block(NamedTuple):
    """Some pages as a kernel takes them: their scores, records and leases, and the row of the first."""

    scores: Floats
    pages: Records
    lease_until_s: Floats
    start: int


_LAST: Final = np.uint64((1 << 64) - 1)


class _Candidates:
    """The best k rows so far, and those since that reach their least."""

    def __init__(self, k: int, bar: float | None) -> None:
        capacity = 2 * k + BLOCK
        self._k = k
        self._held = _Held(np.empty(capacity, np.int64), np.empty(capacity), np.empty(capacity, np.uint64))
        self._count = 0
        self._bar = _Bar(np.uint64(0), _LAST) if bar is None else _Bar(sort_keys(np.array([bar]))[0], _LAST)

    def add(self, block: _Block, query: Query) -> None:
        """Take in the rows of a block that may be among the best."""
        if self._count + block.scores.size > self._held.rows.size:
            self._shrink()
        self._count = _collect(block, query.now, np.uint64(query.salt), self._bar, self._held, self._count)

    def held(self) -> _Held:
        """Return the rows held so far."""
        rows, scores, ties = self._held
        return _Held(rows[: self._count], scores[: self._count], ties[: self._count])

    def _shrink(self) -> None:
        held = self.held()
        best = select_top(held.scores, held.ties, self._k)
        self._count = best.size
        for column, values in zip(self._held, [column[best] for column in held], strict=True):
            column[: self._count] = values
        if self._count == self._k:
            last = self._k - 1
            self._bar = _Bar(sort_keys(self._held.scores[last : last + 1])[0], self._held.ties[last])


@bare_kernel
def _collect(block: _Block, now: float, salt: int, bar: _Bar, held: _Held, count: int) -> int:
    """Append to `held` the eligible rows that are not worse than `bar`; return how many it holds then."""
    sign = np.uint64(1 << 63)
    words = block.scores.view(np.uint64)
    for i in range(block.scores.size):
        score = block.scores[i]
        if np.isnan(score):
            key = np.uint64(0)
        elif score == 0.0:
            key = sign
        else:
            key = ~words[i] if words[i] & sign else words[i] | sign
        if key < bar.key:
            continue
        if block.pages[i].flags & LEASED and block.lease_until_s[i] > now:
            continue
        tie = mix(block.pages[i].url_hash ^ salt)
        if key == bar.key and tie > bar.tie:
            continue
        held.rows[count] = block.start + i
        held.scores[count] = score
        held.ties[count] = tie
        count += 1
    return count
