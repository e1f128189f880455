"""URLs come back as they were, whatever they are, from no more bytes than they have."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from streamsched.numerics.arrays import Bytes
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.records.url_store import copy_url, is_url, keep_url, pack_urls, texts_are_sound, whole_spans
from streamsched.state.page_table import PageTable
from tests.reference.url_store import UrlStore
from tests.support.guarded_memory import fenced

LONGEST = 0xFFFF
GROUPS = st.integers(0, 2)
TAILS = st.one_of(
    st.binary(max_size=20),
    st.builds(lambda unit, size: (unit * size)[:size], st.binary(min_size=1, max_size=3), st.integers(0, LONGEST)),
)


def as_array(raw: bytes) -> Bytes:
    return np.frombuffer(raw, np.uint8)


class Stores(RuleBasedStateMachine):
    """The kernels beside their twin, and beside a list of the URLs."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[bytes] = []
        self.twin = UrlStore()
        self.text: Bytes = np.zeros(0, np.uint8)
        self.spans = np.zeros(0, np.uint64)

    @rule(group=GROUPS, tail=TAILS, like=st.integers(0, 1 << 20), share=st.integers(0, 300))
    def keep(self, group: int, tail: bytes, like: int, share: int) -> None:
        """Keep a URL that begins like an earlier one: none of it, some, or all."""
        head = self.urls[like % len(self.urls)][:share] if self.urls else b""
        url = (head + tail)[:LONGEST]
        end, anchor = len(self.twin.text), self.twin.keep(group, url)
        text = np.zeros(len(self.twin.text), np.uint8)  # no byte more than it takes
        text[:end] = self.text
        span = keep_url(text, end, anchor, as_array(b"#" + url), 1, 1 + len(url))
        self.text, self.spans = text, np.append(self.spans, np.uint64(span))
        self.urls.append(url)

    @rule(number=st.integers(0, 1 << 20), at=st.integers(0, 1 << 20), other=st.integers(1, 255))
    def compare(self, number: int, at: int, other: int) -> None:
        """Each URL is itself, and no URL of which one byte differs, or with fewer or more bytes."""
        if self.urls:
            number %= len(self.urls)
            url, span = self.urls[number], self.spans[number]
            assert is_url(self.text, span, as_array(b"#" + url + b"#"), 1, len(url))
            assert not is_url(self.text, span, as_array(url + b"/"), 0, len(url) + 1)
            if url:
                changed = bytearray(url)
                changed[at % len(url)] ^= other
                assert not is_url(self.text, span, as_array(bytes(changed)), 0, len(url))

    @invariant()
    def same_as_twin(self) -> None:
        assert self.text.tobytes() == self.twin.text
        spans = [start << 24 | shared << 16 | length for start, shared, length in self.twin.spans]
        assert self.spans.tolist() == spans

    @invariant()
    def urls_come_back(self) -> None:
        numbers = range(len(self.urls))
        assert [self.twin.read(number) for number in numbers] == self.urls
        packed = pack_urls(self.text, self.spans)
        ends = packed.offsets.tolist()
        assert packed.blob.tobytes() == b"".join(self.urls)
        assert [end - begin for begin, end in itertools.pairwise(ends)] == [len(url) for url in self.urls]
        out = np.zeros(LONGEST + 1, np.uint8)
        for number in numbers[-2:]:
            assert copy_url(self.text, self.spans[number], out, 1) == len(self.urls[number])
            assert out[1 : 1 + len(self.urls[number])].tobytes() == self.urls[number]

    @invariant()
    def they_take_no_more_than_their_bytes(self) -> None:
        assert self.text.size <= sum(map(len, self.urls))
        assert texts_are_sound(self.text, self.spans)
        starts = np.cumsum([0, *map(len, self.urls)])[:-1].tolist()
        wholes = [start << 16 | len(url) for start, url in zip(starts, self.urls, strict=True)]
        assert whole_spans(self.spans).tolist() == wholes


TestStores = Stores.TestCase


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 3), st.text("xyz?#/", max_size=12))),
    st.integers(0, 50),
)
def test_tables_find_and_return_their_urls(parts: list[tuple[str, int, str]], cut: int) -> None:
    """Through a rebuild after loading too, which finds the anchors again."""
    urls = list(dict.fromkeys(f"https://{host}.example/docs/{section}/{rest}" for host, section, rest in parts))
    with fenced():
        table = PageTable(86_400.0)
        for part in (urls[:cut], urls[cut:]):
            table.discover(PackedUrls.pack(part), 1.0)
            table.arrays.groups.anchors[:] = 0
            table.rebuild_index()
        assert table.find(PackedUrls.pack(urls)).tolist() == list(range(len(urls)))
        shard = table.arrays
        spans = shard.pages.traces["url_span"][: len(urls)]
        assert list(pack_urls(shard.pages.text, spans)) == urls
        assert np.count_nonzero((spans >> np.uint64(16) & np.uint64(255)) == 0) <= 2 * int(shard.corpus["groups"][0])
        assert table.faults() == []
