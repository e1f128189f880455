"""The changes that a cluster finds, in a topic: each with one cursor whoever finds it, none lost, none invented."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

import msgspec
import pytest

from streamsched.api.answers import Change
from streamsched.cluster.image_store import ImageStore
from streamsched.cluster.shard import Shard, ShardLog, write_shard_changes
from streamsched.cluster.topic_log import CallsTopic, prepare_topic
from streamsched.connectors.kafka import read_settings
from streamsched.connectors.kafka.clients.factory import open_consumer
from streamsched.connectors.kafka.kafka_settings import KafkaSettings
from streamsched.errors import ServiceError, SettingsError, SnapshotError
from streamsched.outcomes import Outcome
from streamsched.persistence.image_writer import SavePlan
from streamsched.service.run_settings import ChangesSettings, RunSettings
from tests.integration.kafka.broker import Address
from tests.integration.kafka.topics import Topic
from tests.support.cluster_hosts import NOW, PARTITIONS, Cluster, outcomes
from tests.support.command_line import Command
from tests.support.waiting import CALL_S, pause

DAY = 86_400.0
NEVER = SavePlan(every="365d", share=100.0)


@pytest.fixture
def topic(real: Address) -> Topic:
    """A topic for changes, of fewer partitions than the outcomes have."""
    made = Topic(real, "confluent", f"changes-{uuid.uuid4().hex[:12]}")
    made.create(3, {})
    return made


@pytest.fixture
def take(real: Address, topic: Topic, tmp_path: Path) -> Iterator[Callable[..., Shard]]:
    """Takes partition 1 over, as a host does, with a directory of its own, and writes its changes to the topic."""
    calls = CallsTopic(KafkaSettings(real.servers, f"calls-{uuid.uuid4().hex[:12]}"), f"g-{uuid.uuid4().hex[:8]}", 4)
    calls, store = prepare_topic(calls), ImageStore(str(tmp_path / "images"))
    ended: list[Callable[[], object]] = []

    def take_over(name: str) -> Shard:
        log = ShardLog(calls, 1, store, lambda: NOW)
        log.fetch(tmp_path / name)
        shard = Shard.open(tmp_path / name, {"cycle": "1d"}, plan=NEVER, log=log, keep_changes="10m")
        settings = RunSettings(source="none:", state=tmp_path / name, changes=ChangesSettings(to=topic.url()))
        writer = write_shard_changes(settings, shard, 1).__enter__()
        shard.await_written = writer.await_written
        ended.extend([lambda: writer.__exit__(None, None, None), shard.disown])
        return shard

    yield take_over
    for end in ended:
        end()


def read_all(topic: Topic) -> list[tuple[int, Change]]:
    """Each message of the topic with its partition, in the order of the partition."""
    consumer, found = open_consumer(read_settings(topic.url())), list[tuple[int, Change]]()
    try:
        bounds = consumer.bounds(consumer.partitions())
        consumer.assign({partition: first for partition, (first, _) in bounds.items()})
        while len(found) < sum(last - first for first, last in bounds.values()):
            for chunk in consumer.poll(0.25, 1_000):
                found += [(chunk.partition, msgspec.json.decode(value or b"", type=Change)) for value in chunk.values]
    finally:
        consumer.close()
    return found


def read_once(topic: Topic) -> list[Change]:
    """What a consumer takes that keeps the greatest number of each identity in each partition (docs/cluster.md)."""
    newest, taken = dict[tuple[int, str], int](), list[Change]()
    for partition, change in read_all(topic):
        identity, _, number = change.cursor.partition("-")
        if int(number) > newest.get((partition, identity), 0):
            newest[partition, identity] = int(number)
            taken.append(change)
    return taken


def check_numbers(taken: Sequence[Change]) -> None:
    """Each shard's changes have the numbers from 1 on, each once."""
    numbers = dict[str, list[int]]()
    for change in taken:
        identity, _, number = change.cursor.partition("-")
        numbers.setdefault(identity, []).append(int(number))
    for own in numbers.values():
        assert sorted(own) == list(range(1, len(own) + 1))


def visits(day: int, count: int = 200, more: str = "") -> list[Outcome]:
    urls = [f"https://h{i % 17}.example/{i}{more}" for i in range(count)]
    return [Outcome(url, NOW + day * DAY, changed=day > 0) for url in urls]


