"""How far a source of change signals is believed: its recall, its false signals and its lateness.

The changes of a page come at a rate λ a day. A source announces the part r of them, each after a delay of mean d days;
besides, φ false signals come of a page and day. Each of the three is that of the kind as far as the source itself has
shown little, and that of the kind a prior as far as the kind has. All evidence fades.

False signals show in two ways. Visits tell true signals from false ones. And the signals of a host, counted as they
arrive, cannot be more than its changes: what is beyond twice the changes expected is false before any visit.

Terminals read what signals say of a page from its SIGNAL alone. A signal since the last visit is a reason to believe in
a change. The silence of a source that misses little is a reason to doubt one: of a page's changes, as few are still
unannounced as change in a shorter time.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from streamsched.numerics.arrays import Floats, Record, Records
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.vector_math import exp, expm1, log
from streamsched.records.schema import ShardArrays
from streamsched.records.signal_schema import (
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
SIGNAL_UNIT: Final = 1.0 / (1 << 16)  # of SIGNAL.signalled
QUIET_UNIT: Final = 1.0 / 255.0  # of SIGNAL.quiet: 255 is a source that announces nothing
_MOST_SIGNALLED: Final = (1 << 16) - 1
_STEPS: Final = 8.0  # of SIGNAL.lateness, in an octave of seconds
_MOST_LATENESS: Final = 255.0
_MOST_EXPONENT: Final = 700.0  # e to the power of it is finite
_LN_2: Final = math.log(2.0)


class Reliability(NamedTuple):
    """Of a source: the part of changes that it announces, its false signals of a page and day, and its mean delay."""

    recall: float
    false_per_day: float
    lateness_days: float


class Yield(NamedTuple):
    """Evidence of one source from a visit, in the units of the source's evidence, from RESOLVED to LATE."""

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


@inlined_kernel
def unsignalled(signal: Record) -> float:
    """Return the probability that no signal since the page's last visit is true. O(1)."""
    return 1.0 - SIGNAL_UNIT * float(signal.signalled)


@inlined_kernel
def encode_signalled(probability: float) -> int:
    """Return SIGNAL.signalled of a probability: below 1, as no signal is certain."""
    return min(int(np.int64(probability / SIGNAL_UNIT + 0.5)), _MOST_SIGNALLED)


@inlined_kernel
def encode_lateness(lateness_s: float) -> int:
    """Return SIGNAL.lateness of a mean lateness in seconds, to within 5 %."""
    return int(np.int64(min(max(_STEPS * np.log2(max(lateness_s, 1.0)) + 0.5, 0.0), _MOST_LATENESS)))


@inlined_kernel
def decode_lateness(lateness: int) -> float:
    """Return the seconds that `encode_lateness` encoded."""
    return float(np.exp((_LN_2 / _STEPS) * float(lateness)))


@inlined_kernel
def quieten_time(signal: Record, cycles: float, cycle_s: float) -> float:
    """Return the cycles in which as many changes are expected as are unannounced after `cycles` of silence. O(1).

    A source announces the part r of changes, each after a delay of mean d, exponentially distributed. Of those in a
    time t it leaves (1 - r)·t + r·d·(1 - e^(-t/d)) unannounced. It never falls when `cycles` rises.
    """
    if signal.quiet == 0:
        return cycles
    quiet = QUIET_UNIT * float(signal.quiet)
    delay = decode_lateness(signal.lateness) / cycle_s
    pending = 0.0 - expm1(-min(cycles / delay, _MOST_EXPONENT))
    return min(quiet * cycles + (1.0 - quiet) * delay * pending, cycles)


@inlined_kernel
def quieten_probability(signal: Record, probability: float) -> float:
    """Return the probability of one change that no signal has announced, by Bayes' rule. O(1).

    For a page with a schedule: `probability`: that it was updated.
    """
    if signal.quiet == 0:
        return probability
    quiet = QUIET_UNIT * float(signal.quiet)
    return min(probability * quiet / (1.0 - probability * (1.0 - quiet)), 1.0) if probability < 1.0 else 1.0


@bare_kernel
def quieten_column(signals: Records, cycle_s: float, out: Floats) -> None:
    """Replace cycles since each page's last visit by those of `quieten_time`: SIGNAL[m or 0], float64[m]. O(m)."""
    for i in range(min(signals.size, out.size)):
        out[i] = quieten_time(signals[i], out[i], cycle_s)


@bare_kernel
def fill_signalled(signals: Records, out: Floats) -> None:
    """Fill `out` with the probabilities that a signal since each page's last visit is true. O(m)."""
    out[:] = 0.0
    for i in range(min(signals.size, out.size)):
        out[i] = 1.0 - unsignalled(signals[i])


@bare_kernel
def join_signals(signals: Records, unseen: Floats, spared: Floats) -> None:
    """Add what signals say to what `expected_gain` reads: the probability that none is true. All: float64[m]. O(m).

    Of k signals, each true with the probability π, the part (1 - π)² of their evidence -k·log(1 - π) joins ``unseen``,
    as if more of it would come while the page waits; the rest joins ``spared``. So one signal of a good source makes a
    visit urgent, and a flood of worthless ones does not: the page's own rate says as much. The power was chosen on
    scoop-extras and openwrt: 1 finds fewer changes with a good source, 0 loses to a flood.
    """
    for i in range(min(signals.size, spared.size)):
        signal: Record = signals[i]
        if signal.signalled:
            left = unsignalled(signal)
            evidence = log(left)
            again = -evidence * exp(2.0 * evidence / max(float(signal.counts[signal.lead]), 1.0))
            unseen[i] += again
            spared[i] *= left * exp(again)
