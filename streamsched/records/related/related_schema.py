"""Records of related pages: the keys that pages share, their members, and how often members follow a change (SPEC 4).

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
    "MEMBER_BIT",
    "MOST_MEMBERS",
    "RELATED_CHANCE",
    "RELATED_KEY",
    "RELATED_MEMBER",
    "RELATED_STATE",
    "SHARE_BITS",
    "SHARE_UNIT",
    "RelatedArrays",
]

MOST_MEMBERS: Final = 64  # pages of a key; a key of more pages relates none: a change would cost too much

# SEASONAL_LINK.related holds, for each kind of key, whether the page is a member of such a key, and a probability.
MEMBER_BIT: Final = 1 << 15
SHARE_BITS: Final = MEMBER_BIT - 1
SHARE_UNIT: Final = 1.0 / MEMBER_BIT  # of the probability in SHARE_BITS, which is below 1

RELATED_KEY: Final = np.dtype(  # follows from the URLs; not saved
    [
        ("hash", "<u8"),
        ("first", "<u4"),  # row of the newest member plus 1; 0: none
        ("members", "<u4"),  # MOST_MEMBERS + 1: too many, so none is listed
    ]
)
RELATED_MEMBER: Final = np.dtype(  # of a page, for each kind of key; not saved
    [
        (
            "key",
            "<u4",
            KEY_KINDS,
        ),  # number plus 1 of its key, or of the last that had too many members
        ("after", "<u4", KEY_KINDS),  # row plus 1 of the next member, 0: none
    ]
)
RELATED_CHANCE: Final = np.dtype(  # evidence of whether the members of a key follow a change, fading
    [("followed", "<f4"), ("failed", "<f4")]
)
RELATED_STATE: Final = np.dtype(
    [
        ("keys", "<i8"),  # keys with records
        ("linked", "<i8"),  # rows up to the last that has ever been a member
        ("places", "<i8"),  # in use in the table of sightings
        ("followed", "<f8", KEY_KINDS),  # evidence from all keys of a kind, fading
        ("failed", "<f8", KEY_KINDS),
    ]
)


class RelatedArrays(NamedTuple):
    """The arrays of related pages; ``state[0]`` counts what is in use."""

    keys: Records  # RELATED_KEY[keys]
    chances: Records  # RELATED_CHANCE[keys]
    members: Records  # RELATED_MEMBER[pages]; the system commits no memory for rows that were never members
    slots: npt.NDArray[np.uint32]  # uint32[2^k]: hash index of the keys, number plus 1; 0: free
    sightings: npt.NDArray[np.uint32]  # uint32[2^k]: newest page of keys without a record, see `key_members`
    key: Hashes  # uint64[2]: of the index's hash
    state: Records  # RELATED_STATE[1]
    work: Ints  # int64[MOST_MEMBERS], working memory
