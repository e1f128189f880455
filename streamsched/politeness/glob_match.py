"""Matching URLs against patterns in which ``*`` matches any number of any bytes."""

from __future__ import annotations

from typing import Final

from streamsched.numerics.arrays import Bytes, Ints
from streamsched.numerics.jit import bare_kernel
from streamsched.numerics.url_syntax import find_authority
from streamsched.records.page_schema import PageArrays
from streamsched.records.url_store import read_url

_STAR: Final = ord("*")


@bare_kernel
def fits(text: Bytes, start: int, stop: int, glob: Bytes) -> bool:
    """Return whether all of ``text[start:stop]`` matches ``glob``: uint8[n].

    O(length) usually, O(length n) at worst: only the last ``*`` is ever retried.
    """
    at, place = start, 0
    star, since = -1, start  # the last star met, and the end of what it matches
    while at < stop:
        if place < glob.size and glob[place] == _STAR:
            star, since = place, at
            place += 1
        elif place < glob.size and glob[place] == text[at]:
            at += 1
            place += 1
        elif star >= 0:
            since += 1
            at, place = since, star + 1
        else:
            return False
    while place < glob.size and glob[place] == _STAR:
        place += 1
    return place == glob.size


@bare_kernel
def mark_fitting(  # noqa: PLR0913, PLR0917  what to look at, what to look for, and what to write
    pages: PageArrays, rows: Ints, places: Ints, scheme: Bytes, path: Bytes, number: int, numbers: Bytes
) -> None:
    """Write `number` to ``numbers[place]`` for each of ``places``: int64[m] whose row has such a URL. O(bytes).

    `scheme`: that of the URL in lower case, of length 0 for any; `path`: a pattern of all that follows the host.
    """
    for i in range(places.size):
        stop = read_url(pages, rows[places[i]])
        _, last, size = find_authority(pages.url, 0, stop)
        if (scheme.size == 0 or _is_scheme(pages.url, 0, size, scheme)) and fits(pages.url, last, stop, path):
            numbers[places[i]] = number


@bare_kernel
def _is_scheme(text: Bytes, start: int, size: int, scheme: Bytes) -> bool:
    """Return whether the `size` bytes from `start` on are `scheme`, ignoring case."""
    if size != scheme.size:
        return False
    for i in range(size):
        byte = text[start + i]
        if (byte + 32 if 65 <= byte <= 90 else byte) != scheme[i]:
            return False
    return True
