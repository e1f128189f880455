"""A cluster in this process: a service for each shard, called without sockets, and fronts for all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from streamsched import DurableScheduler, Outcome
from streamsched.client import AsyncClient, RetryPolicy
from streamsched.cluster.common_formula import follow
from streamsched.cluster.front import open_front
from streamsched.cluster.shard_calls import ShardMissing
from streamsched.connectors.kafka.message_keys import choose_partitions, host_keys
from streamsched.http.app import HttpApp
from streamsched.http.open_http import open_app
from streamsched.http.server import AppServer, listen
from streamsched.http.service import ServiceState
from streamsched.http.service_clock import ServiceClock
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.service.http_settings import HttpSettings
from streamsched.state.stream_clock import WallClock
from tests.support.http_service import NOW, Clock, compile_kernels, make_client

DAY_S = 86_400.0


class Hosts:
    """Serves shards below ``/shards/NUMBER``, as hosts do, and counts the calls of each shard.

    ``hangs``, ``refuses``, ``slow``: shards that do not answer, answer 503, or answer after .3 s; ``stuck``: paths at
    which a shard does not answer; ``unowned``: shards that nobody owns; ``lost_ones``: those that a front has found
    lost, in order.
    """

    def __init__(self, apps: list[HttpApp[Any]]) -> None:
        self.apps = apps
        self.hangs: set[int] = set()
        self.stuck: set[tuple[int, str]] = set()
        self.refuses: set[int] = set()
        self.slow: set[int] = set()
        self.unowned: set[int] = set()
        self.lost_ones: list[int] = []
        self.called: list[tuple[int, str]] = []
        self.answered: list[tuple[int, str]] = []
        retries = RetryPolicy(attempts=1)
        transport = httpx.ASGITransport(self)
        self._clients = [
            AsyncClient(f"http://127.0.0.1/shards/{shard}", transport=transport, retries=retries)
            for shard in range(len(apps))
        ]

    @property
    def count(self) -> int:
        return len(self.apps)

    def client(self, partition: int, /) -> AsyncClient:
        if partition in self.unowned:
            raise ShardMissing(partition)
        return self._clients[partition]

    def lost(self, partition: int, /) -> None:
        self.lost_ones.append(partition)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        _, _, number, path = scope["path"].split("/", 3)
        shard = int(number)
        self.called.append((shard, path))
        if shard in self.hangs or (shard, path) in self.stuck:
            await asyncio.Event().wait()
        if shard in self.slow:
            await asyncio.sleep(0.3)
        if shard in self.refuses:
            await JSONResponse({"code": "catching_up"}, 503)(scope, receive, send)
            return
        raw = scope["raw_path"].removeprefix(f"/shards/{shard}".encode())
        await self.apps[shard]({**scope, "path": f"/{path}", "raw_path": raw}, receive, send)
        self.answered.append((shard, path))


class Cluster:
    """Schedulers, their hosts, and clients of two fronts."""

    def __init__(self, schedulers: list[DurableScheduler], hosts: Hosts, clock: Clock) -> None:
        self.schedulers = schedulers
        self.hosts = hosts
        self.clock = clock
        self.apps: list[HttpApp[ServiceState]] = []  # of the fronts
        self.fronts: list[AsyncClient] = []

    @property
    def front(self) -> AsyncClient:
        return self.fronts[0]

    def owner(self, url: str) -> int:
        return int(choose_partitions(host_keys(PackedUrls.pack([url])), len(self.schedulers))[0])


@contextmanager
def open_cluster(
    folder: Path, shards: int, deadline_s: float, http: HttpSettings, clock: Clock, **settings: Any
) -> Iterator[Cluster]:
    """Open a cluster of `shards` within the block, with two fronts."""
    compile_kernels()
    wall = ServiceClock(clock.read, time.monotonic).read
    with ExitStack() as stack:
        open_state = DurableScheduler.open
        schedulers = [
            stack.enter_context(open_state(folder / str(shard), settings, clock=WallClock(wall), threads=1))
            for shard in range(shards)
        ]
        hosts = Hosts([stack.enter_context(open_app(scheduler, http, wall)) for scheduler in schedulers])
        cluster = Cluster(schedulers, hosts, clock)
        for number in range(2):
            (folder / f"front {number}").mkdir()
            app = stack.enter_context(open_front(hosts, http, wall, folder / f"front {number}", deadline_s))
            client = AsyncClient(
                "http://127.0.0.1", transport=httpx.ASGITransport(app), retries=RetryPolicy(attempts=1), timeout_s=300.0
            )
            cluster.apps.append(app)
            cluster.fronts.append(client)
        for scheduler in schedulers:  # what offers and grants need is compiled before a shard must answer in time
            scheduler.grant(scheduler.offer(1, now=clock.read()).urls, now=clock.read())
        yield cluster


@asynccontextmanager
async def running_cluster(
    folder: Path, shards: int = 3, *, deadline_s: float = 60.0, **settings: Any
) -> AsyncIterator[Cluster]:
    """Open a cluster as `open_cluster` does, and close its clients at the end."""
    http = HttpSettings("127.0.0.1:0", rate=1_000_000)
    with open_cluster(folder, shards, deadline_s, http, Clock(), **settings) as cluster:
        try:
            yield cluster
        finally:
            for client in cluster.fronts:
                await client.close()


async def use(cluster: Cluster, formula: str) -> None:
    """Set the formula, and let the shards follow, as hosts do."""
    await cluster.front.use(formula)
    for scheduler in cluster.schedulers[1:]:
        follow(scheduler, cluster.schedulers[0].trial_counts())


class MovingClock(Clock):
    """A clock that goes as clocks do: samples are taken at times of the wall."""

    def __init__(self) -> None:
        super().__init__()
        self._begun_s = time.monotonic()

    def read(self) -> float:
        return NOW + time.monotonic() - self._begun_s


@dataclass(frozen=True)
class ServedFront:
    """A front that answers on a socket, and its cluster, whose shards are answered below ``/shards/NUMBER``."""

    cluster: Cluster
    server: AppServer
    client: httpx.Client

    @property
    def place(self) -> tuple[str, int]:
        host, _, port = self.server.address.rpartition(":")
        return host, int(port)


@contextmanager
def serving_front(folder: Path, shards: int = 3, **given: Any) -> Iterator[ServedFront]:
    """Serve a front of a cluster within the block, on a free port; `given`: settings of HTTP, of fronts and shards."""
    settings: dict[str, Any] = {"rate": 1_000_000, **given}
    http = HttpSettings("127.0.0.1:0", **settings)
    with (
        open_cluster(folder, shards, 60.0, http, MovingClock(), host_share=None) as cluster,
        listen(http) as listener,
    ):
        front = cluster.apps[0]
        server = AppServer(http, _WithShards(front, cluster.hosts), listener, front.service.statuses)
        server.start()
        try:
            with make_client(server.address) as client:
                yield ServedFront(cluster, server, client)
        finally:
            server.stop()


class _WithShards:
    """An application as a host's: a front, and `hosts` for what is below ``/shards/``."""

    def __init__(self, front: HttpApp[ServiceState], hosts: Hosts) -> None:
        self._front = front
        self._hosts = hosts

    @property
    def under_way(self) -> int:
        return self._front.under_way

    @property
    def quiet_since_s(self) -> float:
        return self._front.quiet_since_s

    def refuse_requests(self) -> None:
        self._front.refuse_requests()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._hosts if scope.get("path", "").startswith("/shards/") else self._front
        await app(scope, receive, send)


async def fill(cluster: Cluster, urls: Iterable[str]) -> None:
    """Report a visit of each page a week ago."""
    outcomes = [Outcome(url, NOW - 7.0 * DAY_S + number, changed=True) for number, url in enumerate(urls)]
    await cluster.front.observe(outcomes)
