"""Frames that are joined carry the bytes of those that were sent, to the same streams and in the same order."""

from __future__ import annotations

import struct
from itertools import groupby, pairwise

import pytest
from h2.exceptions import FrameTooLargeError
from hypothesis import given
from hypothesis import strategies as st

from streamsched.frontier.data_frames import FrameJoiner

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
Frame = tuple[int, int, int, bytes]  # kind, flags, stream, body


def encode(frame: Frame) -> bytes:
    kind, flags, stream, body = frame
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


def decode(data: bytes) -> list[Frame]:
    frames, at = list[Frame](), 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 3])
        kind, flags, stream = struct.unpack_from(">BBI", data, at + 3)
        frames.append((kind, flags, stream, data[at + 9 : at + 9 + length]))
        at += 9 + length
    return frames


def by_meaning(frames: list[Frame]) -> list[Frame]:
    """Return the frames with the bodies of plain DATA frames that follow each other on one stream put together."""
    meaning = list[Frame]()
    for (kind, flags, stream), group in groupby(frames, lambda frame: frame[:3]):
        bodies = [frame[3] for frame in group]
        one = [b"".join(bodies)] if (kind, flags) == (0, 0) else bodies
        meaning += [(kind, flags, stream, body) for body in one]
    return meaning


frames = st.tuples(st.integers(0, 2), st.sampled_from([0, 0, 0, 1, 8]), st.integers(1, 2), st.binary(max_size=30))


@given(st.lists(frames | st.just((0, 0, 1, bytes(10_000)))), st.lists(st.integers(0, 3_000), max_size=20))
def test_the_meaning_stays_however_bytes_arrive(sent: list[Frame], cuts: list[int]) -> None:
    data = PREFACE + b"".join(map(encode, sent))
    joiner, places = FrameJoiner(), sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    joined = b"".join(joiner.join(data[start:end]) for start, end in pairwise(places))
    assert joined.startswith(PREFACE)
    got = decode(joined[len(PREFACE) :])
    assert by_meaning(got) == by_meaning(sent)
    assert all(len(body) <= 1 << 14 for _, _, _, body in got)


def test_frames_that_arrive_together_are_one() -> None:
    sent: list[Frame] = [(0, 0, 1, bytes([number])) for number in range(200)]
    joined = FrameJoiner().join(PREFACE + b"".join(map(encode, sent)))
    assert decode(joined[len(PREFACE) :]) == [(0, 0, 1, bytes(range(200)))]


def test_a_frame_that_is_too_large_is_refused_before_it_is_whole() -> None:
    with pytest.raises(FrameTooLargeError):
        FrameJoiner().join(PREFACE + b"\x00\x40\x01" + bytes(6))
