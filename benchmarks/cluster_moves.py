"""A cluster on a real broker and a local S3: its log of calls, its ingest, and partitions that move."""

from __future__ import annotations

import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from benchmarks.corpus import DAY_S, make_urls, visit_all
from benchmarks.report import Row, digits, speeds
from streamsched import DurableScheduler
from streamsched.cli.options import current_time
from streamsched.cluster.image_store import ImageStore
from streamsched.cluster.shard import Shard, ShardLog
from streamsched.cluster.topic_log import CallsTopic, prepare_topic
from streamsched.connectors.kafka import open_sink
from streamsched.connectors.kafka.kafka_settings import KafkaSettings
from streamsched.errors import StreamschedError
from streamsched.persistence.image_writer import SavePlan
from tests.integration.kafka.broker import Address, Broker, NoBroker, find_jars
from tests.integration.kafka.topics import Topic
from tests.support.cluster_hosts import PARTITIONS, Cluster, HostProcess
from tests.support.command_line import finish, start
from tests.support.local_s3 import URL, serving_s3

_CALLERS: Final = 16
_CALLS: Final = 200  # of each caller
_SESSION_S: Final = 6.0
_SAVE_S: Final = 30.0
_MORE: Final = f"session.timeout.ms={_SESSION_S * 1e3:.0f}&heartbeat.interval.ms=1000"
_TIME: Final = re.compile(r"\"time\": \"([^\"]+)\"")


def measure(pages: int, repeats: int) -> list[Row]:
    """Return the rows of the cluster benchmark with `pages` pages of four partitions."""
    try:
        with _places() as (servers, folder):
            return [_log_calls(servers, folder, repeats), *_move(servers, folder, pages)]
    except NoBroker as reason:
        return [Row(f"no broker: {reason}", "–")]


@contextmanager
def _places() -> Iterator[tuple[str, Path]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="streamsched-")))
        broker = Broker(find_jars(), folder / "kafka")
        stack.callback(broker.kill)
        broker.start()
        os.environ.update(stack.enter_context(serving_s3()).environment)
        yield broker.address.servers, folder


def _log_calls(servers: str, folder: Path, repeats: int) -> Row:
    """Calls a second of many callers, on the topic's log and on a log of files."""
    topic = prepare_topic(CallsTopic(KafkaSettings(servers, "calls-alone"), "alone", 1))
    log = ShardLog(topic, 0, ImageStore(URL), _read_clock)
    log.fetch(folder / "shard")
    plan = SavePlan(every="365d")
    with (
        Shard.open(folder / "shard", log=log, plan=plan) as shard,
        DurableScheduler.open(folder / "alone", plan=plan) as alone,
    ):
        found = [max(_call(one, repeat) for repeat in range(repeats)) for one in (shard, alone)]
    return speeds(f"calls of {_CALLERS} callers on the log, beside one of files", *found)


