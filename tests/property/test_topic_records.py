"""Records of a calls topic that somebody has changed: read as they are, or refused with words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from streamsched import Scheduler
from streamsched.cluster import topic_log
from streamsched.cluster.topic_log import CallsTopic, ImageRecord, LoggedShard, read_shard
from streamsched.connectors.kafka.kafka_settings import KafkaSettings
from streamsched.errors import SnapshotError
from streamsched.persistence.call_codec import encode_call
from streamsched.scheduler.recovered_state import replay

TOPIC = CallsTopic(KafkaSettings("127.0.0.1:1", "calls"), "crawl", 4, "id")
IMAGE = ImageRecord(group="crawl", partition=1, partitions=4, sequence=2, positions={}, files=[], saved_s=1.0)
NOW = 1_790_000_000.0


@dataclass(frozen=True)
class Message:
    """A message as the client gives it."""

    kind: bytes
    given_key: bytes
    given_value: bytes
    at: int = 0

    def headers(self) -> list[tuple[str, bytes]]:
        return [("streamsched", self.kind)]

    def key(self) -> bytes:
        return self.given_key

    def value(self) -> bytes:
        return self.given_value

    def offset(self) -> int:
        return self.at


def whole_log() -> list[Message]:
    """An image that includes two calls, and five calls after it, one of them in parts."""
    calls = [encode_call({"call": "block", "host": f"h{i}.example", "until": NOW}) for i in range(5)]
    messages = [Message(b"image", b"", msgspec.json.encode(IMAGE))]
    for number, payload in enumerate(calls, 3):
        key = topic_log._KEY.pack(number, crc32c(payload))
        cuts = [0, 9, 12] if number == 5 else [0]
        pieces = [payload[start:end] for start, end in zip(cuts, [*cuts[1:], len(payload)], strict=True)]
        messages += [Message(b"part", key, piece) for piece in pieces[:-1]]
        messages.append(Message(b"call", key, pieces[-1]))
    return messages


CHANGES = st.lists(
    st.tuples(
        st.integers(0, 7),
        st.one_of(
            st.just("drop"),
            st.just("again"),
            st.integers(0, 7),  # changes places with this one
            st.sampled_from([b"image", b"part", b"call", b"", b"other"]),
            st.tuples(st.sampled_from(["given_key", "given_value"]), st.binary(max_size=40)),
            st.tuples(st.integers(0, 400), st.integers(0, 7)),  # flips a bit of the value
        ),
    ),
    max_size=4,
)


def changed(messages: list[Message], changes: list[tuple[int, Any]]) -> list[Message]:
    for at, change in changes:
        if at >= len(messages):
            continue
        one = messages[at]
        if change == "drop":
            del messages[at]
        elif change == "again":
            messages.insert(at, one)
        elif isinstance(change, int):
            other = change % len(messages)
            messages[at], messages[other] = messages[other], one
        elif isinstance(change, bytes):
            messages[at] = replace(one, kind=change)
        elif isinstance(change[0], str):
            messages[at] = replace(one, **{change[0]: change[1]})
        elif one.given_value:
            value = bytearray(one.given_value)
            value[change[0] % len(value)] ^= 1 << change[1]
            messages[at] = replace(one, given_value=bytes(value))
    return [replace(one, at=at) for at, one in enumerate(messages)]


def read(messages: list[Message]) -> LoggedShard:
    def yield_all(*_: object) -> Iterator[Message]:
        yield from messages

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topic_log, "_messages", yield_all)
        return read_shard(TOPIC, 1)


def test_what_was_written_is_read() -> None:
    found = read(changed(whole_log(), []))
    assert [number for number, _ in found.calls] == [3, 4, 5, 6, 7]
    scheduler = Scheduler(threads=1)
    assert list(replay(scheduler.core, found.calls, "log")) == [3, 4, 5, 6, 7]


@given(changes=CHANGES)
def test_changed_records_are_read_or_refused(changes: list[tuple[int, Any]]) -> None:
    messages = changed(whole_log(), changes)
    try:
        found = read(messages)
        scheduler = Scheduler(threads=1)
        for _ in replay(scheduler.core, found.calls, "log"):
            pass
    except SnapshotError:
        return
    numbers = [number for number, _ in found.calls]
    assert numbers == list(range(found.sequence - len(numbers) + 1, found.sequence + 1))
    assert found.image is not None or not found.calls
    assert len(found.offsets) == len(found.calls)
    assert scheduler.core.pages.faults() == []
