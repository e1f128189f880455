"""Batches of a cluster: offers of shards in two processes, merged in this one, beside one service."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from benchmarks.corpus import DAY_S, make_urls, visit_all
from benchmarks.report import Row, digits, durations
from streamsched import DurableScheduler
from streamsched.api.operations import NextBatch
from streamsched.cli.options import current_time
from streamsched.client import AsyncClient, RetryPolicy
from streamsched.cluster.batch_front import BatchFront
from streamsched.cluster.front import DEADLINE_S
from streamsched.cluster.shard_calls import ShardCalls
from streamsched.connectors.kafka.message_keys import choose_partitions, host_keys
from streamsched.http.open_http import open_app
from streamsched.http.server import listen, serving
from streamsched.http.service import ServiceState
from streamsched.service.http_settings import HttpSettings

_SHARDS: Final = 4
_PROCESSES: Final = 2
_SIZES: Final = (1_000, 100)  # pages of a batch
_WARM: Final = 5  # batches before those that count
_BATCHES: Final = 30  # of each repeat
_VISITS: Final = (9, 6, 2)  # days ago


def _read_clock() -> float:
    return current_time(None)


class _Owners:
    """Clients of shards whose owners do not change."""

    def __init__(self, clients: Sequence[AsyncClient]) -> None:
        self._clients = clients

    @property
    def count(self) -> int:
        return len(self._clients)

    def client(self, partition: int, /) -> AsyncClient:
        return self._clients[partition]

    def lost(self, partition: int, /) -> None:
        raise RuntimeError(f"shard {partition} does not answer")


def measure(pages: int, repeats: int) -> list[Row]:
    """Return the rows of the cluster benchmark at `pages` pages of all shards."""
    with _hosts(pages, 1, 1) as urls:
        alone = asyncio.run(_time_service(urls, repeats))
    with _hosts(pages, _SHARDS, _PROCESSES) as urls:
        merged = asyncio.run(_time_front(urls, repeats))
    return [
        durations(f"next_batch({k:,}) of {_SHARDS} shards, {pages / 1e6:g} M pages", merged[k], alone[k])
        for k in _SIZES
    ] + [Row("one batch of 1,000 in this many of one service", f"{digits(merged[1_000] / alone[1_000], 2)}")]


async def _time_service(urls: Sequence[str], repeats: int) -> dict[int, float]:
    async with AsyncClient(urls[0]) as client:
        return {k: await _time(partial(client.next_batch, k), repeats) for k in _SIZES}


async def _time_front(urls: Sequence[str], repeats: int) -> dict[int, float]:
    clients = [AsyncClient(url, retries=RetryPolicy(attempts=1)) for url in urls]
    front = BatchFront(ShardCalls(_Owners(clients), DEADLINE_S), ServiceState(_read_clock))
    found = {k: await _time(partial(front.next_batch, NextBatch(k=k)), repeats) for k in _SIZES}
    for client in clients:
        await client.close()
    return found


async def _time(call: Callable[[], Awaitable[Any]], repeats: int) -> float:
    """Return the median time of a batch, in seconds, the best of some repeats."""
    for _ in range(_WARM):
        await call()
    found = []
    for _ in range(repeats):
        times = []
        for _ in range(_BATCHES):
            begin = time.perf_counter()
            await call()
            times.append(time.perf_counter() - begin)
        found.append(median(times))
    return min(found)


@contextmanager
def _hosts(pages: int, shards: int, processes: int) -> Iterator[list[str]]:
    """Serve shards in processes of their own within the block; yield their URLs."""
    with ExitStack() as stack:
        places: list[str] = []
        started = []
        for number in range(processes):
            words = (sys.executable, "-m", "benchmarks.cluster", str(pages), str(shards), str(number), str(processes))
            pipe = subprocess.PIPE
            started.append(stack.enter_context(subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True)))
        for process in started:
            assert process.stdout is not None
            places.append(process.stdout.readline().strip())
        yield [f"http://{places[shard % processes]}/{shard}" for shard in range(shards)]
        for process in started:
            process.communicate()  # its standard input ends


def _serve(pages: int, shards: int, number: int, processes: int) -> None:
    """Serve every so manieth shard until the standard input ends, at an address that is printed."""
    settings, urls = HttpSettings("127.0.0.1:0", rate=1_000_000), make_urls(pages)
    owners = choose_partitions(host_keys(urls), shards)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="streamsched-")))
        apps = {}
        for shard in range(number, shards, processes):
            scheduler = stack.enter_context(DurableScheduler.open(folder / str(shard), threads=1))
            mine, now = urls.take(np.flatnonzero(owners == shard)), _read_clock()
            for day in _VISITS:
                scheduler.observe(visit_all(mine, int(now / DAY_S) - day, np.random.default_rng(day)))
            scheduler.offer(1_000, now=now)
            apps[str(shard)] = stack.enter_context(open_app(scheduler, settings, _read_clock))

        async def answer(scope: Any, receive: Any, send: Any) -> None:
            _, shard, path = scope["path"].split("/", 2)
            await apps[shard]({**scope, "path": f"/{path}", "raw_path": f"/{path}".encode()}, receive, send)

        async def serve() -> None:
            listener = listen(settings)
            async with serving(answer, listener):
                host, port = listener.getsockname()
                print(f"{host}:{port}", flush=True)
                await asyncio.to_thread(sys.stdin.read)

        asyncio.run(serve())


if __name__ == "__main__":
    _serve(*map(int, sys.argv[1:]))
