"""Change logs: when the pages of a log changed, the window of one that a replay covers, and files of changes."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from streamsched.connectors.formats.writers import replacing
from streamsched.connectors.source import Rejection
from streamsched.errors import ReplayError
from streamsched.numerics.argument_checks import check_path
from streamsched.numerics.arrays import Bools, Floats, Ints, Rows
from streamsched.numerics.jit import kernel
from streamsched.numerics.packed_urls import PackedUrls


@dataclass(frozen=True, slots=True, eq=False)
class Crawls:
    """Visits behind a log of crawl outcomes, of n pages and m changes.

    ``visits``: int64[n], visits of a page that existed at the previous visit, which could have shown a change;
    ``watched_s``: float64[n], seconds between these visits and the previous ones. ``since_s``: float64[m], the visit
    before the one that saw each change of the `ChangeLog`, -inf if the page did not exist then.
    """

    visits: Ints
    watched_s: Floats
    since_s: Floats


@dataclass(frozen=True, slots=True, eq=False)
class ChangeLog:
    """All m changes of n pages, page after page.

    - ``urls``: n, in the order in which the log first names them;
    - ``offsets``: int64[n + 1], the changes of page i are ``offsets[i]`` to ``offsets[i + 1]`` of ``times_s``:
      float64[m], UTC epoch seconds, ascending within a page, and of ``gone``: bool[m], whether the change removed the
      page. A page appears with its first change;
    - ``importance``: float64[n] if the log weights its pages, else None;
    - ``first_s`` and ``last_s``: the log's extent;
    - ``rejected``: the number of malformed records left out, the last of them in ``rejections``;
    - ``note``: limits of the times' accuracy, empty if there are none;
    - ``crawls``: the visits behind the log, None for a log of changes;
    - ``significance``: float64[m], how much of its page each change concerns, 0 to 1; None if the log does not say.
    """

    urls: PackedUrls
    times_s: Floats
    offsets: Ints
    gone: Bools
    importance: Floats | None
    first_s: float
    last_s: float
    rejected: int = 0
    rejections: tuple[Rejection, ...] = ()
    note: str = ""
    crawls: Crawls | None = None
    significance: Floats | None = None

    @classmethod
    def collect(
        cls, urls: PackedUrls, pages: Ints, times_s: Floats, gone: Bools, significance: Floats | None = None
    ) -> ChangeLog:
        """Return the log of m changes in any order: ``pages``: int64[m], the others as in the log, but in that order.

        A time of -inf marks a page that existed before the log begins. Simultaneous changes of a page keep their order.
        O(m log m). Raises ReplayError if there is no change at a finite time.
        """
        finite = times_s[np.isfinite(times_s)]
        if not finite.size:
            raise ReplayError("the log holds no change")
        order = np.lexsort((times_s, pages))
        offsets = np.zeros(len(urls) + 1, np.int64)
        np.cumsum(np.bincount(pages, minlength=len(urls)), out=offsets[1:])
        log = cls(urls, times_s[order], offsets, gone[order], None, float(finite.min()), float(finite.max()))
        return log if significance is None else replace(log, significance=significance[order])

    def versions(self, pages: Rows, until_s: Floats) -> Ints:
        """Return the number of changes of each page up to a time, inclusive: int64[k]. O(log changes) per page.

        ``pages``: intp[k] and ``until_s``: float64[k] are pairs. The later of two crawls of a page sees a change if
        this number differs.
        """
        return np.asarray(_last_at(self.times_s, self.offsets, pages, until_s) - self.offsets[pages])

    def alive(self, when_s: float) -> Rows:
        """Return the pages that exist at `when_s`: intp[k], ascending. O(pages · log changes)."""
        pages = np.arange(len(self.urls))
        ends = _last_at(self.times_s, self.offsets, pages, _fill(pages, when_s))
        begun = ends > self.offsets[:-1]
        begun[begun] = ~self.gone[ends[begun] - 1]
        return np.flatnonzero(begun)

    def window(
        self, start_s: float, cycle_s: float, cycles: int, *, measured_s: float | None = None, later_pages: bool = False
    ) -> Window:
        """Return `cycles` cycles of `cycle_s` seconds from `start_s`, with the pages alive at `measured_s`.

        That is the start if it is None, else a later time in the window: pages that appear or reappear before it follow
        those alive from the start on, in order of appearance, and with `later_pages` those after it. O(changes + pages
        log changes). Raises ReplayError if none of the pages is alive at the start.
        """
        end_s = start_s + cycle_s * cycles
        measured_s = start_s if measured_s is None else measured_s
        measured = self.alive(measured_s)
        alive = np.intersect1d(measured, self.alive(start_s), assume_unique=True)
        if not alive.size:
            both = "" if measured_s == start_s else f" and at epoch {measured_s:.0f}"
            raise ReplayError(f"no page is alive at epoch {start_s:.0f}{both}: the log begins at {self.first_s:.0f}")
        late, appearance = self._appearing(np.setdiff1d(measured, alive, assume_unique=True), start_s, end_s)
        if later_pages:
            others = np.setdiff1d(np.arange(len(self.urls)), measured, assume_unique=True)
            after = self._appearing(others, measured_s, end_s)
            late, appearance = np.concatenate([late, after[0]]), np.concatenate([appearance, after[1]])
        pages = np.concatenate([alive, late])
        begin = np.concatenate([_last_at(self.times_s, self.offsets, alive, _fill(alive, start_s)), appearance + 1])
        within, offsets = self._slice(pages, begin, end_s)
        significance = None if self.significance is None else self.significance[within]
        appears_s = np.concatenate([_fill(alive, -np.inf), self.times_s[appearance]])
        importance = None if self.importance is None else self.importance[pages]
        changes = self.times_s[within], offsets, appears_s
        return Window(self.urls.take(pages), *changes, importance, start_s, cycle_s, cycles, significance)

    def _appearing(self, pages: Rows, start_s: float, end_s: float) -> tuple[Rows, Ints]:
        """Return those of `pages`, not alive at the start, that appear before the end, and the index of that change."""
        first = _last_at(self.times_s, self.offsets, pages, _fill(pages, start_s))
        within = first < self.offsets[pages + 1]
        within[within] = self.times_s[first[within]] < end_s
        pages, first = pages[within], first[within]
        order = np.argsort(self.times_s[first], kind="stable")
        return pages[order], first[order]

    def _slice(self, pages: Rows, begin: Ints, end_s: float) -> tuple[Ints, Ints]:
        """Return the pages' changes from index `begin`: int64[k] to before `end_s`: their indices, and offsets."""
        before_end = _fill(pages, np.nextafter(end_s, -np.inf))
        lengths = np.maximum(0, _last_at(self.times_s, self.offsets, pages, before_end) - begin)
        offsets = np.zeros(pages.size + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        source = np.arange(offsets[-1]) + np.repeat(begin - offsets[:-1], lengths)
        return source, offsets


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Ground truth of one replay: n pages and their m changes in cycles [start + c·cycle, start + (c + 1)·cycle).

    ``urls``: n; ``times_s``: float64[m] and ``offsets``: int64[n + 1] as in `ChangeLog`, the changes after a page's
    appearance and before the window's end. ``appears_s``: float64[n], ascending, -inf for pages alive at the start.
    ``importance``: float64[n] or None. ``significance``: float64[m] or None.
    """

    urls: PackedUrls
    times_s: Floats
    offsets: Ints
    appears_s: Floats
    importance: Floats | None
    start_s: float
    cycle_s: float
    cycles: int
    significance: Floats | None = None

    @property
    def pages(self) -> int:
        """Number of pages."""
        return len(self.urls)

    def edge(self, cycle: int) -> float:
        """Return the start of cycle number `cycle`, the end of the one before, in epoch seconds."""
        return self.start_s + cycle * self.cycle_s

    def known(self, cycle: int) -> int:
        """Return the number of pages known in a cycle, always the first ones: they appeared before it. O(log pages)."""
        return int(np.searchsorted(self.appears_s, self.edge(cycle), "left"))

    def before(self, when_s: float) -> Ints:
        """Return the index of each page's first change at or after `when_s`: int64[n]. O(n log changes).

        A crawl at the end of a cycle sees changes before the edge; a change on the edge belongs to the next cycle.
        """
        pages = np.arange(self.pages)
        return _last_at(self.times_s, self.offsets, pages, _fill(pages, np.nextafter(when_s, -np.inf)))

    def change_at(self, index: Ints) -> Floats:
        """Return the time of each page's change number ``index``: int64[n] into `times_s`; inf after its last. O(n)."""
        times = np.full(index.size, np.inf)
        exists = index < self.offsets[1:]
        times[exists] = self.times_s[index[exists]]
        return times

    def changes(self, since: int = 0) -> Ints:
        """Return the number of changes of each page from cycle number `since` on: int64[n]. O(n log changes)."""
        return self.offsets[1:] - self.before(self.edge(since))


def _fill(pages: Rows, time_s: float) -> Floats:
    return np.full(pages.size, time_s)


@kernel
def _last_at(times_s: Floats, offsets: Ints, pages: Rows, until_s: Floats) -> Ints:
    """Return the index after each page's last change at or before its time: int64[k]. O(log changes) per page."""
    ends = np.empty(pages.size, np.int64)
    for i in range(pages.size):
        low = offsets[pages[i]]
        high = offsets[pages[i] + 1]
        while low < high:
            middle = (low + high) // 2
            if times_s[middle] <= until_s[i]:
                low = middle + 1
            else:
                high = middle
        ends[i] = low
    return ends


_CHUNK: Final = 65_536  # changes per write: about 4 MB of lines
_LEVEL: Final = 4  # zlib level: level 6 takes twice as long and compresses such lines hardly better
_GZIP: Final = 31  # zlib's code for "gzip header and trailer, largest window"
_WORKERS: Final = 2  # compression threads, which release the GIL: enough to keep up with formatting
_DECIMALS: Final = 9  # of a second, the maximum of the format


def write_changes(log: ChangeLog, path: str | Path, progress: Callable[[int, int], None] | None = None) -> int:
    """Write the changes of `log` to the file `path`, oldest first, gzip if it ends in ``.gz``; return their number.

    Simultaneous changes are in the order of their pages, and pages from before the log appear at its start. Reading the
    file gives an equal log if pages are in order of appearance; times have nanosecond precision, ``importance`` is not
    written. `progress` is called with the number of changes written and the total. The same log gives the same bytes.
    O(m log m), about 2 µs per change. The file is replaced atomically. Raises SourceError if it cannot be written.
    """
    path = check_path("path", path)
    page = np.repeat(np.arange(len(log.urls)), np.diff(log.offsets))
    times_s = np.maximum(log.times_s, log.first_s)
    order = np.argsort(times_s, kind="stable")
    chunks = (order[start : start + _CHUNK] for start in range(0, order.size, _CHUNK))
    lines = _format_chunks(log, page, times_s, chunks)
    packed = str(path).endswith(".gz")
    with replacing(path, pack=False) as file:
        done = 0
        for data in _compress(lines) if packed else lines:
            file.write(data)
            done = min(done + _CHUNK, order.size)
            if progress is not None:
                progress(done, order.size)
    return order.size


def _format_chunks(log: ChangeLog, page: Ints, times_s: Floats, chunks: Iterator[Ints]) -> Iterator[bytes]:
    """Return the lines of each of `chunks`, which are indices of changes."""
    text = log.urls.blob.tobytes()
    urls = [text[start:end] for start, end in pairwise(log.urls.offsets.tolist())]
    ops = _name_ops(log)
    for chunk in chunks:
        fields = zip(_format_times(times_s[chunk]), ops[chunk].tolist(), page[chunk].tolist(), strict=True)
        if log.significance is None:
            yield b"".join([b"%b\t%b\t%b\n" % (epoch, op, urls[at]) for epoch, op, at in fields])
        else:
            parts = [np.format_float_positional(part, trim="-").encode() for part in log.significance[chunk]]
            lines = zip(fields, parts, strict=True)
            yield b"".join([b"%b\t%b\t%b\t%b\n" % (epoch, op, urls[at], part) for (epoch, op, at), part in lines])


def _name_ops(log: ChangeLog) -> npt.NDArray[np.bytes_]:
    """Return the op of each change as bytes: ``A`` for a page's first change and for its return."""
    appears = np.append(True, log.gone[:-1])
    appears[log.offsets[:-1][np.diff(log.offsets) > 0]] = True
    return np.where(log.gone, b"D", np.where(appears, b"A", b"M"))


def _format_times(times_s: Floats) -> list[bytes]:
    whole = times_s.astype(np.int64)
    if np.array_equal(whole, times_s):
        return [b"%d" % time_s for time_s in whole.tolist()]
    return [f"{time_s:.{_DECIMALS}f}".rstrip("0").rstrip(".").encode() for time_s in times_s.tolist()]


def _compress(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Return each block as a gzip member, in order; a few are compressed at a time."""
    pending: deque[Future[bytes]] = deque()
    with ThreadPoolExecutor(_WORKERS) as pool:
        for block in blocks:
            pending.append(pool.submit(_pack, block))
            if len(pending) > _WORKERS:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def _pack(block: bytes) -> bytes:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    return packer.compress(block) + packer.flush()
