"""A broker that is killed: while it is read, and between a call and its answer, whether the call had come or not."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from streamsched.connectors.kafka import KafkaSource, open_kafka, open_sink
from streamsched.errors import SourceError
from streamsched.outcomes import OutcomeBatch
from tests.integration.kafka.broker import Address, Broker, find_jars
from tests.integration.kafka.proxy import OFFSET_COMMIT, PRODUCE, Proxy
from tests.integration.kafka.topics import Topic, encode_event, wait_for
from tests.support.command_line import finish, start
from tests.support.crawl_outcomes import read_out
from tests.support.waiting import pause

# A socket that kafka-python cannot connect is left to the garbage collector.
pytestmark = [pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"), pytest.mark.usefixtures("collected")]

PATIENCE = "5m"  # a broker may take long to start on a loaded machine
long = pytest.mark.cases(ordinary=0, whole=2)
either = pytest.mark.parametrize("arrives", [True, False])


@pytest.fixture(scope="module")
def of_module(address: Address, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if not address.secure:
        pytest.skip("needs a real broker that is ours: no Java, or KAFKA_BOOTSTRAP_SERVERS names another")
    broker = Broker(find_jars(), tmp_path_factory.mktemp("fragile") / "kafka")
    yield broker
    broker.kill()


@pytest.fixture
def fragile(of_module: Broker) -> Broker:
    """A broker of this module's own that runs, wherever the test before has left it."""
    if not of_module.is_running:
        of_module.start()
    return of_module


@pytest.fixture
def cut(fragile: Broker) -> Iterator[Proxy]:
    """The way to the broker, on which answers may be held back."""
    with Proxy(fragile.address.front, fragile.address.behind) as opened:
        yield opened


@pytest.fixture
def make_topic(fragile: Broker, client: str) -> Callable[..., Topic]:
    def make(partitions: int = 1) -> Topic:
        topic = Topic(fragile.address, client, f"t-{uuid4().hex[:12]}")
        topic.create(partitions, {})
        return topic

    return make


def number(first: int, last: int) -> list[bytes | None]:
    return [encode_event(f"https://a.example/{i}", 1.0 + i) for i in range(first, last)]


def restart(fragile: Broker, cut: Proxy) -> None:
    """Kill the broker, whose answers are held back, and start it again."""
    fragile.kill()
    cut.cut()
    fragile.start()
    cut.mend()


def read_times(topic: Topic) -> list[float]:
    return sorted(one.fetched_at for one in topic.read())


def wait_until(is_so: Callable[[], object]) -> None:
    while not is_so():
        pause()


@pytest.mark.longer
def test_a_reader_continues_when_it_is_back(fragile: Broker, make_topic: Callable[..., Topic]) -> None:
    topic = make_topic()
    topic.send(number(0, 5), partition=0)
    with topic.open(group=topic.name) as source:
        assert len(wait_for(source, 5)) == 5
        source.commit(source.positions)
        fragile.kill()
        assert source.poll(0.2) is None
        fragile.start()
        topic.send(number(5, 9), partition=0)
        assert [one.fetched_at for one in wait_for(source, 4)] == [6, 7, 8, 9]
        source.commit(source.positions)
    assert topic.read(group=topic.name) == []


@either
@long
@pytest.mark.usefixtures("rng")
def test_what_is_published_is_stored_once(
    fragile: Broker, cut: Proxy, make_topic: Callable[..., Topic], arrives: bool
) -> None:
    topic = make_topic()
    with open_sink(topic.through(cut.servers).url(patience=PATIENCE)) as sink, ThreadPoolExecutor(1) as pool:
        has_come = cut.hold(PRODUCE, arrives=arrives)
        sink.send_outcomes(OutcomeBatch([f"https://a.example/{i}" for i in range(50)], list(range(1, 51))), "msgpack")
        flushed = pool.submit(sink.flush)
        has_come.wait()
        if arrives:
            wait_until(topic.messages)
        else:
            assert topic.read() == []
        restart(fragile, cut)
        flushed.result()
    assert read_times(topic) == list(range(1, 51))


