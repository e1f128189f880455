"""Messages of topics: kernels against their twins, and no byte that is lost or read twice."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2

from streamsched.connectors import encode_frame
from streamsched.connectors.kafka.clients.protocol import Messages
from streamsched.connectors.kafka.decoding import MessageDecoder, classify_messages
from streamsched.connectors.kafka.message_keys import choose_partitions, host_keys, not_equal
from streamsched.connectors.records import OUTCOMES
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import Outcome, OutcomeBatch
from tests.reference import message_keys
from tests.support.crawl_outcomes import outcomes

LIMIT = 1 << 10
DECODER = MessageDecoder(OUTCOMES)

texts = st.lists(st.text(st.sampled_from("aZé:/@?#.048htps"), max_size=20) | st.text(max_size=8))
urls = st.lists(
    st.builds(
        "{}{}{}{}".format,
        st.sampled_from(["http://", "HTTPS://", "ftp://", "", "//"]),
        st.sampled_from(["", "user@", "a:b@c@"]),
        st.sampled_from(["A.example", "b.example:80", "b.example:443", ":80", "", "é.example:8080"]),
        st.sampled_from(["", "/", "/a:443", "?q=//", "#@"]),
    )
)


def to_map(outcome: Outcome) -> dict[str, object]:
    return {
        field: getattr(outcome, field) for field in outcome.__struct_fields__ if getattr(outcome, field) is not None
    }


whole = (
    st.builds(lambda one: msgspec.msgpack.encode(to_map(one)), outcomes)
    | st.builds(lambda one: msgspec.json.encode(to_map(one)), outcomes)
    | st.builds(lambda many: encode_frame(OutcomeBatch.from_outcomes(many)), st.lists(outcomes, max_size=3))
)
broken = st.builds(lambda value, at: value[: at % (len(value) + 1)], whole, st.integers(0)) | st.binary(max_size=12)
values = st.lists(whole | broken | st.none(), max_size=40)


@given(urls | texts)
def test_hosts(found: list[str]) -> None:
    assert list(host_keys(PackedUrls.pack(found))) == [message_keys.host_of(url) for url in found]


@given(st.lists(st.binary(max_size=20)), st.integers(1, 1000))
def test_partitions_are_those_of_kafkas_own_clients(keys: list[bytes], count: int) -> None:
    expected = [(murmur2(key) & 0x7FFFFFFF) % count for key in keys]
    assert choose_partitions(PackedUrls.pack_bytes(keys), count).tolist() == expected


@given(st.lists(st.tuples(st.binary(max_size=4), st.binary(max_size=4))))
def test_what_differs(pairs: list[tuple[bytes, bytes]]) -> None:
    left, right = PackedUrls.pack_bytes([pair[0] for pair in pairs]), PackedUrls.pack_bytes([pair[1] for pair in pairs])
    assert not_equal(left, right).tolist() == [pair[0] != pair[1] for pair in pairs]


@given(st.lists(whole | broken, max_size=20))
def test_what_a_message_is(found: list[bytes]) -> None:
    assert classify_messages(found, LIMIT).tolist() == [message_keys.classify_message(value, LIMIT) for value in found]


@given(values, st.sampled_from([1, 3, 10_000]))
def test_messages_decoded_together_equal_those_decoded_alone(found: list[bytes | None], rows: int) -> None:
    def read(offsets: list[int]) -> Messages:
        own = [found[i] for i in offsets]
        return Messages(0, [7 * i for i in offsets], [None] * len(own), own, [])

    together = DECODER.decode(read(list(range(len(found)))), rows)
    apart = [DECODER.decode(read([i])) for i in range(len(found))]
    assert [one for batch in together.batches for one in batch.records] == [
        one for result in apart for batch in result.batches for one in batch.records
    ]
    assert sorted(together.rejected) == sorted(message for result in apart for message in result.rejected)
    offsets = [batch.offset for batch in together.batches]
    assert offsets == sorted(set(offsets))
    assert all(batch.unkeyed == len(batch.records) and batch.misplaced == 0 for batch in together.batches)
    # A message is delivered, rejected, or a frame without rows.
    rejected = {message.offset for message in together.rejected}
    for i, result in enumerate(apart):
        empty = not result.batches and 7 * i not in rejected
        assert not empty or message_keys.classify_message(found[i] or b"", 1 << 26) == 2


@given(st.lists(st.lists(outcomes, max_size=4), min_size=1, max_size=5))
def test_joining_batches(batches: list[list[Outcome]]) -> None:
    joined = OUTCOMES.join([OutcomeBatch.from_outcomes(batch) for batch in batches])
    assert list(joined) == [one for batch in batches for one in batch]
