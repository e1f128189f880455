"""A cluster in this process: a service for each shard, called without sockets, and fronts for all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import ExitStack, asynccontextmanager
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
from streamsched.http.service_clock import ServiceClock
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.service.http_settings import HttpSettings
from streamsched.state.stream_clock import WallClock
from tests.support.http_service import NOW, Clock, compile_kernels

DAY_S = 86_400.0


class Hosts:
    """Serves shards below ``/shards/NUMBER``, as hosts do, and counts the calls of each shard.

    ``hangs``, ``refuses``: shards that do not answer, or answer 503; ``stuck``: paths at which a shard does not answer;
    ``unowned``: shards that nobody owns; ``lost_ones``: those that a front has found lost, in order.
    """

    def __init__(self, apps: list[HttpApp[Any]]) -> None:
        self.apps = apps
        self.hangs: set[int] = set()
        self.stuck: set[tuple[int, str]] = set()
        self.refuses: set[int] = set()
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
        self.fronts: list[AsyncClient] = []

    @property
    def front(self) -> AsyncClient:
        return self.fronts[0]

    def owner(self, url: str) -> int:
        return int(choose_partitions(host_keys(PackedUrls.pack([url])), len(self.schedulers))[0])


@asynccontextmanager
async def running_cluster(
    folder: Path, shards: int = 3, *, deadline_s: float = 60.0, **settings: Any
) -> AsyncIterator[Cluster]:
    """Run a cluster of `shards` within the block, with two fronts."""
    compile_kernels()
    clock = Clock()
    wall = ServiceClock(clock.read, time.monotonic).read
    http = HttpSettings("127.0.0.1:0", rate=1_000_000)
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
            cluster.fronts.append(client)
        for scheduler in schedulers:  # what offers and grants need is compiled before a shard must answer in time
            scheduler.grant(scheduler.offer(1, now=clock.read()).urls, now=clock.read())
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


async def fill(cluster: Cluster, urls: Iterable[str]) -> None:
    """Report a visit of each page a week ago."""
    outcomes = [Outcome(url, NOW - 7.0 * DAY_S + number, changed=True) for number, url in enumerate(urls)]
    await cluster.front.observe(outcomes)
