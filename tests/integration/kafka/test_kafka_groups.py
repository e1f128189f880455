"""Consumer groups: what is committed, and how partitions change hands."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from streamsched.connectors import Position
from streamsched.connectors.kafka import KafkaSource
from streamsched.outcomes import Outcome, OutcomeBatch
from tests.integration.kafka.topics import Topic, encode_event, wait_for
from tests.support.crawl_outcomes import read_out

pytestmark = pytest.mark.usefixtures("real")  # the mock keeps members that left until their session ends

# A loaded machine may stop a process for seconds; members that close leave at once.
GROUP = {"group": "crawl", "session.timeout.ms": 30000, "heartbeat.interval.ms": 200}


def fill(topic: Topic, first: int, last: int) -> None:
    for partition in range(4):
        values = [encode_event(f"https://host{partition}.example/{i}", 1.0 + i) for i in range(first, last)]
        topic.send(values, partition=partition)


def test_reading_commits_nothing(topic: Topic) -> None:
    fill(topic, 0, 5)
    for _ in range(2):
        assert len(topic.read(group=topic.name)) == 20


def test_what_was_committed_is_not_read_again(topic: Topic) -> None:
    fill(topic, 0, 5)
    with topic.open(group=topic.name, until_end="true") as source:
        assert len(read_out(source)) == 20
        half = {path: Position("kafka", path, 3, 3) for path in list(source.positions)[:2]}
        source.commit(half)
    assert sorted(one.fetched_at for one in topic.read(group=topic.name)) == [1, 1, 2, 2, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5]
    with topic.open(group=topic.name, until_end="true") as source:
        read_out(source)
        source.commit(source.positions)
    assert topic.read(group=topic.name) == []


def test_a_saved_position_wins_over_what_was_committed(topic: Topic) -> None:
    fill(topic, 0, 5)
    with topic.open(group=topic.name, until_end="true") as source:
        read_out(source)
        source.commit(source.positions)
    with topic.open(group=topic.name, until_end="true") as source:
        source.seek(Position("kafka", f"kafka://{topic.name}/1", 3, 3))
        assert [(one.url, one.fetched_at) for one in read_out(source)] == [
            ("https://host1.example/3", 4.0),
            ("https://host1.example/4", 5.0),
        ]
        assert source.positions[f"kafka://{topic.name}/1"] == Position("kafka", f"kafka://{topic.name}/1", 5, 5)


def test_positions_of_others_are_not_committed(topic: Topic) -> None:
    fill(topic, 0, 5)
    with topic.open(group=topic.name) as source:
        wait_for(source, 20)
        source.commit({"kafka://other/0": Position("kafka", "kafka://other/0", 9, 9)})
    assert len(topic.read(group=topic.name)) == 20


class Member:
    """A member of a group that takes outcomes in and, when partitions go, remembers where they stood and commits."""

    def __init__(self, topic: Topic, **more: object) -> None:
        self.source: KafkaSource[OutcomeBatch] = topic.open(**GROUP | {"group": topic.name} | more)
        self.source.on_revoke = self.hand_over
        self.taken: list[Outcome] = []
        self.handed_over: dict[str, int] = {}
        self.begun: dict[str, int] = {}  # where it read each partition from, the first time

    def hand_over(self, positions: Mapping[str, Position]) -> None:
        for path, position in positions.items():
            begun = self.begun.setdefault(path, self.source.starts[path].offset)
            taken = sum(f"host{path[-1]}." in one.url for one in self.taken)
            assert begun + taken == position.offset  # all was dealt with
        self.handed_over |= {path: position.offset for path, position in positions.items()}
        self.source.commit(positions)

    def step(self, timeout_s: float = 0.05) -> None:
        delivery = self.source.poll(timeout_s)
        self.taken += [] if delivery is None else delivery.records


def take_turns(members: list[Member], count: int) -> None:
    """Let `members` poll until they have `count` outcomes and share the partitions."""
    for _ in range(1_000):
        for member in members:
            member.step()
        taken = sum(len(member.taken) for member in members)
        shares = [set(member.source.positions) for member in members]
        if taken >= count and all(shares) and sum(map(len, shares)) == len(set.union(*shares)) == 4:
            return
    raise AssertionError([len(member.taken) for member in members])


def test_partitions_change_hands_after_what_was_read_is_committed(topic: Topic) -> None:
    fill(topic, 0, 50)
    first = Member(topic)
    take_turns([first], 200)
    second = Member(topic)
    take_turns([first, second], 200)
    assert first.handed_over == {f"kafka://{topic.name}/{partition}": 50 for partition in range(4)}
    assert second.taken == []  # it went on where the first had committed
    fill(topic, 50, 60)
    take_turns([first, second], 240)
    assert 0 < len(second.taken) < 40
    theirs = dict(second.source.positions)
    second.source.commit(theirs)
    second.source.close()
    fill(topic, 60, 70)
    take_turns([first], 280)  # partitions that come back are read from where this state stands
    urls = [one.url for one in first.taken]
    assert sorted(urls) == sorted(f"https://host{partition}.example/{i}" for partition in range(4) for i in range(70))
    first.source.close()


def test_a_member_comes_and_goes_amid_the_stream(topic: Topic) -> None:
    """Messages arrive before each step of the two: none is lost, and none counted twice in either's state."""
    sent = 0

    def step(*members: Member) -> None:
        nonlocal sent
        fill(topic, sent, sent + 3)
        sent += 3
        for member in members:
            member.step()

    first = Member(topic)
    while not first.taken:
        step(first)
    for _ in range(2):
        second = Member(topic)
        while not second.taken:
            step(first, second)
        second.source.commit(second.source.positions)
        second.source.close()
        urls = [one.url for one in second.taken]
        assert len(urls) == len(set(urls))
        taken = len(first.taken)
        while len(first.taken) < taken + len(urls):
            step(first)
    take_turns([first], 4 * sent)  # of partitions that come back, what the second has read too
    urls = [one.url for one in first.taken]
    assert sorted(urls) == sorted(f"https://host{partition}.example/{i}" for partition in range(4) for i in range(sent))
    first.source.close()


