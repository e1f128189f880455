"""The rankings of a scheduler: the one in use, and one that is prepared beside it to replace it."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final, TypeAlias

from streamsched.formula.formula import Formula
from streamsched.numerics.arrays import Ints
from streamsched.ranking.full_scan import Query, Ranked
from streamsched.ranking.incremental_topk import CLOCK_TOLERANCE_S, IncrementalTopK
from streamsched.state.page_table import PageTable

Waiting: TypeAlias = Callable[[], None]  # returns when the change is complete

_IDLE: Final = 4  # pages to an outcome: after more outcomes without a query, certificates are dropped
_CHUNK: Final = 1 << 14  # pages certified at a time: the lock is held for a few milliseconds
_FEW: Final = 1 << 16
_PAUSE_S: Final = 5e-4  # in between, so that other threads get the lock


class FormulaSwitch:
    """The ranking by the formula in use, kept up to date while it is queried. For one call at a time, under its owner's
    lock.

    ``current``: that ranking.
    """

    def __init__(self, pages: PageTable, formula: Formula, threads: int | None) -> None:
        self._pages = pages
        self._threads = threads
        self._formula = formula
        self.current = IncrementalTopK(formula, threads)
        self._next: IncrementalTopK | None = None
        self._new: IncrementalTopK | None = None  # of the pages never visited, from the first query for them on
        self._since = 0  # outcomes since the last query

    @property
    def formula(self) -> Formula:
        """The formula in use."""
        return self._formula

    def rank(self, query: Query) -> Ranked:
        """Return the best pages: see `IncrementalTopK.rank`. O(n) if the query is limited to n pages."""
        if query.among is not None:
            return self.current.scan.rank(self._pages.arrays, query)
        self._since = 0
        if self._pages.touched is None:
            self._pages.watch()
            self._recheck(None)
        else:
            self.keep_up()
        return self.current.rank(self._pages.arrays, query)

    def peek(self, query: Query) -> Ranked:
        """Return the best pages as `rank` does, and leave the ranking ready for times before the query's."""
        if self._is_distant(query):
            return self.current.scan.rank(self._pages.arrays, query)
        return self.rank(query)

    def peek_new(self, query: Query) -> Ranked:
        """Return the best of the pages never visited as `rank_new` does, and leave the ranking as `peek` does."""
        if self._is_distant(query):
            return self.current.scan.rank(self._pages.arrays, replace(query, only_new=True))
        return self.rank_new(query)

    def _is_distant(self, query: Query) -> bool:
        """Return whether later queries are likely to be for earlier times than this one."""
        clock = self.current.clock
        return math.isfinite(clock) and not abs(query.now - clock) <= max(self.current.step_s, CLOCK_TOLERANCE_S)

    def rank_new(self, query: Query) -> Ranked:
        """Return the best of the pages never visited: see `IncrementalTopK.rank`. Call `rank` before."""
        if query.among is not None:
            return self.current.scan.rank(self._pages.arrays, replace(query, only_new=True))
        if self._new is None:
            self._new = IncrementalTopK(self._formula, self._threads, only_new=True)
            self._new.follow(self._pages.arrays, self.current)
        return self._new.rank(self._pages.arrays, query)

    def nbytes(self) -> int:
        """Return the bytes of memory that the rankings take."""
        held = [topk for topk in (self.current, self._next, self._new) if topk is not None]
        return sum(topk.nbytes() for topk in held)

    def keep_up(self, rows: Ints | None = None) -> None:
        """Apply what has happened to pages since the last call, and to ``rows``: int64[m]. O(outcomes)."""
        touched = self._pages.touched
        if touched is not None:
            if rows is not None:
                touched.add(rows)
            touched.spread(self._pages.arrays.groups, self._pages.arrays.pages.records)
            self._recheck(touched.take())

    def count(self, outcomes: int) -> None:
        """Apply outcomes; after many without a query, drop the certificates until the next query. O(outcomes)."""
        self._since += outcomes
        if self._since > len(self._pages) // _IDLE + _FEW:
            self._pages.unwatch()
        else:
            self.keep_up()

    def forget(self) -> None:
        """Drop all certificates: rules have changed, and pages may be eligible earlier than certificates assume."""
        self._recheck(None)

    def change(self, formula: Formula, lock: AbstractContextManager[object], done: Callable[[], object]) -> Waiting:
        """Rank by `formula` as soon as its ranking is ready, and call `done` at that instant.

        At once if there are no certificates. Otherwise another thread makes them, a few at a time under `lock`, while
        the current ranking stays in use. A later change replaces one under way.
        """
        with lock:
            self._next = None
            if self._pages.touched is None or self.current.clock == -math.inf:
                self._take_over(formula, IncrementalTopK(formula, self._threads), done)
                return _no_wait
            self._next = IncrementalTopK(formula, self._threads)
            thread = threading.Thread(target=self._prepare, args=(formula, self._next, lock, done), daemon=True)
            thread.start()
        return thread.join

    def _prepare(
        self,
        formula: Formula,
        topk: IncrementalTopK,
        lock: AbstractContextManager[object],
        done: Callable[[], object],
    ) -> None:
        first, more = 0, True
        while more:
            with lock:
                if self._next is not topk:
                    return
                if self._pages.touched is not None:
                    topk.follow(self._pages.arrays, self.current)
                    more = topk.prepare(self._pages.arrays, first, _CHUNK)
                if not more or self._pages.touched is None:
                    self._take_over(formula, topk, done)
                    return
            first += _CHUNK
            time.sleep(_PAUSE_S)

    def _take_over(self, formula: Formula, topk: IncrementalTopK, done: Callable[[], object]) -> None:
        self._formula, self.current, self._next, self._new = formula, topk, None, None
        done()

    def _recheck(self, rows: Ints | None) -> None:
        for topk in (self.current, self._next, self._new):
            if topk is not None:
                topk.recheck(self._pages.arrays, rows)


def _no_wait() -> None:
    """Return at once: the change is complete."""
