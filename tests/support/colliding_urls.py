"""URLs that anybody can write down whose hashes without a key are equal."""

from __future__ import annotations

import itertools
import string

_PATH = frozenset(range(0x21, 0x7F)) - frozenset(b"/?#")
_HOST = frozenset((string.ascii_lowercase + string.digits + "-_.").encode())


def colliding_urls(count: int, head: str = "https://a") -> list[str]:
    """`count` URLs with one hash; `head`: at most nine bytes, digits follow."""
    return _collide(count, head, "/one/of/many/x/y", _PATH)


def colliding_hosts(count: int) -> list[str]:
    """`count` host names with one hash."""
    return _collide(count, "h", ".evil.example.co", _HOST, 3_782_500)  # the first head that works is close


def _collide(count: int, head: str, tail: str, allowed: frozenset[int], start: int = 0) -> list[str]:
    """Texts of one 64-bit hash: each second block is multiplied by what the first makes 0, whatever else it holds."""
    for number in itertools.count(start):
        first = f"{head}{number:0{16 - len(head)}}"
        state = _first_state(first.encode(), 16 + 8 + 8 + len(tail))
        if allowed.issuperset(state):
            return [f"{first}{free:08}{state.decode()}{tail}" for free in range(count)]
    raise AssertionError("itertools.count ends")


def _first_state(block: bytes, length: int) -> bytes:
    """The hash's state after its first 16 bytes, as 8 bytes."""
    left = int.from_bytes(block[:8], "little") ^ 0xE7037ED1A0B428DB
    right = int.from_bytes(block[8:], "little") ^ 0xA0761D6478BD642F ^ length
    return ((left * right >> 64) ^ (left * right & (1 << 64) - 1)).to_bytes(8, "little")
