"""Poison: what is rejected goes to a topic of its own, and everything sent is accounted for."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from random import Random
from uuid import uuid4

import msgspec
import numpy as np
import pytest

from streamsched.api.views import Observed
from streamsched.connectors import encode_frame, open_source
from streamsched.connectors.kafka import open_sink
from streamsched.errors import SourceError
from streamsched.outcomes import OutcomeBatch
from streamsched.scheduler.scheduler import Scheduler
from tests.integration.kafka.broker import Address
from tests.integration.kafka.topics import Topic, encode_event
from tests.support.cases import how_many
from tests.support.crawl_outcomes import read_out

FUZZED = how_many(20_000, 100_000)


def test_a_rejected_message_goes_to_the_dead_letters(topic: Topic, tmp_path: Path) -> None:
    letters = replace(topic, name=f"{topic.name}-dead")
    letters.create(4, {})
    rows = OutcomeBatch(["https://a.example/", "https://b.example/"], [1.0, np.nan])
    bad = [b"?", encode_event("https://a.example/", "now"), b'{"url": 1}', encode_frame(rows), None]
    topic.send([encode_event("https://a.example/", 1.0), *bad], b"a.example", partition=2)
    file = tmp_path / "dead.jsonl"
    url = topic.url(until_end="true", dead_letters=letters.name)
    with open_source(url, dead_letters=file) as source:
        assert len(read_out(source)) == 2
        assert source.rejected == 5
    found = sorted(letters.messages(), key=lambda letter: letter[2]["offset"])
    assert [(headers["topic"], headers["partition"], headers["offset"]) for _, _, headers in found] == [
        (topic.name, "2", str(offset)) for offset in range(1, 6)
    ]
    assert [value for _, value, _ in found[:3]] == bad[:3]
    assert {key for key, _, _ in found} == {b"a.example"}
    assert [headers["field"] for _, _, headers in found] == ["record", "fetched_at", "url", "fetched_at", "record"]
    assert all("expected" in headers["reason"] for _, _, headers in found)
    assert len(msgspec.msgpack.decode(found[3][1])["fetched_at"]) == 8  # the bad row alone
    assert found[4][1] == b""
    assert [json.loads(line)["offset"] for line in file.read_text().splitlines()] == [1, 2, 3, 4, 5]


def test_a_letter_too_large_for_a_message_is_cut(topic: Topic) -> None:
    letters = replace(topic, name=f"{topic.name}-dead")
    letters.create(4, {})
    topic.send([b"?" * 1_000_000], partition=0)
    with topic.open(until_end="true", dead_letters=letters.name) as source:
        assert list(source) == []
    ((_, value, headers),) = letters.messages()
    assert (len(value), headers["bytes"]) == (900_000, "1000000")


def test_letters_that_cannot_be_stored_stop_the_source(topic: Topic) -> None:
    if not topic.address.is_real:
        pytest.skip("the mock takes any name for a topic")
    topic.send([encode_event("https://a.example/", 0.5), b"?", encode_event("https://a.example/", 1.0)], partition=0)
    with topic.open(until_end="true", dead_letters="not%20a%20topic", patience="2s") as source:
        for _ in range(2):
            with pytest.raises(SourceError, match="not a topic"):
                list(source)
        assert source.positions[f"kafka://{topic.name}/0"].offset == 0


def spoil(random: Random, value: bytes) -> bytes:
    """`value` with bytes changed, cut, doubled or put in, or something else altogether."""
    raw = bytearray(value)
    for _ in range(random.randint(1, 3)):
        at = random.randint(0, len(raw))
        match random.randrange(6):
            case 0 if at < len(raw):
                raw[at] = random.randrange(256)
            case 1:
                del raw[at:]
            case 2:
                raw[at:at] = random.randbytes(8)
            case 3:
                raw += raw[at:]
            case 4:
                del raw[at : at + random.randrange(5)]
            case _:
                raw = bytearray(random.randbytes(at))
    return bytes(raw)


def make_fuzz(count: int) -> list[bytes]:
    """Messages of every kind, most of them spoilt."""
    random = Random(5)
    found = []
    for i in range(count):
        url, at = f"https://host{i % 7}.example/page/{i % 500}", 1.0 + i
        event = {"url": url, "fetched_at": at, "changed": bool(i % 3), "status": 200, "v": 1}
        match i % 3:
            case 0:
                value = msgspec.msgpack.encode(event)
            case 1:
                value = msgspec.json.encode(event)
            case _:
                value = encode_frame(OutcomeBatch([url], [at], changed=[True]))
        found.append(spoil(random, value) if i % 4 else value)
    return found


@pytest.fixture(scope="module")
def fuzzed(address: Address) -> Topic:
    """A topic of fuzzed messages, filled once for both clients."""
    topic = Topic(address, "kafka-python" if find_spec("confluent_kafka") is None else "confluent", f"t-{uuid4().hex}")
    topic.create(4, {})
    with open_sink(topic.url()) as sink:
        for i, value in enumerate(make_fuzz(FUZZED)):
            sink._producer.send(topic.name, value, b"host%d.example" % (i % 7), partition=i % 4)
    return topic


@pytest.mark.longer
def test_of_fuzzed_messages_each_is_accounted_for(fuzzed: Topic, client: str) -> None:
    scheduler, total, rows = Scheduler(schemes=None), Observed(), 0  # what is no URL is the scheduler's to refuse
    with replace(fuzzed, client=client).open(until_end="true") as source:
        for delivery in source:
            total += scheduler.observe(delivery.records)
            rows += len(delivery.records)
        assert sum(position.records for position in source.positions.values()) == FUZZED
        # A spoilt frame of one row may have become one of none or of several, so rows are counted, not messages.
        assert total.applied + total.duplicates + total.late + total.rejected == rows
        assert total.rejected == 0
        assert abs(rows + source.rejected - FUZZED) < FUZZED // 1_000
        assert FUZZED // 4 < rows < FUZZED // 2