def test_polls_shorter_than_a_rebalance_complete_it(topic: Topic) -> None:
    """kafka-python rejoins as new partitions are seen, and its poll may return between two answers of the broker."""
    fill(topic, 0, 5)
    refresh = {"kafka-python": "metadata.max.age.ms", "confluent": "topic.metadata.refresh.interval.ms"}[topic.client]
    member = Member(topic, **{refresh: 300})
    take_turns([member], 20)
    topic.grow(8)
    deadline = time.monotonic() + 60.0
    while len(member.source.positions) < 8 and time.monotonic() < deadline:
        member.step(0.001)
    assert len(member.source.positions) == 8
    member.source.close()


def test_partitions_of_a_member_that_did_not_poll_are_no_longer_its_own(topic: Topic) -> None:
    fill(topic, 0, 5)
    brief = {"session.timeout.ms": 1500, "max.poll.interval.ms": 1500}
    first = Member(topic, **brief)
    take_turns([first], 20)
    first.source.on_revoke = lambda _: None  # librdkafka calls it even so, and a commit would be refused
    second = Member(topic, **brief)
    for _ in range(1_000):
        second.step()
        if len(second.source.positions) == 4:  # the group has given up on the first
            break
    assert len(second.source.positions) == 4
    for _ in range(1_000):
        first.step()
        if len(first.source.positions) < 4:
            break
    assert len(first.source.positions) < 4
    take_turns([first, second], 20)  # it has joined again
    first.source.close()
    second.source.close()


def test_a_group_with_more_members_than_partitions(topic: Topic) -> None:
    words = {**GROUP, "group": topic.name}
    sources = [topic.open(**words) for _ in range(5)]
    for _ in range(400):
        for source in sources:
            source.poll(0.02)
        if sorted(len(source.positions) for source in sources) == [0, 1, 1, 1, 1]:
            break
    assert sorted(len(source.positions) for source in sources) == [0, 1, 1, 1, 1]
    for source in sources:
        source.close()
