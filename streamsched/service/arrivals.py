"""The order in which the records of a run's streams are applied.

Files, and pipes, are merged by time: what comes next is the earlier one of the two next records, a signal before an
outcome of the same time. Topics deliver as the records arrive. When one stream has ended the other continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np

from streamsched.connectors.records import SIGNALS, RecordType
from streamsched.connectors.source import AnySource, Delivery
from streamsched.numerics.arrays import Floats

Latest: TypeAlias = Callable[[], tuple[float, bool]]
_GLANCE_S: Final = 0.001  # wait for a topic while another stream has records
_LEAST_SEARCH: Final = 64  # records that are compared at once; eight times as many each time that all of them fit


@dataclass(frozen=True, slots=True)
class InputStream:
    """A source and the type of its records."""

    records: RecordType[Any]
    source: AnySource


@dataclass(frozen=True, slots=True)
class Arrival:
    """The records ``start`` up to ``stop`` of a delivery of ``stream``, which are to be applied now."""

    stream: InputStream
    delivery: Delivery[Any]
    start: int
    stop: int

    @property
    def is_last(self) -> bool:
        """Whether the delivery ends with these records."""
        return self.stop == len(self.delivery.records)

    def records(self) -> Any:
        """Return the records. O(1) if they are the whole delivery."""
        whole = self.delivery.records
        return whole if self.stop - self.start == len(whole) else whole.take(np.arange(self.start, self.stop))


def arrivals(
    streams: Sequence[InputStream], taken: Mapping[str, int], latest: Latest, timeout_s: float
) -> Iterator[Arrival | None]:
    """Yield what is to be applied next until all `streams` have ended; None whenever nothing arrives in `timeout_s`.

    `taken`: by path, how many records after the position of a stream are applied already; `latest`: returns the
    latest time that is believed now, and whether it can only grow; see `_merge`. The caller applies an arrival before
    it asks for the next.
    """
    skipped = _Skipped(taken)
    if any(stream.source.is_partitioned for stream in streams):
        yield from _take_turns(streams, skipped, timeout_s)
    elif len(streams) == 1:
        yield from map(skipped.cut, _deliver(streams[0]))
    else:
        first, second = streams
        yield from _merge(_Head(first, skipped), _Head(second, skipped), latest)


class _Skipped:
    """Cuts off what was applied before: the first records of a delivery that a stop left unfinished."""

    def __init__(self, taken: Mapping[str, int]) -> None:
        self._left = dict(taken)

    def cut(self, arrival: Arrival) -> Arrival:
        path = arrival.delivery.position.path
        left = self._left.pop(path, 0)
        start = min(left, arrival.stop)
        if left > start:
            self._left[path] = left - start
        return replace(arrival, start=start)


def _deliver(stream: InputStream) -> Iterator[Arrival]:
    return (Arrival(stream, delivery, 0, len(delivery.records)) for delivery in stream.source)


def _take_turns(streams: Sequence[InputStream], skipped: _Skipped, timeout_s: float) -> Iterator[Arrival | None]:
    """Yield deliveries as they arrive, of each stream in turn."""
    ended: set[int] = set()
    is_idle = False
    while len(ended) < len(streams):
        wait_s = timeout_s / (len(streams) - len(ended)) if is_idle or len(streams) - len(ended) == 1 else _GLANCE_S
        is_idle = True
        for number, stream in enumerate(streams):
            if number in ended:
                continue
            try:
                delivery = next(stream.source.deliveries(wait_s))
            except StopIteration:
                ended.add(number)
                continue
            if delivery is not None:
                is_idle = False
                yield skipped.cut(Arrival(stream, delivery, 0, len(delivery.records)))
        if is_idle and len(ended) < len(streams):
            yield None


class _Head:
    """The next record of a stream that is merged. ``arrival``: it and the rest of its delivery, None at the end."""

    def __init__(self, stream: InputStream, skipped: _Skipped) -> None:
        self.is_signal = stream.records is SIGNALS
        self._field = stream.records.time
        self._arrivals = map(skipped.cut, _deliver(stream))
        self.arrival: Arrival | None = None
        self._times: Floats = np.empty(0)

    def fill(self) -> None:
        """Read on if nothing is left of the last delivery."""
        while self.arrival is None or self.arrival.start == self.arrival.stop:
            self.arrival = next(self._arrivals, None)
            if self.arrival is None:
                break
            self._times = getattr(self.arrival.delivery.records, self._field)

    @property
    def time_s(self) -> float:
        """The time of the next record."""
        assert self.arrival is not None
        return float(self._times[self.arrival.start])

    def cut(self, until_s: float) -> Arrival:
        """Remove and return the next record, and those after it up to the first that is not before `until_s`.

        Signals at `until_s` are before it, as outcomes of that time come later. O(records).
        """
        assert self.arrival is not None
        whole, size = self.arrival, _LEAST_SEARCH
        stop = whole.start + 1
        while stop < whole.stop:
            times = self._times[stop : min(stop + size, whole.stop)]
            late = times > until_s if self.is_signal else times >= until_s
            if late.any():
                stop += int(late.argmax())
                break
            stop, size = stop + times.size, 8 * size
        self.arrival = replace(whole, start=stop)
        return replace(whole, stop=stop)


def _merge(first: _Head, second: _Head, latest: Latest) -> Iterator[Arrival]:
    """Yield the records of both by time.

    Only the two next records are compared, so the order does not depend on where reading began, nor on how the streams
    are cut into deliveries. A record later than what `latest` returns comes at once: its clock may be wrong, and the
    records after it must not wait for the other stream to reach its time.
    """
    while True:
        first.fill()
        second.fill()
        if first.arrival is None or second.arrival is None:
            break
        bound_s, only_grows = latest()
        head, other = (first, second) if _key(first, bound_s) < _key(second, bound_s) else (second, first)
        yield head.cut(other.time_s if head.time_s <= bound_s and only_grows else -np.inf)
    rest = second if first.arrival is None else first
    while rest.arrival is not None:
        yield rest.cut(np.inf)
        rest.fill()


def _key(head: _Head, bound_s: float) -> tuple[bool, float, bool]:
    """Return the place of the next record of `head` in the order."""
    return head.time_s <= bound_s, head.time_s, not head.is_signal
