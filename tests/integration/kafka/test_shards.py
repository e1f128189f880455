"""A shard: its calls in a topic behind a fence, its images in a store, taken over by another owner."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.json import encode

from streamsched.cluster.image_store import ImageStore
from streamsched.cluster.shard import Shard, ShardLog
from streamsched.cluster.topic_log import CallsTopic, TopicLog, prepare_topic
from streamsched.connectors.kafka.kafka_settings import KafkaSettings
from streamsched.errors import CatchingUp, SettingsError, SnapshotError, StateInUse
from streamsched.outcomes import Outcome
from streamsched.persistence.image_writer import SavePlan
from tests.integration.kafka.broker import Address
from tests.integration.kafka.proxy import CREATE_TOPICS, DESCRIBE_CONFIGS, Proxy
from tests.integration.kafka.topics import Topic

DAY = 86_400.0
NOW = 1_700_000_000.0
FILE = {"key": "k", "name": "snapshot-00000001.state", "nbytes": 1, "crc": 1}
RECORD = {
    "format": 1, "group": "GROUP", "partition": 1, "partitions": 4, "sequence": 0, "positions": {}, "files": [FILE],
    "saved_s": 1.0,
}  # fmt: skip
NEVER = SavePlan(every="365d", share=100.0)


@pytest.fixture
def calls(real: Address) -> CallsTopic:
    """A topic of calls with four partitions, which is made when it is prepared."""
    settings = KafkaSettings(real.servers, f"calls-{uuid.uuid4().hex[:12]}", patience_s=20.0)
    topic = CallsTopic(settings, group=f"crawl-{uuid.uuid4().hex[:8]}", partitions=4)
    return prepare_topic(topic)


@pytest.fixture
def take(calls: CallsTopic, tmp_path: Path) -> Iterator[Callable[..., Shard]]:
    """Takes a partition over, as a host does, with a directory of its own."""
    store = ImageStore(str(tmp_path / "images"))
    opened: list[Shard] = []

    def take_over(partition: int = 1, name: str = "a", plan: SavePlan = NEVER) -> Shard:
        log = ShardLog(calls, partition, store, lambda: NOW)
        directory = tmp_path / name
        log.fetch(directory)
        opened.append(Shard.open(directory, {"cycle": "1d"}, plan=plan, log=log))
        return opened[-1]

    yield take_over
    for shard in opened:
        shard.disown()


def outcomes(start: int, count: int, at: float = NOW - 3 * DAY) -> list[Outcome]:
    return [Outcome(f"https://h{i % 7}.example/{i}", at + i, changed=i % 3 == 0) for i in range(start, start + count)]


def work(shard: Shard, round_number: int) -> list[str]:
    shard.observe(outcomes(100 * round_number, 100))
    return shard.next_batch(5, now=NOW + round_number, lease="1h").urls


def test_calls_that_follow_no_image_are_those_of_no_state(calls: CallsTopic) -> None:
    log = TopicLog(calls, 2)
    assert log.read() == []
    for i in range(20):
        log.append(bytes([i]) * 10)
    log.commit(20)
    with pytest.raises(SnapshotError, match="names an image"):
        TopicLog(calls, 2).read()


def test_a_new_owner_has_what_the_one_before_has_acknowledged(take: Callable[..., Shard]) -> None:
    first = take()
    leased = work(first, 0)
    digest = first.digest()
    second = take(name="b")
    assert second.digest() == digest
    again = second.next_batch(100, now=NOW + 1, lease="1h").urls
    assert not set(again) & set(leased)


def test_an_earlier_owner_is_refused_everything(take: Callable[..., Shard]) -> None:
    first = take()
    work(first, 0)
    second = take(name="b")
    digest = second.digest()
    for refused in (
        lambda: first.observe(outcomes(500, 1)),
        lambda: first.next_batch(5, now=NOW + 2),
        lambda: first.discover(["https://new.example/"], now=NOW),
        lambda: first.snapshot(),
        lambda: first.use("t"),
    ):
        with pytest.raises(StateInUse, match="another host"):
            refused()
    work(second, 1)
    assert take(name="c").digest() == second.digest() != digest


def test_images_and_increments_move(take: Callable[..., Shard], tmp_path: Path) -> None:
    shard = take()
    for number, name in enumerate("bcdefg"):
        work(shard, number)
        shard.snapshot(full=number == 3)
        work(shard, 10 + number)
        before = shard.digest()
        shard = take(name=name)
        assert shard.digest() == before
    stored = sorted(path for path in (tmp_path / "images").rglob("*") if path.is_file())
    assert len(stored) == 3  # the whole one after the fourth round, and an increment for each round since


def test_old_calls_are_deleted_and_none_that_is_needed(calls: CallsTopic, take: Callable[..., Shard]) -> None:
    shard = take()
    for number in range(30):
        shard.observe(outcomes(number * 10, 10))
    shard.snapshot()
    for number in range(30, 33):
        shard.observe(outcomes(number * 10, 10))
    shard.disown()
    assert [number for number, _ in TopicLog(calls, 1).read()] == [31, 32, 33]


def test_a_large_call_is_one_call(take: Callable[..., Shard]) -> None:
    shard = take()
    shard.observe([Outcome(f"https://a.example/{i}/{'x' * 200}", NOW - DAY + i / 100) for i in range(9_000)])
    digest = shard.digest()
    other = take(name="b")
    assert other.digest() == digest
    assert len(other) == 9_000


def test_joined_calls_share_a_transaction(take: Callable[..., Shard]) -> None:
    shard = take()
    with shard.together():
        for number in range(50):
            shard.observe(outcomes(number, 1))
    digest = shard.digest()
    assert take(name="b").digest() == digest


def test_nothing_is_leased_before_the_end_is_reached(take: Callable[..., Shard]) -> None:
    shard = take()
    shard.observe(outcomes(0, 10))
    shard.core.catching_up = "kafka://outcomes/1"
    for lease in (shard.next_batch, shard.offer):
        with pytest.raises(CatchingUp, match="kafka://outcomes/1"):
            lease(5, now=NOW)
    with pytest.raises(CatchingUp):
        shard.grant(["https://h0.example/0"], now=NOW)
    explanation = shard.explain("https://h0.example/0", now=NOW)
    assert (explanation.in_batch, explanation.reasons[0].code) == (False, "catching_up")
    shard.core.catching_up = None
    assert len(shard.next_batch(5, now=NOW)) == 5


@pytest.mark.parametrize(
    ("configs", "found"),
    [
        ({"retention.ms": "1000000"}, "retention.ms"),
        ({"cleanup.policy": "compact"}, "cleanup.policy"),
        ({}, "retention.ms"),
    ],
)
def test_a_topic_that_loses_records_is_refused(
    make_topic: Callable[..., Topic], real: Address, configs: dict[str, str], found: str
) -> None:
    topic = make_topic(4, **configs)
    calls = CallsTopic(KafkaSettings(real.servers, topic.name), "crawl", 4)
    with pytest.raises(SettingsError, match=found):
        prepare_topic(calls)


@pytest.mark.parametrize("request_kind", [CREATE_TOPICS, DESCRIBE_CONFIGS])
def test_a_host_may_start_while_the_brokers_start_anew(proxy: Proxy, request_kind: int) -> None:
    name = f"calls-{uuid.uuid4().hex[:12]}"
    held = proxy.hold(request_kind, arrives=True)
    with ThreadPoolExecutor(1) as pool:
        prepared = pool.submit(prepare_topic, CallsTopic(KafkaSettings(proxy.servers, name), "crawl", 4))
        assert held.wait(20.0)
        proxy.cut()
        proxy.mend()
        assert prepared.result(60.0) == prepare_topic(prepared.result())


def test_a_topic_with_other_partitions_is_refused(calls: CallsTopic) -> None:
    with pytest.raises(SettingsError, match="5 partitions"):
        prepare_topic(replace(calls, partitions=5))


def test_foreign_records_and_other_clusters_are_named(calls: CallsTopic, take: Callable[..., Shard]) -> None:
    take().observe(outcomes(0, 3))
    with pytest.raises(SnapshotError, match=r"belongs to another cluster: found group crawl-.*expected group other"):
        TopicLog(replace(calls, group="other"), 1).read()
    Topic(Address(calls.settings.servers), "kafka-python", calls.settings.topic).send([b"hello"], partition=1)
    with pytest.raises(SnapshotError, match="no cluster host has written"):
        TopicLog(calls, 1).read()


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (b"\xff\x00", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b'{"positions": ' + b'{"a": ' * 100_000, "cannot be read"),
        (encode(RECORD | {"files": [FILE | {"name": "../../escaped"}]}), "expected an image"),
        (encode(RECORD | {"files": [FILE | {"name": "snapshot-00000001.state/x"}]}), "expected an image"),
        (encode(RECORD | {"files": [FILE | {"crc": "x"}]}), "cannot be read"),
        (encode(RECORD | {"format": 2}), "another cluster"),
    ],
    ids=range(7),
)
def test_a_record_of_an_image_that_makes_no_sense(calls: CallsTopic, value: bytes, says: str) -> None:
    topic = Topic(Address(calls.settings.servers), "kafka-python", calls.settings.topic)
    own = value.replace(b"GROUP", calls.group.encode())
    topic.send([own], key=b"", headers=[("streamsched", b"image")], partition=1)
    with pytest.raises(SnapshotError, match=says):
        TopicLog(calls, 1).read()


def test_an_image_that_is_gone_or_damaged_is_named(take: Callable[..., Shard], tmp_path: Path) -> None:
    shard = take()
    shard.observe(outcomes(0, 100))
    shard.snapshot()
    stored = sorted(path for path in (tmp_path / "images").rglob("*") if path.is_file())
    kept = stored[-1].read_bytes()
    for damage, reason in ((kept[:-9], "damaged"), (kept[:-1] + b"?", "damaged"), (None, "missing")):
        stored[-1].unlink() if damage is None else stored[-1].write_bytes(damage)
        with pytest.raises(SnapshotError, match=reason) as error:
            take(name="b")
        assert stored[-1].name in str(error.value)
    stored[-1].write_bytes(kept)
    assert len(take(name="b")) == 100


def test_a_store_that_fails_loses_nothing(take: Callable[..., Shard], monkeypatch: pytest.MonkeyPatch) -> None:
    shard = take()
    shard.observe(outcomes(0, 50))
    put = ImageStore.put

    def fail(*_: object) -> None:
        raise SnapshotError("images", "cannot be written: no space")

    monkeypatch.setattr(ImageStore, "put", fail)
    with pytest.raises(SnapshotError, match="no space"):
        shard.snapshot()
    assert not shard.is_saved
    shard.observe(outcomes(50, 50))  # calls go on: the log has them
    monkeypatch.setattr(ImageStore, "put", put)
    shard.snapshot()
    assert shard.is_saved
    digest = shard.digest()
    assert take(name="b").digest() == digest


def test_an_owner_that_is_frozen_as_it_begins_deletes_nothing_of_the_next(
    take: Callable[..., Shard], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between reading the log and deleting what no image names, another owner has saved."""
    read, later = TopicLog.read, list[Shard]()

    def read_and_freeze(log: TopicLog) -> list[tuple[int, bytes]]:
        calls = read(log)
        monkeypatch.setattr(TopicLog, "read", read)
        later.append(take(name="b"))
        work(later[0], 0)
        later[0].snapshot()
        return calls

    monkeypatch.setattr(TopicLog, "read", read_and_freeze)
    with pytest.raises(StateInUse, match="another host"):
        take(name="a")
    assert take(name="c").digest() == later[0].digest()


def test_settings_of_a_store_that_cannot_be() -> None:
    with pytest.raises(SettingsError, match="a folder, or s3://"):
        ImageStore("ftp://example.org/x")
