"""What of the Kafka connectors needs no broker: settings, where to begin, what is handed out, how frames are cut."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from streamsched import Outcome, Scheduler
from streamsched.connectors import Position, encode_frame
from streamsched.connectors.kafka import open_kafka, open_sink, read_settings, sink
from streamsched.connectors.kafka.clients.factory import choose_client
from streamsched.connectors.kafka.clients.options import to_confluent, to_python
from streamsched.connectors.kafka.clients.protocol import Messages, partition_path
from streamsched.connectors.kafka.decoding import MessageDecoder
from streamsched.connectors.kafka.kafka_settings import check_credentials
from streamsched.connectors.kafka.partition_progress import AssignedPartitions, StartOffset, choose_start
from streamsched.connectors.kafka.sink import cut_frames
from streamsched.connectors.records import OUTCOMES
from streamsched.errors import SettingsError, SourceError
from streamsched.outcomes import OutcomeBatch
from tests.support.crawl_outcomes import make_outcomes

URL = "kafka://one:9092,two:9093/outcomes"


def test_a_url_says_where_and_how() -> None:
    settings = read_settings(
        f"{URL}?group=crawl&until-end&patience=5s&lost=latest&ssl.ca.location=/ca.pem&client=kafka-python"
    )
    assert (settings.servers, settings.topic, settings.group) == ("one:9092,two:9093", "outcomes", "crawl")
    assert (settings.until_end, settings.patience_s, settings.lost) == (True, 5.0, "latest")
    assert settings.options == {"ssl.ca.location": "/ca.pem"}


def test_a_mapping_wins_over_the_url() -> None:
    settings = read_settings(f"{URL}?start=latest", {"start": "earliest", "dead_letters": "dead", "partitions": [3, 1]})
    assert (settings.start, settings.dead_letters, settings.partitions) == ("earliest", "dead", (1, 3))
    assert read_settings(URL, {"until-end": True, "patience": 2}).until_end


@pytest.mark.parametrize(
    ("url", "names"),
    [
        ("kafka://host:9092", "source"),
        ("kafka:///topic", "source"),
        ("kafka://user:word@host/topic", "source"),
        ("kafka://host/a/b", "source"),
        ("kafka://host:65536/topic", "source"),
        ("kafka://host:0/topic", "source"),
        ("kafka://host:9092,other:x/topic", "source"),
        ("kafka://:9092/topic", "source"),
        (f"{URL}?colour=red", "colour"),
        (f"{URL}?start=middle", "start"),
        (f"{URL}?lost=found", "lost"),
        (f"{URL}?versions=all", "versions"),
        (f"{URL}?client=java", "client"),
        (f"{URL}?partitions=4-2", "partitions"),
        (f"{URL}?partitions=a", "partitions"),
        (f"{URL}?patience=0", "patience"),
        (f"{URL}?until-end=maybe", "until-end"),
        (f"{URL}?group=", "group"),
        (f"{URL}?group.id=crawl", "group.id"),
        (f"{URL}?enable.auto.commit=true", "enable.auto.commit"),
        (f"{URL}?sasl.password.file=/nowhere/at/all", "sasl.password.file"),
    ],
)
def test_settings_that_cannot_work_are_named(url: str, names: str) -> None:
    with pytest.raises(SettingsError) as raised:
        read_settings(url)
    assert raised.value.setting == names


def test_secrets_stay_out_of_what_is_shown(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hush\n", encoding="utf-8-sig")
    settings = read_settings(URL, {"sasl.password.file": str(secret), "ssl.key.password": "quiet"})
    assert settings.options == {"sasl.password": "hush", "ssl.key.password": "quiet"}
    assert "hush" not in repr(settings)
    assert "quiet" not in repr(settings)
    with pytest.raises(SettingsError) as raised:
        read_settings("kafka://host/a/b?sasl.password=hush")
    assert "hush" not in str(raised.value)


def test_options_by_the_names_of_kafka_python() -> None:
    defaults = {"ssl_check_hostname": True, "session_timeout_ms": 1, "client_id": "x", "sasl_plain_password": None}
    result = {
        "ssl.endpoint.identification.algorithm": "none",
        "session.timeout.ms": "9",
        "client.id": "me",
        "sasl.password": "word",
    }
    assert to_python(result, defaults) == {
        "ssl_check_hostname": False,
        "session_timeout_ms": 9,
        "client_id": "me",
        "sasl_plain_password": "word",
    }
    of_producers = {"linger_ms", "retries"}
    both = {"linger.ms": "5", "session.timeout.ms": "9"}
    assert to_python(both, defaults, of_producers) == {"session_timeout_ms": 9}
    assert to_python({"linger.ms": "5"}, {"linger_ms": 0}) == {"linger_ms": 5}
    assert to_python({"receive.buffer.bytes": "9"}, {"receive_buffer_bytes": None}) == {"receive_buffer_bytes": 9}
    wrong = {"session.timeout.ms": "soon", "ssl.endpoint.identification.algorithm": "sure", "no.such.thing": "1"}
    for word, value in (wrong | {"api.version": "two"}).items():
        with pytest.raises(SettingsError) as raised:
            to_python({word: value}, defaults | {"api_version": None})
        assert raised.value.setting == word


def test_either_client_takes_the_names_of_the_other() -> None:
    assert to_confluent({"fetch.max.wait.ms": "9", "client.id": "me"}) == {"fetch.wait.max.ms": "9", "client.id": "me"}
    assert to_python({"fetch.wait.max.ms": "9"}, {"fetch_max_wait_ms": 500}) == {"fetch_max_wait_ms": 9}
    assert to_python({"compression.codec": "gzip"}, {"compression_type": None}) == {"compression_type": "gzip"}


def test_a_protocol_has_one_of_four_names_in_any_case() -> None:
    """kafka-python would take any other for plain text."""
    assert read_settings(f"{URL}?security.protocol=sasl_ssl").options == {"security.protocol": "SASL_SSL"}
    with pytest.raises(SettingsError) as raised:
        read_settings(f"{URL}?security.protocol=TLS")
    assert (raised.value.setting, raised.value.found) == ("security.protocol", "TLS")


def test_the_value_of_an_unknown_option_may_be_a_secret() -> None:
    with pytest.raises(SettingsError) as raised:
        to_python({"sasl.passwort": "hush"}, {"client_id": "x"}, {"linger_ms"})
    assert raised.value.setting == "sasl.passwort"
    assert "hush" not in str(raised.value)


def test_where_to_start_by_the_name_of_the_clients() -> None:
    assert read_settings(f"{URL}?auto.offset.reset=latest").start == "latest"
    assert read_settings(f"{URL}?start=latest", {"auto.offset.reset": "latest"}).start == "latest"
    assert "auto.offset.reset" not in read_settings(f"{URL}?auto.offset.reset=latest").options
    for query in ("auto.offset.reset=none", "auto.offset.reset=earliest&start=latest"):
        with pytest.raises(SettingsError) as raised:
            read_settings(f"{URL}?{query}")
        assert raised.value.setting == "auto.offset.reset"


SASL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": "hush"}


@pytest.mark.parametrize("name", ["sasl.mechanism", "sasl.username", "sasl.password"])
@pytest.mark.parametrize("client", ["kafka-python", "confluent"])
@pytest.mark.parametrize("open_either", [open_kafka, open_sink])
def test_credentials_that_are_missing_are_named_before_anything_connects(
    open_either: Callable[..., object], client: str, name: str
) -> None:
    for part in ({other: value for other, value in SASL.items() if other != name}, SASL | {name: ""}):
        with pytest.raises(SettingsError) as raised:
            open_either("kafka://nowhere.invalid:1/t", {"client": client, "patience": "1h", **part})
        assert raised.value.setting == name
        assert "hush" not in str(raised.value)


def test_mechanisms_without_a_password() -> None:
    ticket = {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}
    for options in (SASL, {"security.protocol": "SSL"}, ticket):
        check_credentials(read_settings(URL, options))
    with pytest.raises(SettingsError):
        check_credentials(read_settings(URL, ticket | {"sasl.mechanism": "PLAIN"}))


def test_the_faster_client_is_chosen_of_those_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = {"kafka", "confluent_kafka"}
    monkeypatch.setattr(
        "streamsched.connectors.kafka.clients.factory.find_spec", lambda name: name if name in installed else None
    )
    assert choose_client("auto") == "confluent"
    installed.remove("confluent_kafka")
    assert choose_client("auto") == "kafka-python"
    with pytest.raises(SettingsError, match=r"streamsched\[confluent\]"):
        choose_client("confluent")


FIRST = Position("kafka", partition_path("outcomes", 0), 0, 0)


def test_where_to_begin() -> None:
    settings = read_settings(URL)
    saved = replace(FIRST, offset=7, records=5)
    assert choose_start(settings, FIRST, (2, 9), saved, 4) == StartOffset(7, 5)
    assert choose_start(settings, FIRST, (2, 9), None, 4) == StartOffset(4)
    assert choose_start(settings, FIRST, (2, 9), None, None) == StartOffset(2)
    assert choose_start(read_settings(f"{URL}?start=latest"), FIRST, (2, 9), None, None) == StartOffset(9)
    for bounds in ((8, 9), (0, 6)):
        with pytest.raises(SourceError, match="cannot continue at offset 7"):
            choose_start(settings, FIRST, bounds, saved, None)
    assert choose_start(read_settings(f"{URL}?lost=earliest"), FIRST, (8, 20), saved, None) == StartOffset(8, 5, 1)
    assert choose_start(read_settings(f"{URL}?lost=latest"), FIRST, (8, 20), saved, None) == StartOffset(20, 5, 13)
    assert choose_start(read_settings(f"{URL}?lost=earliest"), FIRST, (0, 6), saved, None) == StartOffset(0, 5)


def test_where_to_begin_in_a_topic_that_was_made_again() -> None:
    """An offset in the log of the topic before means nothing, whether or not the new log has it too."""
    saved = replace(FIRST, offset=7, records=5, topic_id="before")
    for bounds in ((0, 5), (0, 9)):
        with pytest.raises(SourceError, match="made again") as raised:
            choose_start(read_settings(URL), replace(FIRST, topic_id="now"), bounds, saved, None)
        assert (raised.value.path, raised.value.offset) == (FIRST.path, 7)
        for lost, offset in zip(("earliest", "latest"), bounds, strict=True):
            settings = read_settings(f"{URL}?lost={lost}")
            assert choose_start(settings, replace(FIRST, topic_id="now"), bounds, saved, None) == StartOffset(offset, 5)
    for topic_id in ("before", ""):
        start = replace(FIRST, topic_id=topic_id)
        assert choose_start(read_settings(URL), start, (0, 9), saved, None) == StartOffset(7, 5)
    unknown = replace(saved, topic_id="")
    assert choose_start(read_settings(URL), replace(FIRST, topic_id="now"), (0, 9), unknown, None) == StartOffset(7, 5)


def make_parts(values: list[bytes]) -> AssignedPartitions[OutcomeBatch]:
    parts: AssignedPartitions[OutcomeBatch] = AssignedPartitions()
    parts.begin(3, Position("kafka", "kafka://outcomes/3", 10, 2), 20, stops=True)
    messages = Messages(3, [10 + 2 * i for i in range(len(values))], [None] * len(values), list(values), [])
    parts.add(3, MessageDecoder(OUTCOMES).decode(messages), 10 + 2 * len(values), len(values))
    return parts


def test_faults_are_handed_out_with_what_stands_behind_them() -> None:
    good = b'{"url": "https://a.example/", "fetched_at": 1}'
    frame = encode_frame(OutcomeBatch(["https://a.example/"], [1.0]))
    parts = make_parts([b"?", good, frame, b"?", b"?"])
    seen = []
    while (pending := parts.take()) is not None:
        position = parts.positions()["kafka://outcomes/3"]
        seen.append(
            (position.offset, position.records, [one.offset for one in pending.rejected], pending.decoded is None)
        )
    assert seen == [(13, 4, [10], False), (15, 5, [], False), (20, 7, [16, 18], True)]
    assert parts.are_done()


@pytest.mark.parametrize("at", [0, -5, -0.0])
def test_times_that_are_not_above_0_are_rejected(at: float) -> None:
    event = {"url": "https://a.example/", "fetched_at": at}
    frame = encode_frame(OutcomeBatch(["https://a.example/"], [at]))
    parts = make_parts([frame, json.dumps(event).encode(), msgspec.msgpack.encode(event)])
    pending = parts.take()
    assert pending is not None
    assert pending.decoded is None
    assert [one.fault.field for one in pending.rejected] == ["fetched_at"] * 3


def test_what_waits_of_a_partition_goes_with_it() -> None:
    parts = make_parts([b'{"url": "https://a.example/", "fetched_at": 1}'])
    assert not parts.are_done()
    assert parts.drop(3) == Position("kafka", "kafka://outcomes/3", 10, 2)
    assert parts.take() is None
    assert parts.positions() == {}
    assert parts.drop(3) is None


def test_rewound_it_stands_where_it_was_handed_out() -> None:
    parts = make_parts([b'{"url": "https://a.example/", "fetched_at": 1}'])
    parts.rewind()
    assert parts.take() is None
    assert parts[3].read == parts[3].delivered == Position("kafka", "kafka://outcomes/3", 10, 2)
    parts.advance(3, 15)
    assert parts.positions()["kafka://outcomes/3"].offset == 15


@pytest.mark.parametrize("rows", [1, 7, 50, 1_000])
def test_frames_are_cut_by_rows(rows: int) -> None:
    outcomes = make_outcomes(50)
    frames = cut_frames(OutcomeBatch.from_outcomes(outcomes), rows)
    assert [one for frame in frames for one in frame] == outcomes
    assert all(len(frame) == rows for frame in frames[:-1])
    assert 0 < len(frames[-1]) <= rows


def test_frames_are_cut_by_bytes() -> None:
    urls = [f"https://a.example/{i}/".ljust(8_000, "x") for i in range(200)]
    batch = OutcomeBatch(urls, np.arange(200.0))
    frames = cut_frames(batch, 1_000)
    assert [one for frame in frames for one in frame] == list(batch)
    assert len(frames) == 4
    assert max(len(encode_frame(frame)) for frame in frames) < 500_000


def test_frames_are_cut_by_the_bytes_of_all_texts() -> None:
    urls = [f"https://a.example/{i}" for i in range(200)]
    batch = OutcomeBatch(urls, np.arange(200.0), etag=["e" * 4_000] * 200, moved_to=["m" * 4_000] * 200)
    frames = cut_frames(batch, 1_000)
    assert [one for frame in frames for one in frame] == list(batch)
    assert len(frames) == 4
    assert max(len(encode_frame(frame)) for frame in frames) < 500_000


def test_pages_are_published_with_their_validators(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[bytes] = []

    class Kept:
        def send(self, _topic: str, value: bytes, _key: bytes) -> None:
            sent.append(value)

    monkeypatch.setattr(sink, "open_producer", lambda _: Kept())
    scheduler = Scheduler(max_ahead=None)
    scheduler.observe([Outcome("https://a.example/", 1.0, etag='"1"'), Outcome("https://b.example/", 1.0)])
    sink.KafkaSink(read_settings(URL)).send_batch(scheduler.next_batch(2, now=86_400.0))
    pages = {page["url"]: page for page in map(json.loads, sent)}
    assert pages["https://a.example/"]["etag"] == '"1"'
    assert not {"etag", "last_modified"} & pages["https://b.example/"].keys()
    assert "last_modified" not in pages["https://a.example/"]


def test_messages_before_an_offset() -> None:
    messages = Messages(0, [3, 5, 9], [b"a", None, b"c"], [b"1", b"2", None], [])
    assert messages.before(10) is messages
    cut = messages.before(9)
    assert (cut.offsets, cut.keys, cut.values, cut.headers) == ([3, 5], [b"a", None], [b"1", b"2"], [])
    assert len(messages.before(3)) == 0
