"""BatchPublisher: pages are published once, and held back while brokers are away or the stream is far behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from streamsched.connectors.kafka import KafkaSink
from streamsched.errors import SnapshotError, SourceError
from streamsched.persistence.image_writer import SavePlan
from streamsched.scheduler.durable import DurableScheduler
from streamsched.scheduler.results import Batch
from streamsched.service.batch_publisher import BatchPublisher
from streamsched.service.run_settings import BatchPlan

URLS = [f"https://a.example/{i}" for i in range(10)]


class Sink:
    """Stores what is flushed while its brokers are there."""

    def __init__(self) -> None:
        self.away = False
        self.queued: list[str] = []
        self.stored: list[str] = []

    def send_batch(self, batch: Batch) -> None:
        self.queued += batch.urls

    def flush(self) -> None:
        if self.away:
            raise SourceError("kafka://visits", "still not stored", retriable=True)
        self.stored += self.queued
        self.queued = []

    def close(self) -> None:
        self.flush()


class Clock:
    """Goes on by a minute each time it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 60.0
        return self.now


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[DurableScheduler]:
    with DurableScheduler.open(tmp_path, plan=SavePlan(every=1e9)) as opened:
        opened.discover(URLS, now=0.0)
        yield opened


def make(scheduler: DurableScheduler, sink: Sink, **plan: Any) -> BatchPublisher:
    settings: dict[str, Any] = {"size": 3, "lease": "1d", "every": "30s", **plan}
    return BatchPublisher(scheduler, cast(KafkaSink, sink), BatchPlan(**settings), wall=lambda: 1000.0, clock=Clock())


def test_each_page_is_published_once(scheduler: DurableScheduler) -> None:
    sink = Sink()
    with make(scheduler, sink) as batches:
        for _ in range(6):
            batches.tick(0)
    assert sorted(sink.stored) == URLS
    assert batches.sent == 10


def test_what_brokers_do_not_take_waits_and_nothing_more_is_handed_out(scheduler: DurableScheduler) -> None:
    sink = Sink()
    with make(scheduler, sink) as batches:
        sink.away = True
        for _ in range(3):
            batches.tick(0)
        assert (len(sink.queued), batches.sent) == (3, 0)
        sink.away = False
        for _ in range(6):
            batches.tick(None)  # sent even while it is not known how far the stream is behind
        assert (sorted(sink.queued), batches.sent) == ([], 3)
        sink.away = True
        batches.tick(0)
    assert len(sink.stored) == 3  # the end does not fail where brokers are away


def test_far_behind_nothing_is_handed_out(scheduler: DurableScheduler) -> None:
    sink = Sink()
    with make(scheduler, sink, behind=5) as batches:
        for lag in (6, None, 10**9):
            batches.tick(lag)
        assert sink.stored == []
        batches.tick(5)
    assert len(sink.stored) == 3


def test_it_is_time_every_so_often(scheduler: DurableScheduler) -> None:
    sink = Sink()
    with make(scheduler, sink, every="10m") as batches:
        for _ in range(4):
            batches.tick(0)
    assert len(sink.stored) == 3


def test_no_lease_on_disk_no_batch(scheduler: DurableScheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> Batch:
        raise SnapshotError("state", "cannot be written: No space left on device")

    sink = Sink()
    monkeypatch.setattr(scheduler, "next_batch", refuse)
    with make(scheduler, sink) as batches:
        batches.tick(0)
    assert (sink.stored, batches.sent) == ([], 0)
