"""A partition of a host, in this process: opened, lost, and taken again."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from streamsched.cluster.image_store import ImageStore
from streamsched.cluster.partition import Partition, ShardSettings, remove_left
from streamsched.cluster.shard import Shard, ShardLog
from streamsched.cluster.topic_log import CallsTopic, TopicLog, prepare_topic
from streamsched.connectors.kafka.kafka_settings import read_settings
from streamsched.service.http_settings import HttpSettings
from streamsched.service.run_settings import RunSettings
from tests.integration.kafka.broker import Address
from tests.integration.kafka.topics import Topic

NOW = 1_790_000_000.0
PATIENCE_S = 60.0
NUMBER = 1


@pytest.fixture
def settings(real: Address, tmp_path: Path) -> ShardSettings:
    topic = Topic(real, "confluent", f"t-{uuid.uuid4().hex[:12]}")
    topic.create(4, {})
    run = RunSettings(source=f"kafka://{real.servers}/{topic.name}?group=g-{topic.name}", state=tmp_path / "local")
    run.state.mkdir()
    calls = CallsTopic(read_settings(f"kafka://{real.servers}/calls-{topic.name}"), f"g-{topic.name}", 4)
    store = ImageStore(str(tmp_path / "images"))
    return ShardSettings(run, HttpSettings(), prepare_topic(calls), store, lambda: NOW, lambda _: None, None)


def await_shard(partition: Partition) -> Shard:
    """The shard of `partition` once it is served."""
    until(lambda: partition.app is not None)
    shard = partition.shard
    assert shard is not None
    return shard


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_partition_that_comes_back_while_its_loser_still_opens_it(
    settings: ShardSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that was frozen loses a partition that it was opening, and is given it again at once."""
    fetch, read = ShardLog.fetch, TopicLog.read
    fetches, reads, has_begun = threading.Event(), threading.Event(), threading.Event()

    def fetch_late(log: ShardLog, directory: Path) -> int:
        monkeypatch.setattr(ShardLog, "fetch", fetch)
        assert fetches.wait(PATIENCE_S)
        monkeypatch.setattr(TopicLog, "read", read_late)
        return fetch(log, directory)

    def read_late(log: TopicLog) -> list[tuple[int, bytes]]:
        monkeypatch.setattr(TopicLog, "read", read)
        has_begun.set()
        assert reads.wait(PATIENCE_S)
        return read(log)

    monkeypatch.setattr(ShardLog, "fetch", fetch_late)
    first = Partition(settings, NUMBER)
    until(lambda: ShardLog.fetch is fetch)
    first.lose()
    second = Partition(settings, NUMBER)
    shard = await_shard(second)
    shard.discover([f"https://a.example/{i}" for i in range(1_000)], now=NOW)
    shard.snapshot()
    fetches.set()
    assert has_begun.wait(PATIENCE_S)
    shard.discover(["https://b.example/"], now=NOW)
    shard.snapshot()
    reads.set()
    assert first.wait(PATIENCE_S)
    digest = shard.digest()
    second.begin_to_give_up()
    assert second.wait(PATIENCE_S)
    third = Partition(settings, NUMBER)
    assert await_shard(third).digest() == digest
    third.begin_to_give_up()
    assert third.wait(PATIENCE_S)
    assert [path.name for path in settings.run.state.iterdir() if path.is_dir()] == []


def test_what_a_killed_host_has_left_is_removed(tmp_path: Path) -> None:
    for name in ("partition-1-abc", "partition-12-x", "partition-1", "audit-1.jsonl"):
        (tmp_path / name).mkdir()
    remove_left(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"partition-1", "audit-1.jsonl"}
