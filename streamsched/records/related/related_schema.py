"""Records of related pages: the keys that pages share, their members, and how often members follow a change.

A key is something that names of pages of one host have in common: see `name_keys`. Only a key that a second page has
gets a record. The claims on a page are in its SEASONAL_LINK, next to what else the terminals read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.records.seasonality_schema import KEY_KINDS

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Hashes, Ints, Records

__all__ = [
    "AS_KIND",
    "AWAKE",
    "KEY_BITS",
    "MOST_MEMBERS",
    "RELATED_CHANCE",
    "RELATED_KEY",
    "RELATED_ROWS",
    "RELATED_STATE",
    "RESTING",
    "ROW_STEPS",
    "SHARE_BITS",
    "SHARE_UNIT",
    "RelatedArrays",
]

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
    sightings: npt.NDArray[np.uint32]  # uint32[2^k]: newest page of keys without a record, see `key_members`
    key: Hashes  # uint64[2]: of the index's hash
    state: Records  # RELATED_STATE[1]
    hashes: Hashes  # uint64[pages joined at a time, KEY_KINDS] as one row, working memory
    found: Ints  # int64[KEY_KINDS], working memory
    work: Ints  # int64[2 * MOST_MEMBERS], working memory
