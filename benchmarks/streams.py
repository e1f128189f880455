"""Streams: outcomes per second from Kafka into ranked state, and signals decoded from files.

The rivals of Kafka read the same single messages into dicts: a loop over kafka-python's consumer, and quixstreams.
The broker is that of the tests, on this machine and its cores, or the one that ``KAFKA_BOOTSTRAP_SERVERS`` names.
Signals are timed in processor time, as decoders are not alone on a machine.
"""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import msgpack
import numpy as np

from benchmarks.corpus import DAY_S, make_urls, visit_all
from benchmarks.ingest import DictIngest
from benchmarks.report import Row, best_seconds, speeds
from streamsched import OutcomeBatch, PackedUrls, Scheduler, SignalBatch
from streamsched.connectors import open_signals, open_source, write_jsonl, write_msgpack
from streamsched.connectors.kafka import open_kafka, open_sink
from streamsched.fields import GIVEN
from tests.integration.kafka.broker import Broker, NoBroker, find_jars

_PARTITIONS = 4
_CLIENTS = {"confluent": "confluent_kafka", "kafka-python": "kafka"}
_SINGLES_EVERY = 10  # one in 10 outcomes is also sent as a single message
_FRAME: Final = 4_096
_NAMES: Final = ("sitemap", "feed", "indexnow")


def measure(outcomes: int, repeats: int) -> list[Row]:
    """Return the rows of the Kafka benchmark, for `outcomes` in frames and a tenth of them as single messages."""
    try:
        with _broker() as servers:
            return _measure(servers, outcomes, repeats)
    except NoBroker as reason:
        return [Row(f"no broker: {reason}", "–")]


@contextmanager
def _broker() -> Iterator[str]:
    named = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if named:
        yield named
        return
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(find_jars(), Path(folder) / "kafka")
        broker.start()
        try:
            yield broker.address.servers
        finally:
            broker.kill()


