"""A state becomes the shards of a cluster, and shards are split: no page is lost, none is at two shards."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from streamsched import Scheduler
from streamsched.api.answers import LeasedPage
from streamsched.api.views import PageView
from streamsched.cluster import repartition
from streamsched.cluster.foreign_pages import partitions_of
from streamsched.cluster.group import add_partitions, count_partitions
from streamsched.cluster.image_store import ImageStore
from streamsched.cluster.repartition import Place, import_state, split
from streamsched.cluster.shard import Shard, ShardLog
from streamsched.cluster.topic_log import CallsTopic, TopicLog, prepare_topic
from streamsched.connectors.kafka.kafka_settings import KafkaSettings
from streamsched.connectors.source import Position
from streamsched.errors import SettingsError, SnapshotError
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import Outcome, OutcomeBatch
from streamsched.persistence.image_writer import SavePlan
from tests.integration.kafka.broker import Address
from tests.integration.kafka.topics import Topic
from tests.support.cluster_hosts import Cluster, await_end
from tests.support.command_line import Command, start

DAY = 86_400.0
NOW = 1_700_000_000.0
NEVER = SavePlan(every="365d", share=100.0)
URLS = [f"https://h{number % 23}.example/{number}" for number in range(200)]


class Killed(BaseException):
    """The process ends here."""


@dataclass
class World:
    """A cluster whose shards this process serves by turns, as hosts do."""

    topic: Topic
    calls_topic: KafkaSettings
    place: Place
    folder: Path

    @property
    def calls(self) -> CallsTopic:
        outcomes = self.place.topics[0]
        assert outcomes.group is not None
        return CallsTopic(self.calls_topic, outcomes.group, count_partitions(outcomes))

    def publish(self, outcomes: list[Outcome]) -> None:
        with self.topic.open_sink() as sink:
            sink.send_outcomes(OutcomeBatch.from_outcomes(outcomes), rows=64)
            sink.flush()

    def open(self, number: int) -> Shard:
        """Take a partition over and read it to its end."""
        calls = prepare_topic(self.calls)
        log = ShardLog(calls, number, self.place.store, lambda: NOW)
        directory = self.folder / f"local-{uuid.uuid4().hex[:6]}"
        log.fetch(directory)
        shard = Shard.open(directory, {"cycle": "1d"}, plan=NEVER, log=log, threads=1)
        with self.topic.open(until_end="true", partitions=number) as source:
            for path, position in shard.positions.items():
                if source.owns(path):
                    source.seek(Position.from_json(position))
            for delivery in source:
                shard.take(delivery.records, delivery.position.path, delivery.position.to_json())
        return shard

    def serve(self, work: Callable[[Shard], Any]) -> list[Any]:
        """Do `work` with each shard, and give it up; return what it returned."""
        results = []
        for number in range(count_partitions(self.place.topics[0])):
            shard = self.open(number)
            results.append(work(shard))
            assert shard.core.pages.faults() == []
            shard.close()
        return results

    def split(self, partitions: int) -> None:
        split(self.place, self.calls, partitions, lambda *_: None)


@pytest.fixture
def make_world(real: Address, tmp_path: Path) -> Callable[[int], World]:
    def make(partitions: int) -> World:
        name = uuid.uuid4().hex[:12]
        topic = Topic(real, "confluent", f"t-{name}")
        topic.create(partitions, {})
        outcomes = KafkaSettings(real.servers, topic.name, group=f"g-{name}", client="confluent", patience_s=20.0)
        calls = replace(outcomes, topic=f"calls-{name}", group=None)
        signals = replace(outcomes, topic=f"s-{name}", group=None)
        Topic(real, "confluent", signals.topic).create(partitions, {})
        return World(
            topic, calls, Place([outcomes, signals], ImageStore(str(tmp_path / "images")), lambda: NOW), tmp_path
        )

    return make


def outcomes(first: int, last: int, at: float) -> list[Outcome]:
    return [Outcome(url, at, changed=number % 3 == 0) for number, url in enumerate(URLS[first:last])]


def lease(shard: Shard) -> list[str]:
    return shard.next_batch(5, now=NOW, lease="9h", key="mine").urls


def views(shard: Shard) -> dict[str, PageView]:
    found = {url: shard.page(url, now=NOW + 60.0) for url in URLS}
    return {url: view for url, view in found.items() if view is not None}


def all_views(world: World) -> dict[str, PageView]:
    """What the shards know; each page is at the shard of its host only."""
    parts = world.serve(views)
    for number, part in enumerate(parts):
        assert set(partitions_of(PackedUrls.pack(list(part)), len(parts)).tolist()) <= {number}
    whole = {url: view for part in parts for url, view in part.items()}
    assert len(whole) == sum(map(len, parts))
    return whole


def served_world(make_world: Callable[[int], World], partitions: int) -> tuple[World, dict[str, PageView]]:
    """A cluster that has read outcomes, and has leased pages."""
    world = make_world(partitions)
    world.publish(outcomes(0, 200, NOW - 3 * DAY) + outcomes(0, 200, NOW - DAY))
    leased = world.serve(lease)
    world.serve(lambda shard: shard.forget(["https://h3.example/3"]))
    before = all_views(world)
    assert len(before) == len(URLS) - 1
    assert {url for url, view in before.items() if view.lease_until_s} == {url for some in leased for url in some}
    return world, before


def test_split_shards_go_on(make_world: Callable[[int], World]) -> None:
    world, before = served_world(make_world, 2)
    leased = {url for url, view in before.items() if view.lease_until_s}
    world.split(4)
    assert {count_partitions(topic) for topic in (*world.place.topics, world.calls_topic)} == {4}
    assert all_views(world) == before
    assert {url for some in world.serve(lease) for url in some} == leased  # by the same key
    world.publish(outcomes(0, 200, NOW + DAY))
    after = all_views(world)
    assert {view.visits for url, view in after.items() if url in before} == {2}
    world.split(4)  # it is done
    world.split(8)
    assert all_views(world) == after


@pytest.mark.cases(ordinary=2, whole=24)
def test_interrupted_splits_are_completed(
    make_world: Callable[[int], World], monkeypatch: pytest.MonkeyPatch, rng: random.Random, case: int
) -> None:
    world, before = served_world(make_world, 2)
    step = case if case >= 4 else rng.randrange(24)
    left = [step]

    def killing(call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            result = call(*args, **kwargs)
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return result

        return counted

    with monkeypatch.context() as patch:
        patch.setattr(ImageStore, "put", killing(ImageStore.put))
        patch.setattr(TopicLog, "record_image", killing(TopicLog.record_image))
        patch.setattr(TopicLog, "drop_until", killing(TopicLog.drop_until))
        patch.setattr(repartition, "add_partitions", killing(add_partitions))
        with pytest.raises(Killed):
            world.split(4)
    try:
        assert all_views(world) == before  # as if nothing had happened, or as if all had
    except SnapshotError as error:
        assert "`streamsched cluster split`" in str(error)  # noqa: PT017  either is right
    world.split(4)
    assert all_views(world) == before
    stored = [path for path in (world.folder / "images").rglob("*") if path.is_file()]
    assert len(stored) <= 2 * 4


def test_what_is_not_ready_is_not_split(make_world: Callable[[int], World]) -> None:
    world, before = served_world(make_world, 2)
    with pytest.raises(SettingsError, match="twice"):
        world.split(6)
    alone = replace(world.place, topics=[replace(world.place.topics[1], group=world.place.topics[0].group)])
    with pytest.raises(SettingsError, match="the topic of signals that hosts read"):
        split(alone, world.calls, 4, lambda *_: None)
    shard = world.open(1)
    shard.discover(["https://h1.example/new"], now=NOW)
    with pytest.raises(SnapshotError, match="calls after its image"):
        world.split(4)
    shard.close()
    world.publish(outcomes(0, 200, NOW + DAY))
    with pytest.raises(SnapshotError, match="records that no image has"):
        world.split(4)
    assert {view.visits for url, view in all_views(world).items() if url in before} == {2}
    world.split(4)


def test_a_state_is_imported(make_world: Callable[[int], World], tmp_path: Path) -> None:
    world, records = make_world(4), tmp_path / "imported"
    records.mkdir()
    (records / "evolutions.jsonl").write_text("a record\n")
    world.publish(outcomes(0, 200, NOW - 3 * DAY))
    scheduler = Scheduler(cycle="1d", threads=1)
    with world.topic.open(until_end="true") as source:
        for delivery in source:
            scheduler.observe(delivery.records)
            scheduler.positions[delivery.position.path] = delivery.position.to_json()
    scheduler.discover(URLS[:50], now=NOW - 2 * DAY)
    leased = scheduler.next_batch(9, now=NOW, lease="9h").urls
    before = {url: scheduler.page(url, now=NOW + 60.0) for url in URLS}
    pages: dict[int, int] = {}
    import_state(world.place, world.calls, scheduler.core, records, pages.__setitem__)
    assert sum(pages.values()) == len(URLS)
    import_state(world.place, world.calls, scheduler.core, records, pages.__setitem__)  # again: it is done
    world.publish(outcomes(0, 200, NOW - DAY))
    assert all_views(world).keys() == before.keys()
    found = world.serve(lambda shard: (shard.directory / "evolutions.jsonl").exists())
    assert found == [True, False, False, False]
    after = all_views(world)
    assert {url for url, view in after.items() if view.lease_until_s} >= set(leased)
    assert {view.visits for view in after.values()} == {1}
    with pytest.raises(SnapshotError, match="has an image or calls already"):
        import_state(world.place, world.calls, scheduler.core, records, pages.__setitem__)


def test_hosts_serve_what_was_imported_and_split(real: Address, tmp_path: Path, streamsched: Command) -> None:
    """By the commands; the split is killed while it stores images."""
    topic = Topic(real, "confluent", f"t-{uuid.uuid4().hex[:12]}")
    topic.create(2, {})
    cluster = Cluster(real.servers, topic.name, str(tmp_path / "images"), tmp_path)
    scheduler = Scheduler(cycle="1d", threads=1)
    scheduler.observe(outcomes(0, 200, NOW - 3 * DAY))
    scheduler.save(tmp_path / "state")
    try:
        done = streamsched(
            "cluster", "import", "--state", tmp_path / "state", *cluster.place, "--images", cluster.images
        )
        assert (done.code, len(done.lines)) == (0, 3), done.err
        host = cluster.start()
        cluster.publish(outcomes(0, 200, NOW - DAY))
        leased = {page.url for page in lease_of(cluster, 2)}
        assert leased
        words = ("cluster", "split", "--partitions", "4", *cluster.place, "--images", cluster.images)
        refused = streamsched(*words)
        assert (refused.code, "stop all first" in refused.err) == (2, True), refused.err
        await_end(cluster, streamsched)
        assert host.stop() == 0
        with start(*words) as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.kill()
        assert streamsched(*words).code == 0
        assert streamsched("cluster", "verify", *cluster.place, "--images", cluster.images).code == 0
        cluster.start()
        found = dict[str, PageView]()
        for number, one in cluster.owners(4).items():
            with one.shard(number) as shard:
                own = {url: shard.page(url) for url in URLS}
                assert not found.keys() & {url for url, view in own.items() if view}
                found |= {url: view for url, view in own.items() if view is not None}
        assert {url for url, view in found.items() if view.lease_until_s} == leased
        assert {url: view.visits for url, view in found.items()} == dict.fromkeys(URLS, 1)
    finally:
        cluster.close()


def lease_of(cluster: Cluster, partitions: int) -> list[LeasedPage]:
    pages: list[LeasedPage] = []
    for number, host in cluster.owners(partitions).items():
        with host.shard(number) as shard:
            pages += shard.next_batch(7, lease="9h").pages
    return pages
