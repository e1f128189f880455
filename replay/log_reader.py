"""Read ground truth from a change log, or approximate it from crawl outcomes in any other format."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streamsched.connectors.opening import open_source
from streamsched.connectors.source import Delivery, Source
from streamsched.errors import ReplayError
from streamsched.estimation.change_detection import (
    CHANGE,
    CHANGE_BITS,
    EXACT,
    FAILURE,
    FIRST,
    NO_CONTENT,
    NO_EVIDENCE,
    ChangeRule,
    PageBefore,
    compare_content,
    detect_change,
    is_success,
    pack_content,
    parse_changes,
    shows_content,
)
from streamsched.numerics.argument_checks import check_whole
from streamsched.numerics.arrays import Bools, Floats, Ints, Records
from streamsched.numerics.jit import kernel
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import CONTENT, FINGERPRINT, IMPORTANCE, SIGNIFICANCE, STATUS, OutcomeBatch
from streamsched.records.url_store import url_texts
from streamsched.replay.ground_truth import ChangeLog, Crawls
from streamsched.state.page_table import PageTable

_ANY_CYCLE_S: Final = 86_400.0  # any value: the page table only numbers pages
_CHANGE_LOG: Final = "changes"  # the connectors' name of the format, and the kind of its positions

_STATE: Final = np.dtype(  # of a page after its last informative visit
    [
        *(("last_s", "<f8"), ("fingerprint", "<u8"), ("seen", "?"), ("success", "?"), ("has_fingerprint", "?")),
        ("content", "<u8"),  # as `pack_content` returns it
        *(
            ("visits", "<i8"),
            ("watched_s", "<f8"),
        ),  # visits of a page that existed at the previous visit, and the time between them
    ]
)
_NOTE: Final = (
    "The log holds crawl outcomes, not changes: each change is placed at the visit that saw it, several changes "
    "between two visits count as one, and every page is assumed to exist all the time."
)
_LATE: Final = (
    "Outcomes that are no newer than one of their page before them are not used: {}. A log is read in its order: sort "
    "it by time."
)


def read_truth(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002  as `open_source` calls it
    dead_letters: str | Path | None = None,
    change_bits: int = CHANGE_BITS,
    changes: str = EXACT,
) -> ChangeLog:
    """Return the changes in the log at `path`; malformed records are left out, counted and reported.

    A change log is read as it is. In any other format that `streamsched.connectors` reads, a change is placed at the
    visit that saw it (another `content` is a change, or fingerprints that differ in `change_bits` of 64 bits; with
    `changes` = "similar" these decide first), every page is assumed to exist all the time, and the result's ``note``
    says so; it also counts outcomes that are no newer than one of their page before them, which are not used. Changes
    without a reported significance have the mean of those with one; without any, the log has none. `format` and
    `dead_letters` are those of `open_source`. O(records).
    Raises SourceError if the file cannot be read, ReplayError if it holds no change.
    """
    change_bits = check_whole("change_bits", change_bits, 1, "1 to 64 bits", most=64)
    changes = parse_changes(changes)
    with open_source(path, format=format, dead_letters=dead_letters) as source:
        return with_rejections(source, lambda: read_outcomes(source, change_bits, changes=changes))


def with_rejections(source: Source[OutcomeBatch], read: Callable[[], ChangeLog]) -> ChangeLog:
    """Return the log that `read` makes of `source`, with the records that were rejected meanwhile.

    Raises ReplayError if it holds no change, with the first rejection that is known.
    """
    try:
        log = read()
    except ReplayError as error:
        if not source.rejections:
            raise
        raise ReplayError(
            f"{error}; records rejected: {source.rejected:,}, one of them {source.rejections[0]}"
        ) from None
    return replace(log, rejected=source.rejected, rejections=tuple(source.rejections))


def read_outcomes(
    deliveries: Iterable[Delivery[OutcomeBatch]],
    change_bits: int = CHANGE_BITS,
    span_s: tuple[float, float] = (-np.inf, np.inf),
    changes: str = EXACT,
) -> ChangeLog:
    """Return the changes in `deliveries`, as `read_truth` does, with the ``crawls`` of crawl outcomes.

    Crawl outcomes outside `span_s`, epoch seconds with an exclusive end, are ignored; records of a change log are all
    used. O(records). Raises ReplayError if they hold no change.
    """
    page_numbers, extractor, exact = _PageNumbers(), _ChangeExtractor(change_bits, changes), True
    for delivery in deliveries:
        exact = delivery.position.kind == _CHANGE_LOG
        outcomes = delivery.records if exact else _within(delivery.records, span_s)
        if len(outcomes):
            pages = page_numbers.number(outcomes.urls)
            extractor.add(pages, len(page_numbers), outcomes, exact=exact)
    late = _LATE.format(f"{extractor.late:,}") if extractor.late else ""
    try:
        log = extractor.collect(page_numbers.urls(), exact=exact)
    except ReplayError as error:
        raise ReplayError(f"{error}. {late}".rstrip(". ")) from None
    return log if exact else replace(log, note=f"{_NOTE} {late}".rstrip())


def _within(outcomes: OutcomeBatch, span_s: tuple[float, float]) -> OutcomeBatch:
    outside = (outcomes.fetched_at < span_s[0]) | (outcomes.fetched_at >= span_s[1])
    return outcomes.take(np.flatnonzero(~outside)) if outside.any() else outcomes


class _PageNumbers:
    """Numbers URLs in the order of their first record, by the rows of a page table."""

    def __init__(self) -> None:
        self._table = PageTable(_ANY_CYCLE_S)

    def __len__(self) -> int:
        return len(self._table)

    def number(self, urls: PackedUrls) -> Ints:
        """Return the number of each URL: int64[n]; new URLs get the next numbers. O(1) per URL."""
        numbers = self._table.find(urls)
        if np.any(numbers < 0):
            self._table.discover(urls, 0.0)
            numbers = self._table.find(urls)
        return numbers

    def urls(self) -> PackedUrls:
        """Return all URLs by number. O(bytes)."""
        return PackedUrls.pack(url_texts(self._table.arrays.pages, np.arange(len(self))))


class _ChangeExtractor:
    """Collects the changes among outcomes, and the state of each page for its next visit.

    ``late``: outcomes that are no newer than one of their page before them.
    """

    def __init__(self, change_bits: int, changes: str) -> None:
        self._rule = ChangeRule(change_bits, parse_changes(changes) == EXACT)
        self._pages: list[Ints] = []
        self._times: list[Floats] = []
        self._gone: list[Bools] = []
        self._since: list[Floats] = []
        self._significance: list[Floats] = []
        self._states = np.zeros(0, _STATE)
        self._importance = np.ones(0)
        self._first_s, self._last_s = np.inf, -np.inf
        self.late = 0

    def add(self, pages: Ints, total: int, outcomes: OutcomeBatch, *, exact: bool) -> None:
        """Add one delivery, of ``pages``: int64[n]; `total` pages are known so far."""
        self._grow(total)
        status = _fill(outcomes.status, len(outcomes))
        status[(outcomes.given & STATUS) == 0] = 200
        changes = np.arange(len(outcomes))
        if not exact:
            optional = outcomes.fingerprint, outcomes.changed, outcomes.content
            columns = outcomes.fetched_at, outcomes.given, status, *(_fill(one, len(outcomes)) for one in optional)
            kept, since_s, late = _extract_changes(pages, columns, self._states, self._rule)
            self.late += late
            changes = np.flatnonzero(kept)
            self._since.append(since_s[changes])
        weighted_rows = np.flatnonzero(outcomes.given & IMPORTANCE)
        if weighted_rows.size:
            self._importance[pages[weighted_rows]] = outcomes.importance[weighted_rows]
        self._pages.append(pages[changes])
        self._times.append(outcomes.fetched_at[changes])
        self._gone.append(status[changes] >= 400)
        self._significance.append(_significance(outcomes)[changes])
        self._first_s = min(self._first_s, float(outcomes.fetched_at.min()))
        self._last_s = max(self._last_s, float(outcomes.fetched_at.max()))

    def collect(self, urls: PackedUrls, *, exact: bool) -> ChangeLog:
        """Return the log of all deliveries; unless `exact`, every page exists since before the log."""
        appearances = np.arange(0 if exact else len(urls))
        pages = np.concatenate([appearances, *self._pages])
        times = np.concatenate([np.full(appearances.size, -np.inf), *self._times])
        gone = np.concatenate([np.zeros(appearances.size, np.bool_), *self._gone])
        known = np.concatenate([np.full(appearances.size, np.nan), *self._significance])
        log = ChangeLog.collect(urls, pages, times, gone, _complete(known))
        importance = self._importance[: len(urls)]
        weighted = bool(np.any(importance != 1.0))
        crawls = None if exact else self._crawls(pages, times)
        return replace(
            log,
            importance=importance if weighted else None,
            first_s=self._first_s,
            last_s=self._last_s,
            crawls=crawls,
        )

    def _crawls(self, pages: Ints, times_s: Floats) -> Crawls:
        """Return the visits of all pages; the first entry of each page is its appearance. O(m log m)."""
        count = int(pages.max(initial=-1)) + 1
        since_s = np.concatenate([np.full(count, -np.inf), *self._since])
        order = np.lexsort((times_s, pages))  # the order of `ChangeLog.collect`
        return Crawls(self._states["visits"][:count].copy(), self._states["watched_s"][:count].copy(), since_s[order])

    def _grow(self, pages: int) -> None:
        if pages > self._states.size:
            more = max(pages, 2 * self._states.size) - self._states.size
            self._states = np.concatenate([self._states, np.zeros(more, _STATE)])
            self._importance = np.concatenate([self._importance, np.ones(more)])


def _significance(outcomes: OutcomeBatch) -> Floats:
    """Return the significance that each outcome reports: float64[n], NaN for none."""
    if not outcomes.significance.size:
        return np.full(len(outcomes), np.nan)
    return np.where(outcomes.given & SIGNIFICANCE, outcomes.significance, np.nan)


def _complete(significance: Floats) -> Floats | None:
    """Return known values and their mean in place of NaN; None if none is known."""
    unknown = np.isnan(significance)
    return None if unknown.all() else np.where(unknown, np.mean(significance[~unknown]), significance)


def _fill(column: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
    """Return a copy of an optional column of a batch, `count` zeros if it is absent."""
    return column.copy() if column.size else np.zeros(count, column.dtype)


@kernel
def _extract_changes(
    pages: Ints, columns: tuple[Any, ...], states: Records, rule: ChangeRule
) -> tuple[Bools, Floats, int]:
    """Return which outcomes saw a change: bool[n], the time of the previous visit: float64[n], and how many were late.

    The time is -inf if the page did not exist then. Updates the pages' states; late outcomes see no change. O(n).
    """
    late = 0
    fetched_at, given, status, fingerprint, changed, content = columns
    kept, since_s = np.zeros(pages.size, np.bool_), np.full(pages.size, -np.inf)
    for i in range(pages.size):
        page: Any = states[pages[i]]
        if page.seen and fetched_at[i] <= page.last_s:
            late += 1
            continue
        code = detect_change(
            given[i],
            status[i],
            fingerprint[i],
            changed[i],
            PageBefore(
                page.seen,
                page.success,
                page.has_fingerprint,
                page.fingerprint,
                compare_content(given[i], content[i], page.content),
            ),
            rule,
        )
        if code == FAILURE:
            continue
        kept[i] = code == CHANGE
        if code not in (FIRST, NO_EVIDENCE) and page.success:
            since_s[i] = page.last_s
            page.visits += 1
            page.watched_s += fetched_at[i] - page.last_s
        page.last_s = fetched_at[i]
        page.seen = True
        page.success = is_success(status[i])
        if code in (CHANGE, NO_EVIDENCE) and page.success:
            page.has_fingerprint = False  # set again below if there is a new one
            page.content = NO_CONTENT
        if shows_content(given[i], status[i], FINGERPRINT) and not page.has_fingerprint:
            page.has_fingerprint = True
            page.fingerprint = fingerprint[i]
        if shows_content(given[i], status[i], CONTENT):
            page.content = pack_content(content[i])
    return kept, since_s, late
