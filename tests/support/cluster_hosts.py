"""Hosts of a cluster as processes of their own, on a real broker, and what outside of them can be seen."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from streamsched.api.views import PageView
from streamsched.cli.exits import after_signal
from streamsched.client import Client
from streamsched.cluster.foreign_pages import partitions_of
from streamsched.connectors.kafka import open_sink
from streamsched.errors import ServiceError, ServiceUnavailable, SettingsError
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import Outcome, OutcomeBatch
from tests.integration.kafka.broker import free_ports
from tests.support.command_line import Command

SESSION_MS = 3_000
CLASSIC = f"session.timeout.ms={SESSION_MS}&heartbeat.interval.ms=500"
CONSUMER = "group.protocol=consumer"
PARTITIONS: Final = 4
NOW: Final = 1_790_000_000.0
_LOOK_S: Final = 0.1  # between two looks at hosts, and calls of a crawler: they take time from the hosts
_PATIENCE_S: Final = 90.0
_STOP_S: Final = 30.0


@dataclass(eq=False)
class HostProcess:
    """A running ``streamsched cluster host`` at `address`."""

    process: subprocess.Popen[bytes]
    address: str
    log: Path

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """End it as an operator does; return its exit code."""
        self.process.terminate()
        return self.process.wait(_STOP_S)

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def shard(self, partition: int, timeout_s: float = 2.0) -> Client:
        """A client of one of its shards."""
        return Client(f"http://{self.address}/shards/{partition}", timeout_s=timeout_s)

    def front(self, timeout_s: float = 20.0) -> Client:
        """A client of the whole cluster."""
        return Client(f"http://{self.address}", timeout_s=timeout_s)

    def events(self, event: str) -> list[dict[str, object]]:
        """The lines of its log with that event."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line.get("event") == event]


@dataclass
class Cluster:
    """A topic, and the hosts that serve it. `more`: settings of the topic's URL, of the group's protocol."""

    servers: str
    topic: str
    images: str
    folder: Path
    more: str = CLASSIC
    save_every: str = "2s"
    options: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    hosts: list[HostProcess] = field(default_factory=list)

    @property
    def source(self) -> str:
        return f"kafka://{self.servers}/{self.topic}?group=g-{self.topic}&{self.more}"

    @property
    def place(self) -> tuple[str, ...]:
        """The options that name the cluster."""
        return "--source", self.source, "--calls", f"calls-{self.topic}"

    def start(self) -> HostProcess:
        """Start a host; it may not serve yet."""
        number, (port,) = len(self.hosts), free_ports(1)
        address, log = f"127.0.0.1:{port}", self.folder / f"host-{number}.log"
        words = (
            *(sys.executable, "-m", "streamsched", "cluster", "host", *self.place, "--images", self.images),
            *("--local", str(self.folder / f"host-{number}"), "--http", address, "--save-every", self.save_every),
            *("--log-format", "json", *self.options),
        )
        with log.open("wb") as file:
            environment = os.environ | self.environment
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=file, stdout=file, env=environment)
        self.hosts.append(HostProcess(process, address, log))
        return self.hosts[-1]

    def publish(self, outcomes: Sequence[Outcome]) -> None:
        """Add outcomes to the topic."""
        with open_sink(f"kafka://{self.servers}/{self.topic}?client=confluent") as sink:
            sink.send_outcomes(OutcomeBatch.from_outcomes(outcomes), rows=64)
            sink.flush()

    def owners(self, partitions: int, *, within_s: float = _PATIENCE_S) -> dict[int, HostProcess]:
        """Wait until each partition is served, and leases; return by whom."""
        end, found = time.monotonic() + within_s, dict[int, HostProcess]()
        while len(found) < partitions:
            assert time.monotonic() < end, f"served after {within_s} s: {sorted(found)}\n{self.logs()}"
            found = {}
            for host in self.hosts:
                if host.process.poll() is None:
                    found |= {number: host for number in range(partitions) if _serves(host, number)}
            if len(found) < partitions:
                time.sleep(_LOOK_S)
        return found

    def logs(self) -> str:
        """The ends of the hosts' logs."""
        return "\n".join(f"{one.log.name}: {one.log.read_text()[-3000:]}" for one in self.hosts)

    def close(self) -> None:
        for host in self.hosts:
            if host.process.poll() is None:
                host.wake()
                host.kill()


