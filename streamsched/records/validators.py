"""Validators of pages: the ETag and the Last-Modified of their content, which crawlers send back to servers.

The two texts of a page are one entry: two bytes with their lengths, then the texts, in a chain of blocks. Blocks that a
page no longer needs are used again, whichever page needs one next, so validators that differ at every visit take no
more memory than those of one visit.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.numerics.arrays import Bytes, Ints, Record, Records
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.outcomes import ETAG, LAST_MODIFIED

ETAG_BYTES: Final = 255  # the longest that is kept: its length is a byte
LAST_MODIFIED_BYTES: Final = 64  # a date has 29

BLOCK_BYTES: Final = 28
_LENGTHS: Final = 2  # bytes at the start of an entry
_ENTRY: Final = _LENGTHS + ETAG_BYTES + LAST_MODIFIED_BYTES
WORK_BYTES: Final = 2 * _ENTRY  # for the new entry and the old one

BLOCK: Final = np.dtype(
    [
        ("next", "<u4"),  # number plus 1 of the block with the rest of the entry, or of another free block; 0: none
        ("text", "u1", BLOCK_BYTES),
    ]
)
VALIDATOR_STATE: Final = np.dtype(
    [
        ("blocks", "<i8"),  # blocks in use, and free ones between them
        ("pages", "<i8"),  # pages with validators
    ]
)
FREE_BLOCKS: Final = np.dtype(
    [
        ("count", "<i8"),
        ("first", "<i8"),  # number plus 1; 0: none
    ]
)


class ValidatorColumns(NamedTuple):
    """The validators of a batch of outcomes; the offsets of an absent column are of length 1."""

    etag_blob: Bytes
    etag_offsets: Ints
    modified_blob: Bytes
    modified_offsets: Ints


class ValidatorArrays(NamedTuple):
    """What validators need beside the columns of `PageArrays`."""

    state: Records  # VALIDATOR_STATE[1]
    free: Records  # FREE_BLOCKS[1]: follows from the chains
    work: Bytes  # uint8[WORK_BYTES], working memory


@bare_kernel
def keep_validators(  # noqa: PLR0913, PLR0917  a kernel
    heads: npt.NDArray[np.uint32],
    blocks: Records,
    arrays: ValidatorArrays,
    row: int,
    columns: ValidatorColumns,
    at: int,
    given: int,
    keeps: bool,
) -> None:
    """Store those validators of outcome `at` that `given` names as those of a page, the others as none. O(bytes).

    `keeps`: keep the page's others instead. A text that is too long, or not of printable ASCII characters, is none.
    ``heads``, ``blocks``: of `PageArrays`, with room for another entry.
    """
    head = np.int64(heads[row])
    if not given & (ETAG | LAST_MODIFIED) and (keeps or head == 0):
        return
    work, old = arrays.work, _ENTRY
    work[old] = work[old + 1] = 0
    if head > 0:
        _copy_entry(blocks, head, work, old)
    middle = old + _LENGTHS + work[old]
    etag_end = end = _LENGTHS
    if given & ETAG:
        etag_end = _copy_text(columns.etag_blob, columns.etag_offsets, at, work, end, ETAG_BYTES)
    elif keeps:
        etag_end = _copy_bytes(work, old + _LENGTHS, middle, work, end)
    if given & LAST_MODIFIED:
        end = _copy_text(columns.modified_blob, columns.modified_offsets, at, work, etag_end, LAST_MODIFIED_BYTES)
    elif keeps:
        end = _copy_bytes(work, middle, middle + work[old + 1], work, etag_end)
    else:
        end = etag_end
    work[0], work[1] = etag_end - _LENGTHS, end - etag_end
    _free(heads, blocks, arrays, row)
    if end > _LENGTHS:
        arrays.state[0].pages += 1
        heads[row] = _write_entry(blocks, arrays, end)


@bare_kernel
def drop_validators(heads: npt.NDArray[np.uint32], blocks: Records, arrays: ValidatorArrays, rows: Ints) -> None:
    """Forget the validators of the pages ``rows``: int64[m]. O(m)."""
    for i in range(rows.size):
        _free(heads, blocks, arrays, rows[i])


@bare_kernel
def chain_length(blocks: Records, head: int) -> int:
    """Return how many blocks the entry that begins with block ``head - 1`` has; 0 for a `head` of 0. O(1)."""
    if head == 0:
        return 0
    first: Record = blocks[head - 1]
    return int((_LENGTHS + np.int64(first.text[0]) + np.int64(first.text[1]) + BLOCK_BYTES - 1) // BLOCK_BYTES)


@bare_kernel
def list_blocks(heads: npt.NDArray[np.uint32], blocks: Records, rows: Ints, numbers: Ints) -> int:
    """Write the numbers of the blocks of the pages ``rows``: int64[m], while there is room; return how many there are.

    O(m + blocks).
    """
    count = 0
    for i in range(rows.size):
        number = np.int64(heads[rows[i]])
        for _ in range(chain_length(blocks, number)):
            if number == 0:
                break
            if count < numbers.size:
                numbers[count] = number - 1
            count += 1
            number = np.int64(blocks[number - 1].next)
    return count


@bare_kernel
def find_free(heads: npt.NDArray[np.uint32], blocks: Records, arrays: ValidatorArrays, used: Bytes) -> None:
    """Let all blocks be free that belong to no page. O(pages + blocks).

    ``heads``: uint32[pages]; ``used``: uint8[blocks in use], zeros.
    """
    _mark_chains(heads, blocks, used)
    free: Record = arrays.free[0]
    free.count = free.first = 0
    for place in range(used.size - 1, -1, -1):
        if not used[place]:
            blocks[place].next = free.first
            free.first = place + 1
            free.count += 1


@bare_kernel
def are_sound(heads: npt.NDArray[np.uint32], blocks: Records, arrays: ValidatorArrays, used: Bytes) -> bool:
    """Return whether each block belongs to one page or is free, and pages and free blocks are counted.

    O(pages + blocks). ``heads``: uint32[pages]; ``used``: uint8[blocks in use], zeros.
    """
    count = _mark_chains(heads, blocks, used)
    free: Record = arrays.free[0]
    number, counted = np.int64(free.first), 0
    while 0 < number <= used.size and not used[number - 1]:
        used[number - 1] = 1
        counted += 1
        number = np.int64(blocks[number - 1].next)
    if number != 0 or counted != free.count or count != arrays.state[0].pages:
        return False
    for place in range(used.size):
        if not used[place]:
            return False
    return True


@bare_kernel
def _mark_chains(heads: npt.NDArray[np.uint32], blocks: Records, used: Bytes) -> int:
    """Mark the blocks that pages have; return how many pages have some, -1 if a chain is not one of its own."""
    count, sound = 0, True
    for row in range(heads.size):
        number = np.int64(heads[row])
        if number > used.size:
            sound = False
            continue
        if number > 0:
            count += 1
        for _ in range(chain_length(blocks, number)):
            if number == 0 or number > used.size or used[number - 1]:
                sound = False
                break
            used[number - 1] = 1
            number = np.int64(blocks[number - 1].next)
        sound = sound and number == 0
    return count if sound else -1


@inlined_kernel
def _free(heads: npt.NDArray[np.uint32], blocks: Records, arrays: ValidatorArrays, row: int) -> None:
    number = np.int64(heads[row])
    if number == 0:
        return
    free: Record = arrays.free[0]
    heads[row] = 0
    arrays.state[0].pages -= 1
    for _ in range(chain_length(blocks, number)):
        block: Record = blocks[number - 1]
        after = np.int64(block.next)
        block.next = free.first
        free.first = number
        free.count += 1
        number = after


@inlined_kernel
def _write_entry(blocks: Records, arrays: ValidatorArrays, size: int) -> int:
    """Write the entry at the start of the working memory to blocks; return the number plus 1 of the first."""
    head = before = 0
    for start in range(0, size, BLOCK_BYTES):
        number = _take(blocks, arrays)
        block: Record = blocks[number - 1]
        block.next = 0
        for i in range(BLOCK_BYTES):
            block.text[i] = arrays.work[start + i] if start + i < size else 0
        if start == 0:
            head = number
        else:
            blocks[before - 1].next = number
        before = number
    return head


@inlined_kernel
def _take(blocks: Records, arrays: ValidatorArrays) -> int:
    """Return the number plus 1 of a block that was free."""
    free: Record = arrays.free[0]
    number: Any = np.int64(free.first)
    if number == 0:
        arrays.state[0].blocks += 1
        number = np.int64(arrays.state[0].blocks)
    else:
        block: Record = blocks[number - 1]
        free.first = block.next
        free.count -= 1
    return int(number)


@bare_kernel
def _copy_entry(blocks: Records, head: int, out: Bytes, at: int) -> None:
    first: Record = blocks[head - 1]
    size = _LENGTHS + np.int64(first.text[0]) + np.int64(first.text[1])
    block: Record = first
    for i in range(size):
        if i > 0 and i % BLOCK_BYTES == 0:
            block = blocks[block.next - np.int64(1)]
        out[at + i] = block.text[i % BLOCK_BYTES]


@bare_kernel
def _copy_text(blob: Bytes, offsets: Ints, at: int, out: Bytes, place: int, most: int) -> int:
    """Copy text `at` of a column to `out` if it may be kept; return where it ends."""
    start, stop = offsets[at], offsets[at + 1]
    if stop - start > most:
        return place
    for i in range(start, stop):
        if not 0x20 <= blob[i] <= 0x7E:  # HTTP clients refuse to send it, or it could begin another header
            return place
    return _copy_bytes(blob, start, stop, out, place)


@bare_kernel
def _copy_bytes(source: Bytes, start: int, stop: int, out: Bytes, place: int) -> int:
    for i in range(stop - start):
        out[place + i] = source[start + i]
    return place + stop - start


@bare_kernel
def _copy_entries(blocks: Records, heads: Ints, offsets: Ints, out: Bytes) -> None:
    for i in range(heads.size):
        _copy_entry(blocks, heads[i], out, offsets[i])


def pack_entries(blocks: Records, heads: Ints) -> tuple[Bytes, Ints]:
    """Return the entries that begin at ``heads``: int64[m], above 0, as bytes and offsets: int64[m + 1]. O(bytes)."""
    lengths = blocks["text"][heads - 1, :_LENGTHS].astype(np.int64).sum(axis=1)
    offsets = np.zeros(heads.size + 1, np.int64)
    np.cumsum(_LENGTHS + lengths, out=offsets[1:])
    packed = np.empty(int(offsets[-1]), np.uint8)
    _copy_entries(blocks, heads, offsets, packed)
    return packed, offsets


def read_validators(
    heads: npt.NDArray[np.uint32], blocks: Records, rows: Ints
) -> tuple[list[str | None], list[str | None]]:
    """Return the ETag and the Last-Modified of each of the pages ``rows``: int64[m], None if it has none. O(bytes)."""
    etags: list[str | None] = [None] * rows.size
    modified: list[str | None] = [None] * rows.size
    own = heads[rows].astype(np.int64)
    places = np.flatnonzero(own)
    if not places.size:
        return etags, modified
    packed, offsets = pack_entries(blocks, own[places])
    for i, place in enumerate(places.tolist()):
        entry = packed[offsets[i] : offsets[i + 1]].tobytes()
        middle = _LENGTHS + entry[0]
        etags[place] = entry[_LENGTHS:middle].decode("utf-8", "replace") or None
        modified[place] = entry[middle:].decode("utf-8", "replace") or None
    return etags, modified


def count_blocks(columns: ValidatorColumns, given: npt.NDArray[np.uint16], start: int, stop: int) -> int:
    """Return how many more blocks the outcomes from `start` up to `stop` may need, at most. O(1) without validators.

    ``given``: uint16[n], which fields the outcomes have.
    """
    bits = given[start:stop]
    total = 0
    for bit, offsets, most in (
        (ETAG, columns.etag_offsets, ETAG_BYTES),
        (LAST_MODIFIED, columns.modified_offsets, LAST_MODIFIED_BYTES),
    ):
        if offsets.size > 1:
            lengths = np.minimum(np.diff(offsets[start : stop + 1]), most)[(bits & bit) != 0]
            total += int((-(-lengths // BLOCK_BYTES)).sum()) + lengths.size
    return total
