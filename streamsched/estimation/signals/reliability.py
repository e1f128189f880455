"""How far a source of change signals is believed: its recall, its false signals and its lateness.

The changes of a page come at a rate λ a day. A source announces the part r of them, each after a delay of mean d days;
besides, φ false signals come of a page and day. Each of the three is that of the kind as far as the source itself has
shown little, and that of the kind a prior as far as the kind has. All evidence fades.

False signals show in two ways. Visits tell true signals from false ones. And the signals of a host, counted as they
arrive, cannot be more than its changes: what is beyond twice the changes expected is false before any visit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from streamsched.numerics.jit import inlined_kernel
from streamsched.records.signals.signal_schema import (
    ANNOUNCED,
    CHANGES,
    DAYS,
    LATE,
    LATENESS,
    NOTED,
    PAGE_DAYS,
    RESOLVED,
    TRUE,
    SignalArrays,
)

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Record
    from streamsched.records.schema import ShardArrays

__all__ = [
    "FIRST_FALSE",
    "FIRST_LATENESS_DAYS",
    "FIRST_RECALL",
    "MEMORY_DAYS",
    "MEMORY_SIGNALS",
    "Reliability",
    "Yield",
    "find_source",
    "learn_arrival",
    "learn_yield",
    "mean_per_day",
    "reliability",
]

# Priors of an unknown kind: of four signals of an average page, one is true.
FIRST_RECALL: Final = 0.3
FIRST_CHANGES: Final = 4.0  # changes for which that counts
FIRST_ODDS: Final = 3.0  # false signals for each true one of an average page
FIRST_FALSE: Final = 2.0  # false signals for which that counts
FIRST_LATENESS_DAYS: Final = 1.0
FIRST_LATE: Final = 2.0  # signals for which that counts

KIND_CHANGES: Final = 8.0  # changes, ...
KIND_SIGNALS: Final = 5.0  # ... signals, and ...
KIND_LATE: Final = 3.0  # ... delays for which its kind counts in a source

ALLOWED_CHANGES: Final = 10.0  # expected changes of a host for which the kind's rate of signals counts in its own
BEYOND: Final = 2.0  # signals for each expected change beyond which the others are false
MEMORY_SIGNALS: Final = 200.0  # time constant of what visits show of a source: early beliefs must not last
MEMORY_DAYS: Final = 200.0  # time constant of the rate of arrivals
_DAY_S: Final = 86_400.0


class Reliability(NamedTuple):
    """Of a source: the part of changes that it announces, its false signals of a page and day, and its mean delay."""

    recall: float
    false_per_day: float
    lateness_days: float


class Yield(NamedTuple):
    """What a visit showed of one source, in the units of its evidence, from RESOLVED to LATE."""

    signals: float
    true: float
    days: float
    announced: float
    changes: float
    lateness: float
    late: float


@inlined_kernel
def mean_per_day(mean: float, cycle_s: float) -> float:
    """Return a mean rate per cycle as changes per day."""
    return mean * (_DAY_S / cycle_s)


@inlined_kernel
def find_source(signals: SignalArrays, host: Record, kind: int) -> int:
    """Return the number of the source of a kind on a host, -1 if there is none. O(MOST_KINDS)."""
    number = int(np.int64(host.source)) - 1
    while number >= 0 and int(np.int64(signals.sources[number].kind)) != kind:
        number = int(np.int64(signals.sources[number].next)) - 1
    return number


@inlined_kernel
def reliability(shard: ShardArrays, number: int, cycle_s: float) -> Reliability:
    """Return how far the source of that number is believed. O(1)."""
    source: Record = shard.signals.sources[number]
    kind: Record = shard.signals.kinds[source.kind]
    host: Record = shard.groups.records[source.host]
    own, all_ = source.evidence, kind.evidence
    mean = mean_per_day(shard.corpus[0].mean, cycle_s)
    recall = (FIRST_CHANGES * FIRST_RECALL + all_[ANNOUNCED]) / (FIRST_CHANGES + all_[CHANGES])
    recall = (KIND_CHANGES * recall + own[ANNOUNCED]) / (KIND_CHANGES + own[CHANGES])
    days = FIRST_FALSE / (FIRST_ODDS * FIRST_RECALL * mean) + all_[DAYS]
    false = (FIRST_FALSE + max(all_[RESOLVED] - all_[TRUE], 0.0)) / days
    days = KIND_SIGNALS * days / (FIRST_FALSE * (1.0 + 1.0 / FIRST_ODDS) + all_[RESOLVED])
    false = (days * false + max(own[RESOLVED] - own[TRUE], 0.0)) / (days + own[DAYS])
    allowed = ALLOWED_CHANGES / mean
    noted = (allowed * (all_[NOTED] / (allowed + all_[PAGE_DAYS])) + own[NOTED]) / (allowed + own[PAGE_DAYS])
    false = max(false, noted - BEYOND * mean_per_day(host.mean, cycle_s))
    lateness = (FIRST_LATE * FIRST_LATENESS_DAYS + all_[LATENESS]) / (FIRST_LATE + all_[LATE])
    lateness = (KIND_LATE * lateness + own[LATENESS]) / (KIND_LATE + own[LATE])
    return Reliability(min(recall, 1.0), false, lateness)


@inlined_kernel
def learn_arrival(shard: ShardArrays, number: int, at_s: float, count: float) -> None:
    """Count `count` signals of a source at a time, 0 at a visit; and the days of pages up to then. O(1)."""
    source: Record = shard.signals.sources[number]
    kind: Record = shard.signals.kinds[source.kind]
    host: Record = shard.groups.records[source.host]
    days = max(at_s - source.seen_s, 0.0) / _DAY_S
    source.seen_s = max(source.seen_s, at_s)
    fading = min(days / MEMORY_DAYS, 1.0)
    _add(source, kind, NOTED, count, fading)
    _add(source, kind, PAGE_DAYS, days * host.host_pages, fading)


@inlined_kernel
def learn_yield(shard: ShardArrays, number: int, shown: Yield, fading: float) -> None:
    """Add what a visit showed to the evidence of a source and of its kind, after the part `fading` has faded. O(1)."""
    source: Record = shard.signals.sources[number]
    kind: Record = shard.signals.kinds[source.kind]
    _add(source, kind, RESOLVED, shown.signals, fading)
    _add(source, kind, TRUE, shown.true, fading)
    _add(source, kind, DAYS, shown.days, fading)
    _add(source, kind, ANNOUNCED, shown.announced, fading)
    _add(source, kind, CHANGES, shown.changes, fading)
    _add(source, kind, LATENESS, shown.lateness, fading)
    _add(source, kind, LATE, shown.late, fading)


@inlined_kernel
def _add(source: Record, kind: Record, place: int, amount: float, fading: float) -> None:
    """Add to one part of a source's evidence after it has faded, and the difference to its kind's."""
    change = amount - fading * source.evidence[place]
    source.evidence[place] += change
    kind.evidence[place] = max(kind.evidence[place] + change, 0.0)
