"""A topic that is deleted and perhaps made again while it is read: the reader says so and loses nothing silently."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from streamsched.connectors import Position
from streamsched.connectors.kafka import KafkaSource
from streamsched.errors import SourceError
from streamsched.outcomes import OutcomeBatch
from tests.integration.kafka.topics import Topic, encode_event, wait_for
from tests.support.command_line import Command
from tests.support.crawl_outcomes import read_out

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.usefixtures("real", "collected"),
]

READ = 10
SHORTER, LONGER = 5, 25
MakeTopic = Callable[..., Topic]


def send(topic: Topic, first: int, last: int) -> None:
    topic.send([encode_event(f"https://a.example/{i}", float(i)) for i in range(first, last)], partition=0)


def remake(topic: Topic, messages: int, partitions: int = 1) -> list[float]:
    """Delete `topic`, make it again and fill it; return the times of its outcomes."""
    topic.delete()
    topic.create(partitions, {})
    send(topic, 100, 100 + messages)
    return [float(i) for i in range(100, 100 + messages)]


def poll_times(source: KafkaSource[OutcomeBatch]) -> set[float]:
    delivery = source.poll(0.25)
    return set() if delivery is None else set(delivery.records.fetched_at.tolist())


def poll_to_error(source: KafkaSource[OutcomeBatch]) -> SourceError:
    """Poll until that is an error; return it."""
    while True:
        try:
            source.poll(0.25)
        except SourceError as error:
            return error


@pytest.fixture
def topic(make_topic: MakeTopic) -> Topic:
    topic = make_topic(1)
    send(topic, 1, READ + 1)
    return topic


@pytest.mark.parametrize("messages", [SHORTER, READ, LONGER])
def test_the_reader_says_so_and_so_does_the_next(topic: Topic, messages: int) -> None:
    with topic.open() as source:
        wait_for(source, READ)
        saved = [dict(source.positions)]
        times = remake(topic, messages)
        send(topic, 200, 201)  # so that something is read of a log as long as that before
        error = poll_to_error(source)
        assert "made again" in str(error)
        assert not error.retriable
        saved.append(dict(source.positions))
    for positions in saved:
        again = [Position.from_json(position.to_json()) for position in positions.values()]
        with topic.open(until_end="true") as source:
            source.seek(again[0])
            assert "made again" in str(poll_to_error(source))
        with topic.open(until_end="true", lost="earliest") as source:
            source.seek(again[0])
            assert [one.fetched_at for one in read_out(source)] == [*times, 200.0]


@pytest.mark.parametrize("messages", [SHORTER, LONGER])
def test_a_reader_that_may_lose_offsets_reads_all_of_the_new_topic(topic: Topic, messages: int) -> None:
    with topic.open(lost="earliest") as source:
        wait_for(source, READ)
        times = set(remake(topic, messages))
        while times:  # some may come twice
            times -= poll_times(source)
        assert source.positions[f"kafka://{topic.name}/0"].offset == messages


def test_a_group_reads_all_of_the_new_topic(topic: Topic) -> None:
    """Its committed offsets went with the topic."""
    with topic.open(group=topic.name, lost="earliest") as source:
        wait_for(source, READ)
        source.commit(source.positions)
        times = set(remake(topic, LONGER))
        while times:
            times -= poll_times(source)
        source.commit(source.positions)
    assert topic.read(group=topic.name) == []


def test_a_topic_with_more_partitions_is_opened_again(topic: Topic) -> None:
    with topic.open(lost="earliest") as source:
        wait_for(source, READ)
        remake(topic, LONGER, partitions=3)
        assert "3 partitions" in str(poll_to_error(source))


def test_a_topic_that_is_only_deleted(topic: Topic) -> None:
    """The reader does not make it again by asking for it, as brokers let clients do."""
    with topic.open() as source:
        wait_for(source, READ)
        topic.delete()
        assert "deleted" in str(poll_to_error(source))
    with pytest.raises(SourceError, match="no such topic"):
        topic.open()


def test_run_ends_with_the_code_of_a_source_that_cannot_be_read(
    streamsched: Command, topic: Topic, tmp_path: Path
) -> None:
    words = ("run", "--source", topic.url(), "--state", tmp_path / "state", "--until-end", "--json")
    assert streamsched(*words, "--log-level", "error").json["applied"] == READ
    remake(topic, LONGER)
    for _ in range(2):
        answer = streamsched(*words, "--log-level", "error")
        assert answer.code == 3
        assert "made again" in answer.err
    answer = streamsched(*words, "--log-level", "error", "--set", "kafka.lost=earliest")
    assert (answer.code, answer.json["applied"]) == (0, LONGER)