@either
@long
@pytest.mark.usefixtures("rng")
def test_a_dead_letter_is_stored_before_what_follows_it(
    fragile: Broker, cut: Proxy, make_topic: Callable[..., Topic], arrives: bool
) -> None:
    topic, letters = make_topic(), make_topic()
    topic.send([b"?", *number(0, 2)], partition=0)
    has_come = cut.hold(PRODUCE, arrives=arrives)
    url = topic.through(cut.servers).url(dead_letters=letters.name, patience=PATIENCE, until_end="true")
    with open_kafka(url) as source, ThreadPoolExecutor(1) as pool:
        read = pool.submit(read_out, source)
        has_come.wait()
        if arrives:
            wait_until(letters.messages)
        assert source.positions[f"kafka://{topic.name}/0"].offset == 0
        restart(fragile, cut)
        assert [one.fetched_at for one in read.result()] == [1.0, 2.0]
        assert source.rejected == 1
    assert {headers["offset"] for _, _, headers in letters.messages()} == {"0"}


@either
@long
@pytest.mark.usefixtures("rng")
def test_offsets_are_committed_or_the_next_commit_makes_up_for_it(
    fragile: Broker, cut: Proxy, make_topic: Callable[..., Topic], arrives: bool
) -> None:
    topic = make_topic()
    topic.send(number(0, 5), partition=0)
    with open_kafka(topic.through(cut.servers).url(group=topic.name, patience=PATIENCE)) as source:
        wait_for(source, 5)
        has_come = cut.hold(OFFSET_COMMIT, arrives=arrives)
        with ThreadPoolExecutor(1) as pool:
            committed: Future[None] = pool.submit(source.commit, source.positions)
            has_come.wait()
            if arrives:
                wait_until(lambda: topic.committed(topic.name) == 5)
            else:
                assert topic.committed(topic.name) is None
            restart(fragile, cut)
            problem = committed.exception()
        while problem is not None:  # as `run` does after its next saves
            assert isinstance(problem, SourceError)
            assert problem.retriable
            source.poll(0.1)
            problem = commit(source)
    assert topic.committed(topic.name) == 5


def commit(source: KafkaSource[OutcomeBatch]) -> SourceError | None:
    """Commit where `source` is; return the brokers' refusal."""
    try:
        source.commit(source.positions)
    except SourceError as error:
        return error
    return None


@either
@long
@pytest.mark.usefixtures("rng")
def test_a_batch_of_run_is_published_when_it_is_back(
    fragile: Broker, cut: Proxy, make_topic: Callable[..., Topic], tmp_path: Path, arrives: bool
) -> None:
    """Its pages are leased, so no other batch has them."""
    outcomes, visits = make_topic(), make_topic()
    outcomes.send(number(0, 20), partition=0)
    batches = ("--batches-to", visits.through(cut.servers).url(patience="1s"), "--set", "batches.lease=52w")
    every = ("--set", "batches.every=10ms", "--set", "batches.size=7", "--log-format", "json", "--log-level", "debug")
    has_come = cut.hold(PRODUCE, arrives=arrives)
    process = start("run", "--source", outcomes.url(), "--state", tmp_path / "state", "--json", *batches, *every)
    assert process.stderr is not None
    events = (json.loads(line) for line in process.stderr)
    assert next(event for event in events if event["event"] == "batch waits for brokers")["pages"] == 7
    assert has_come.is_set()
    restart(fragile, cut)
    sent = 0
    while sent < 20:
        sent += next(event["pages"] for event in events if event["event"] == "batch")
    process.send_signal(signal.SIGTERM)
    assert finish(process).code == 0
    known = sorted(one.url for one in outcomes.read())
    pages = [json.loads(value)["url"] for _, value, _ in visits.messages()]
    assert sorted(pages) == known
