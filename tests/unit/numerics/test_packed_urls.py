"""Packed URLs: what packs, what is refused, and what comes back."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched import InvalidOutcome, PackedUrls
from streamsched.numerics.url_bytes import decode_spans, same_bytes

texts = st.lists(st.text(st.characters(exclude_categories=["Cs"])))


@given(texts)
def test_what_is_packed_comes_back(urls: list[str]) -> None:
    packed = PackedUrls.pack(urls)
    assert list(packed) == urls
    assert len(packed) == len(urls)
    assert packed == PackedUrls.pack(tuple(urls))
    assert packed.not_utf8().size == 0
    assert packed.offsets.tolist() == [0, *np.cumsum([len(url.encode()) for url in urls]).tolist()]


@given(texts.filter(len), st.data())
def test_taking_is_indexing(urls: list[str], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, len(urls) - 1)))
    assert list(PackedUrls.pack(urls).take(np.array(rows, np.intp))) == [urls[row] for row in rows]


def test_index_counts_from_either_end() -> None:
    packed = PackedUrls.pack(["a", "", "ä"])
    assert [packed[i] for i in (0, 1, 2, -1, -3)] == ["a", "", "ä", "ä", "a"]
    for index in (3, -4):
        with pytest.raises(IndexError, match=f"URL {index} of 3"):
            packed[index]


@pytest.mark.parametrize(
    "blob", [b"xabcd", bytearray(b"xabcd"), memoryview(b"xabcd"), np.frombuffer(b"xabcd", np.uint8)]
)
@pytest.mark.parametrize("dtype", [np.int64, np.uint32, np.uint64, np.int16])
def test_columns_of_a_producer(blob: Any, dtype: Any) -> None:
    packed = PackedUrls(blob, np.array([1, 2, 2, 4], dtype))
    assert list(packed) == ["a", "", "bc"]
    assert repr(packed) == "PackedUrls(3 URLs, 3 bytes)"
    assert packed.offsets.dtype == np.int64


@pytest.mark.parametrize(
    ("blob", "offsets"),
    [
        (np.zeros(3, np.int8), [0, 3]),
        (np.zeros((3, 1), np.uint8), [0, 3]),
        ([1, 2, 3], [0, 3]),
        ("abc", [0, 3]),
    ],
)
def test_blob_of_another_kind(blob: Any, offsets: list[int]) -> None:
    with pytest.raises(ValueError, match=r"^blob: expected bytes or uint8\[bytes\], found "):
        PackedUrls(blob, offsets)


@pytest.mark.parametrize("offsets", [[], [0.0, 3.0], [[0, 3]], 3, [True, False], ["0", "3"]])
def test_offsets_of_another_kind(offsets: Any) -> None:
    with pytest.raises(ValueError, match=r"^offsets: expected int\[n \+ 1\], found "):
        PackedUrls(b"abc", offsets)


@pytest.mark.parametrize(
    "offsets", [[-1, 3], [0, 4], [0, 2, 1], [2, 1], [4, 4], [0, 2**63 + 1], [0, 2**64 - 1], [0, 2**64 - 2, 3]]
)
def test_offsets_that_leave_the_blob_or_turn_back(offsets: list[int]) -> None:
    dtype = np.uint64 if max(offsets) > 2**62 else np.int64
    with pytest.raises(ValueError, match=r"^offsets: expected to ascend within 0 to 3, the blob's bytes$"):
        PackedUrls(b"abc", np.array(offsets, dtype))


@pytest.mark.parametrize("item", [None, 5, b"b", ["b"]])
def test_item_that_is_no_text_is_named(item: Any) -> None:
    with pytest.raises(InvalidOutcome) as caught:
        PackedUrls.pack(["a", "ä", item, item])
    assert (caught.value.record, caught.value.field, caught.value.found) == (2, "url", item)


def test_lone_surrogates_are_no_utf8() -> None:
    packed = PackedUrls.pack(["a", "ä", "https://a.example/\ud800", "\ud83d\ude00", "b"])
    assert packed.not_utf8().tolist() == [2, 3]
    assert (packed[1], packed[4]) == ("ä", "b")


def test_one_str_is_no_sequence_of_urls() -> None:
    with pytest.raises(TypeError, match=r"urls: .*'https://a\.example/'"):
        PackedUrls.pack("https://a.example/")


def test_bytes_that_are_not_utf8_are_named_and_shown() -> None:
    packed = PackedUrls(b"a\xc3\xa4\xc3\xed\xa0\x80\xf4\x90\x80\x80", [0, 1, 3, 4, 7, 11])
    assert packed.not_utf8().tolist() == [2, 3, 4]
    assert packed[2] == "\ufffd"
    assert list(packed)[:2] == ["a", "ä"]


def test_character_cut_between_two_urls_is_in_neither() -> None:
    assert PackedUrls("ä".encode(), [0, 1, 2]).not_utf8().tolist() == [0, 1]


def test_nothing_packs_to_nothing() -> None:
    assert list(PackedUrls.pack([])) == list(PackedUrls(b"", [0])) == []
    assert list(PackedUrls.pack(["", ""])) == ["", ""]
    assert PackedUrls.pack([]).take(np.empty(0, np.intp)) == PackedUrls.pack([])


def test_packed_urls_compare_by_their_texts() -> None:
    packed = PackedUrls(b"xab", [1, 2, 3])
    assert packed == PackedUrls.pack(["a", "b"])
    assert packed != PackedUrls.pack(["ab"])
    assert packed != ["a", "b"]
    with pytest.raises(TypeError, match="unhashable"):
        hash(packed)


@given(st.binary(max_size=40), st.integers(0, 39), st.integers(0, 5))
def test_bytes_are_the_same_where_every_one_is(raw: bytes, place: int, shift: int) -> None:
    left = np.frombuffer(raw + b"l" * 8, np.uint8)
    right = np.frombuffer(b"r" * shift + raw + b"r" * 8, np.uint8).copy()
    assert same_bytes(left, 0, right, shift, len(raw))
    if place < len(raw):
        right[shift + place] ^= 1
        assert not same_bytes(left, 0, right, shift, len(raw))
        assert same_bytes(left, 0, right, shift, place)


@given(texts)
def test_spans_give_their_texts(urls: list[str]) -> None:
    """Line feeds, which separate texts meanwhile, and no texts at all included."""
    packed = PackedUrls.pack(urls)
    spans = packed.offsets[:-1] << 16 | np.diff(packed.offsets)
    assert decode_spans(packed.blob, spans.astype(np.uint64)) == urls


def test_spans_that_are_not_utf8_are_shown_too() -> None:
    text = np.frombuffer(b"\xc3ab", np.uint8)
    assert decode_spans(text, np.array([1, 1 << 16 | 2, 0], np.uint64)) == ["\ufffd", "ab", ""]


@given(st.lists(st.binary(max_size=5)))
def test_packing_bytes(urls: list[bytes]) -> None:
    packed = PackedUrls.pack_bytes(urls)
    raw = packed.blob.tobytes()
    assert [raw[a:b] for a, b in pairwise(packed.offsets)] == urls
