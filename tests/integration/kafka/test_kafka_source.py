"""A topic read from front to back and resumed, by either client."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from streamsched.connectors import Position, Source, encode_frame, open_source
from streamsched.connectors.kafka import KafkaSource
from streamsched.connectors.kafka.message_keys import choose_partitions, host_keys
from streamsched.errors import SettingsError, SourceError
from streamsched.outcomes import Outcome, OutcomeBatch
from streamsched.scheduler.scheduler import Scheduler
from tests.integration.kafka.topics import Topic, encode_event, wait_for
from tests.support.crawl_outcomes import make_outcomes, put, read_out

OUTCOMES = make_outcomes(50)
BATCH = OutcomeBatch.from_outcomes(OUTCOMES)


def by_time(outcomes: list[Outcome]) -> list[Outcome]:
    return sorted(outcomes, key=lambda outcome: outcome.fetched_at)


@pytest.mark.parametrize("shape", ["frames", "msgpack", "json"])
def test_what_a_sink_sends_is_what_a_source_reads(topic: Topic, shape: str) -> None:
    with topic.open_sink() as sink:
        sink.send_outcomes(BATCH, shape, 7)
    with topic.open(until_end="true") as source:
        assert isinstance(source, Source)
        found = read_out(source)
        assert by_time(found) == OUTCOMES
        assert (source.rejected, source.misplaced, source.unkeyed) == (0, 0, 50 if shape == "frames" else 0)
        messages = sum(position.offset for position in source.positions.values())
        assert 7 < messages < 12 if shape == "frames" else messages == 50
        assert source.lag == dict.fromkeys(source.positions, 0)


def test_all_messages_of_a_host_are_in_the_partition_of_its_key(topic: Topic) -> None:
    with topic.open_sink() as sink:
        sink.send_outcomes(BATCH, "frames")
        sink.send_outcomes(BATCH, "msgpack")
    with topic.open(until_end="true") as source:
        for delivery in source:
            hosts = host_keys(delivery.records.urls)
            number = int(delivery.position.path.rpartition("/")[2])
            assert set(choose_partitions(hosts, 4).tolist()) == {number}


def test_open_source_takes_a_topic_for_what_it_is(topic: Topic) -> None:
    topic.send([encode_event("https://a.example/", 1.0)], partition=2)
    with open_source(topic.url(until_end="true")) as source:
        assert isinstance(source, KafkaSource)
        assert source.format == "kafka"
        (delivery,) = source
        assert delivery.position == Position("kafka", f"kafka://{topic.name}/2", 1, 1)


def test_formats_may_be_mixed_and_order_within_a_partition_stays(topic: Topic) -> None:
    kinds: list[Callable[[Outcome], bytes]] = [
        lambda one: encode_frame(OutcomeBatch.from_outcomes([one])),
        lambda one: encode_event(one.url, one.fetched_at),
        lambda one: json.dumps({"url": one.url, "fetched_at": one.fetched_at}, indent=1).encode(),
    ]
    plain = [Outcome(one.url, one.fetched_at) for one in OUTCOMES]
    topic.send([kinds[i // 3 % 3](one) for i, one in enumerate(plain)], partition=1)
    assert topic.read() == plain


def test_resuming_after_any_delivery_gives_the_rest(topic: Topic) -> None:
    topic.send(
        [encode_event(one.url, one.fetched_at) if i % 5 else b"?" for i, one in enumerate(OUTCOMES)], partition=3
    )
    with open_source(topic.url(until_end="true", partitions=3), batch=4) as source:
        steps = [(delivery, source.rejected) for delivery in source]
        assert source.rejected == 10
    assert len(steps) >= 50 // 4
    for i in (0, 4, len(steps) - 1):
        delivery, rejected = steps[i]
        position = Position.from_json(json.loads(json.dumps(delivery.position.to_json())))
        with open_source(topic.url(until_end="true", partitions=3), position=position) as again:
            rest = [one for later, _ in steps[i + 1 :] for one in later.records]
            assert read_out(again) == rest
            assert again.rejected == 10 - rejected
            assert isinstance(again, KafkaSource)
            assert again.positions[delivery.position.path] == Position("kafka", delivery.position.path, 50, 50)


def test_seeking_in_an_open_source(topic: Topic) -> None:
    topic.send([encode_event(one.url, one.fetched_at) for one in OUTCOMES], partition=0)
    with topic.open(until_end="true") as source:
        found = read_out(source)
        source.seek(Position("kafka", f"kafka://{topic.name}/0", 40, 40))
        assert read_out(source) == found[40:]
        assert list(source) == []


def test_positions_move_past_what_was_rejected(topic: Topic) -> None:
    topic.send([b"?", b"", b"\x81"], partition=1)
    with topic.open(until_end="true") as source:
        assert list(source) == []
        assert source.rejected == 3
        assert source.positions[f"kafka://{topic.name}/1"].offset == 3
        assert [(one.unit, one.offset, one.path) for one in source.rejections] == [
            ("message", offset, f"kafka://{topic.name}/1") for offset in range(3)
        ]


def test_end_is_where_it_was_at_the_start(topic: Topic) -> None:
    topic.send([encode_event("https://a.example/1", 1.0)], partition=0)
    with topic.open(until_end="true") as source:
        first = next(source)
        topic.send([encode_event("https://a.example/2", 2.0)], partition=0)
        assert [*first.records, *read_out(source)] == [Outcome("https://a.example/1", 1.0)]
    assert len(topic.read()) == 2


def test_without_an_end_a_source_goes_on_and_can_be_stopped(topic: Topic) -> None:
    with topic.open() as source:
        assert source.poll(0.01) is None
        topic.send([encode_event("https://a.example/1", 1.0)], partition=0)
        assert len(wait_for(source, 1)) == 1
        topic.send([encode_event("https://a.example/2", 2.0)], partition=0)
        assert [one.url for one in next(source).records] == ["https://a.example/2"]
        source.stop()
        assert list(source) == []


def test_paused_it_fetches_nothing(topic: Topic) -> None:
    with topic.open() as source:
        assert source.poll(0.01) is None
        source.pause()
        topic.send([encode_event("https://a.example/1", 1.0)], partition=0)
        assert source.poll(0.3) is None
        source.resume()
        assert len(wait_for(source, 1)) == 1


def test_lag_counts_what_is_not_read_yet(topic: Topic) -> None:
    topic.send([encode_event(one.url, one.fetched_at) for one in OUTCOMES], partition=2)
    with open_source(topic.url(partitions=2), batch=20) as source:
        assert isinstance(source, KafkaSource)
        next(source)
        assert source.lag == {f"kafka://{topic.name}/2": 30}


def test_start_latest_reads_what_comes(topic: Topic) -> None:
    topic.send([encode_event("https://a.example/1", 1.0)], partition=0)
    with topic.open(start="latest") as source:
        assert source.poll(0.01) is None
        topic.send([encode_event("https://a.example/2", 2.0)], partition=0)
        assert [one.url for one in wait_for(source, 1)] == ["https://a.example/2"]


def test_keys_that_are_not_the_host_are_counted_and_delivered(topic: Topic) -> None:
    urls = ["https://A.example/1", "https://b.example:443/2", "http://a.example:8080/3"]
    values = [encode_event(url, 1.0) for url in urls]
    for value, key in zip(values, (b"a.example", b"b.example", b"a.example:8080"), strict=True):
        topic.send([value], key)
    topic.send(values, b"other.example", partition=0)
    topic.send([b"?", *values], None, partition=1)
    frame = encode_frame(OutcomeBatch(urls, np.ones(3)))
    topic.send([frame], b"a.example", partition=2)
    with topic.open(until_end="true") as source:
        assert len(read_out(source)) == 12
        assert (source.misplaced, source.unkeyed, source.rejected) == (3 + 2, 3, 1)


def test_versions_that_are_not_known_are_refused(topic: Topic) -> None:
    good = encode_event("https://a.example/", 1.0)
    topic.send([good], headers=[("schema-version", b"1"), ("other", b"x")], partition=0)
    topic.send([good], headers=[("schema-version", b"2")], partition=0)
    topic.send(
        [encode_event("https://a.example/", 2.0, v=1), encode_event("https://a.example/", 2.0, v=7)], partition=0
    )
    topic.send([b'{"url": "https://a.example/", "fetched_at": 3, "v": 8}'], partition=0)
    topic.send([msgspec.msgpack.encode({"v": 9, "url": b"", "url_offsets": b"\0" * 4, "fetched_at": b""})], partition=0)
    with topic.open(until_end="true") as source:
        assert [one.fetched_at for one in read_out(source)] == [1.0, 2.0]
        assert [(one.offset, one.field, one.found) for one in source.rejections] == [
            (1, "schema-version", "'2'"),
            (3, "v", "7"),
            (4, "v", "8"),
            (5, "v", "9"),
        ]
        assert "version 1" in source.rejections[0].reason


def test_a_source_may_stop_at_a_version_that_is_not_known(topic: Topic) -> None:
    good = encode_event("https://a.example/", 1.0)
    topic.send([good, b"?", encode_event("https://a.example/", 2.0, v=7), good], partition=0)
    with topic.open(until_end="true", versions="stop") as source:
        assert len(next(source).records) == 1
        with pytest.raises(SourceError, match=r"v: expected schema version 1, found 7: update"):
            next(source)
        with pytest.raises(SourceError, match="found 7") as raised:  # and so it stays
            next(source)
        assert (raised.value.path, raised.value.offset) == (f"kafka://{topic.name}/0", 2)
        assert source.rejected == 1
        assert source.positions[f"kafka://{topic.name}/0"].offset == 2


def test_a_source_may_stop_at_its_very_first_message(topic: Topic) -> None:
    topic.send([encode_event("https://a.example/", 2.0, v=7)], partition=0)
    with topic.open(until_end="true", versions="stop") as source:
        with pytest.raises(SourceError, match="found 7"):
            next(source)
        topic.send([encode_event("https://a.example/", 3.0)], partition=0)
    with topic.open(versions="stop") as source:  # a position behind it goes on
        source.seek(Position("kafka", f"kafka://{topic.name}/0", 1, 1))
        assert [one.fetched_at for one in wait_for(source, 1)] == [3.0]


def test_a_topic_that_is_not_there(topic: Topic) -> None:
    if not topic.address.is_real:
        pytest.skip("the mock makes every topic")
    with pytest.raises(SourceError, match="no such topic"):
        replace(topic, name="t-nowhere").open()


def test_partitions_that_are_not_there(topic: Topic) -> None:
    with pytest.raises(SettingsError, match="partitions: expected some of the topic's, 0 to 3"):
        topic.open(partitions=4)


def test_positions_of_other_places_are_refused(topic: Topic) -> None:
    with topic.open() as source:
        for kind, path in (("kafka", "kafka://other/0"), ("jsonl", f"kafka://{topic.name}/0")):
            with pytest.raises(SourceError, match="belongs to"):
                source.seek(Position(kind, path, 0, 0))
        assert source.poll(0.01) is None
        with pytest.raises(SourceError, match="the log ends at 0"):
            source.seek(Position("kafka", f"kafka://{topic.name}/0", 1, 1))


def test_a_source_may_be_closed_right_after_a_seek(topic: Topic) -> None:
    topic.send([encode_event("https://a.example/", 1.0 + i) for i in range(9)], partition=0)
    for offset in range(5):
        with topic.open() as source:
            wait_for(source, 9)
            source.seek(Position("kafka", f"kafka://{topic.name}/0", offset, offset))
        with pytest.raises(SourceError, match="closed"):
            next(source)


def test_closed_source_says_so(topic: Topic) -> None:
    source = topic.open()
    source.close()
    source.close()
    with pytest.raises(SourceError, match="closed"):
        next(source)
    with pytest.raises(SourceError, match="closed"):
        source.seek(Position("kafka", f"kafka://{topic.name}/0", 0, 0))


def test_the_state_is_that_of_the_same_frames_from_a_file(topic: Topic, tmp_path: Path) -> None:
    urls = [f"https://host{i % 9}.example/page/{i % 300}" for i in range(2_000)]
    batch = OutcomeBatch(urls, 1.7e9 + np.arange(2_000.0), changed=np.arange(2_000) % 3 == 0)
    frames = [encode_frame(batch.take(np.arange(start, start + 100))) for start in range(0, 2_000, 100)]
    topic.send(frames, partition=0)
    states = []
    for place in (put(tmp_path / "frames.msgpack", b"".join(frames)), topic.url(until_end="true")):
        states.append(Scheduler())
        with open_source(place) as source:
            assert sum(states[-1].observe(delivery.records).applied for delivery in source) == 2_000
    assert states[0].digest() == states[1].digest()
