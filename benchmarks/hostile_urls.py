"""Hostile URLs: time per URL of those that somebody makes up to slow a scheduler down, beside ordinary ones."""

from __future__ import annotations

import itertools
import string
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from benchmarks.timing import Row, best_seconds
from streamsched import OutcomeBatch, PackedUrls, Scheduler

__all__ = ["measure"]

_SHARE: Final = 4  # growth is measured from this part of the URLs
_K0: Final = 0xA0761D6478BD642F  # public constants of `hash_bytes`
_K1: Final = 0xE7037ED1A0B428DB
_WHOLE: Final = (1 << 64) - 1
_TAIL: Final = "-is-one-of-many."


def measure(count: int, repeats: int) -> list[Row]:
    """Return the rows of the benchmark with `count` URLs, a tenth of that for long ones; the rival is `ordinary`.

    Rows of growth compare all of the URLs with a quarter of them.
    """
    ordinary = [f"https://a.co/abc{i:08}ordinary{_TAIL}" for i in range(count)]
    kinds: dict[str, Sequence[str]] = {
        "one hash without the key": _colliding(count),
        "a host each": [f"https://h{i:020}.example/" for i in range(count)],
        "a directory for 16 pages": [f"https://a.example/{i // 16:020}/{i % 16:010}" for i in range(count)],
        "8,000 bytes with one prefix": [f"https://a.example/{'x' * 7970}{i:010}" for i in range(count // 10)],
        "1,000 directories deep": [f"https://a.example/{'d/' * 1000}{i:010}" for i in range(count // 10)],
    }
    rows: list[Row] = []
    for verb, run in (("discover", _discover), ("observe twice", _observe)):
        usual = _seconds(run, ordinary, repeats) / count
        for name, urls in kinds.items():
            part = urls[: len(urls) // _SHARE]
            whole, less = _seconds(run, urls, repeats) / len(urls), _seconds(run, part, repeats) / len(part)
            goal = "≤ 1.5×" if len(urls) == count else ""
            rows.append(_row(f"{verb}, {len(urls):,} URLs: {name}", whole, usual, goal))
            rows.append(_row(f"... growth from {len(part):,} URLs", whole, less, "≤ 1.5×"))
    return rows


def _row(name: str, seconds: float, rival: float, goal: str) -> Row:
    return (name, f"{seconds * 1e6:.2f} µs", f"{rival * 1e6:.2f} µs", f"{seconds / rival:.2f}×", goal)


def _seconds(run: Callable[[PackedUrls], None], urls: Sequence[str], repeats: int) -> float:
    packed = PackedUrls.pack(urls)
    return best_seconds(lambda: run(packed), repeats)


def _discover(urls: PackedUrls) -> None:
    Scheduler().discover(urls, now=0.0)


def _observe(urls: PackedUrls) -> None:
    scheduler = Scheduler()
    for day in range(2):
        scheduler.observe(OutcomeBatch(urls, np.full(len(urls), day * 86_400.0)))


def _colliding(count: int) -> list[str]:
    """Return `count` URLs of one public hash: a block is multiplied by what the one before makes 0."""
    for letters in itertools.product(string.ascii_letters + string.digits, repeat=3):
        head = f"https://a.co/{''.join(letters)}"
        left = int.from_bytes(head[:8].encode(), "little") ^ _K1
        right = int.from_bytes(head[8:].encode(), "little") ^ _K0 ^ (16 + 8 + 8 + len(_TAIL))
        state = ((left * right >> 64) ^ (left * right & _WHOLE)).to_bytes(8, "little")
        if all(0x21 <= byte < 0x7F and byte not in b"/?#" for byte in state):
            return [f"{head}{free:08}{state.decode()}{_TAIL}" for free in range(count)]
    raise AssertionError
