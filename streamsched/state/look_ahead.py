"""Looking up the pages of a large batch on a second thread, ahead of the thread that applies its outcomes.

The second thread only reads the index, the records and the texts, and notes what it finds. The thread that applies
outcomes never waits for it: it looks up by itself what the other one has not reached, and the other one skips what is
taken. A URL that is added after it was looked up in vain is found when it would be added again. So the result does not
depend on which thread was faster, nor on whether there is a second one.

The records that the second thread reads never change: the span of a URL and its text are written before the slot that
names them. Where the memory of a processor is weakly ordered, it may read a slot earlier than the text; then the
comparison of the texts fails, and the URL counts as not found.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.numerics.arrays import Bytes, Ints
from streamsched.numerics.compilation.machine_operations import load_acquired, prefetch, store_released
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.records.page_schema import PageArrays
from streamsched.records.url_index import LOOKUP_CHUNK, IndexArrays, resolve

FEWEST: Final = 1 << 15  # outcomes of a batch for which a thread is worth its start: some 6 ms of work
PREFETCHED: Final = 24  # outcomes between prefetching a page's records and using them

_STOP: Final = 1 << 62  # as the number of chunks taken: all


class LookAhead(NamedTuple):
    """What two threads share of the look-ups of a batch, in chunks of `LOOKUP_CHUNK` outcomes.

    ``found``: uint32[n], row plus 1, 0 for unknown URLs; ``done``: int64[chunks], 1 once `found` holds a chunk;
    ``taken``: int64[1], the chunks that the applying thread has begun. All of length 0 if it looks up by itself.
    """

    found: npt.NDArray[np.uint32]
    done: Ints
    taken: Ints


ALONE: Final = LookAhead(np.empty(0, np.uint32), np.empty(0, np.int64), np.empty(0, np.int64))


@contextmanager
def looking_ahead(
    pages: PageArrays, index: IndexArrays, blob: Bytes, offsets: Ints, threads: int
) -> Iterator[LookAhead]:
    """Look up the URLs of a batch on a thread of its own in this block, if there are enough; else `ALONE`.

    `index`: with working memory that nobody else uses; `threads`: those that the caller may use, itself included.
    """
    count = offsets.size - 1
    if count < FEWEST or threads < 2:
        yield ALONE
        return
    chunks = -(-count // LOOKUP_CHUNK)
    ahead = LookAhead(np.empty(count, np.uint32), np.zeros(chunks, np.int64), np.zeros(1, np.int64))
    thread = threading.Thread(
        target=_look_up_all, args=(pages, index, blob, offsets, ahead), name="streamsched look-up", daemon=True
    )
    try:
        thread.start()
    except RuntimeError:  # the system grants no thread
        yield ALONE
        return
    try:
        yield ahead
    finally:
        ahead.taken[0] = _STOP
        thread.join()


@inlined_kernel
def look_up(
    pages: PageArrays, index: IndexArrays, blob: Bytes, offsets: Ints, span: tuple[int, int], ahead: LookAhead
) -> None:
    """Fill ``index.rows`` with the rows of the URLs of a chunk, from ``span[0]`` up to ``span[1]``; see `resolve`."""
    rows = index.rows[: span[1] - span[0]]
    chunk = span[0] // LOOKUP_CHUNK
    if ahead.done.size:
        store_released(ahead.taken, 0, chunk + 1)
        if load_acquired(ahead.done, chunk):
            for i in range(rows.size):
                rows[i] = np.int64(ahead.found[span[0] + i]) - 1
            for i in range(min(PREFETCHED, rows.size)):
                prefetch_page(pages, rows[i])
            return
    resolve(pages, index, blob, offsets[span[0] : span[1] + 1], rows)


@inlined_kernel
def prefetch_page(pages: PageArrays, row: int) -> None:
    """Prefetch the records of the page of `row`, if it is one. O(1)."""
    if row >= 0:
        prefetch(pages.records, row)
        prefetch(pages.traces, row)
        prefetch(pages.traces, row + 1)  # up to where the record ends, often the next cache line


@bare_kernel
def _look_up_all(pages: PageArrays, index: IndexArrays, blob: Bytes, offsets: Ints, ahead: LookAhead) -> None:
    """Look up all chunks that the applying thread has not taken. O(1) a URL."""
    for chunk in range(ahead.done.size):
        if chunk >= load_acquired(ahead.taken, 0):
            start = chunk * LOOKUP_CHUNK
            rows = index.rows[: min(LOOKUP_CHUNK, offsets.size - 1 - start)]
            resolve(pages, index, blob, offsets[start : start + rows.size + 1], rows)
            for i in range(rows.size):
                ahead.found[start + i] = rows[i] + 1
            store_released(ahead.done, chunk, 1)
