"""Updates by change signals: what an arriving signal adds to its page and source, and what a visit says of the signals
before it.

True signals, false ones, and late announcements of a change that a visit has already seen are independent Poisson
processes. So a signal is one of each with a probability in proportion to their rates at its time. Signals of one kind
say more together than each by itself, 1 - Π(1 - π). Those of other kinds may repeat the same announcement, so only the
kind that says most counts for the page. All are counted, each for its own source.

Visits are chosen by signals, so a page that was visited because of one has changed more often than the time since its
last visit tells. The likelihood of all that was observed has two factors: the changes that a source announced, and the
others, whose number is that of the shorter time of `signal_sources`. The first is counted as a change at a known time,
the second as a change somewhere in that shorter time.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from streamsched.estimation.gamma_posterior import Announced, ObservedInterval
from streamsched.estimation.related_pages import own_probability, unclaimed
from streamsched.estimation.signal_sources import (
    MEMORY_SIGNALS,
    QUIET_UNIT,
    Reliability,
    Yield,
    decode_lateness,
    encode_lateness,
    encode_signalled,
    find_source,
    learn_arrival,
    learn_yield,
    quieten_probability,
    quieten_time,
    reliability,
    unsignalled,
)
from streamsched.estimation.surges import share_not_hit
from streamsched.numerics.arrays import Record
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.vector_math import exp, expm1
from streamsched.records.dirty_tracking import mark_dirty_group, mark_dirty_row
from streamsched.records.page_schema import LONGEST_INTERVAL, SHORTEST_INTERVAL, PageArrays
from streamsched.records.schema import ShardArrays
from streamsched.records.score_invalidation import InvalidationBuffer, invalidate_row
from streamsched.records.signal_schema import MOST_KINDS

_MOST_COUNTED: Final = 255
_MOST_EXPONENT: Final = 700.0
_SMALL: Final = 1e-4  # of a ratio below which e^x - 1 is x, nearly
DAY_S: Final = 86_400.0
# Fates of signals about known pages.
APPLIED: Final = 0
REPEATED: Final = 2
LATE: Final = 3
_MOST_DAYS: Final = 1_000.0  # of an interval: a clock error must not outweigh all other evidence
_LEAST: Final = 1e-12  # least probability that divides
_LEAST_LOG: Final = 700.0
_MOST_QUIET: Final = 255


class Belief(NamedTuple):
    """The probabilities that a signal announces a change since the last visit, or one that the visit has seen."""

    true: float
    echo: float


@inlined_kernel
def rate_per_day(page: Record, cycle_s: float) -> float:
    """Return the posterior mean of a page's rate, in changes per day."""
    rate = (page.prior_shape + page.own_shape) / (page.prior_exposure + page.own_exposure)
    return float(rate * (DAY_S / cycle_s))


@inlined_kernel
def pending_days(days: float, lateness_days: float) -> float:
    """Return of how many of the last `days` the announced changes are not announced yet: d·(1 - e^(-t/d))."""
    return float(lateness_days * (0.0 - expm1(-min(days / lateness_days, _MOST_EXPONENT))))


@inlined_kernel
def promptness(days: float, lateness_days: float) -> float:
    """Return how much a true signal lowers the mean delay d, if its change was within `days` before it, uniformly.

    Such a delay has the mean d - h/(e^(h/d) - 1) with h days: d·x/(e^x - 1) less than d, x = h/d. An announcement of a
    change that a visit h days ago has seen has the mean d + h. The d that explains all signals balances both. So the
    first count x/(e^x - 1) with a delay of 0, the second 1 with d + h, and d is the mean.
    """
    ratio = min(days / lateness_days, _MOST_EXPONENT)
    return float(ratio / expm1(ratio)) if ratio > _SMALL else 1.0


