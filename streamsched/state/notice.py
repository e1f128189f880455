"""Notice: the kernel that applies a batch of change signals to pages, in stream order."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.estimation.signal_update import APPLIED, apply_signal
from streamsched.numerics.arrays import Bytes, Floats, Ints
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.records.page_schema import BoundLimits
from streamsched.records.schema import ShardArrays
from streamsched.records.score_invalidation import InvalidationBuffer
from streamsched.records.signal_schema import MOST_KINDS
from streamsched.records.url_index import LOOKUP_CHUNK, IndexArrays, resolve
from streamsched.state.known_pages import NewUrl, add_page

# Positions in the counts that `apply_signals` adds to, in the order of `Noticed`; `arrival` has those of known pages.
DISCOVERED: Final = 1
REFUSED: Final = 4
FATES: Final = 5


class NoticeRules(NamedTuple):
    """How signals are read: the cycle in seconds, whether they discover pages, and the bounds on pages."""

    cycle_s: float
    discovers: bool
    bounds: BoundLimits


class SignalColumns(NamedTuple):
    """The columns of a batch for kernels."""

    blob: Bytes
    offsets: Ints
    at: Floats
    source: npt.NDArray[np.int32]
    kinds: Ints  # int64[names]: the number of each name's kind, negative for a new one; applied signals give numbers


class NoticeResult(NamedTuple):
    """What a batch did: ``fates``: int64[FATES], and the rows whose scores it may have changed."""

    fates: Ints
    invalidated: InvalidationBuffer


@bare_kernel
def apply_signals(
    shard: ShardArrays,
    index: IndexArrays,
    columns: SignalColumns,
    span: tuple[int, int],
    rules: NoticeRules,
    result: NoticeResult,
) -> None:
    """Apply the signals from ``span[0]`` up to ``span[1]``, in order, and add to `result`. O(1) each.

    The arrays must have room for the pages and sources that they add.
    """
    for start in range(span[0], span[1], LOOKUP_CHUNK):
        stop = min(start + LOOKUP_CHUNK, span[1])
        rows = index.rows[: stop - start]
        resolve(shard.pages, index, columns.blob, columns.offsets[start : stop + 1], rows)
        for i in range(rows.size):
            at, fate = start + i, REFUSED
            kind = _find_kind(shard, columns, at)
            if kind < MOST_KINDS:
                known = shard.corpus[0].pages
                row = rows[i] if rows[i] >= 0 else _add(shard, index, columns, at, rules)
                if shard.corpus[0].pages > known:
                    fate = DISCOVERED
                elif row >= 0:
                    fate = apply_signal(shard, row, kind, columns.at[at], rules.cycle_s, result.invalidated)
                if fate == APPLIED:
                    columns.kinds[columns.source[at]] = kind
                    shard.signals.state[0].kinds = max(shard.signals.state[0].kinds, kind + 1)
            result.fates[fate] += 1


@inlined_kernel
def _find_kind(shard: ShardArrays, columns: SignalColumns, at: int) -> int:
    """Return the number of the kind of signal `at`: the next free one for a new kind, `MOST_KINDS` if none is free."""
    kind = columns.kinds[columns.source[at]]
    return int(kind) if kind >= 0 else int(shard.signals.state[0].kinds)


@inlined_kernel
def _add(shard: ShardArrays, index: IndexArrays, columns: SignalColumns, at: int, rules: NoticeRules) -> int:
    """Return the row of a page that was unknown when signal `at` was looked up, negative if it is refused."""
    if not rules.discovers:
        return -1
    start, stop = columns.offsets[at], columns.offsets[at + 1]
    hash_: Any = index.hashes[at % LOOKUP_CHUNK]
    return int(add_page(shard, index, NewUrl(columns.blob, start, stop, hash_), columns.at[at], rules.bounds))
