"""When a reader asks which topic has the name, and what it makes of the answers."""

from __future__ import annotations

from typing import Any, cast

import pytest

from streamsched.connectors.kafka import read_settings, topic_watch
from streamsched.connectors.kafka.clients.protocol import Consumer, TopicIdentity
from streamsched.connectors.kafka.topic_watch import TopicWatch
from streamsched.errors import SourceError

BEFORE, OTHER = TopicIdentity("before", [0]), TopicIdentity("other", [0, 1])
SILENT = SourceError("kafka://outcomes", "no answer")  # not retriable, so that nobody waits


class Brokers:
    """Answers with the next of `answers`, the last one for ever; ``asked``: how often."""

    def __init__(self, *answers: TopicIdentity | SourceError | None) -> None:
        self.answers = list(answers)
        self.asked = 0

    def identify(self, _timeout_s: float) -> TopicIdentity | None:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, SourceError):
            raise answer
        return answer


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(topic_watch, "time", clock)
    return clock


def watch(brokers: Brokers) -> TopicWatch:
    found = TopicWatch(read_settings("kafka://host:1/outcomes"), cast(Consumer, cast(Any, brokers)))
    found.begin()
    return found


def test_it_asks_after_messages_and_seldom_without(clock: Clock) -> None:
    brokers = Brokers(BEFORE)
    watched = watch(brokers)
    steps = [(0.0, True), (0.5, True), (0.6, False), (0.9, False), (20.0, False), (10.0, False), (0.0, False)]
    asked = []
    for seconds, has_read in steps:
        clock.now_s += seconds
        assert not watched.is_other(has_read=has_read)
        asked.append(brokers.asked - 1)
    assert asked == [0, 0, 1, 1, 1, 2, 2]
    assert (watched.topic_id, watched.partitions) == ("before", [0])


def test_another_topic_is_noticed_until_reading_begins_there(clock: Clock) -> None:
    watched = watch(Brokers(BEFORE, OTHER))
    for _ in range(2):
        clock.now_s += 1.0
        assert watched.is_other(has_read=True)
        assert (watched.topic_id, watched.partitions) == ("before", [0, 1])
    watched.begin()
    assert watched.topic_id == "other"
    assert not watched.is_other(has_read=True, at_once=True)


def test_a_topic_that_is_gone_is_looked_for_twice(clock: Clock) -> None:
    watched = watch(Brokers(BEFORE, None, BEFORE, None))
    for _ in range(3):
        clock.now_s += 1.0
        assert not watched.is_other(has_read=True)
    clock.now_s += 1.0
    with pytest.raises(SourceError, match="deleted"):
        watched.is_other(has_read=False)
    with pytest.raises(SourceError, match="deleted"):
        watch(Brokers(BEFORE, None)).is_other(has_read=False, at_once=True)


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("answer", [SILENT, None, TopicIdentity("", [0])])
def test_brokers_that_give_no_id_are_not_asked_again(answer: TopicIdentity | SourceError | None) -> None:
    brokers = Brokers(answer)
    watched = watch(brokers)
    assert not watched.is_other(has_read=True, at_once=True)
    assert (watched.topic_id, brokers.asked) == ("", 1)


def test_without_an_answer_it_is_the_same_topic(clock: Clock) -> None:
    watched = watch(Brokers(BEFORE, SILENT, TopicIdentity("", []), OTHER))
    found = []
    for _ in range(3):
        clock.now_s += 1.0
        found.append(watched.is_other(has_read=True))
    assert found == [False, False, True]
