"""Two streams merged by time: beside a merge that compares two records at a time, however the streams are cut."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamsched import OutcomeBatch, SignalBatch
from streamsched.connectors import Delivery, Position
from streamsched.connectors.records import OUTCOMES, SIGNALS
from streamsched.service.arrivals import Arrival, InputStream, arrivals

times = st.lists(st.sampled_from([1.0, 2.0, 3.0, 5.0, 90.0]), max_size=14)
cuts = st.lists(st.integers(0, 14), max_size=3)


@dataclass
class Pieces:
    """A source that delivers records in pieces, from one of them on."""

    path: str
    batches: Sequence[Any]
    first: int = 0
    is_partitioned: bool = False

    def __iter__(self) -> Iterator[Delivery[Any]]:
        for number in range(self.first, len(self.batches)):
            yield Delivery(self.batches[number], Position("jsonl", self.path, number + 1, number + 1))

    def deliveries(self, _timeout_s: float) -> Iterator[Delivery[Any] | None]:
        for delivery in self:
            self.first += 1
            yield delivery


def cut(whole: Any, at: Sequence[int]) -> list[Any]:
    edges = sorted({0, len(whole), *(one for one in at if one < len(whole))})
    return [whole.take(np.arange(start, stop)) for start, stop in pairwise(edges)]


def streams_of(outcomes: Sequence[float], signals: Sequence[float], at: Sequence[int]) -> list[InputStream]:
    """Streams whose records differ in their URLs."""
    observed = OutcomeBatch([f"o{i}" for i in range(len(outcomes))], outcomes)
    noticed = SignalBatch([f"s{i}" for i in range(len(signals))], signals, "feed")
    pieces: list[Any] = [Pieces("o", cut(observed, at)), Pieces("s", cut(noticed, at))]
    return [InputStream(OUTCOMES, pieces[0]), InputStream(SIGNALS, pieces[1])]


def merge_slowly(outcomes: Sequence[float], signals: Sequence[float], ahead: float) -> list[str]:
    """The order, one decision a record: too late ones first, then the earlier one, signals first among equals."""
    order, newest, i, j = list[str](), -math.inf, 0, 0
    while i < len(outcomes) or j < len(signals):
        bound = math.inf if newest == -math.inf else newest + ahead
        if i < len(outcomes) and j < len(signals):
            own = (outcomes[i] <= bound, outcomes[i], 1)
            takes_signal = (signals[j] <= bound, signals[j], 0) < own
        else:
            takes_signal = j < len(signals)
        at = signals[j] if takes_signal else outcomes[i]
        order.append(f"s{j}" if takes_signal else f"o{i}")
        i, j = (i, j + 1) if takes_signal else (i + 1, j)
        newest = max(newest, at) if at <= bound else newest
    return order


class Reader:
    """Applies arrivals: their URLs in order, the newest time that is not too late, and what a state would remember."""

    def __init__(self, ahead: float) -> None:
        self.order: list[str] = []
        self.newest = -math.inf
        self.position = {"o": 0, "s": 0}
        self.beyond = {"o": 0, "s": 0}
        self._ahead = ahead

    def latest(self) -> tuple[float, bool]:
        is_known = self.newest > -math.inf
        return self.newest + self._ahead if is_known else math.inf, is_known

    def apply(self, arrival: Arrival) -> None:
        records, path = arrival.records(), arrival.delivery.position.path
        for at in getattr(records, arrival.stream.records.time).tolist():
            self.newest = max(self.newest, at) if at <= self.latest()[0] else self.newest
        self.order += records.urls
        self.beyond[path] += len(records)
        if arrival.is_last:
            self.position[path], self.beyond[path] = arrival.delivery.position.offset, 0


@given(times, times, cuts, st.sampled_from([2.0, math.inf]))
def test_the_order_is_that_of_a_merge_one_by_one(
    outcomes: list[float], signals: list[float], at: list[int], ahead: float
) -> None:
    reader = Reader(ahead)
    for arrival in arrivals(streams_of(outcomes, signals, at), {}, reader.latest, 1.0):
        assert arrival is not None
        reader.apply(arrival)
    assert reader.order == merge_slowly(outcomes, signals, ahead)


@given(times, times, cuts, st.integers(0, 12))
def test_a_stop_in_between_changes_nothing(
    outcomes: list[float], signals: list[float], at: list[int], stop: int
) -> None:
    reader = Reader(2.0)
    for arrival in islice(arrivals(streams_of(outcomes, signals, at), {}, reader.latest, 1.0), stop):
        assert arrival is not None
        reader.apply(arrival)
    again = streams_of(outcomes, signals, at)
    for stream in again:
        source: Any = stream.source
        source.first = reader.position[source.path]
    for arrival in arrivals(again, reader.beyond, reader.latest, 1.0):
        assert arrival is not None
        reader.apply(arrival)
    assert reader.order == merge_slowly(outcomes, signals, 2.0)


@given(times, times, cuts)
def test_live_streams_are_taken_in_turn_and_whole(outcomes: list[float], signals: list[float], at: list[int]) -> None:
    streams = streams_of(outcomes, signals, at)
    live: Any = streams[1].source
    live.is_partitioned = True
    found = [one for one in arrivals(streams, {}, lambda: (math.inf, True), 1.0) if one is not None]
    assert all(one.is_last and one.start == 0 for one in found)
    for stream, count in zip(streams, (len(outcomes), len(signals)), strict=True):
        own = [url for one in found if one.stream is stream for url in one.delivery.records.urls]
        assert len(own) == count