def test_owners_write_the_same_cursors(take: Callable[..., Shard], topic: Topic) -> None:
    """An owner that is fenced writes what it has found, and the next one writes it again."""
    first = take("a")
    for day in range(3):
        first.observe(visits(day))
    second = take("b")
    second.observe(visits(3))
    second.snapshot()
    third = take("c")
    third.observe(visits(4))
    third.snapshot()
    taken = read_once(topic)
    check_numbers(taken)
    expected = [(one.url, one.fetched_at) for day in range(1, 5) for one in visits(day)]
    assert sorted((one.url, one.fetched_at) for one in taken) == sorted(expected)
    assert len({one.cursor.partition("-")[0] for one in taken}) == 1
    assert {one.cursor: one.url for _, one in read_all(topic)} == {one.cursor: one.url for one in taken}


def test_no_change_passes_one_that_the_brokers_refuse(take: Callable[..., Shard], topic: Topic) -> None:
    """Images wait for it, calls go on; readers who skip smaller numbers get it once the limit is raised."""
    topic.configure({"max.message.bytes": "6000"})
    shard = take("a")
    for day in range(2):
        shard.observe(visits(day, 30))
    shard.snapshot()
    for day in range(2):
        shard.observe(visits(day, 1, "x" * 7_900))
    for day in range(2, 5):
        shard.observe(visits(day, 30))
    before = shard.saved
    with pytest.raises(SnapshotError, match="size too large"):
        shard.snapshot()
    assert shard.saved is before
    assert shard.next_batch(1, now=NOW + 9 * DAY).urls
    topic.configure({"max.message.bytes": "1000000"})
    while shard.trouble is not None:
        try:
            shard.snapshot()
        except SnapshotError:
            pause(CALL_S)
    taken = read_once(topic)
    check_numbers(taken)
    assert len(taken) == 121


def test_hosts_that_die_lose_no_change(real: Address, topic: Topic, streamsched: Command, tmp_path: Path) -> None:
    """Of outcomes of the topic, and of those that crawlers report meanwhile, while each host is killed once."""
    made = Topic(real, "confluent", f"t-{uuid.uuid4().hex[:12]}")
    made.create(PARTITIONS, {})
    to = f"kafka://{real.servers}/{topic.name}"
    cluster = Cluster(
        real.servers,
        made.name,
        str(tmp_path / "images"),
        tmp_path,
        save_every="1s",
        options=("--set", f"changes.to={to}"),
    )
    try:
        cluster.start()
        cluster.start()
        cluster.owners(PARTITIONS)
        with Reporter(cluster) as reporter:
            for start in range(0, 1_200, 40):
                if start == 400:
                    cluster.hosts[0].kill()
                    cluster.start()
                elif start == 800:
                    cluster.owners(PARTITIONS)
                    cluster.hosts[1].kill()
                cluster.publish(outcomes(start, 40))
                pause(0.1)
            cluster.owners(PARTITIONS)
        published = {(one.url, one.fetched_at) for one in outcomes(0, 1_200) if one.fetched_at > NOW}
        end, found = time.monotonic() + 90.0, set[tuple[str, float]]()
        while not published | reporter.acknowledged <= found:
            assert time.monotonic() < end, cluster.logs()
            pause(1.0)
            found = {(one.url, one.fetched_at) for one in read_once(topic)}
        last = cluster.owners(PARTITIONS)[0]
        assert last.stop() == 0
        assert not last.events("changes wait")
        verified = streamsched("cluster", "verify", *cluster.place, "--images", cluster.images, "--json")
        assert (verified.code, len(verified.json)) == (0, PARTITIONS), verified.out
    finally:
        cluster.close()
    taken, everything = read_once(topic), read_all(topic)
    check_numbers(taken)
    assert len(taken) == len({(one.url, one.fetched_at) for one in taken})
    assert {(one.url, one.fetched_at) for one in taken} <= published | reporter.sent
    assert len({one.cursor.partition("-")[0] for one in taken}) == PARTITIONS
    assert {one.cursor: one.url for _, one in everything} == {one.cursor: one.url for one in taken}
    assert reporter.acknowledged


class Reporter:
    """Reports outcomes to whichever host answers. ``sent``, ``acknowledged``: changes that are in them."""

    def __init__(self, cluster: Cluster) -> None:
        self.sent: set[tuple[str, float]] = set()
        self.acknowledged: set[tuple[str, float]] = set()
        self._cluster = cluster
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _work(self) -> None:
        number = 0
        while not self._stopping.wait(0.05):
            number += 1
            url = f"https://r{number % 13}.example/{number}"
            visits = [Outcome(url, NOW, changed=False), Outcome(url, NOW + DAY, changed=True)]
            self.sent.add((url, NOW + DAY))
            with self._cluster.hosts[number % len(self._cluster.hosts)].front(timeout_s=2.0) as front:
                try:
                    if front.observe(visits).applied == 2:
                        self.acknowledged.add((url, NOW + DAY))
                except (ServiceError, SettingsError):
                    pass
