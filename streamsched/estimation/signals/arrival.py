"""The arrival of a change signal about a known page: its fate, and what it adds to the page and its source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from streamsched.estimation.signals.belief import DAY_S, add_signal, believe, rate_per_day
from streamsched.estimation.signals.reliability import Yield, find_source, learn_arrival, learn_yield, reliability
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.records.dirty_tracking import mark_dirty_group, mark_dirty_row
from streamsched.records.score_invalidation import InvalidationBuffer, invalidate_row

if TYPE_CHECKING:
    from streamsched.estimation.signals.reliability import Reliability
    from streamsched.numerics.arrays import Record
    from streamsched.records.schema import ShardArrays

__all__ = ["APPLIED", "LATE", "REPEATED", "apply_signal"]

# Fates of signals about known pages.
APPLIED: Final = 0
REPEATED: Final = 2
LATE: Final = 3


@bare_kernel
def apply_signal(
    shard: ShardArrays, row: int, kind: int, at_s: float, cycle_s: float, invalidated: InvalidationBuffer
) -> int:
    """Apply a signal of a kind about the page of `row`; return its fate. O(1)."""
    page: Record = shard.pages.records[row]
    signal: Record = shard.pages.signals[row]
    after_s = at_s - page.last_visit_s
    if not after_s > 0.0:
        return LATE
    if np.int64(signal.kinds) >> kind & 1 and np.float32(after_s) <= signal.last_after_s:
        return REPEATED
    mark_dirty_row(shard.dirty, shard.pages, shard.seasonality, row)
    number = _count_signal(shard, row, kind, at_s)
    before = signal.signalled
    _add(shard, row, number, after_s, reliability(shard, number, cycle_s), cycle_s)
    if signal.signalled != before:
        invalidate_row(invalidated, row)
    return APPLIED


@inlined_kernel
def _add(shard: ShardArrays, row: int, number: int, after_s: float, source: Reliability, cycle_s: float) -> None:
    """Add a signal to what its page and its source know; a late announcement of a seen change is true at once."""
    signal: Record = shard.pages.signals[row]
    after_days = after_s / DAY_S
    belief = believe(signal, rate_per_day(shard.pages.records[row], cycle_s), source, after_days)
    echo, delay = belief.echo, after_days + source.lateness_days
    if echo > 0.0:
        learn_yield(shard, number, Yield(0.0, echo, 0.0, echo, 0.0, echo * delay, echo), 0.0)
    add_signal(signal, int(np.int64(shard.signals.sources[number].kind)), after_s, belief.true)


@inlined_kernel
def _count_signal(shard: ShardArrays, row: int, kind: int, at_s: float) -> int:
    """Count a signal of a kind about a page; return the number of its source, a new one if it is its first."""
    page: Record = shard.pages.records[row]
    signal: Record = shard.pages.signals[row]
    group: Record = shard.groups.records[page.group]
    number = find_source(shard.signals, shard.groups.records[group.host], kind)
    if number < 0:
        number = _open_source(shard, np.int64(group.host), kind, at_s)
    source: Record = shard.signals.sources[number]
    source.signals += 1
    source.pages += not (np.int64(signal.kinds) | np.int64(signal.covered)) >> kind & 1
    learn_arrival(shard, number, at_s, 1.0)
    return number


@bare_kernel
def _open_source(shard: ShardArrays, host: int, kind: int, at_s: float) -> int:
    """Open a source of a kind on a host; return its number. O(1)."""
    state: Record = shard.signals.state[0]
    number = int(state.sources)
    state.sources = number + 1
    mark_dirty_group(shard.dirty, shard.groups.records, host)
    group: Record = shard.groups.records[host]
    source: Record = shard.signals.sources[number]
    source.host, source.kind, source.next, source.seen_s = host, kind, group.source, at_s
    group.source = number + 1
    return number
