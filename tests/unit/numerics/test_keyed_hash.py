"""The keyed hash is SipHash-1-3: it agrees with published vectors and with its twin."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.numerics.keyed_hash import draw_key, keyed_hash, read_key, write_key
from tests.reference.siphash import siphash

KEY = bytes(range(16))
# Of the messages of 0 to 15 bytes 0, 1, 2 …: from the tests of Rust's core library, sip.rs, test_siphash_1_3.
VECTORS = [
    *("dcc40f055801acab", "93ca577df39bf4c9", "4dd4c74d029bcb82", "fbf7dde7b80af88b"),
    *("2883d388605775cf", "673b53492fd5f9de", "a7229fc5502b0dc5", "4011b19b987d92d3"),
    *("8e9a298d11959036", "e43d066cb38ea425", "7f09ff92ee85de79", "52c34df9c118c170"),
    *("a2d9b457b184a378", "a7ff29120c766f30", "345df9c011a15a60", "5699512a6dd820d3"),
]
LONGEST = "a8b3bbb76290199d"  # of 63 bytes, from the same source


def hash_of(key: bytes, message: bytes) -> int:
    return int(keyed_hash(read_key(key.hex()), np.frombuffer(message, np.uint8), 0, len(message)))


def test_twin_has_the_vector_of_the_paper() -> None:
    """Aumasson & Bernstein (2012), appendix A, for SipHash-2-4."""
    assert siphash(KEY, bytes(range(15)), 2, 4) == 0xA129CA6149BE45E5


@pytest.mark.parametrize(("length", "vector"), [*enumerate(VECTORS), (63, LONGEST)])
def test_kernel_and_twin_have_the_published_vectors(length: int, vector: str) -> None:
    expected = int.from_bytes(bytes.fromhex(vector), "little")
    assert hash_of(KEY, bytes(range(length))) == siphash(KEY, bytes(range(length))) == expected


@given(st.binary(min_size=16, max_size=16), st.binary(max_size=300))
def test_kernel_is_its_twin(key: bytes, message: bytes) -> None:
    assert hash_of(key, message) == siphash(key, message)


def test_kernel_hashes_the_span_alone() -> None:
    blob = np.frombuffer(b"xyz" + bytes(range(20)) + b"!", np.uint8)
    assert int(keyed_hash(read_key(KEY.hex()), blob, 3, 23)) == siphash(KEY, bytes(range(20)))


def test_keys_are_drawn_from_the_system_and_written_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    assert draw_key().tolist() != draw_key().tolist()
    monkeypatch.setattr(os, "urandom", lambda size: KEY[:size])
    assert draw_key().tolist() == [0x0706050403020100, 0x0F0E0D0C0B0A0908]
    assert write_key(draw_key()) == KEY.hex()
    assert read_key(KEY.hex()).tolist() == draw_key().tolist()
