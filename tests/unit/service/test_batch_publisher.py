"""BatchPublisher: pages are published once, and held back while brokers are away or the stream is far behind."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
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


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[DurableScheduler]:
    with DurableScheduler.open(tmp_path, plan=SavePlan(every=1e9)) as opened:
        opened.discover(URLS, now=0.0)
        yield opened


def make(scheduler: DurableScheduler, sink: Sink, **plan: Any) -> BatchPublisher:
    """The clock advances by a minute each time it is read."""
    settings: dict[str, Any] = {"size": 3, "lease": "1d", "every": "30s", **plan}
    clock = count(60.0, 60.0).__next__
    return BatchPublisher(scheduler, cast(KafkaSink, sink), BatchPlan(**settings), wall=lambda: 1000.0, clock=clock)


@pytest.mark.parametrize(("every", "ticks", "pages"), [("30s", 6, 10), ("10m", 4, 3)])
def test_each_page_is_published_once_when_it_is_time(
    scheduler: DurableScheduler, every: str, ticks: int, pages: int
) -> None:
    sink = Sink()
    with make(scheduler, sink, every=every) as batches:
        for _ in range(ticks):
            batches.tick(0)
    assert len(set(sink.stored) & set(URLS)) == len(sink.stored) == batches.sent == pages


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


def test_no_lease_on_disk_no_batch(scheduler: DurableScheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> Batch:
        raise SnapshotError("state", "cannot be written: No space left on device")

    sink = Sink()
    monkeypatch.setattr(scheduler, "next_batch", refuse)
    with make(scheduler, sink) as batches:
        batches.tick(0)
    assert (sink.stored, batches.sent) == ([], 0)