def _serves(host: HostProcess, partition: int) -> bool:
    with host.shard(partition, timeout_s=0.5) as client:
        try:
            client.offer(1)
        except (ServiceUnavailable, ServiceError, SettingsError):
            return False
    return True


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
        count, site = 0, _site_of(number)
        while not self._stopping.is_set():
            for host in list(self._cluster.hosts):
                count += 1
                found = [f"{site}{count}/{i}" for i in range(3)]
                with host.shard(number, timeout_s=1.0) as shard:
                    try:
                        shard.discover(found)
                        self.discovered += found
                        self.leased.update(page.url for page in shard.next_batch(2, lease="9h").pages)
                    except (ServiceError, SettingsError):
                        self.refused += 1
            self._stopping.wait(_LOOK_S)


def _site_of(partition: int) -> str:
    """A host of that partition."""
    sites = [f"https://new-{i}.example/" for i in range(100)]
    number: int = partitions_of(PackedUrls.pack(sites), PARTITIONS).tolist().index(partition)
    return sites[number]


def outcomes(start: int, count: int) -> list[Outcome]:
    """Two of each page: the second one counts as a visit that could show a change."""
    urls = [f"https://h{i % 50}.example/{i}" for i in range(start, start + count)]
    return [Outcome(url, NOW + at, changed=True) for at in (0.0, 86_400.0) for url in urls]


def redirects() -> list[Outcome]:
    """Pages of each host that have moved to another host, which is of another partition for most of them."""
    moved = {f"https://h{i}.example/old": f"https://other-{i}.example/new" for i in range(50)}
    return [Outcome(url, NOW, status=301, moved_to=target) for url, target in moved.items()]


def misplaced() -> list[Outcome]:
    """Two outcomes of each of some pages, for messages without a key."""
    return [Outcome(f"https://m{i}.example/", NOW + at, changed=True) for at in (0.0, 86_400.0) for i in range(20)]


def check(cluster: Cluster, crawlers: Crawlers, published: int) -> None:
    """Each acknowledged call is in the state, each outcome counted once, and no page was leased twice.

    Every page is at the shard of its host, and at no other.
    """
    for host in cluster.hosts:
        ends = {None, 0, -signal.SIGKILL}
        if not host.events("serving http"):  # asked to end before it had begun: by the system, or by its own handler
            ends |= {-signal.SIGTERM, after_signal(signal.SIGTERM)}
        assert host.process.poll() in ends, f"{host.log.name}: {host.process.poll()}\n{cluster.logs()}"
    assert [url for url, times in crawlers.leased.items() if times > 1] == []
    targets = {one.moved_to for one in redirects() if one.moved_to is not None}
    visited = {one.url for one in (*outcomes(0, published), *misplaced())}
    views, hosts = view_pages(cluster, {*crawlers.discovered, *visited, *crawlers.leased, *targets})
    assert targets <= views.keys()
    for number, names in hosts.items():
        assert 0 < len(names) < 1_000
        sites = PackedUrls.pack([f"https://{name}/" for name in names])
        assert partitions_of(sites, PARTITIONS).tolist() == [number] * len(names)
    assert crawlers.discovered
    assert [url for url in crawlers.discovered if url not in views] == []
    assert [url for url in crawlers.leased if views[url].lease_until_s is None] == []
    assert {url: views[url].visits for url in visited} == dict.fromkeys(visited, 1)


def view_pages(cluster: Cluster, urls: set[str]) -> tuple[dict[str, PageView], dict[int, list[str]]]:
    """What its shard knows of each of `urls`, and the hosts of each shard; begun anew if a partition moves."""
    asked = list(urls)
    numbers = partitions_of(PackedUrls.pack(asked), PARTITIONS).tolist()
    while True:
        views, hosts = dict[str, PageView](), dict[int, list[str]]()
        with suppress(ServiceUnavailable):
            for number, host in cluster.owners(PARTITIONS).items():
                with host.shard(number) as shard:
                    for url in (url for url, own in zip(asked, numbers, strict=True) if own == number):
                        view = shard.page(url)
                        if view is not None:
                            views[url] = view
                    hosts[number] = [one.host for one in shard.hosts(size=1_000).hosts]
            return views, hosts


def await_balance(cluster: Cluster, count: int) -> None:
    """Wait until that many hosts have partitions."""
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end:
        if len({one.address for one in cluster.owners(PARTITIONS).values()}) == count:
            return
        time.sleep(_LOOK_S)
    raise AssertionError(cluster.logs())


def await_end(cluster: Cluster, streamsched: Command) -> None:
    """Wait until the images have all outcomes."""
    done = None
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end:
        done = streamsched("cluster", "status", *cluster.place, "--json")
        if done.code == 0 and all(one["lag"] == 0 for one in done.json):
            return
        time.sleep(_LOOK_S)
    raise AssertionError(f"{done}\n{cluster.logs()}")