@inlined_kernel
def believe(signal: Record, kind: int, rate: float, source: Reliability, after_days: float) -> Belief:
    """Return the probabilities of a signal `after_days` after the last visit of a page of that rate a day. O(1)."""
    echoes = 0.0 if np.int64(signal.kinds) >> kind & 1 else float(signal.echoes)
    late = source.lateness_days
    announced = 0.0 - expm1(-min(after_days / late, _MOST_EXPONENT))  # the part that is announced by then
    true = rate * source.recall * announced
    echo = echoes * (1.0 - announced) / late
    every = true + source.false_per_day + echo
    return Belief(true / every, echo / every)


@inlined_kernel
def add_signal(signal: Record, kind: int, after_s: float, true: float) -> None:
    """Add a signal of a kind, true with probability `true`, to those since the page's last visit. O(1).

    Probabilities are kept of the leading kind only. Those of another kind's earlier signals are taken to be that of its
    newest one.
    """
    bit, after = np.uint8(1 << kind), np.float32(after_s)
    count = min(int(np.int64(signal.counts[kind])) + 1, _MOST_COUNTED)
    if signal.lead == kind:
        together = encode_signalled(1.0 - unsignalled(signal) * (1.0 - true))
    else:
        together = encode_signalled(1.0 - (1.0 - true) ** float(count))
    if signal.kinds == 0 or together > np.int64(signal.signalled):
        signal.lead, signal.signalled = kind, together
    signal.counts[kind] = count
    signal.first_after_s = after if signal.kinds == 0 else min(signal.first_after_s, after)
    if after > signal.last_after_s:
        signal.latest = bit
    elif after == signal.last_after_s:
        signal.latest |= bit
    signal.last_after_s = max(signal.last_after_s, after)
    signal.kinds |= bit


@inlined_kernel
def _repeats(signal: Record, kind: int, after_s: float) -> bool:
    """Return whether a signal is not newer than another of its kind, as far as a page's one time of all kinds tells."""
    after = np.float32(after_s)
    if not np.int64(signal.kinds) >> kind & 1 or after > signal.last_after_s:
        return False
    return bool(after < signal.last_after_s or np.int64(signal.latest) >> kind & 1)


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
    if _repeats(signal, kind, after_s):
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
    kind, after_days = int(np.int64(shard.signals.sources[number].kind)), after_s / DAY_S
    belief = believe(signal, kind, rate_per_day(shard.pages.records[row], cycle_s), source, after_days)
    echo, delay = belief.echo, after_days + source.lateness_days
    if echo > 0.0:
        learn_yield(shard, number, Yield(0.0, echo, 0.0, echo, 0.0, echo * delay, echo), 0.0)
    add_signal(signal, kind, after_s, belief.true)


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
    signal.kinds, signal.lead, signal.latest, signal.signalled = 0, 0, 0, 0
    signal.counts[:] = 0
    signal.echoes, signal.first_after_s, signal.last_after_s = echoes, 0.0, 0.0
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
    count = float(signal.counts[signal.lead])
    true = count * _probability_of_each(count, announced.spared) / changed
    changes = true + rate * days * announced.effective / changed  # expected, given that there was one
    for kind in range(MOST_KINDS):
        if (np.int64(signal.covered) | np.int64(signal.kinds)) >> kind & 1:
            number = find_source(shard.signals, host, kind)
            learn_arrival(shard, number, observed.end_s, 0.0)
            source = reliability(shard, number, observed.cycle_s)
            signals = float(signal.counts[kind])
            each = _probability_of_each(signals, announced.spared)
            if signal.lead != kind:  # which says no less
                each = min(each, rate * source.recall / (rate * source.recall + source.false_per_day))
            right = signals * each / changed
            shown = _yield(signal, kind, source, rate, days, signals, right, changes)
            if not observed.changed:
                shown = Yield(signals, 0.0, shown.days, 0.0, 0.0, 0.0, 0.0)
            expected = 0.5 * (signals + (rate * source.recall + source.false_per_day) * shown.days)
            learn_yield(shard, number, shown, min(expected / MEMORY_SIGNALS, 1.0))


@inlined_kernel
def _probability_of_each(signals: float, spared: float) -> float:
    """Return how probable each of some signals is if none is true with the probability `spared`."""
    return 1.0 - spared ** (1.0 / signals) if signals > 1.0 else 1.0 - spared


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
