"""What a visit says of the signals before it: of the page's sources, and of how its change is to be counted.

Visits are chosen by signals, so a page that was visited because of one has changed more often than the time since its
last visit tells. The likelihood of all that was observed has two factors: the changes that a source announced, and the
others, whose number is that of the shorter time of `page_signals`. The first is counted as a change at a known time,
the second as a change somewhere in that shorter time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from streamsched.estimation.observed_interval import Announced, ObservedInterval
from streamsched.estimation.related.claims import unclaimed
from streamsched.estimation.related.related_pages import own_probability
from streamsched.estimation.signals.belief import DAY_S, pending_days, promptness, rate_per_day
from streamsched.estimation.signals.page_signals import (
    QUIET_UNIT,
    decode_lateness,
    encode_lateness,
    quieten_probability,
    quieten_time,
    unsignalled,
)
from streamsched.estimation.signals.reliability import (
    MEMORY_SIGNALS,
    Reliability,
    Yield,
    find_source,
    learn_arrival,
    learn_yield,
    reliability,
)
from streamsched.estimation.surges import share_not_hit
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.vector_math import exp
from streamsched.records.page_schema import LONGEST_INTERVAL, SHORTEST_INTERVAL
from streamsched.records.signals.signal_schema import MOST_KINDS

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Record
    from streamsched.records.page_schema import PageArrays
    from streamsched.records.schema import ShardArrays

__all__ = ["begin_silence", "has_source", "settle_signals"]

_MOST_DAYS: Final = 1_000.0  # of an interval: a clock error must not outweigh all other evidence
_LEAST: Final = 1e-12  # least probability that divides
_LEAST_LOG: Final = 700.0
_MOST_QUIET: Final = 255


@inlined_kernel
def has_source(pages: PageArrays, row: int) -> bool:
    """Return whether a source has ever announced a change of a page. O(1)."""
    if row >= pages.signals.size:
        return False
    signal: Record = pages.signals[row]
    return bool((signal.covered | signal.kinds) != 0)


@bare_kernel
def settle_signals(shard: ShardArrays, row: int, observed: ObservedInterval, due: float) -> Announced:
    """Learn from a visit of a page with sources, and end its signals; the page's record is as before the visit.

    `due`: as in `own_probability`. O(MOST_KINDS).
    """
    page: Record = shard.pages.records[row]
    signal: Record = shard.pages.signals[row]
    cycles = min(max(observed.cycles, SHORTEST_INTERVAL), LONGEST_INTERVAL)
    effective = quieten_time(signal, cycles, observed.cycle_s) / cycles
    quietly = ObservedInterval(observed.end_s, cycles * effective, observed.cycle_s, observed.changed)
    alone = own_probability(page, quietly, due if np.isnan(due) else quieten_probability(signal, due))
    announced = Announced(unsignalled(signal), effective, alone)
    changed = 1.0 - announced.spared * (1.0 - alone) * _unmoved(shard, row, observed)
    _learn_sources(shard, row, observed, announced, max(changed, _LEAST))
    echoes = _expected_echoes(page, signal, observed) / max(changed, _LEAST) if observed.changed else 0.0
    begin_silence(shard, row, observed.end_s, observed.cycle_s, echoes)
    return announced


@bare_kernel
def begin_silence(shard: ShardArrays, row: int, at_s: float, cycle_s: float, echoes: float) -> None:
    """Begin the time after a visit of a page with sources, when nothing is announced yet. O(MOST_KINDS).

    `echoes`: announcements expected of changes that the visit has seen.
    """
    signal: Record = shard.pages.signals[row]
    signal.covered |= signal.kinds
    signal.kinds, signal.lead, signal.count, signal.signalled = 0, 0, 0, 0
    signal.first_after_s, signal.last_after_s = 0.0 - echoes, 0.0
    best = _best_source(shard, row, at_s, cycle_s)
    signal.quiet = min(max(int(_MOST_QUIET * (1.0 - best.recall) + 0.5), 1), _MOST_QUIET)
    signal.lateness = encode_lateness(best.lateness_days * DAY_S)


@inlined_kernel
def _best_source(shard: ShardArrays, row: int, at_s: float, cycle_s: float) -> Reliability:
    """Return the source of a page that announces most changes, after counting the days up to a time."""
    page: Record = shard.pages.records[row]
    signal: Record = shard.pages.signals[row]
    group: Record = shard.groups.records[page.group]
    best = Reliability(-1.0, 0.0, 0.0)
    for kind in range(MOST_KINDS):
        if np.int64(signal.covered) >> kind & 1:
            number = find_source(shard.signals, shard.groups.records[group.host], kind)
            learn_arrival(shard, number, at_s, 0.0)
            source = reliability(shard, number, cycle_s)
            if source.recall > best.recall:
                best = source
    return best


@inlined_kernel
def _expected_echoes(page: Record, signal: Record, observed: ObservedInterval) -> float:
    """Return how many announcements of changes in an interval are expected after it, by the page's best source."""
    if signal.quiet == 0:
        return 0.0
    recall = 1.0 - QUIET_UNIT * float(signal.quiet)
    days = max(observed.cycles * observed.cycle_s / DAY_S, 0.0)
    pending = pending_days(days, decode_lateness(signal.lateness) / DAY_S)
    return rate_per_day(page, observed.cycle_s) * recall * pending