def _call(scheduler: DurableScheduler, repeat: int) -> float:
    def work(caller: int) -> None:
        for number in range(_CALLS):
            scheduler.discover([f"https://h{caller}.example/{repeat}/{number}"], now=DAY_S)

    threads = [threading.Thread(target=work, args=(caller,)) for caller in range(_CALLERS)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return _CALLERS * _CALLS / (time.perf_counter() - begun)


def _move(servers: str, folder: Path, pages: int) -> list[Row]:
    """Read a topic by two hosts, beside one process; then move a partition, and kill a host."""
    Topic(Address(servers), "confluent", "outcomes").create(PARTITIONS, {})
    days = (9, 6, 2)
    with open_sink(f"kafka://{servers}/outcomes?client=confluent") as sink:
        urls, today = make_urls(pages), int(_read_clock() / DAY_S)
        for day in days:
            sink.send_outcomes(visit_all(urls, today - day, np.random.default_rng(day)))
    # 1. One process with all pages, then two hosts.
    source = f"kafka://{servers}/outcomes?client=confluent"
    words = ("--until-end", "--state", folder / "one", "--log-format", "json", "--log-level", "info")
    alone = finish(start("run", "--source", source, *words)).err.splitlines()
    alone_s = _time_of(alone, "stopped") - _time_of(alone, "started")
    cluster = Cluster(servers, "outcomes", URL, folder, _MORE, save_every=f"{_SAVE_S:g}s")
    try:
        hosts = [cluster.start() for _ in range(2)]
        cluster.owners(PARTITIONS, within_s=600)
        begun = min(_times(host, "partition taken")[0] for host in hosts if _times(host, "partition taken"))
        ended = max(_times(host, "partition caught up")[-1] for host in hosts if _times(host, "partition caught up"))
        speed, alone_speed = (pages * len(days) / seconds for seconds in (ended - begun, alone_s))
        rows = [speeds("outcomes of two hosts, beside one process", speed, alone_speed)]
        while len({id(one) for one in cluster.owners(PARTITIONS).values()}) < len(hosts):
            time.sleep(0.5)
        # 2. A third host comes: a partition moves as planned.
        with _Batches(hosts[0]) as batches:
            begun = _read_clock()
            third = cluster.start()
            while not _times(third, "partition caught up"):
                time.sleep(0.1)
            given = min(at for host in hosts for at in _times(host, "partition given up") if at > begun)
            taken = _times(third, "partition caught up")[-1]
            saved = max(float(str(one["seconds"])) for host in hosts for one in host.events("partition given up"))
            what = f"a partition of {pages / PARTITIONS / 1e6:g} M pages moves as planned: not served"
            rows += [
                Row(what, _seconds(taken - given + saved)),
                Row("the slowest merged batch of 1,000 meanwhile", _seconds(batches.slowest_s())),
            ]
        # 3. A host is killed once its images have all that it has read: the next owner would read the rest again.
        _await_images(cluster)
        with _Batches(hosts[0]) as batches:
            killed = _read_clock()
            hosts[1].kill()
            cluster.owners(PARTITIONS, within_s=120)
            served = max(at for host in (hosts[0], third) for at in _times(host, "partition caught up"))
            rows += [
                Row(
                    f"`kill -9` after a save, session timeout {_SESSION_S:g} s: served again", _seconds(served - killed)
                ),
                Row("the slowest merged batch of 1,000 of the others meanwhile", _seconds(batches.slowest_s())),
            ]
        return rows
    finally:
        cluster.close()


class _Batches:
    """Asks the front of `host` for batches, one after the other, within the block."""

    def __init__(self, host: HostProcess) -> None:
        self._host = host
        self._stopping = threading.Event()
        self._durations: list[float] = []
        self._thread = threading.Thread(target=self._work)

    def slowest_s(self) -> float:
        return max(self._durations)

    def __enter__(self) -> Self:
        self._thread.start()
        while len(self._durations) < 5:
            time.sleep(0.1)
        self._durations.clear()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _work(self) -> None:
        with self._host.front() as client:
            while not self._stopping.wait(0.05):
                self._durations.append(_time(lambda: client.next_batch(1_000, lease="1s")))


def _time(call: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    try:
        call()
    except StreamschedError:
        return 0.0
    return time.perf_counter() - begun


def _await_images(cluster: Cluster) -> None:
    """Wait until the newest images have all that the topic has, three times the interval of saves at most."""
    end = time.monotonic() + 3.0 * _SAVE_S
    while any(one["lag"] for one in finish(start("cluster", "status", *cluster.place, "--json")).json):
        if time.monotonic() > end:
            break
        time.sleep(1.0)


def _times(host: HostProcess, event: str) -> list[float]:
    return [_parse(str(one["time"])) for one in host.events(event)]


def _time_of(lines: list[str], event: str) -> float:
    line = next(line for line in lines if f'"event": "{event}"' in line)
    found = _TIME.search(line)
    assert found is not None
    return _parse(found[1])


def _parse(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _seconds(value: float) -> str:
    return f"{digits(value)} s"


def _read_clock() -> float:
    return current_time(None)
