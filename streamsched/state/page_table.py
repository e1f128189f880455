"""The page table: every page of a shard, in arrays that grow as pages are added."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from streamsched.estimation.change_detection import CHANGE_BITS, ChangeRule
from streamsched.estimation.forgetting import init_half_life
from streamsched.estimation.hierarchical_prior import init_corpus
from streamsched.estimation.related_members import join_pages
from streamsched.estimation.seasonality.group_profiles import assign_profiles, init_profiles
from streamsched.estimation.seasonality.regions import REGIONS, TimeRegion
from streamsched.numerics.arrays import Bytes, Floats, Hashes, Ints, Records, frozen
from streamsched.numerics.keyed_hash import draw_key, read_key
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.numerics.url_syntax import UrlStarts
from streamsched.outcomes import CONTENT, OutcomeBatch
from streamsched.politeness.limits import DEFAULT_LIMITS, Limits
from streamsched.records.dirty_tracking import DirtyTracker, mark_dirty_rows
from streamsched.records.page_schema import MAX_PAGES, PageBounds
from streamsched.records.registrable_domains import DomainIndex
from streamsched.records.related_schema import KEY_BITS, SHARE_BITS
from streamsched.records.schema import ShardArrays
from streamsched.records.score_invalidation import UNWATCHED, InvalidatedRows
from streamsched.records.url_index import UrlIndex
from streamsched.records.url_patterns import place_groups, rebuild_members
from streamsched.records.url_store import find_anchors, pack_urls, texts_are_sound
from streamsched.records.validators import ValidatorColumns, count_blocks, find_free
from streamsched.signals import SignalBatch
from streamsched.state.ingest import COUNTS, IngestCounts, IngestRules, OutcomeColumns, apply_outcomes
from streamsched.state.invariants import find_faults
from streamsched.state.known_pages import add_pages
from streamsched.state.lazy_kernels import lazy_kernels
from streamsched.state.look_ahead import looking_ahead
from streamsched.state.notice import FATES, NoticeResult, NoticeRules, SignalColumns, apply_signals
from streamsched.state.state_arrays import CONTENTS, SIGNALS, Room
from streamsched.state.state_memory import StateMemory
from streamsched.state.url_rule import ANY_TEXT

NO_CHANGES: Final = np.empty((0, 3))
NO_VERDICTS: Final = np.empty(0, np.uint8)
"""A place for changes that are not wanted."""
_CHUNK: Final = 1 << 16  # outcomes applied at a time: the arrays get room for that many new pages
_GROUPS_PER_PAGE: Final = 2  # a page adds its host and one prefix at most, whose names are no longer than its URL
_NO_KIND: Final = -1  # in place of the number of a kind of source without an applied signal


class PageTable:
    """All pages of one shard: records, URL texts, groups and the learned prior.

    Grows without moving a row. 128 bytes a page in `PAGE`, `TRACE`, the lease columns and the column of validators, 8
    in the member lists of groups, 11 to 21 in the URL index, about one in the sketch of URL patterns, 264 a group, what
    the URL does not share, and at most 29 for seasonality; 295 kB for the shadows of `estimation.forgetting`. Not
    thread-safe.

    ``threads``: how many `observe` may use, itself included; the result is the same.
    """

    def __init__(
        self,
        cycle_s: float,
        regions: Mapping[str, TimeRegion] | None = REGIONS,
        bounds: PageBounds | None = None,
        key: Hashes | None = None,
        signal_kinds: Sequence[str] = (),
    ) -> None:
        """Create a table without pages.

        `regions`: those whose seasonality is learned, None to learn none; `bounds`: on pages and URL patterns, None for
        the default ones; `key`: uint64[2], of the indexes' hash, None to draw a new one; `signal_kinds`: the names of
        the kinds of sources of change signals, by number.
        """
        self.cycle_s = cycle_s
        self.bounds = bounds or PageBounds()
        self.threads = os.cpu_count() or 1
        self.key = draw_key() if key is None else key
        self.regions = regions
        self.signal_kinds = list(signal_kinds)
        self._memory = StateMemory(self.key, regions or {})
        if self.signal_kinds:
            self._memory.begin(SIGNALS)
        self._index = UrlIndex(self.key)
        self._domains = DomainIndex(self.key)
        self.marks = DirtyTracker()
        self.touched: InvalidatedRows | None = None
        arrays = self.arrays
        self._corpus = arrays.corpus
        init_corpus(self._corpus, cycle_s)
        init_half_life(self._corpus)
        arrays.seasonality.state["off"] = regions is None
        init_profiles(arrays.seasonality, len(regions or {}))
        arrays.signals.state["kinds"] = len(self.signal_kinds)
        self._memory.clear_keys(arrays)

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> Self:
        """Return an empty table for a scheduler's saved `state`: load its arrays, then call `rebuild_index`."""
        settings = state["settings"]
        saved = settings.get("regions", {name: region.to_json() for name, region in REGIONS.items()})
        regions = None if saved is None else {name: TimeRegion.from_json(region) for name, region in saved.items()}
        bounds, key = PageBounds(**settings["bounds"]), read_key(state["index_key"])
        return cls(settings["cycle_s"], regions, bounds, key, state["signal_kinds"])

    def __len__(self) -> int:
        return int(self._corpus["pages"][0])

    @property
    def corpus(self) -> Records:
        """The record of the counts: CORPUS[1]. It never moves, so any thread may read it without the lock."""
        return self._corpus

    @property
    def arrays(self) -> ShardArrays:
        """The arrays for kernels, valid until the next call that adds pages."""
        return self._memory.arrays(self.marks.arrays)

    def find(self, urls: PackedUrls) -> Ints:
        """Return the rows of `urls`: int64[n], -1 for pages never seen or forgotten. O(1) a URL."""
        return self._index.find(self.arrays.pages, urls)

    def observe(  # noqa: PLR0913  all but the batch by name
        self,
        batch: OutcomeBatch,
        limits: Limits | None = None,
        *,
        exact: bool = True,
        surges: bool = True,
        starts: UrlStarts = ANY_TEXT,
        then: Callable[[int], object] | None = None,
        found: npt.NDArray[np.float64] = NO_CHANGES,
        verdicts: Bytes = NO_VERDICTS,
    ) -> Ints:
        """Apply a valid batch in stream order; return int64[COUNTS], in the positions of `streamsched.state.ingest`.

        `limits`: the politeness for the hosts' answers, that of the default settings if None; `exact`: see
        `ChangeRule`; `surges`: whether surges are learned; `starts`: see `IngestRules`; `then`: called with
        the number of outcomes whenever some tens of thousands are applied, and at the end; `found`: float64[n, 3], gets
        the changes, `verdicts`: uint8[n] of zeros, the verdicts, see `IngestCounts`. O(1) an outcome, amortised: 112
        bytes of the page's records, its group's mean, and four rows of the sweep.
        """
        touched = self.touched.buffer if self.touched else UNWATCHED
        result = IngestCounts(np.zeros(COUNTS, np.int64), touched, found, verdicts)
        columns = _as_columns(batch)
        if np.any(batch.given & CONTENT):
            self.keep_contents()
        change = ChangeRule(CHANGE_BITS, exact)
        limits = DEFAULT_LIMITS if limits is None else limits
        second, pages = self._index.arrays(1), self.arrays.pages
        with looking_ahead(pages, second, columns.blob, columns.offsets, self.threads) as ahead:
            for start in range(0, max(len(batch), 1), _CHUNK):  # an empty batch compiles the kernel
                span = (start, min(start + _CHUNK, len(batch)))
                self._ensure_room(batch.urls, *span, batch.moved_to)
                self._ensure_blocks(columns, *span)
                shard, index, bounds = self.arrays, self._index.arrays(), self.bounds.limits
                offsets, given = columns.offsets[span[0] : span[1] + 1], columns.given[slice(*span)]
                lazy = lazy_kernels(shard, index, columns.blob, offsets, given, columns.validators, bounds)
                rules = IngestRules(self.cycle_s, change, limits, surges, bounds, starts, lazy)
                apply_outcomes(shard, index, columns, span, rules, ahead, result)
                self._join_pages()
                if then is not None:
                    then(span[1] - span[0])
        self._index.settle()
        return result.counts

    def discover(self, urls: PackedUrls, now: float) -> int:
        """Add the unknown ones of `urls` as never visited and known since `now`; return their number. O(1) a URL.

        Those that a bound refuses are not added but counted.
        """
        before = len(self)
        for start in range(0, len(urls), _CHUNK):
            stop = min(start + _CHUNK, len(urls))
            self._ensure_room(urls, start, stop)
            offsets = frozen(urls.offsets[start : stop + 1])
            add_pages(self.arrays, self._index.arrays(), frozen(urls.blob), offsets, now, self.bounds.limits)
            self._join_pages()
        self._index.settle()
        return len(self) - before

    def notice(self, batch: SignalBatch, *, discovers: bool) -> Ints:
        """Apply valid signals in stream order; return int64[FATES], in the positions of `streamsched.state.notice`.

        `discovers`: whether signals of unknown pages add them, within the bounds. O(1) a signal.
        """
        buffer = self.touched.buffer if self.touched else UNWATCHED
        fates, names = np.zeros(FATES, np.int64), self.signal_kinds
        kinds = np.array([names.index(name) if name in names else _NO_KIND for name in batch.names], np.int64)
        self._memory.begin(SIGNALS)
        columns = SignalColumns(
            frozen(batch.urls.blob), frozen(batch.urls.offsets), frozen(batch.at), frozen(batch.source), kinds
        )
        for start in range(0, max(len(batch), 1), _CHUNK):  # an empty batch compiles the kernel
            span = (start, min(start + _CHUNK, len(batch)))
            self._ensure_room(batch.urls, *span if discovers else (0, 0))
            rules = NoticeRules(self.cycle_s, discovers, self.bounds.limits)
            apply_signals(self.arrays, self._index.arrays(), columns, span, rules, NoticeResult(fates, buffer))
            self._join_pages()
        named = {int(number): name for number, name in zip(kinds, batch.names, strict=True)}
        names += [named[number] for number in range(len(names), int(self.arrays.signals.state["kinds"][0]))]
        if not names:
            self._memory.release(SIGNALS)
        self._index.settle()
        return fates

    def weigh(self, urls: PackedUrls, importance: Floats) -> None:
        """Set the importance of the known ones of `urls`: float64[n], one for each of `urls`. O(1) a URL."""
        rows = self.find(urls)
        known = rows >= 0
        rows, importance = rows[known], importance[known]
        if self.touched:
            self.touched.add(rows)
        shard = self.arrays
        mark_dirty_rows(shard.dirty, shard.pages, shard.seasonality, rows)
        shard.pages.records["importance"][rows] = importance

    def watch(self) -> InvalidatedRows:
        """Start recording the rows whose scores may change, for one reader; return the record. O(1).

        It records the rows of applied outcomes, those that the sweep passes, and those of `weigh`; whatever else writes
        to the records must add its rows. It is not saved.
        """
        self.touched = InvalidatedRows(self._corpus)
        return self.touched

    def unwatch(self) -> None:
        """Stop recording rows. O(1)."""
        self.touched = None

    def rebuild_index(self, *, are_members: bool = True) -> None:
        """Rebuild the hash indexes, member lists and profile assignments after the records were loaded. O(pages).

        `are_members`: whether pages are members of the same keys as when they were saved.
        """
        shard, groups = self.arrays, int(self._corpus["groups"][0])
        self._index.rebuild(shard.pages, self._corpus)
        self._memory.clear_group_slots(groups)
        place_groups(self.arrays.groups, groups)
        rebuild_members(shard.groups, shard.pages.records, self._corpus)
        find_anchors(shard.pages, shard.groups.anchors, len(self))
        self._domains.rebuild(shard.groups, self._corpus)
        shard.seasonality.state["off"] = self.regions is None
        assign_profiles(shard.seasonality, shard.groups, groups)
        known = self._rejoin_keys()
        links = shard.seasonality.links[: len(self)]
        if not are_members:
            joined, before = links["related"] & KEY_BITS, known & KEY_BITS
            known &= SHARE_BITS
            known |= np.where((joined == 0) | (before == 0), joined, before)
        links["related"] = known
        self._free_blocks()

    def state_bytes(self) -> dict[str, int]:
        """Return the bytes of memory that each part of the state takes, in whole pages where it grows. O(1)."""
        return self._memory.nbytes(self.arrays) | {"url_index": self._index.nbytes()}

    def keep_contents(self) -> None:
        """Let pages have a `content` each from the next call that makes room. O(1)."""
        self._memory.begin(CONTENTS)

    def reserve(self, room: Room) -> None:
        """Make room for that much in all. Raises MemoryError beyond `MAX_PAGES` pages."""
        if room.pages > MAX_PAGES:
            raise MemoryError(f"a shard holds at most {MAX_PAGES} pages, found {room.pages}: use more shards")
        self._memory.reserve(room)

    def faults(self) -> list[str]:
        """Return the invariants of the table that do not hold. O(pages)."""
        shard = self.arrays
        spans = shard.pages.traces["url_span"][: len(self)]
        if not texts_are_sound(shard.pages.text[: int(self._corpus["text_end"][0])], spans):
            return ["URLs fill the text, one after another"]
        return find_faults(shard, self.find(pack_urls(shard.pages.text, spans)))

    def _join_pages(self) -> None:
        """Make new pages members of their keys, and count them in their domains. O(their URLs)."""
        shard = self.arrays
        if shard.related.state["joined"][0] < len(self):
            join_pages(shard, len(self))
        self._domains.add(shard.groups, self._corpus, shard.pages.records)

    def _rejoin_keys(self) -> npt.NDArray[np.uint16]:
        """Make all pages members of their keys, after the records were loaded; return what links said before. O(URLs).

        uint16[pages, KEY_KINDS].
        """
        count, groups = len(self), int(self._corpus["groups"][0])
        links = self.arrays.seasonality.links[:count]
        known: npt.NDArray[np.uint16] = links["related"].copy()
        links["related"] &= SHARE_BITS
        self._memory.clear_keys(self.arrays)
        for start in range(0, count, _CHUNK):
            self._memory.make_slots(self.arrays, groups, min(_CHUNK, count - start))
            join_pages(self.arrays, min(start + _CHUNK, count))
        return known

    def _ensure_room(self, urls: PackedUrls, start: int, stop: int, moved_to: PackedUrls | None = None) -> None:
        """Make room for all of `urls`, and of `moved_to` unless it is empty, from `start` up to `stop` as new pages.

        As far as `bounds` allow.
        """
        corpus = self._corpus[0]
        columns = [column for column in (urls, moved_to) if column]
        known = int(corpus["pages"])
        new = min(len(columns) * (stop - start), max(self.bounds.limits.pages - known, 0))
        text = sum(int(column.offsets[stop] - column.offsets[start]) for column in columns) if new else 0
        groups = int(corpus["groups"]) + _GROUPS_PER_PAGE * new
        names = int(corpus["names_end"]) + _GROUPS_PER_PAGE * text
        self.reserve(Room(known + new, groups, int(corpus["text_end"]) + text, names))
        self._memory.make_slots(self.arrays, groups, new)
        self._index.ensure(known + new)

    def _ensure_blocks(self, columns: OutcomeColumns, start: int, stop: int) -> None:
        """Make room for the validators of the outcomes from `start` up to `stop`."""
        more = count_blocks(columns.validators, columns.given, start, stop)
        if more:
            arrays = self.arrays.validators
            free = int(arrays.free["count"][0])
            self.reserve(Room(blocks=int(arrays.state["blocks"][0]) + max(more - free, 0)))

    def _free_blocks(self) -> None:
        """Find the free blocks of validators, after the records were loaded. O(pages) if there are any."""
        shard = self.arrays
        used = np.zeros(int(shard.validators.state["blocks"][0]), np.uint8)
        if used.size:
            find_free(shard.pages.validators[: len(self)], shard.pages.validator_texts, shard.validators, used)


def _as_columns(batch: OutcomeBatch) -> OutcomeColumns:
    """Return the columns of `batch` for kernels; texts become their bytes and offsets. O(1)."""
    texts: dict[str, Any] = {
        "blob": batch.urls.blob,
        "offsets": batch.urls.offsets,
        "moved_blob": batch.moved_to.blob,
        "moved_offsets": batch.moved_to.offsets,
    }
    etag, modified = batch.etag, batch.last_modified
    headers: list[Any] = [etag.blob, etag.offsets, modified.blob, modified.offsets]
    *names, _ = OutcomeColumns._fields
    columns: list[Any] = [frozen(texts[name] if name in texts else getattr(batch, name)) for name in names]
    columns.append(ValidatorColumns(*map(frozen, headers)))
    return OutcomeColumns(*columns)
