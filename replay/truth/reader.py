"""Ground truth from a file: a change log as it stands, any other log of crawl outcomes as far as its visits tell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streamsched.connectors import Delivery, open_source
from streamsched.estimation.change_detection import (
    CHANGE,
    CHANGE_BITS,
    FAILURE,
    FIRST,
    detect_change,
    is_success,
    shows_content,
)
from streamsched.numerics.arrays import Bools, Floats, Ints, Records
from streamsched.numerics.jit import kernel
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import IMPORTANCE, STATUS, OutcomeBatch
from streamsched.records.url_index import url_texts
from streamsched.replay.truth.ground_truth import ChangeLog, Crawls
from streamsched.state.page_table import PageTable

__all__ = ["read_outcomes", "read_truth"]

_ANY_CYCLE_S: Final = 86_400.0  # of a page table that only knows pages apart
_CHANGE_LOG: Final = "changes"  # what connectors call the format, and their positions' kind

_STATE: Final = np.dtype(  # of a page, as its last visit that told something left it
    [
        *(("last_s", "<f8"), ("fingerprint", "<u8"), ("seen", "?"), ("success", "?"), ("has_fingerprint", "?")),
        *(("visits", "<i8"), ("watched_s", "<f8")),  # visits that came upon a page that was there, and their intervals
    ]
)
_NOTE: Final = (
    "The log holds crawl outcomes, not changes: each change is placed at the visit that saw it, several changes "
    "between two visits count as one, and every page is taken to have existed all the time."
)


def read_truth(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002  as `open_source` calls it
    dead_letters: str | Path | None = None,
    change_bits: int = CHANGE_BITS,
) -> ChangeLog:
    """Return what the log at `path` says of when pages changed; malformed records are left out, counted and named.

    A change log is taken at its word. In any other format that `streamsched.connectors` reads, a change is placed at
    the visit that saw it (SPEC 2, with `change_bits` of 64 as the fingerprints' threshold), a page is taken to have
    existed all the time, and the result's ``note`` says so. `format` and `dead_letters` are those of `open_source`.
    O(records). Raises SourceError where the file cannot be read, ReplayError where it holds no change.
    """
    with open_source(path, format=format, dead_letters=dead_letters) as source:
        log = read_outcomes(source, change_bits)
        return replace(log, rejected=source.rejected, rejections=tuple(source.rejections))


def read_outcomes(
    deliveries: Iterable[Delivery], change_bits: int = CHANGE_BITS, span_s: tuple[float, float] = (-np.inf, np.inf)
) -> ChangeLog:
    """Return what `deliveries` say of when pages changed, as `read_truth` does; the result has its ``crawls``.

    Crawl outcomes outside `span_s`, epoch seconds from the first to before the second, are passed over; changes that
    are known as such are all taken. O(records).
    """
    page_numbers, extractor, exact = _PageNumbers(), _ChangeExtractor(change_bits), True
    for delivery in deliveries:
        exact = delivery.position.kind == _CHANGE_LOG
        outcomes = delivery.outcomes if exact else _within(delivery.outcomes, span_s)
        if len(outcomes):
            pages = page_numbers.number(outcomes.urls)
            extractor.take(pages, len(page_numbers), outcomes, exact=exact)
    log = extractor.collect(page_numbers.urls(), exact=exact)
    return log if exact else replace(log, note=_NOTE)


def _within(outcomes: OutcomeBatch, span_s: tuple[float, float]) -> OutcomeBatch:
    outside = (outcomes.fetched_at < span_s[0]) | (outcomes.fetched_at >= span_s[1])
    return outcomes.take(np.flatnonzero(~outside)) if outside.any() else outcomes


class _PageNumbers:
    """URLs and their numbers, in the order of their first record: the rows of a page table."""

    def __init__(self) -> None:
        self._table = PageTable(_ANY_CYCLE_S, CHANGE_BITS)

    def __len__(self) -> int:
        return len(self._table)

    def number(self, urls: PackedUrls) -> Ints:
        """Return the number of each URL: int64[n]; new ones get the next. O(1) a URL."""
        numbers = self._table.find(urls)
        if np.any(numbers < 0):
            self._table.discover(urls, 0.0)
            numbers = self._table.find(urls)
        return numbers

    def urls(self) -> PackedUrls:
        """Return all URLs by number. O(bytes)."""
        return PackedUrls.pack(url_texts(self._table.arrays, np.arange(len(self))))


class _ChangeExtractor:
    """Keeps the changes among outcomes, and of each page what its next visit is judged against."""

    def __init__(self, change_bits: int) -> None:
        self._change_bits = change_bits
        self._pages: list[Ints] = []
        self._times: list[Floats] = []
        self._gone: list[Bools] = []
        self._since: list[Floats] = []
        self._states = np.zeros(0, _STATE)
        self._importance = np.ones(0)
        self._first_s, self._last_s = np.inf, -np.inf

    def take(self, pages: Ints, total: int, outcomes: OutcomeBatch, *, exact: bool) -> None:
        """Take in one delivery, of ``pages``: int64[n]; `total` pages have been named so far."""
        self._grow(total)
        status = _fill(outcomes.status, len(outcomes))
        status[(outcomes.given & STATUS) == 0] = 200
        changes = np.arange(len(outcomes))
        if not exact:
            fingerprint, changed = (_fill(column, len(outcomes)) for column in (outcomes.fingerprint, outcomes.changed))
            columns = (outcomes.fetched_at, outcomes.given, status, fingerprint, changed)
            kept, since_s = _extract_changes(pages, columns, self._states, self._change_bits)
            changes = np.flatnonzero(kept)
            self._since.append(since_s[changes])
        weighed = np.flatnonzero(outcomes.given & IMPORTANCE)
        if weighed.size:
            self._importance[pages[weighed]] = outcomes.importance[weighed]
        self._pages.append(pages[changes])
        self._times.append(outcomes.fetched_at[changes])
        self._gone.append(status[changes] >= 400)
        self._first_s = min(self._first_s, float(outcomes.fetched_at.min()))
        self._last_s = max(self._last_s, float(outcomes.fetched_at.max()))

    def collect(self, urls: PackedUrls, *, exact: bool) -> ChangeLog:
        """Return all that was taken; where it is not `exact`, each page has been there since before the log."""
        beginnings = np.arange(0 if exact else len(urls))
        pages = np.concatenate([beginnings, *self._pages])
        times = np.concatenate([np.full(beginnings.size, -np.inf), *self._times])
        gone = np.concatenate([np.zeros(beginnings.size, np.bool_), *self._gone])
        log = ChangeLog.collect(urls, pages, times, gone)
        importance = self._importance[: len(urls)]
        weighs = bool(np.any(importance != 1.0))
        crawls = None if exact else self._describe(pages, times)
        return replace(
            log,
            importance=importance if weighs else None,
            first_s=self._first_s,
            last_s=self._last_s,
            crawls=crawls,
        )

    def _describe(self, pages: Ints, times_s: Floats) -> Crawls:
        """Return how pages were watched: their beginnings stand before what was taken. O(m log m)."""
        count = int(pages.max(initial=-1)) + 1
        since_s = np.concatenate([np.full(count, -np.inf), *self._since])
        order = np.lexsort((times_s, pages))  # as `ChangeLog.collect` has them
        return Crawls(self._states["visits"][:count].copy(), self._states["watched_s"][:count].copy(), since_s[order])

    def _grow(self, pages: int) -> None:
        if pages > self._states.size:
            more = max(pages, 2 * self._states.size) - self._states.size
            self._states = np.concatenate([self._states, np.zeros(more, _STATE)])
            self._importance = np.concatenate([self._importance, np.ones(more)])


def _fill(column: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
    """Return a copy of an optional column of a batch, `count` zeros where it is absent."""
    return column.copy() if column.size else np.zeros(count, column.dtype)


@kernel
def _extract_changes(pages: Ints, columns: tuple[Any, ...], states: Records, change_bits: int) -> tuple[Bools, Floats]:
    """Return which outcomes saw a change: bool[n], and when their page was there at the visit before: float64[n].

    -inf for pages that were not. Carries the pages' states on; late outcomes see no change. O(n).
    """
    fetched_at, given, status, fingerprint, changed = columns
    kept, since_s = np.zeros(pages.size, np.bool_), np.full(pages.size, -np.inf)
    for i in range(pages.size):
        page: Any = states[pages[i]]
        if page.seen and fetched_at[i] <= page.last_s:
            continue
        code = detect_change(
            given[i],
            status[i],
            fingerprint[i],
            changed[i],
            page.seen,
            page.success,
            page.has_fingerprint,
            page.fingerprint,
            change_bits,
        )
        if code == FAILURE:
            continue
        kept[i] = code == CHANGE
        if code != FIRST and page.success:
            since_s[i] = page.last_s
            page.visits += 1
            page.watched_s += fetched_at[i] - page.last_s
        page.last_s = fetched_at[i]
        page.seen = True
        page.success = is_success(status[i])
        if shows_content(given[i], status[i]):
            page.has_fingerprint = True
            page.fingerprint = fingerprint[i]
    return kept, since_s
