"""Messages of a megabyte that are made to burst a reader: counted, kept aside, and the stream goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
import pytest

from streamsched.connectors import encode_frame, open_source
from streamsched.outcomes import OutcomeBatch
from tests.integration.kafka.topics import Topic, encode_event
from tests.support.command_line import start
from tests.support.crawl_outcomes import read_out

SIZE = 1_000_000
URL = "https://a.example/"
_EVENT = b'{"url": "https://a.example/", "fetched_at": 1, '
_MAP = msgspec.msgpack.encode({"url": URL, "fetched_at": 1})[1:]  # its fields
RANDOM = Random(3)
REJECTED = {
    "random bytes": RANDOM.randbytes(SIZE),
    "random bytes that begin like a map": b"\x8f" + RANDOM.randbytes(SIZE),
    "random bytes that begin like JSON": b"{" + RANDOM.randbytes(SIZE),
    "lists without an end": b"[" * SIZE,
    "maps without an end": b'{"a":' * (SIZE // 5),
    "deep JSON in an unknown field": _EVENT + b'"x": ' + b"[" * (SIZE // 2) + b"]" * (SIZE // 2) + b"}",
    "deep JSON in a known field": b'{"url": ' + b"[" * (SIZE // 2) + b"]" * (SIZE // 2) + b', "fetched_at": 1}',
    "deep msgpack": b"\x81\xa1a" * (SIZE // 3),
    "deep msgpack in an unknown field": b"\x83" + _MAP + b"\xa1x" + b"\x91" * SIZE + b"\x01",
    "deep msgpack in a frame": b"\x83\xa1v\x01\xa3url" + b"\x91" * SIZE + b"\x01",
    "a map that says it is endless": b"\xdf\xff\xff\xff\xff" + b"\x01" * SIZE,
    "a huge URL": msgspec.json.encode({"url": URL + "x" * SIZE, "fetched_at": 1}),
    "a huge URL in msgpack": encode_event(URL + "x" * SIZE, 1.0),
    "a huge URL in a frame": encode_frame(OutcomeBatch([URL + "x" * SIZE], [1.0])),
    "a huge ETag": encode_event(URL, 1.0, etag="x" * SIZE),
    "a huge number": _EVENT[:-3] + b"1" * SIZE + b"}",
    "a huge exponent": _EVENT[:-2] + b"e" + b"9" * SIZE + b"}",
    "blanks": b" " * SIZE,
}
READ = {  # what is in fields that nobody reads
    "a huge unknown field": _EVENT + b'"x": "' + b"y" * SIZE + b'"}',
    "many unknown fields": _EVENT + b",".join(b'"%07d": 1' % i for i in range(SIZE // 13)) + b"}",
    "many values in an unknown field": b"\x83" + _MAP + b"\xa1x\xdd" + SIZE.to_bytes(4, "big") + b"\x90" * SIZE,
}
ROUNDS = 16
MOST_BYTES = 300 << 20  # more than what is fetched ahead, less than all messages


def test_each_is_counted_and_kept_and_what_stands_beside_it_is_read(
    make_topic: Callable[..., Topic], tmp_path: Path
) -> None:
    topic, letters, file = make_topic(), make_topic(), tmp_path / "dead.jsonl"
    poison = [*REJECTED.values(), *READ.values()]
    for i, value in enumerate(poison):
        topic.send([encode_event(URL, 10.0 + i), value], partition=0)
    with open_source(topic.url(until_end="true", dead_letters=letters.name), dead_letters=file) as source:
        times = [one.fetched_at for one in read_out(source)]
        assert source.rejected == len(REJECTED)
        assert source.positions[f"kafka://{topic.name}/0"].records == 2 * len(poison)
    assert [at for at in times if at >= 10.0] == [10.0 + i for i in range(len(poison))]
    assert times.count(1.0) == len(READ)
    offsets = [2 * i + 1 for i in range(len(REJECTED))]
    kept = {int(headers["offset"]): (value, int(headers.get("bytes", "0"))) for _, value, headers in letters.messages()}
    assert sorted(kept) == offsets
    for (value, size), whole in zip((kept[offset] for offset in offsets), REJECTED.values(), strict=True):
        assert value == whole[: len(value)]
        assert size == len(whole) > len(value) >= 900_000
    assert [json.loads(line)["offset"] for line in file.read_text().splitlines()] == offsets


@pytest.mark.cases(ordinary=0, whole=1)
@pytest.mark.usefixtures("real", "rng")
def test_memory_is_bounded(make_topic: Callable[..., Topic], tmp_path: Path) -> None:
    """A run takes no more for a topic of poison than for one message of each kind, beside a bounded buffer."""
    largest, poison = [], [*REJECTED.values(), *READ.values()]
    for rounds in (1, ROUNDS):
        topic, letters = make_topic(), make_topic()
        with topic.producing() as producer:
            for _ in range(rounds):
                for i, value in enumerate(poison):
                    producer.send(topic.name, value, partition=i % 4)
                producer.flush()
        url = topic.url(until_end="true", dead_letters=letters.name)
        process = start("run", "--source", url, "--state", tmp_path / topic.name, "--json", "--log-level", "error")
        assert process.stdout is not None
        counts = json.loads(process.stdout.read())
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        process.communicate()
        assert (process.returncode, counts["rejected"]) == (0, rounds * len(REJECTED))
        largest.append(usage.ru_maxrss * 1024)
    assert largest[1] - largest[0] < MOST_BYTES < len(poison) * SIZE * ROUNDS, largest
