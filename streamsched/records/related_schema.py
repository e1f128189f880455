"""Related pages: their records, and the keys that pages share.

A key is something that names of pages of one host have in common. Only a key that a second page has gets a record: its
members, and how often they follow a change. The claims on a page are in its SEASONAL_LINK, next to what else the
terminals read.

The name of a page is the last segment of its path. A name that is common on its host, such as ``index.html``, tells
nothing: then the name is the last two segments. The first token of a name ends at the first of ``- _ . + ~ % /`` after
another byte.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from streamsched.numerics.arrays import Bytes, Hashes, Ints, Records
from streamsched.numerics.jit import bare_kernel, inlined_kernel, mix
from streamsched.numerics.url_bytes import hash_bytes
from streamsched.records.seasonality_schema import KEY_KINDS

MOST_MEMBERS: Final = 64  # pages of a key; a key of more pages relates none: a change would cost too much

# SEASONAL_LINK.related holds, for each kind of key, a probability and what the page knows of its key: it has none, the
# key rests when its kind does, the key is awake, or it rests.
SHARE_BITS: Final = (1 << 14) - 1
SHARE_UNIT: Final = 1.0 / (1 << 14)  # of the probability in SHARE_BITS, which is below 1
KEY_BITS: Final = 3 << 14
AS_KIND: Final = 1 << 14
AWAKE: Final = 2 << 14
RESTING: Final = 3 << 14

ROW_STEPS: Final = 7  # bytes of steps from row to row: two to seven more rows
_ROWS: Final = (
    ("row", "<u4"),  # the first row plus 1; 0: none
    ("after", "<u4"),  # number plus 1 of the record of the rows before; 0: none
    ("steps", "u1", ROW_STEPS),  # from each row to the next, see `member_lists`
)
RELATED_KEY: Final = np.dtype(  # follows from the URLs; not saved
    [
        ("tag", "<u4"),  # the upper half of its hash
        ("members", "u1"),  # MOST_MEMBERS + 1: too many, so none is listed
        *_ROWS,  # the newest members
    ]
)
RELATED_ROWS: Final = np.dtype(list(_ROWS))  # members of a key that its record has no room for; not saved
RELATED_CHANCE: Final = np.dtype(  # evidence of whether the members of a key follow a change, fading
    [("followed", "<f4"), ("failed", "<f4")]
)
RELATED_STATE: Final = np.dtype(
    [
        ("joined", "<i8"),  # pages that are members of their keys by now
        ("keys", "<i8"),  # keys with records
        ("full", "<i8"),  # names with MOST_MEMBERS members
        ("lists", "<i8"),  # RELATED_ROWS that have ever been in use
        ("free", "<i8"),  # number plus 1 of the first that is free again; 0: none
        ("places", "<i8"),  # in use in the table of sightings
        ("followed", "<f8", KEY_KINDS),  # evidence from all keys of a kind, fading
        ("failed", "<f8", KEY_KINDS),
    ]
)


class RelatedArrays(NamedTuple):
    """The arrays of related pages; ``state[0]`` counts what is in use."""

    keys: Records  # RELATED_KEY[keys]
    chances: Records  # RELATED_CHANCE[keys]
    lists: Records  # RELATED_ROWS[m]
    slots: npt.NDArray[np.uint32]  # uint32[m]: hash index of the keys, number plus 1; 0: free
    sightings: npt.NDArray[np.uint32]  # uint32[2^k]: newest page of keys without a record, see `related_members`
    key: Hashes  # uint64[2]: of the index's hash
    state: Records  # RELATED_STATE[1]
    hashes: Hashes  # uint64[pages joined at a time, KEY_KINDS] as one row, working memory
    found: Ints  # int64[KEY_KINDS], working memory
    work: Ints  # int64[2 * MOST_MEMBERS], working memory


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
