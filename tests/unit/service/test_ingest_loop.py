"""An intake: what it commits only follows what is saved, and what cannot be done is told and tried again."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamsched import Outcome, OutcomeBatch
from streamsched.connectors import Delivery, Position
from streamsched.connectors.kafka import KafkaSource
from streamsched.errors import SnapshotError, SourceError
from streamsched.scheduler.durable import DurableScheduler, SavePlan
from streamsched.service.ingest_loop import IngestLoop

PATHS = ("kafka://t/0", "kafka://t/1")


class Topic(KafkaSource):
    """A source without brokers: deliveries come from the test, commits are remembered."""

    def __init__(self) -> None:
        self.on_revoke = None
        self.misplaced = self.unkeyed = self.skipped = 0
        self.given = {path: Position("kafka", path, 5, 5) for path in PATHS}
        self.starts = dict(self.given)
        self.committed: list[dict[str, int]] = []
        self.refuses = False
        self.rejected_so_far = 0

    @property
    def rejected(self) -> int:
        return self.rejected_so_far

    @property
    def rejections(self) -> list[str]:  # type: ignore[override]
        return ["a record"]

    @property
    def positions(self) -> dict[str, Position]:
        return dict(self.given)

    @property
    def lag(self) -> dict[str, int]:
        return dict.fromkeys(PATHS, 2)

    def commit(self, positions: Any) -> None:
        if self.refuses:
            raise SourceError("kafka://t", "no broker", retriable=True)
        self.committed.append({path: position.offset for path, position in positions.items()})

    def deliver(self, path: str, number: int) -> Delivery:
        position = self.given[path] = Position("kafka", path, number, number)
        outcome = Outcome(f"https://a.example/{number}", float(number))
        return Delivery(OutcomeBatch.from_outcomes([outcome]), position)


class Clock:
    """Goes on by a second and a bit each time it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.1
        return self.now


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[DurableScheduler]:
    with DurableScheduler.open(tmp_path, plan=SavePlan(every=1e9)) as opened:
        yield opened


@pytest.fixture
def topic() -> Topic:
    return Topic()


def make(scheduler: DurableScheduler, topic: Topic, each_s: float | None = None) -> IngestLoop:
    return IngestLoop(scheduler, topic, each_s=each_s, clock=Clock())


def test_commits_follow_saves(scheduler: DurableScheduler, topic: Topic) -> None:
    intake = make(scheduler, topic)
    assert intake.take([topic.deliver(PATHS[0], 6), None, topic.deliver(PATHS[0], 7)], lambda _: None) is None
    assert topic.committed == []
    scheduler.snapshot()
    scheduler.take(OutcomeBatch([], []), PATHS[0], {"kind": "kafka", "path": PATHS[0], "offset": 9, "records": 9})
    intake.take([None], lambda _: None)
    assert topic.committed == [{PATHS[0]: 7, PATHS[1]: 5}]
    intake.finish()
    assert topic.committed[-1] == {PATHS[0]: 7, PATHS[1]: 5}
    assert intake.counts()["applied"] == 2


def test_what_was_only_rejected_is_passed_when_it_is_quiet(scheduler: DurableScheduler, topic: Topic) -> None:
    intake = make(scheduler, topic)
    topic.given[PATHS[1]] = Position("kafka", PATHS[1], 8, 8)
    intake.take([None], lambda _: None)
    assert scheduler.positions[PATHS[1]]["offset"] == 8


def test_brokers_that_do_not_answer_get_it_later(
    scheduler: DurableScheduler, topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    intake = make(scheduler, topic)
    topic.refuses = True
    intake.take([topic.deliver(PATHS[0], 6)], lambda _: None)
    intake.finish()
    assert "not committed" in caplog.text
    topic.refuses = False
    intake.take([None], lambda _: None)
    assert topic.committed == [{PATHS[0]: 6, PATHS[1]: 5}]


def test_partitions_are_handed_over_saved_and_committed(
    scheduler: DurableScheduler, topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    make(scheduler, topic).take([topic.deliver(PATHS[0], 6)], lambda _: None)
    assert topic.on_revoke is not None
    topic.on_revoke(topic.positions)
    assert scheduler.saved.positions[PATHS[0]]["offset"] == 6
    assert topic.committed == [{PATHS[0]: 6, PATHS[1]: 5}]
    assert "partitions taken away" in caplog.text


def test_partitions_that_cannot_be_saved_are_not_committed(
    scheduler: DurableScheduler, topic: Topic, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(scheduler, topic).take([topic.deliver(PATHS[0], 6)], lambda _: None)

    def refuse(**_: object) -> Path:
        raise SnapshotError("state", "cannot be written: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(scheduler, "snapshot", refuse)
        assert topic.on_revoke is not None
        topic.on_revoke(topic.positions)
    assert topic.committed == []
    assert "not saved before partitions were taken away" in caplog.text


def test_progress_and_trouble_are_told(
    scheduler: DurableScheduler, topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    intake = make(scheduler, topic, each_s=2.0)
    topic.rejected_so_far = 3
    scheduler.trouble = SnapshotError("state", "cannot be written: No space left on device")
    intake.take([topic.deliver(PATHS[0], 6), None, None], lambda _: None)
    told = {record.message: getattr(record, "fields", {}) for record in caplog.records}
    assert told["progress"]["lag"] == 4
    assert told["rejected"] == {"count": 3, "last": "a record"}
    assert "No space left" in told["cannot save"]["reason"]
    assert [record.message for record in caplog.records].count("cannot save") == 1
    scheduler.trouble = None


def test_what_keeps_more_from_coming_is_returned(scheduler: DurableScheduler, topic: Topic) -> None:
    def break_off() -> Iterator[Delivery]:
        yield topic.deliver(PATHS[0], 6)
        raise SourceError("kafka://t/0", "offset 9 is gone")

    intake = make(scheduler, topic)
    assert str(intake.take(break_off(), lambda _: None)) == "kafka://t/0: offset 9 is gone"
    assert intake.total.applied == 1
