"""URL syntax for kernels: whether a URL is absolute, the host, the default port of a scheme, the top-level domain."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamsched.numerics.arrays import Bytes, Ints
from streamsched.numerics.compilation.machine_operations import load_word
from streamsched.numerics.jit import bare_kernel, inlined_kernel

_SLASH, _QUERY, _HASH, _COLON, _AT = ord("/"), ord("?"), ord("#"), ord(":"), ord("@")
_DOT, _BRACKET = ord("."), ord("]")
_DELETE = 0x7F
_ONES, _TOPS, _NOTHING = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080), np.uint64(0)
_CASE, _SEVEN = _ONES << np.uint64(5), np.uint64((1 << 56) - 1)  # the bit of small letters; the first 7 bytes of 8
_ATS, _SLASHES = _ONES * np.uint64(_AT), _ONES * np.uint64(_SLASH)


class UrlStarts(NamedTuple):
    """How absolute URLs begin: ``texts``, lower-case ones such as ``https://`` that end at ``ends``: int64[m].

    Without any, all schemes may be used. `off`: any text may be used as a URL. Bytes that can be read follow ``texts``.
    """

    texts: Bytes
    ends: Ints
    off: bool


@bare_kernel
def count_wrong(blob: Bytes, offsets: Ints, starts: UrlStarts, out: Ints) -> int:
    """Write the indices of URLs that are not `is_absolute` to ``out``: int64[n]; return how many. O(bytes)."""
    found = 0
    for i in range(offsets.size - 1):
        if not is_absolute(blob, offsets[i], offsets[i + 1], starts):
            out[found] = i
            found += 1
    return found


@bare_kernel
def is_absolute(text: Bytes, start: int, stop: int, starts: UrlStarts) -> bool:
    """Return whether ``text[start:stop]``, UTF-8, is an absolute URL without white space or control characters.

    It begins with one of `starts`, in upper or lower case, and names a host that is not empty. O(starts + length).
    """
    if starts.off:
        return True
    if starts.ends.size == 0:
        after = _skip_scheme(text, start, stop)
    else:
        after = _skip_start(text, start, stop, starts.texts, starts.ends)
    return after >= 0 and _has_host(text, start, after, stop) and not _has_blank(text, start, stop)


@inlined_kernel
def _skip_start(text: Bytes, start: int, stop: int, starts: Bytes, ends: Ints) -> int:
    """Return where the one of `starts` ends with which ``text[start:stop]`` begins, -1 for none.

    Up to eight bytes are compared at once; control characters in place of : and / are left to `_has_blank`.
    """
    first = 0
    for k in range(ends.size):
        size, i = ends[k] - first, 0
        if size <= stop - start:
            if size >= 7 and stop - start >= 8:
                different = (load_word(text, start) | _CASE) ^ load_word(starts, first)
                i = min(size, 8)
                if (different if size > 7 else different & _SEVEN) != _NOTHING:
                    i = size + 1
            while i < size and _small(text[start + i]) == starts[first + i]:
                i += 1
            if i == size:
                return int(start + size)
        first = ends[k]
    return -1


@inlined_kernel
def _small(byte: int) -> int:
    """Return the small letter of a capital one of ASCII, other bytes as they are."""
    return byte | 32 if 65 <= byte <= 90 else byte


@inlined_kernel
def _skip_scheme(text: Bytes, start: int, stop: int) -> int:
    """Return where the scheme of ``text[start:stop]`` and its ``://`` end, -1 if it has none (RFC 3986, 3.1)."""
    i = start
    while i < stop:
        byte = _small(text[i])
        is_other = 48 <= byte <= 57 or 45 <= byte <= 46 or byte == 43  # a digit, + - .
        if not (97 <= byte <= 122 or (is_other and i > start)):
            break
        i += 1
    if i == start or i + 3 > stop or text[i] != _COLON or text[i + 1] != _SLASH or text[i + 2] != _SLASH:
        return -1
    return i + 3


@inlined_kernel
def _has_host(text: Bytes, start: int, after: int, stop: int) -> bool:
    """Return whether a URL has a host beside user information and port; its scheme ends before `after`."""
    i = after
    if i >= stop or text[i] == _COLON or text[i] == _SLASH or text[i] == _QUERY or text[i] == _HASH:
        return _names_host(text, start, stop)
    while i + 8 <= stop:
        word = load_word(text, i)
        if _has_byte(word, _ATS):
            return _names_host(text, start, stop)
        if _has_byte(word, _SLASHES):
            return True
        i += 8
    while i < stop:
        if text[i] == _AT:
            return _names_host(text, start, stop)
        i += 1
    return True


