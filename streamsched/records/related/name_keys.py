"""Keys of a page: what its name has in common with other pages of its host.

The name is the last segment of the path. A name that is common on its host, such as ``index.html``, tells nothing: then
the name is the last two segments. The first token of a name ends at the first of ``- _ . + ~ % /`` after another byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from streamsched.numerics.jit import bare_kernel, inlined_kernel, mix
from streamsched.numerics.packed_urls import hash_bytes

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bytes

__all__ = [
    "KIND_NAMES",
    "SAME_DIRECTORY",
    "SAME_NAME",
    "SAME_TOKEN",
    "KeyHashes",
    "NamePlace",
    "find_name",
    "hash_directory",
    "hash_names",
]

# Kinds of keys: positions in SEASONAL_LINK.related and in `KeyHashes`.
SAME_NAME: Final = 0  # the same name elsewhere on the host: versions, languages
SAME_TOKEN: Final = 1  # the same first token of the name on the host
SAME_DIRECTORY: Final = 2  # the same directory
KIND_NAMES: Final = ("name", "token", "directory")

KeyHashes: TypeAlias = tuple[int, int, int]
"""The hash of a page's key of each kind, as uint64; 0: none."""


class NamePlace(NamedTuple):
    """Where the path of a URL begins, and where the name in it begins and ends: an empty name has no keys."""

    path: int
    name: int
    end: int


_SLASH, _QUERY, _HASH = ord("/"), ord("?"), ord("#")
_DASH, _UNDERSCORE, _DOT, _PLUS, _TILDE, _PERCENT = ord("-"), ord("_"), ord("."), ord("+"), ord("~"), ord("%")


@inlined_kernel
def find_name(text: Bytes, path: int, stop: int) -> NamePlace:
    """Return the place of the name of a URL that ends at `stop` and whose host ends at `path`. O(path).

    The name is empty if the path is empty or the root.
    """
    end = path
    while end < stop and text[end] != _QUERY and text[end] != _HASH:
        end += 1
    if end > path and text[end - 1] == _SLASH:
        end -= 1
    name = _segment_start(text, path, end)
    return NamePlace(path, end if name == path else name, end)


@inlined_kernel
def hash_directory(text: Bytes, place: NamePlace, host: int) -> Any:
    """Return the hash of the key of the directory of a name that is not empty. O(path)."""
    return _mark(hash_bytes(text, place.path, place.name), host, SAME_DIRECTORY)


@bare_kernel
def hash_names(text: Bytes, place: NamePlace, host: int, is_common: bool) -> KeyHashes:
    """Return the hashes of the keys of the URL with the name at `place`, of the host with that group number. O(path).

    `is_common`: whether the last segment alone is common on the host. The hash has no key: its collisions are part of
    the results, and all they can do is to relate 64 pages that are not.
    """
    none: Any = np.uint64(0)
    begin, name, end = place.path, place.name, place.end
    if name == end:
        return none, none, none
    directory = hash_directory(text, place, host)
    if is_common:
        name = _segment_start(text, begin, name - 1)
        if name == begin:
            return none, none, directory
    token = name
    while token < end and _separates(text[token]):
        token += 1
    while token < end and not _separates(text[token]):
        token += 1
    same_name = _mark(hash_bytes(text, name, end), host, SAME_NAME)
    # A name of one token has the key of its name only.
    return same_name, _mark(hash_bytes(text, name, token), host, SAME_TOKEN) if token < end else none, directory


@inlined_kernel
def _segment_start(text: Bytes, begin: int, end: int) -> int:
    """Return where the segment that ends at `end` starts: after a slash, or at `begin`. O(segment)."""
    at = end
    while at > begin and text[at - 1] != _SLASH:
        at -= 1
    return at


@inlined_kernel
def _separates(byte: int) -> bool:
    """Return whether a byte ends a token. O(1)."""
    return byte in (_DASH, _UNDERSCORE, _DOT, _PLUS, _TILDE, _PERCENT, _SLASH)


@inlined_kernel
def _mark(hash_: int, host: int, kind: int) -> Any:
    """Return the hash of a key from that of its text, its host and its kind: not 0. O(1)."""
    marked: Any = mix(hash_ ^ mix(np.uint64(host * 4 + kind + 1))) | np.uint64(1)
    return marked
