"""URL syntax for kernels: the position of the host, the default port of a scheme, the top-level domain."""

from __future__ import annotations

from streamsched.numerics.arrays import Bytes
from streamsched.numerics.jit import bare_kernel, inlined_kernel

_SLASH, _QUERY, _HASH, _COLON, _AT = ord("/"), ord("?"), ord("#"), ord(":"), ord("@")
_DOT, _BRACKET = ord("."), ord("]")


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
