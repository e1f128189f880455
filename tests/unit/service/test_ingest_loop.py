"""The ingest loop: saves hold positions, and what fails is logged and tried again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest

from streamsched import Outcome, OutcomeBatch
from streamsched.connectors import Delivery, Position, Rejection, Source
from streamsched.errors import InvalidRecord, SnapshotError, SourceError
from streamsched.persistence.image_writer import SavePlan
from streamsched.scheduler.durable import DurableScheduler
from streamsched.scheduler.monitoring import SchedulerWatch
from streamsched.service.arrivals import Arrival
from streamsched.service.ingest_loop import IngestLoop, StreamProgress

PATHS = ("kafka://t/0", "kafka://t/1")


class Topic(Source[OutcomeBatch]):
    """A source without brokers: deliveries come from the test."""

    format = "kafka"
    is_partitioned = True

    def __init__(self) -> None:
        self.current = {path: Position("kafka", path, 5, 5) for path in PATHS}
        self.begun = dict(self.current)
        self.rejected_so_far = 0
        self.kept_aside: list[str] = []

    @property
    def rejected(self) -> int:
        return self.rejected_so_far

    @property
    def rejections(self) -> list[Rejection]:
        return [Rejection(PATHS[0], "message", 5, "url", "expected text", "1")]

    @property
    def positions(self) -> dict[str, Position]:
        return dict(self.current)

    @property
    def starts(self) -> dict[str, Position]:
        return self.begun

    @property
    def lag(self) -> dict[str, int]:
        return dict.fromkeys(PATHS, 2)

    def owns(self, path: str) -> bool:
        return path in PATHS

    def seek(self, position: Position) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def __next__(self) -> Delivery[OutcomeBatch]:
        raise StopIteration

    def reject(self, delivery: Delivery[OutcomeBatch], problems: Sequence[InvalidRecord]) -> None:
        self.kept_aside += [delivery.records.urls[problem.record] for problem in problems]
        self.rejected_so_far += len(problems)

    def deliver(self, path: str, number: int) -> Delivery[OutcomeBatch]:
        position = self.current[path] = Position("kafka", path, number, number)
        outcome = Outcome(f"https://a.example/{number}", float(number))
        return Delivery(OutcomeBatch.from_outcomes([outcome]), position)


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[DurableScheduler]:
    with DurableScheduler.open(tmp_path, plan=SavePlan(every=1e9)) as opened:
        yield opened


@pytest.fixture
def topic() -> Topic:
    return Topic()


def make(scheduler: DurableScheduler, topic: Topic, progress_s: float | None = None) -> IngestLoop:
    """The clock advances by a second and a bit each time it is read."""
    return IngestLoop(scheduler, topic, progress_s=progress_s, clock=count(1.1, 1.1).__next__)


def run(
    loop: IngestLoop,
    deliveries: Iterable[Delivery[OutcomeBatch] | None],
    on_step: Callable[[IngestLoop], None] = lambda _: None,
) -> SourceError | None:
    """Let all `deliveries` of outcomes arrive."""
    stream = loop.streams[0]
    whole = (one if one is None else Arrival(stream, one, 0, len(one.records)) for one in deliveries)
    return loop.run(whole, on_step)


def test_a_save_holds_the_positions_of_what_was_applied(scheduler: DurableScheduler, topic: Topic) -> None:
    loop = make(scheduler, topic)
    assert run(loop, [topic.deliver(PATHS[0], 6), None, topic.deliver(PATHS[0], 7)]) is None
    assert scheduler.saved.positions == {}
    loop.finish()
    assert {path: position["offset"] for path, position in scheduler.saved.positions.items()} == {
        PATHS[0]: 7,
        PATHS[1]: 5,
    }
    assert loop.counts()["applied"] == 2


def test_positions_pass_rejected_messages_when_idle(scheduler: DurableScheduler, topic: Topic) -> None:
    loop = make(scheduler, topic)
    topic.current[PATHS[1]] = Position("kafka", PATHS[1], 8, 8)
    run(loop, [None])
    assert scheduler.positions[PATHS[1]]["offset"] == 8


def test_progress_of_topics_and_files(scheduler: DurableScheduler, topic: Topic) -> None:
    loop = make(scheduler, topic)
    assert loop.progress == StreamProgress(4, None, at_end=False)
    run(loop, [topic.deliver(PATHS[0], 6), None])
    assert loop.progress == StreamProgress(4, 6.0, at_end=False)
    topic.is_partitioned = False
    run(loop, [topic.deliver(PATHS[0], 7), None])  # a slow disk is not the end of a file
    assert loop.progress == StreamProgress(None, 7.0, at_end=False)
    loop.streams_ended = True
    assert loop.progress == StreamProgress(0, 7.0, at_end=True)


def test_a_pause_of_a_pipe_is_all_that_there_is(scheduler: DurableScheduler, topic: Topic) -> None:
    loop = make(scheduler, topic)
    topic.is_partitioned = topic.is_replayable = False
    run(loop, [topic.deliver(PATHS[0], 7)])
    assert not loop.progress.at_end
    run(loop, [None])
    assert loop.progress.at_end


def test_no_position_passes_what_was_cut_short(
    scheduler: DurableScheduler, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = make(scheduler, topic)
    run(loop, [topic.deliver(PATHS[0], 6)])
    with monkeypatch.context() as patch:
        patch.setattr(type(scheduler), "take", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(loop, [topic.deliver(PATHS[0], 7)])
    loop.finish()
    assert scheduler.saved.positions[PATHS[0]]["offset"] == 6


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_progress_rejections_and_trouble_are_logged(
    scheduler: DurableScheduler, topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    loop = make(scheduler, topic, progress_s=2.0)
    topic.rejected_so_far = 3
    scheduler._not_saved = SnapshotError("state", "cannot be written: No space left on device")
    run(loop, [topic.deliver(PATHS[0], 6), None, None])
    logged = {record.message: vars(record) for record in caplog.records}
    assert logged["progress"]["lag"] == 4
    assert (logged["rejected"]["count"], logged["rejected"]["last"]) == (3, str(topic.rejections[-1]))
    assert "No space left" in logged["cannot save"]["reason"]
    assert [record.message for record in caplog.records].count("cannot save") == 1
    scheduler._not_saved = None


def test_the_error_that_ends_the_deliveries_is_returned(scheduler: DurableScheduler, topic: Topic) -> None:
    def fail() -> Iterator[Delivery[OutcomeBatch]]:
        yield topic.deliver(PATHS[0], 6)
        raise SourceError("kafka://t/0", "offset 9 is gone")

    loop = make(scheduler, topic)
    assert str(run(loop, fail())) == "kafka://t/0: offset 9 is gone"
    assert loop.total.applied == 1


def test_outcomes_of_the_future_are_kept_aside_and_passed(scheduler: DurableScheduler, topic: Topic) -> None:
    loop, watch = make(scheduler, topic), SchedulerWatch(scheduler.core)
    days = [1, 2, 401, 3, 402]
    outcomes = [Outcome(f"https://a.example/{day}", 86_400.0 * day) for day in days]
    topic.current[PATHS[0]] = position = Position("kafka", PATHS[0], 10, 10)
    run(loop, [Delivery(OutcomeBatch.from_outcomes(outcomes), position)])
    assert topic.kept_aside == ["https://a.example/401", "https://a.example/402"]
    assert loop.counts()["applied"] == 3
    assert loop.counts()["rejected"] == watch.observed.rejected == 2
    assert scheduler.positions[PATHS[0]]["offset"] == 10
    topic.rejected_so_far += 3  # messages that are no outcomes
    loop.finish()
    assert loop.counts()["rejected"] == watch.observed.rejected == 5