def _measure(servers: str, outcomes: int, repeats: int) -> list[Row]:
    urls = make_urls(outcomes // 10)
    clients = [name for name, module in _CLIENTS.items() if find_spec(module) is not None]
    names = {"frames": f"frames-{os.getpid()}", "msgpack": f"singles-{os.getpid()}"}
    counts = {"frames": outcomes, "msgpack": outcomes // _SINGLES_EVERY}
    for shape, name in names.items():
        _fill(f"kafka://{servers}/{name}", urls, counts[shape], shape)
    found = {
        (shape, client): _best(lambda s=shape, c=client: _read(f"kafka://{servers}/{names[s]}", c, counts[s]), repeats)  # type: ignore[misc]
        for shape in names
        for client in clients
    }
    singles, count = names["msgpack"], counts["msgpack"]
    rivals = {"a kafka-python loop": _best(lambda: _loop(servers, singles, count), repeats)}
    if find_spec("quixstreams") is not None:
        rivals["quixstreams"] = _best(lambda: _quix(servers, singles, count), 1)
    rows = []
    for (shape, client), speed in found.items():
        what = "frames of 1,000" if shape == "frames" else "single msgpack messages"
        for rival, theirs in rivals.items():
            headline = (shape, client, rival) == ("frames", "confluent", "a kafka-python loop")
            name = f"outcomes from Kafka into ranked state, {what}, {client}, beside {rival}"
            rows.append(speeds(name, speed, theirs, headline=headline))
    return rows


def _best(work: Callable[[], float], repeats: int) -> float:
    return max(work() for _ in range(repeats))


def _fill(url: str, urls: PackedUrls, count: int, shape: str) -> None:
    rng = np.random.default_rng(0)
    with open_sink(url) as sink:
        sink.create(_PARTITIONS)
        for day in range(1 + count // len(urls)):
            batch = visit_all(urls, day, rng)
            rows = np.arange(min(len(urls), count - day * len(urls)))
            if rows.size:
                sink.send_outcomes(batch.take(rows), shape)


def _read(url: str, client: str, count: int) -> float:
    """Return outcomes per second, from opening the topic until the last one is applied."""
    scheduler = Scheduler(max_ahead=None)
    scheduler.observe(OutcomeBatch(["https://warm.example/"], [1.0]))
    start = time.perf_counter()
    applied = 0
    with open_kafka(f"{url}?until-end=true&client={client}") as source:
        for delivery in source:
            applied += scheduler.observe(delivery.records).applied
        seconds = time.perf_counter() - start
    assert applied == count, f"{applied} of {count} outcomes"
    return count / seconds


def _loop(servers: str, topic: str, count: int) -> float:
    """Return outcomes per second of a plain loop that updates a dict for each message."""
    import kafka  # noqa: PLC0415  an optional rival

    library: Any = kafka
    state, left = DictIngest(), count
    start = time.perf_counter()
    options = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "value_deserializer": None}
    consumer = library.KafkaConsumer(topic, bootstrap_servers=servers, **options)
    for message in consumer:
        event = msgpack.unpackb(message.value)
        state.learn_one(event["url"], event["fetched_at"], event["changed"])
        left -= 1
        if left == 0:
            break
    seconds = time.perf_counter() - start
    consumer.close()
    return count / seconds


def _quix(servers: str, topic: str, count: int) -> float:
    """Return outcomes per second of quixstreams, which updates the same dicts."""
    import quixstreams  # noqa: PLC0415  an optional rival

    library: Any = quixstreams
    state = DictIngest()
    with tempfile.TemporaryDirectory() as folder:
        app = library.Application(
            broker_address=servers,
            consumer_group=f"quix-{os.getpid()}-{time.monotonic_ns()}",
            auto_offset_reset="earliest",
            state_dir=folder,
            loglevel=logging.ERROR,
        )
        frame = app.dataframe(app.topic(topic, value_deserializer="bytes"))

        def learn(value: bytes) -> None:
            event = msgpack.unpackb(value)
            state.learn_one(event["url"], event["fetched_at"], event["changed"])

        frame.update(learn)
        start = time.perf_counter()
        app.run(count=count, timeout=60.0)
        return count / (time.perf_counter() - start)


def measure_signals(records: int, repeats: int) -> list[Row]:
    """Return the rows of the benchmark, with `records` signals and as many outcomes."""
    rng = np.random.default_rng(0)
    urls = make_urls(records)
    outcomes, signals = visit_all(urls, 1, rng), _announce(urls, rng)
    writers: dict[str, Callable[[Iterable[Any], Path], int]] = {
        "frames.msgpack": write_msgpack,
        "maps.msgpack": partial(write_msgpack, frames=False),
        "events.jsonl": write_jsonl,
    }
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, write in writers.items():
            path = Path(folder) / name
            found = []
            for batch, open_it in ((signals, open_signals), (outcomes, open_source)):
                write(_cut(batch), path)
                work = partial(_read_all, open_it, path, records)
                found.append(records / best_seconds(work, repeats, time.process_time))
            rows.append(speeds(f"signals decoded from {name}", *found))
    return rows


def _announce(urls: PackedUrls, rng: np.random.Generator) -> SignalBatch:
    """Return a signal of each page, a third of them with a significance."""
    count = len(urls)
    signals = SignalBatch(urls, DAY_S + rng.random(count), rng.integers(0, 3, count), rng.random(count), names=_NAMES)
    signals.given = (rng.random(count) < 1 / 3).astype(GIVEN)
    return signals


def _cut(batch: Any) -> Iterable[Any]:
    return (batch.take(np.arange(at, min(at + _FRAME, len(batch)))) for at in range(0, len(batch), _FRAME))


def _read_all(open_it: Callable[[Path], Any], path: Path, count: int) -> None:
    with open_it(path) as source:
        found = sum(len(delivery.records) for delivery in source)
    assert found == count, f"{found} of {count} records"