@bare_kernel
def _names_host(text: Bytes, start: int, stop: int) -> bool:
    """Return what `_has_host` does, byte by byte."""
    first, last, _ = find_authority(text, start, stop)
    return bool(last > first and text[first] != _COLON)


@inlined_kernel
def _has_byte(word: np.uint64, eight: np.uint64) -> bool:
    """Return whether one of 8 bytes equals the byte that `eight` repeats."""
    other = word ^ eight
    return bool((other - _ONES) & ~other & _TOPS != _NOTHING)


@inlined_kernel
def _has_blank(text: Bytes, start: int, stop: int) -> bool:
    """Return whether ``text[start:stop]``, UTF-8, has white space or a control character. O(length).

    Beyond ASCII these are U+0080 to U+00A0, U+1680, U+2000 to U+200A, U+2028, U+2029, U+202F, U+205F and U+3000.
    """
    i = start
    while i < stop:
        if i + 8 <= stop and _is_graphic(load_word(text, i)):
            i += 8
            continue
        byte = text[i]
        if byte <= 0x20 or byte == _DELETE:
            return True
        if byte == 0xC2 and i + 1 < stop and text[i + 1] <= 0xA0:
            return True
        if 0xE1 <= byte <= 0xE3 and i + 2 < stop:
            middle, last = text[i + 1], text[i + 2]
            if byte == 0xE1 and middle == 0x9A and last == 0x80:
                return True
            if byte == 0xE2 and middle == 0x80 and (last <= 0x8A or 0xA8 <= last <= 0xA9 or last == 0xAF):
                return True
            if byte == 0xE2 and middle == 0x81 and last == 0x9F:
                return True
            if byte == 0xE3 and middle == 0x80 and last == 0x80:
                return True
        i += 1
    return False


@inlined_kernel
def _is_graphic(word: np.uint64) -> bool:
    """Return whether 8 bytes are ASCII from ! to ~, all at once."""
    below = (word - _ONES * np.uint64(0x21)) | word  # the top bit of a byte: it is below !, or not ASCII
    return bool((below | (word + _ONES)) & _TOPS == _NOTHING)  # or 0x7F


@bare_kernel
def find_authority(text: Bytes, start: int, stop: int) -> tuple[int, int, int]:
    """Return where host and port of the URL ``text[start:stop]`` begin and end, and the length of its scheme.

    User information is skipped. O(length).
    """
    first, scheme = start, 0
    for i in range(start, stop - 2):
        if text[i] == _COLON and text[i + 1] == _SLASH and text[i + 2] == _SLASH:
            first, scheme = i + 3, i - start
            break
        if text[i] == _SLASH or text[i] == _QUERY or text[i] == _HASH:
            break
    last = first
    while last < stop and text[last] != _SLASH and text[last] != _QUERY and text[last] != _HASH:
        last += 1
    for i in range(last - 1, first - 1, -1):
        if text[i] == _AT:
            first = i + 1
            break
    return first, last, scheme


@bare_kernel
def default_port(name: Bytes, size: int, scheme: int) -> int:
    """Return how many bytes at the end of a host are the default port of its scheme: ``:80`` or ``:443``."""
    if scheme == 4 and size > 3 and name[size - 3] == _COLON and name[size - 2] == 56 and name[size - 1] == 48:
        return 3
    if scheme == 5 and size > 4 and name[size - 4] == _COLON and name[size - 3] == 52:
        return 4 if name[size - 2] == 52 and name[size - 1] == 51 else 0
    return 0


@inlined_kernel
def find_domain(text: Bytes, start: int, stop: int) -> tuple[int, int]:
    """Return where the last label of the host ``text[start:stop]``, with or without a port, begins and ends. O(length).

    Both are equal if the host has a single label or is an IPv6 address.
    """
    for i in range(stop - 1, start - 1, -1):
        if text[i] == _BRACKET:
            break
        if text[i] == _COLON:
            stop = i
            break
    if stop > start and text[stop - 1] == _DOT:
        stop -= 1
    first = stop
    while first > start and text[first - 1] != _DOT:
        first -= 1
    return (first if first > start else stop), stop
