"""Hosts of a cluster as processes: partitions move with their history, and nothing is lost or leased twice."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from streamsched import Scheduler, Signal
from tests.integration.kafka.broker import Address, Broker, find_jars
from tests.integration.kafka.topics import Topic, encode_event
from tests.support.cases import how_many
from tests.support.cluster_hosts import (
    CLASSIC,
    CONSUMER,
    NOW,
    PARTITIONS,
    Cluster,
    Crawlers,
    await_balance,
    await_end,
    check,
    misplaced,
    outcomes,
    redirects,
)
from tests.support.command_line import Command
from tests.support.local_s3 import URL, LocalS3, serving_s3


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


def verified(streamsched: Command, cluster: Cluster) -> dict[int, str]:
    """The digests that an outsider finds, who reads all images and calls."""
    done = streamsched("cluster", "verify", *cluster.place, "--images", cluster.images, "--json")
    assert done.code == 0, done.out
    return {one["partition"]: one["digest"] for one in done.json}


@pytest.mark.longer  # an ordinary run uses the classic protocol in the other tests
@pytest.mark.parametrize("more", [CONSUMER, CLASSIC][: how_many(1, 2)])
def test_hosts_come_die_freeze_and_leave(
    make_cluster: Callable[..., Cluster],
    real: Address,
    streamsched: Command,
    monkeypatch: pytest.MonkeyPatch,
    more: str,
) -> None:
    with ExitStack() as stack:
        images = None
        if more == CONSUMER:
            images = reach(stack.enter_context(serving_s3()), monkeypatch)
        cluster = make_cluster(images, more=more)
        cluster.publish([*outcomes(0, 600), *redirects()])
        misplace(cluster, real)
        first, second = cluster.start(), cluster.start()
        cluster.owners(PARTITIONS)
        with Crawlers(cluster) as crawlers:
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
            for start in range(1_000, 1_200, 20):
                cluster.publish(outcomes(start, 20))
            assert first.stop() == 0
            cluster.owners(PARTITIONS)
            await_end(cluster, streamsched)
        assert crawlers.leased
        check(cluster, crawlers, 1_200)
        assert third.stop() == 0
        assert len(set(verified(streamsched, cluster).values())) == PARTITIONS


def test_one_formula_for_all_shards(make_cluster: Callable[..., Cluster]) -> None:
    """It evolves from the pages of all; formula and records move with shard 0, and a shard that joins follows it."""
    cluster = make_cluster(options=("--evolve-every", "1", "--set", "scheduler.cycle=1s"))
    cluster.publish(outcomes(0, 400))
    first, second = cluster.start(), cluster.start()
    cluster.owners(PARTITIONS)
    with first.front() as front:
        until(lambda: [one for one in front.evolutions().evolutions if one.data is not None], cluster)
        record = next(one for one in front.evolutions().evolutions if one.data is not None)
        assert record.data is not None
        assert record.data["pages"] == 400
        front.use("t * rate")
        until(lambda: formulas(cluster) == {"t * rate"}, cluster)
    time.sleep(4.0)  # a record is in an image after a second or two
    leading = cluster.owners(PARTITIONS)[0]
    leading.kill()
    cluster.start()
    cluster.owners(PARTITIONS)
    (alive,) = {first, second} - {leading}
    until(lambda: formulas(cluster) == {"t * rate"}, cluster)
    with alive.front() as front:
        kept = front.evolutions().evolutions
        assert record in kept
        assert "t * rate" in {one.champion_after.formula for one in kept}


def formulas(cluster: Cluster) -> set[str]:
    """The formulas of all shards."""
    found = set()
    for number, host in cluster.owners(PARTITIONS).items():
        with host.shard(number) as shard:
            found.add(shard.champion().formula)
    return found


def until(holds: Callable[[], object], cluster: Cluster) -> None:
    end = time.monotonic() + 60.0
    while not holds():
        assert time.monotonic() < end, cluster.logs()
        time.sleep(0.2)


@pytest.mark.cases(ordinary=0, whole=25)
def test_harms_at_random(
    address: Address, streamsched: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rng: random.Random
) -> None:
    """Hosts are killed, stopped, frozen and started, the broker and the store of images are away for a while."""
    if not address.is_real:
        pytest.skip(f"needs a real broker: {address.certificate}")
    broker = Broker(find_jars(), tmp_path / "kafka")
    with ExitStack() as stack:
        stack.callback(broker.kill)
        broker.start()
        s3 = stack.enter_context(serving_s3())
        topic = Topic(broker.address, "confluent", "outcomes")
        topic.create(PARTITIONS, {})
        cluster = Cluster(
            broker.address.servers, topic.name, reach(s3, monkeypatch), tmp_path, rng.choice([CLASSIC, CONSUMER])
        )
        stack.callback(cluster.close)
        cluster.publish([*outcomes(0, 300), *redirects()])
        misplace(cluster, broker.address)
        cluster.start()
        published = 300
        cluster.owners(PARTITIONS)
        with Crawlers(cluster) as crawlers:
            for harm in rng.choices(["kill", "stop", "freeze", "start", "broker", "store"], k=8):
                hosts = [host for host in cluster.hosts if host.process.poll() is None]
                if len(hosts) < 2:
                    hosts.append(cluster.start())
                    time.sleep(rng.uniform(0.0, 8.0))
                one = rng.choice(hosts)
                if harm == "kill":
                    one.kill()
                elif harm == "stop":
                    one.stop()
                elif harm == "freeze":
                    one.freeze()
                    time.sleep(rng.uniform(0.5, 8.0))
                    one.wake()
                elif harm == "start" and len(hosts) < 4:
                    cluster.start()
                elif harm == "broker":
                    broker.kill()
                    time.sleep(rng.uniform(0.0, 3.0))
                    broker.start()
                elif harm == "store":
                    s3.stop()
                    time.sleep(rng.uniform(0.5, 5.0))
                    s3.start()
                cluster.publish(outcomes(published, 50))
                published += 50
                time.sleep(rng.uniform(0.0, 3.0))
            cluster.owners(PARTITIONS)
            await_end(cluster, streamsched)
        check(cluster, crawlers, published)
        for host in cluster.hosts:
            if host.process.poll() is None:
                assert host.stop() == 0
        assert len(set(verified(streamsched, cluster).values())) == PARTITIONS


def test_any_host_answers_for_the_whole_cluster(
    make_cluster: Callable[..., Cluster], streamsched: Command, tmp_path: Path
) -> None:
    """Figures, sources and copies of all shards, and the console of both the cluster and a shard."""
    cluster = make_cluster(options=("--set", f"http.snapshots={tmp_path / 'copies'}", "--set", "http.sample_every=1s"))
    first, second = cluster.start(), cluster.start()
    await_balance(cluster, 2)
    cluster.publish(outcomes(0, 200))  # now, as counts begin again where a partition moves to
    await_end(cluster, streamsched)
    signals = [Signal(f"https://h{i}.example/{i}", NOW + 172_800.0, "feed") for i in range(50)]
    for host in (first, second):
        with host.front() as front:
            front.notice(signals)
            stats = front.stats()
            assert (stats.pages, stats.outcomes["applied"], stats.missing, stats.trouble) == (200, 400, [], None)
            assert next((one.host, one.signals) for one in front.sources().sources) == (None, 50)
            copied = front.snapshot()
            folders = [Path(one.file or "").parent for one in copied.shards]
            assert [one.parent.name for one in folders] == [f"partition-{number}" for number in range(PARTITIONS)]
            assert sum(len(Scheduler.load(one)) for one in folders) == 200
    owner = cluster.owners(PARTITIONS)[3].address
    for path in ("/", "/console/main.js", "/shards/3/", "/shards/3/console/main.js", "/shards/3"):
        assert httpx.get(f"http://{owner}{path}", follow_redirects=True).status_code == 200


def test_a_host_that_compiles_refuses_requests_and_joins_later(
    make_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    host = make_cluster(environment={"NUMBA_CACHE_DIR": str(tmp_path / "nothing compiled")}).start()
    answers = dict[str, httpx.Response]()
    end = time.monotonic() + 30.0
    while len(answers) < 3:
        assert time.monotonic() < end, host.log.read_text()
        with suppress(httpx.ConnectError):
            for path in ("/healthz", "/readyz", "/v1/stats"):
                answers[path] = httpx.get(f"http://{host.address}{path}", timeout=5.0)
        time.sleep(0.1)
    assert [answer.status_code for answer in answers.values()] == [200, 503, 503]
    assert "compiled" in answers["/readyz"].json()["detail"]
    assert answers["/v1/stats"].json()["code"] == "starting"
    assert host.stop() == 0
    assert not host.events("partitions assigned")


def misplace(cluster: Cluster, address: Address) -> None:
    """Add outcomes whose messages are all in one partition, without keys."""
    found = [encode_event(one.url, one.fetched_at, changed=one.changed) for one in misplaced()]
    Topic(address, "confluent", cluster.topic).send(found, partition=0)


def reach(s3: LocalS3, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let commands reach `s3`; return the URL of a place in it."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return URL
