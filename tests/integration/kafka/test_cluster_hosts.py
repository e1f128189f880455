"""Hosts of a cluster as processes: partitions move with their history, and nothing is lost or leased twice."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pytest

from streamsched.api.views import PageView
from streamsched.cluster.foreign_pages import partitions_of
from streamsched.errors import ServiceError, SettingsError
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import Outcome
from tests.integration.kafka.broker import Address
from tests.integration.kafka.topics import Topic
from tests.support.cluster_hosts import CLASSIC, CONSUMER, Cluster
from tests.support.command_line import Command
from tests.support.local_s3 import serving_s3
from tests.support.waiting import pause

PARTITIONS = 4
_LOOKS = 600
NOW = 1_790_000_000.0


@pytest.fixture
def make_cluster(real: Address, tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    """Makes a cluster of no hosts yet, whose topic has four partitions."""
    made: list[Cluster] = []

    def make(images: str | None = None, **given: object) -> Cluster:
        topic = Topic(real, "confluent", f"t-{uuid.uuid4().hex[:12]}")
        topic.create(PARTITIONS, {})
        cluster = Cluster(real.servers, topic.name, images or str(tmp_path / "images"), tmp_path, **given)  # type: ignore[arg-type]
        made.append(cluster)
        return cluster

    yield make
    for cluster in made:
        cluster.close()


class Crawlers:
    """Crawlers of a cluster, and a record outside of it of what they were told: a thread for each partition.

    They know nothing of owners: they ask each host that runs. ``leased``: pages that were answered;
    ``discovered``: pages whose discovery was acknowledged.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.leased: Counter[str] = Counter()
        self.discovered: list[str] = []
        self.refused = 0
        self._cluster = cluster
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(number,)) for number in range(PARTITIONS)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _work(self, number: int) -> None:
        count = 0
        while not self._stopping.is_set():
            for host in list(self._cluster.hosts):
                count += 1
                found = [f"https://new-{number}.example/{count}/{i}" for i in range(3)]
                with host.shard(number, timeout_s=1.0) as shard:
                    try:
                        shard.discover(found)
                        self.discovered += found
                        self.leased.update(page.url for page in shard.next_batch(2, lease="9h").pages)
                    except (ServiceError, SettingsError):
                        self.refused += 1
            self._stopping.wait(0.02)


def outcomes(start: int, count: int) -> list[Outcome]:
    """Two of each page: the second one counts as a visit that could show a change."""
    urls = [f"https://h{i % 50}.example/{i}" for i in range(start, start + count)]
    return [Outcome(url, NOW + at, changed=True) for at in (0.0, 86_400.0) for url in urls]


def redirects() -> list[Outcome]:
    """Pages of each host that have moved to another host, which is of another partition for most of them."""
    moved = {f"https://h{i}.example/old": f"https://other-{i}.example/new" for i in range(50)}
    return [Outcome(url, NOW, status=301, moved_to=target) for url, target in moved.items()]


def check(cluster: Cluster, crawlers: Crawlers, published: int) -> None:
    """Each acknowledged call is in the state, each outcome counted once, and no page was leased twice.

    Targets of redirects are at the shards of their hosts, and no page is at two.
    """
    assert [url for url, times in crawlers.leased.items() if times > 1] == []
    targets = {one.moved_to for one in redirects() if one.moved_to is not None}
    owners, views, shards = cluster.owners(PARTITIONS), dict[str, PageView](), dict[str, int]()
    for number, host in owners.items():
        with host.shard(number, timeout_s=20.0) as shard:
            for url in {*crawlers.discovered, *(one.url for one in outcomes(0, published)), *crawlers.leased, *targets}:
                view = shard.page(url)
                if view is not None:
                    assert url not in shards
                    views[url], shards[url] = view, number
    assert targets <= views.keys()
    places = partitions_of(PackedUrls.pack(targets), PARTITIONS).tolist()
    assert [shards[url] for url in targets] == places
    assert crawlers.discovered
    assert [url for url in crawlers.discovered if url not in views] == []
    assert [url for url in crawlers.leased if views[url].lease_until_s is None] == []
    assert {views[one.url].visits for one in outcomes(0, published)} == {1}


def verified(streamsched: Command, cluster: Cluster) -> dict[int, str]:
    """The digests that an outsider finds, who reads all images and calls."""
    done = streamsched("cluster", "verify", *cluster.place, "--images", cluster.images, "--json")
    assert done.code == 0, done.out
    return {one["partition"]: one["digest"] for one in done.json}


@pytest.mark.parametrize("more", [CLASSIC, CONSUMER], ids=["classic", "consumer"])
def test_hosts_come_die_freeze_and_leave(
    make_cluster: Callable[..., Cluster], streamsched: Command, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    with ExitStack() as stack:
        images = None
        if more == CONSUMER:
            images, environment = stack.enter_context(serving_s3())
            for name, value in environment.items():
                monkeypatch.setenv(name, value)
        cluster = make_cluster(images, more=more)
        cluster.publish([*outcomes(0, 600), *redirects()])
        first, second = cluster.start(), cluster.start()
        cluster.owners(PARTITIONS)
        with Crawlers(cluster) as crawlers:
            pause()
            second.kill()
            cluster.publish(outcomes(600, 200))
            cluster.owners(PARTITIONS)
            third = cluster.start()
            await_balance(cluster, 2)
            third.freeze()
            cluster.owners(PARTITIONS)
            cluster.publish(outcomes(800, 200))
            third.wake()
            await_balance(cluster, 2)
            assert first.stop() == 0
            cluster.owners(PARTITIONS)
            await_end(cluster, streamsched)
        assert crawlers.leased
        check(cluster, crawlers, 1_000)
        assert third.stop() == 0
        digests = verified(streamsched, cluster)
        assert len(set(digests.values())) == PARTITIONS


def await_balance(cluster: Cluster, count: int) -> None:
    """Wait until that many hosts have partitions."""
    for _ in range(_LOOKS):
        if len({one.address for one in cluster.owners(PARTITIONS).values()}) == count:
            return
        pause()
    raise AssertionError(cluster.logs())


def await_end(cluster: Cluster, streamsched: Command) -> None:
    """Wait until the images have all outcomes."""
    for _ in range(_LOOKS // 10):
        done = streamsched("cluster", "status", *cluster.place, "--json")
        if done.code == 0 and all(one["lag"] == 0 for one in done.json):
            return
        pause()
    raise AssertionError(f"{done}\n{cluster.logs()}")
