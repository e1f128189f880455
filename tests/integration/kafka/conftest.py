"""A broker for a whole run of the tests, shared by its workers, and topics of a test's own on it."""

from __future__ import annotations

import gc
import json
import os
import uuid
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from tests.integration.kafka.broker import Address, Broker, NoBroker, find_jars, locked, stop_process
from tests.integration.kafka.proxy import Proxy
from tests.integration.kafka.topics import CLIENTS, Topic

_NEEDS_REAL = "needs a real broker: "


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """Where the broker is: one that the environment names, a real one of ours, else librdkafka's mock."""
    named = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if named:
        yield Address(named)
        return
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "kafka"
    folder.mkdir(exist_ok=True)
    try:
        found = _join(folder)
    except NoBroker as reason:
        yield from _mock(str(reason))
        return
    try:
        yield found
    finally:
        _leave(folder)


def _join(folder: Path) -> Address:
    """Start the broker of this run, or count ourselves among those who use it."""
    with locked(folder / "lock"):
        record = folder / "users.json"
        known: dict[str, Any] = json.loads(record.read_text()) if record.exists() else {"users": 0, "starts": 0}
        if known["users"] == 0:
            broker = Broker(find_jars(), folder / str(known["starts"]))
            broker.start()
            known |= {"address": asdict(broker.address), "pid": broker.pid, "starts": known["starts"] + 1}
        known["users"] += 1
        record.write_text(json.dumps(known))
        return Address(**known["address"])


def _leave(folder: Path) -> None:
    with locked(folder / "lock"):
        record = folder / "users.json"
        known = json.loads(record.read_text())
        known["users"] -= 1
        if known["users"] == 0:
            stop_process(known["pid"])
        record.write_text(json.dumps(known))


def _mock(reason: str) -> Iterator[Address]:
    """librdkafka's mock of a broker, in this process."""
    if find_spec("confluent_kafka") is None:
        pytest.skip(f"no broker: {reason}; nor is there librdkafka's mock")
    from confluent_kafka import Producer

    keeper = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": "1"})
    broker = next(iter(keeper.list_topics(timeout=10).brokers.values()))
    yield Address(f"{broker.host}:{broker.port}", is_real=False, certificate=reason)
    keeper.flush(0)


@pytest.fixture(scope="module")
def settled() -> Iterator[None]:
    """Keep the collections of a module's tests from looking at what was there before."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
    with warnings.catch_warnings():  # connections that a client of the module's tests has left open
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def collected(settled: None) -> Iterator[None]:  # noqa: ARG001
    """Collect what a test leaves while its filter of warnings holds."""
    yield
    gc.collect()


@pytest.fixture
def real(address: Address) -> Address:
    """The address of a real broker that is ours."""
    if not address.is_real:
        pytest.skip(_NEEDS_REAL + address.certificate)
    if not address.secure:
        pytest.skip("needs a broker of our own: KAFKA_BOOTSTRAP_SERVERS names another")
    return address


@pytest.fixture
def proxy(real: Address) -> Iterator[Proxy]:
    """The way to the broker that a test may cut, its own until it ends: all workers of the run share the port."""
    with locked(Path(real.certificate).with_name("front.lock")), Proxy(real.front, real.behind) as opened:
        yield opened


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests of clients with both; an ordinary run has those of commands, and longer ones, with either."""
    if "client" in metafunc.fixturenames:
        of_commands = "test_cli" in metafunc.definition.nodeid
        longer = metafunc.definition.get_closest_marker("longer") is not None
        few = (of_commands or longer) and not metafunc.config.getoption("soak")
        first = crc32(metafunc.definition.name.encode()) % len(CLIENTS)
        metafunc.parametrize("client", CLIENTS[first : first + 1] if few else CLIENTS, indirect=True)


@pytest.fixture
def client(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if name == "confluent" and find_spec("confluent_kafka") is None:
        pytest.skip("streamsched[confluent] is not installed")
    return name


@pytest.fixture
def make_topic(address: Address, client: str) -> Callable[..., Topic]:
    """Makes a topic of 4 partitions, or on a real broker of the number asked for, with settings."""

    def make(partitions: int = 4, **configs: str) -> Topic:
        if not address.is_real and (partitions != 4 or configs):
            pytest.skip(_NEEDS_REAL + address.certificate)
        topic = Topic(address, client, f"t-{uuid.uuid4().hex[:12]}")
        topic.create(partitions, configs)
        return topic

    return make


@pytest.fixture
def topic(make_topic: Callable[..., Topic]) -> Topic:
    return make_topic()