@inlined_kernel
def _unmoved(shard: ShardArrays, row: int, observed: ObservedInterval) -> float:
    """Return the probability that neither a surge nor a related page has changed a page since its last visit."""
    page: Record = shard.pages.records[row]
    group: Record = shard.groups.records[page.group]
    cycles = min(max(observed.cycles, 0.0), LONGEST_INTERVAL)
    unhit = share_not_hit(group, page.last_visit_s) * exp(-min(group.hazard * cycles, _LEAST_LOG))
    return unhit * unclaimed(shard.seasonality.links[row])


@inlined_kernel
def _learn_sources(
    shard: ShardArrays, row: int, observed: ObservedInterval, announced: Announced, changed: float
) -> None:
    """Learn from a visit of a page which of its sources were right; `changed`: how probable a change was."""
    page: Record = shard.pages.records[row]
    signal: Record = shard.pages.signals[row]
    group: Record = shard.groups.records[page.group]
    host: Record = shard.groups.records[group.host]
    rate = rate_per_day(page, observed.cycle_s)
    days = min(max(observed.cycles * observed.cycle_s / DAY_S, 0.0), _MOST_DAYS)
    count = float(np.int64(signal.count))
    each = 1.0 - announced.spared ** (1.0 / max(count, 1.0))
    true = count * each / changed
    changes = true + rate * days * announced.effective / changed  # expected, given that there was one
    for kind in range(MOST_KINDS):
        if (np.int64(signal.covered) | np.int64(signal.kinds)) >> kind & 1:
            number = find_source(shard.signals, host, kind)
            learn_arrival(shard, number, observed.end_s, 0.0)
            source = reliability(shard, number, observed.cycle_s)
            signals, right = 0.0, 0.0
            if np.int64(signal.kinds) >> kind & 1:
                signals = count if signal.lead == kind else 1.0
                own = rate * source.recall / (rate * source.recall + source.false_per_day)
                right = true if signal.lead == kind else min(own / changed, 1.0)
            shown = _yield(signal, kind, source, rate, days, signals, right, changes)
            if not observed.changed:
                shown = Yield(signals, 0.0, shown.days, 0.0, 0.0, 0.0, 0.0)
            expected = 0.5 * (signals + (rate * source.recall + source.false_per_day) * shown.days)
            learn_yield(shard, number, shown, min(expected / MEMORY_SIGNALS, 1.0))


@inlined_kernel
def _yield(  # noqa: PLR0913, PLR0917  a kernel
    signal: Record,
    kind: int,
    source: Reliability,
    rate: float,
    days: float,
    signals: float,
    right: float,
    changes: float,
) -> Yield:
    """Return what a visit that found a change shows of one source, `right` of whose `signals` were true.

    A page is covered from its first signal on. Time before that counts as much as one signal takes: otherwise it would
    be short because it ends with a signal.
    """
    after_days = float(signal.first_after_s) / DAY_S if signals > 0.0 else 0.0
    late = right / signals * promptness(after_days, source.lateness_days) if signals > 0.0 else 0.0
    if np.int64(signal.covered) >> kind & 1:
        return Yield(signals, right, days, right, max(changes, right), 0.0, late)
    waited = min(1.0 / (rate * source.recall + source.false_per_day), days)
    return Yield(signals, right, waited + max(days - after_days, 0.0), 0.0, 0.0, 0.0, late)
