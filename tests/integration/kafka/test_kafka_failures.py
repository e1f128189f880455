"""What may go wrong between a source and its broker: offsets gone, gaps, networks cut, brokers restarted, refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from streamsched.connectors import Position
from streamsched.connectors.kafka import KafkaSink, KafkaSource, open_kafka, open_sink
from streamsched.errors import SettingsError, SourceError
from streamsched.outcomes import OutcomeBatch
from tests.integration.kafka.broker import PASSWORD, USER, Address, free_ports
from tests.integration.kafka.proxy import Proxy
from tests.integration.kafka.topics import Topic, encode_event, wait_for
from tests.support.crawl_outcomes import read_out

# A socket that kafka-python cannot connect is left to the garbage collector.
pytestmark = [pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"), pytest.mark.usefixtures("collected")]

MakeTopic = Callable[..., Topic]


def number(first: int, last: int) -> list[bytes | None]:
    return [encode_event(f"https://a.example/{i}", 1.0 + i) for i in range(first, last)]


def place(topic: Topic, offset: int) -> Position:
    return Position("kafka", f"kafka://{topic.name}/0", offset, offset)


@pytest.mark.usefixtures("real")
def test_an_offset_that_retention_deleted(topic: Topic) -> None:
    topic.send(number(0, 20), partition=0)
    topic.delete_before(12)
    with topic.open(until_end="true") as source:
        source.seek(place(topic, 5))
        with pytest.raises(
            SourceError, match=r"offset 5, the log begins at 12: 7 messages were deleted.*lost="
        ) as raised:
            next(source)
        assert (raised.value.path, raised.value.offset) == (f"kafka://{topic.name}/0", 5)
        source.seek(place(topic, 15))  # an alternative to what the error suggests
        assert [one.fetched_at for one in read_out(source)] == [16, 17, 18, 19, 20]
    for lost, first, skipped in (("earliest", 12, 7), ("latest", 20, 15)):
        with topic.open(until_end="true", lost=lost) as source:
            source.seek(place(topic, 5))
            assert [one.fetched_at for one in read_out(source)] == list(range(first + 1, 21))
            assert source.skipped == skipped


@pytest.mark.usefixtures("real")
def test_an_offset_beyond_a_topic_made_anew(topic: Topic) -> None:
    topic.send(number(0, 3), partition=0)
    with topic.open(until_end="true") as source:
        source.seek(place(topic, 20))
        with pytest.raises(SourceError, match="offset 20, the log ends at 3: the topic was recreated"):
            next(source)
    with topic.open(until_end="true", lost="earliest") as source:
        source.seek(place(topic, 20))
        assert len(read_out(source)) == 3


@pytest.mark.usefixtures("real")
def test_committed_offsets_that_are_gone(topic: Topic) -> None:
    topic.send(number(0, 9), partition=0)
    with topic.open(until_end="true", group=topic.name) as source:
        read_out(source)
        source.commit({f"kafka://{topic.name}/0": place(topic, 2)})
    topic.delete_before(4)
    with (
        topic.open(until_end="true", group=topic.name) as source,
        pytest.raises(SourceError, match="offset 2, the log"),
    ):
        next(source)
    with topic.open(until_end="true", group=topic.name, lost="earliest") as source:
        assert len(read_out(source)) == 5


@pytest.mark.usefixtures("real")
def test_gaps_that_compaction_leaves(make_topic: MakeTopic) -> None:
    topic = make_topic(
        1,
        **{
            "cleanup.policy": "compact",
            "segment.ms": "50",
            "min.cleanable.dirty.ratio": "0.0",
            "delete.retention.ms": "0",
        },
    )
    with topic.producing() as producer:
        for i in range(40):
            producer.send(topic.name, encode_event("https://a.example/", 1.0 + i), f"key{i % 4}".encode())
            producer.flush()
        times, fresh = [0.0] * 40, 40
        while len(times) >= 20 and fresh < 400:  # the cleaner passes over the segment that is still written to
            producer.send(topic.name, encode_event("https://a.example/", 1.0 + fresh), b"key0")
            producer.flush()
            fresh += 1
            with topic.open(until_end="true") as source:
                times = [one.fetched_at for one in read_out(source)]
                assert source.positions[place(topic, 0).path].offset == fresh
    assert len(times) < 20
    assert times == sorted(times)
    assert times[-1] == fresh
    with topic.open(until_end="true") as source:
        source.seek(place(topic, 1))  # in a gap
        again = [one.fetched_at for one in read_out(source)]  # the cleaner may have been on meanwhile
        assert again == sorted(again)
        assert len(again) >= 4
        assert set(again) <= set(times)


@pytest.mark.usefixtures("real")
def test_messages_of_transactions_that_were_aborted_are_gaps(topic: Topic) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=topic.address.servers, transactional_id=topic.name)
    producer.init_transactions()
    for first, last, end in ((0, 3, "commit"), (3, 6, "abort"), (6, 8, "commit"), (8, 9, "abort")):
        producer.begin_transaction()
        for value in number(first, last):
            producer.send(topic.name, value, partition=0)
        producer.flush()  # or what is aborted would never be sent
        getattr(producer, f"{end}_transaction")()
    producer.close()
    with topic.open(until_end="true") as source:
        assert [one.fetched_at for one in read_out(source)] == [1, 2, 3, 7, 8]
        assert source.positions[place(topic, 0).path].offset == 13  # nine messages and four markers
        assert source.lag[place(topic, 0).path] == 0


def test_a_network_that_is_cut_and_mended(topic: Topic, proxy: Proxy) -> None:
    topic.send(number(0, 3), partition=0)
    with topic.through(proxy.servers).open() as source:
        wait_for(source, 3)
        for first in (3, 6):
            proxy.cut()
            topic.send(number(first, first + 3), partition=0)
            assert source.poll(0.1) is None
            proxy.mend()
            assert [one.fetched_at for one in wait_for(source, 3)] == [first + 1, first + 2, first + 3]
        assert source.positions[place(topic, 0).path] == place(topic, 9)


@pytest.mark.parametrize("lost", ["fail", "earliest"])
def test_messages_deleted_while_the_network_was_cut(topic: Topic, proxy: Proxy, lost: str) -> None:
    topic.send(number(0, 3), partition=0)
    with topic.through(proxy.servers).open(lost=lost) as source:
        wait_for(source, 3)
        proxy.cut()
        topic.send(number(3, 9), partition=0)
        topic.delete_before(7)
        proxy.mend()
        if lost == "fail":
            with pytest.raises(SourceError, match="offset 3, the log begins at 7"):
                wait_for(source, 1)
        else:
            assert [one.fetched_at for one in wait_for(source, 2)] == [8, 9]
            assert source.skipped == 4


def test_a_broker_that_is_not_there(client: str) -> None:
    (port,) = free_ports(1)
    with pytest.raises(SourceError, match=f"127.0.0.1:{port}") as raised:
        open_kafka(f"kafka://127.0.0.1:{port}/outcomes?client={client}&patience=1s")
    assert raised.value.retriable


def secure_url(topic: Topic, real: Address, **words: str) -> str:
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
        "ssl.ca.location": real.certificate,
    }
    return replace(topic, address=replace(real, servers=real.secure)).url(
        until_end="true", **{"patience": "2s"} | settings | words
    )


def test_tls_and_a_password(topic: Topic, real: Address, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{PASSWORD}\n")
    url = secure_url(topic, real).replace(f"sasl.password={PASSWORD}", f"sasl.password.file={secret}")
    with open_sink(url) as sink, topic.producing() as producer:
        producer.send(topic.name, encode_event("https://a.example/", 1.0))
        producer.flush()
        assert sink.create(4) is False
    with open_kafka(url) as source:
        assert len(read_out(source)) == 1
        assert PASSWORD not in repr(source.settings)


@pytest.mark.parametrize("open_either", [open_kafka, open_sink])
def test_a_wrong_password_is_an_error_at_once(
    topic: Topic, real: Address, open_either: Callable[[str], KafkaSource[OutcomeBatch] | KafkaSink]
) -> None:
    url = secure_url(topic, real, **{"sasl.password": "wrong", "patience": "1h"})  # nobody waits that long
    with pytest.raises(SourceError, match="uthentication") as raised:
        open_either(url)
    assert not raised.value.retriable
    assert "wrong" not in str(raised.value)


FOREIGN = {  # names that only the other client has
    "confluent": ("max.poll.records", "ssl.cafile", "api.version", "send.buffer.bytes"),
    "kafka-python": (
        "queued.max.messages.kbytes",
        "socket.timeout.ms",
        "statistics.interval.ms",
        "request.required.acks",
    ),
}


@pytest.mark.parametrize("open_either", [open_kafka, open_sink])
def test_an_unknown_option_and_one_of_the_other_client_are_named(
    topic: Topic, open_either: Callable[[str], object]
) -> None:
    library = {"confluent": "librdkafka", "kafka-python": "kafka-python"}[topic.client]
    for name in ("colour.of.messages", *FOREIGN[topic.client]):
        with pytest.raises(SettingsError) as raised:
            open_either(topic.url(**{name: "hush"}))
        assert (raised.value.setting, raised.value.expected) == (name, f"a setting of {library}")
        assert "hush" not in str(raised.value)
    for name in ("max_poll_records", "acks"):
        with pytest.raises(SettingsError, match="with a dot in its name") as raised:
            open_either(topic.url() + f"&{name}=1")
        assert raised.value.setting == name


@pytest.mark.parametrize(
    ("open_either", "name", "value"),
    [
        (open_kafka, "isolation.level", "none"),
        (open_kafka, "session.timeout.ms", "soon"),
        (open_kafka, "security.protocol", "TLS"),
        (open_sink, "compression.type", "brotli"),
        (open_sink, "compression.codec", "brotli"),
        (open_sink, "linger.ms", "soon"),
        (open_sink, "queue.buffering.max.ms", "soon"),
    ],
)
def test_a_value_that_the_client_does_not_take_is_named_with_its_setting(
    topic: Topic, open_either: Callable[[str], object], name: str, value: str
) -> None:
    with pytest.raises(SettingsError) as raised:
        open_either(topic.url(**{name: value}))
    assert (raised.value.setting, raised.value.found) == (name, value)


def test_either_client_takes_settings_by_the_names_of_the_other(topic: Topic) -> None:
    names = {"fetch.wait.max.ms": 100, "fetch.max.bytes": 10**6, "max.partition.fetch.bytes": 10**6}
    topic.send(number(0, 3), partition=0)
    assert len(topic.read(**names)) == 3
    for codec in ("compression.type", "compression.codec"):
        url = topic.url(**{codec: "gzip", "queue.buffering.max.ms": 1})
        with open_sink(url) as sink:
            sink.send_outcomes(OutcomeBatch(["https://a.example/"], [9.0]))
    assert len(topic.read()) == 5


@pytest.mark.parametrize("words", [{"sasl.password": "wrong"}, {"ssl.ca.location": ""}, {"security.protocol": "SSL"}])
def test_what_a_broker_refuses_is_said(topic: Topic, real: Address, words: dict[str, str]) -> None:
    with (
        pytest.raises((SourceError, SettingsError)) as raised,
        open_kafka(secure_url(topic, real, **words)) as source,
    ):
        next(source)
    assert PASSWORD not in str(raised.value)
    if "sasl.password" in words:
        assert "uthentication" in str(raised.value)
        assert isinstance(raised.value, SourceError)
        # Over TLS kafka-python drops an answer that arrives together with the end of the connection.
        assert raised.value.retriable == ("socket disconnected" in str(raised.value))
