"""Random damage to the records of an input file."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable

TOKENS = [
    b"NaN", b"-Infinity", b"1e400", b"-1e-400", b"1.7e308", b"9" * 400, b"-0.0", b"0x10", b"1_000", "١٢".encode(),
    b"null", b"true", b'"url":', b'"\\ud800"', b'"\\u0000"', b"\xed\xa0\x80", b"\xff\xfe", b"\xef\xbb\xbf", b"\x00",
    b"\r\n", b"\n\n", b"\t", b"\\", b'"', b"}{", b"[" * 5_000, b'{"url":' * 3_000, b"x" * 70_000,
    b"\xc0", b"\xc1", b"\xc4\xff", b"\xc6\xff\xff\xff\xff", b"\xc9\x7f\xff\xff\xff\x00", b"\xcb\x7f\xf8" + bytes(6),
    b"\xcf" + b"\xff" * 8, b"\xd4\x00\x00", b"\xdb\x7f\xff\xff\xff", b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff",
    b"\x91" * 5_000, b"\x81\xa1a" * 3_000,
    b"1692662400000", b"1e11", b"-62135596801",
]  # fmt: skip


def flip(raw: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice([1, 1, 3, 20])):
        raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)


def drop(raw: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(raw))
    del raw[start : start + rng.choice([1, 1, 2, 8, 100, 1_000])]


def repeat(raw: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(raw))
    raw[start:start] = raw[start : start + rng.choice([1, 4, 50, 400])] * rng.choice([1, 1, 30])


def insert(raw: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(raw) + 1)
    raw[start:start] = rng.choice(TOKENS)


def replace(raw: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(raw))
    raw[start : start + rng.choice([1, 2, 5, 10])] = rng.choice(TOKENS)


def garble(raw: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(raw))
    raw[start : start + 40] = rng.randbytes(40)


def move(raw: bytearray, rng: random.Random) -> None:
    start, target = rng.randrange(len(raw)), rng.randrange(len(raw))
    part = bytes(raw[start : start + 30])
    del raw[start : start + 30]
    raw[target:target] = part


WAYS: list[Callable[[bytearray, random.Random], None]] = [flip, drop, repeat, insert, replace, replace, garble, move]


def mutate(records: list[bytes], malformed: list[bytes], rng: random.Random) -> bytes:
    """Return the records, some of them damaged, with malformed ones among them."""
    records = [bytes(record) for record in records]
    for _ in range(rng.choice([0, 1, 3])):
        records.insert(rng.randrange(len(records) + 1), rng.choice(malformed))
    for _ in range(rng.choice([1, 1, 2, 6])):
        number = rng.randrange(len(records))
        raw = bytearray(records[number])
        if raw:
            rng.choice(WAYS)(raw, rng)
        records[number] = bytes(raw)
    whole = b"".join(records)
    return whole[: rng.randrange(len(whole))] if rng.random() < 0.1 else whole


def damage_gzip(data: bytes, rng: random.Random) -> bytes:
    """Return `data` compressed, in one member or several; half of the time the compressed bytes are damaged."""
    middle = rng.randrange(len(data) + 1)
    packed = bytearray(gzip.compress(data[:middle], rng.choice([0, 6])) + gzip.compress(data[middle:]))
    choice = rng.randrange(6)
    if choice == 0:
        flip(packed, rng)
    elif choice == 1:
        del packed[rng.randrange(len(packed)) :]
    elif choice == 2:
        packed += rng.choice([b"\0" * 512, b"junk", bytes(packed[:9])])
    return bytes(packed)
