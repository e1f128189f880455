"""Bytes from plain and gzip files: members, padding, damage, and going to an offset."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.connectors.reading.byte_stream import ByteStream
from streamsched.errors import SourceError

TEXT = b"".join(b"line %d\n" % i for i in range(1000))


def open_bytes(folder: Path, data: bytes) -> ByteStream:
    path = folder / "input"
    path.write_bytes(data)
    return ByteStream(str(path))


def drain(stream: ByteStream, size: int = 1 << 20) -> bytes:
    data = b"".join(iter(lambda: stream.read(size), b""))
    assert stream.offset == len(data)
    stream.close()
    return data


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    "data",
    [TEXT, gzip.compress(TEXT), gzip.compress(TEXT[:500]) + gzip.compress(b"") + gzip.compress(TEXT[500:])],
    ids=["plain", "gzip", "members"],
)
@pytest.mark.parametrize("peek", [0, 1, 100, 10**6])
def test_all_bytes_come_in_order(tmp_path: Path, data: bytes, size: int, peek: int) -> None:
    stream = open_bytes(tmp_path, data)
    assert stream.peek(peek) == TEXT[:peek]
    assert drain(stream, size) == TEXT
    assert stream.damage is None


@pytest.mark.parametrize("padding", [1, 100, 200_000])
def test_zero_padding_after_and_between_members(tmp_path: Path, padding: int) -> None:
    member, zeros = gzip.compress(TEXT), bytes(padding)
    stream = open_bytes(tmp_path, member + zeros + member + zeros)
    assert drain(stream) == TEXT * 2
    assert stream.damage is None


@pytest.mark.parametrize("data", [b"", b"\x1f", b"\x1f\x8b", b"\x1f\x8b\x07 plain"])
def test_what_only_begins_like_gzip_is_plain(tmp_path: Path, data: bytes) -> None:
    assert drain(open_bytes(tmp_path, data)) == data


def test_little_gzip_may_hold_much(tmp_path: Path) -> None:
    stream = open_bytes(tmp_path, gzip.compress(bytes(5_000_000)))
    sizes = [len(block) for block in iter(lambda: stream.read(4096), b"")]
    stream.close()
    assert sum(sizes) == 5_000_000
    assert max(sizes) <= 4096


@given(st.integers(1, len(gzip.compress(TEXT)) - 1))
def test_truncated_gzip_gives_what_there_is_and_says_so(tmp_path_factory: pytest.TempPathFactory, lost: int) -> None:
    packed = gzip.compress(TEXT)
    kept = packed[:-lost]
    stream = open_bytes(tmp_path_factory.getbasetemp(), kept)
    data = drain(stream)
    if kept.startswith(b"\x1f\x8b\x08"):
        assert TEXT.startswith(data)
        assert stream.damage is not None
        assert "truncated gzip" in stream.damage.reason
        assert stream.damage.offset == len(data)
    else:
        assert data == kept


def test_truncated_gzip_loses_nothing_that_was_there(tmp_path: Path) -> None:
    stream = open_bytes(tmp_path, gzip.compress(TEXT)[:-1])  # only the trailer is cut
    assert drain(stream) == TEXT
    assert stream.damage is not None


@pytest.mark.parametrize("at", [12, 500, -6, -1])
def test_damaged_gzip_says_so(tmp_path: Path, at: int) -> None:
    packed = bytearray(gzip.compress(TEXT))
    packed[at] ^= 0x55
    stream = open_bytes(tmp_path, bytes(packed))
    drain(stream)
    assert stream.damage is not None
    assert "gzip" in stream.damage.reason
    assert stream.read() == b""


def test_what_follows_gzip_must_be_gzip(tmp_path: Path) -> None:
    stream = open_bytes(tmp_path, gzip.compress(TEXT) + b"and more")
    assert drain(stream) == TEXT
    assert stream.damage is not None
    assert "not another" in stream.damage.reason


@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("offset", [0, 1, 1000, len(TEXT)])
@pytest.mark.parametrize("peek", [0, 2000])
def test_skipping(tmp_path: Path, compress: type[bytes], offset: int, peek: int) -> None:
    stream = open_bytes(tmp_path, compress(TEXT))
    stream.peek(peek)
    assert stream.skip_to(offset) == (TEXT[offset - 1 : offset] if offset else b"")
    assert stream.offset == offset
    assert b"".join(iter(stream.read, b"")) == TEXT[offset:]
    stream.close()


@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("offset", [len(TEXT) + 1, 10**12])
def test_skipping_beyond_the_end(tmp_path: Path, compress: type[bytes], offset: int) -> None:
    stream = open_bytes(tmp_path, compress(TEXT))
    with pytest.raises(SourceError, match="beyond the end") as raised:
        stream.skip_to(offset)
    assert raised.value.offset == len(TEXT)
    stream.close()


def test_skipping_in_a_truncated_gzip_names_the_truncation(tmp_path: Path) -> None:
    stream = open_bytes(tmp_path, gzip.compress(TEXT)[:-1])
    with pytest.raises(SourceError, match="truncated gzip"):
        stream.skip_to(len(TEXT) + 1)
    stream.close()


def test_a_pipe_is_read_and_not_resumed(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    both = os.open(pipe, os.O_RDWR)  # keeps the pipe open while the stream opens its end
    os.write(both, b"a\nb\n")
    stream = ByteStream(str(pipe))
    assert stream.peek(2) == b"a\n"
    with pytest.raises(SourceError, match="cannot be resumed"):
        stream.skip_to(2)
    os.close(both)
    assert drain(stream) == b"a\nb\n"


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such file") as raised:
        ByteStream(str(tmp_path / "none"))
    assert raised.value.path == str(tmp_path / "none")
    with pytest.raises(SourceError, match="is a directory"):
        ByteStream(str(tmp_path))
    with pytest.raises(SourceError, match="cannot be opened"):
        ByteStream(str(tmp_path / ("x" * 300)))
