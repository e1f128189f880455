"""`ARRAYS`: every array of a shard's state that has a length of its own, once; and the digest over them.

The page table makes room in them, images and increments hold those that are `saved`, the digest covers the same, and
the invariants and the figures of memory go through all of them. What is not saved follows from the rest after loading.

To add an array, add its field to the owner's tuple in `records`, and a line here. If its records belong to rows or
groups, their old versions must also be kept while a save is in progress: add them to `OLD_ROW` or `OLD_GROUP` in
`records.schema`, under the array's name, and to the kernels of `records.dirty_tracking`; to `OLD_ADJUSTED`, if visits
of other pages write to them. If it holds numbers of rows,
groups or other records, say so in its `references`: compaction gives them new numbers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from enum import Enum
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.estimation.related_members import sighting_space
from streamsched.estimation.seasonality.group_profiles import most_profiles
from streamsched.estimation.seasonality.page_schedules import most_schedules
from streamsched.records.group_schema import DOMAIN, GROUP, MEMBER_LINK
from streamsched.records.page_schema import LEASED, OUT, PAGE, TRACE
from streamsched.records.related_schema import RELATED_CHANCE, RELATED_KEY, RELATED_ROWS, RELATED_STATE
from streamsched.records.schema import CORPUS, SHADOW, SHADOW_PAGES, VISIT, PageLookup, ShardArrays
from streamsched.records.seasonality_schema import (
    KEY_KINDS,
    NO_GROUP,
    POOLED,
    PROFILE,
    SCHEDULE,
    SEASONAL_LINK,
    SEASONALITY,
)
from streamsched.records.signal_schema import MOST_KINDS, SIGNAL, SIGNAL_KIND, SIGNAL_SOURCE, SIGNAL_STATE
from streamsched.records.url_patterns import candidate_space
from streamsched.records.url_store import pack_urls, span_lengths, whole_spans
from streamsched.records.validators import BLOCK, FREE_BLOCKS, VALIDATOR_STATE, pack_entries
from streamsched.records.visit_journal import JOURNAL_VISITS

_URLS: Final = 1 << 20  # hashed at a time
_DIGEST_VERSION: Final = 13  # of what is hashed, not of the format on disk
SIGNALS: Final = "change signals"
CONTENTS: Final = "outcomes with `content`"
_KEYS_OF_PAGE: Final = 5  # a name, a token, each also of two segments, and a directory; a key has two pages or more


class Room(NamedTuple):
    """What a shard has room for.

    Pages, groups, bytes of URLs and of names, regions with profiles, and blocks of validators.
    """

    pages: int = 0
    groups: int = 0
    text: int = 0
    names: int = 0
    regions: int = 0
    blocks: int = 0


class Numbered(Enum):
    """Records that others name by their places."""

    PAGE = "page"
    GROUP = "group"
    DOMAIN = "domain"
    SCHEDULE = "schedule"
    PROFILE = "profile"
    SOURCE = "source of signals"
    BLOCK = "block of validators"


class Reference(NamedTuple):
    """A field that names a record: it holds its number plus ``base``, or ``none``.

    ``field``: None if it is the array's value.
    """

    field: str | None
    to: Numbered
    base: int = 0
    none: int = 0


class Places(NamedTuple):
    """What the places of an array stand for: how many are in use, and how many it must have for some room.

    ``begun_by``: what must come before there are any, SIGNALS or CONTENTS; None for an array of every shard;
    ``of``: whose places they are, None if no record is named by them.
    """

    used: Callable[[ShardArrays], int]
    needed: Callable[[Room], int]
    begun_by: str | None = None
    of: Numbered | None = None


class Saved(Enum):
    """How an array gets into images."""

    COPIED = "whole, copied at the instant"
    COPIED_IF_GROWN = "likewise, but only if pages were added"
    APPENDED = "what was appended; it is never written to again"
    RING = "likewise; places are numbers of visits"
    BY_ROW = "by rows; increments have those that are dirty"
    BY_GROUP = "by groups, likewise"
    OF_ROWS = "by the rows that name its records"


class Array(NamedTuple):
    """An array of a shard: its name in images and in the digest, and where it is in `ShardArrays`.

    ``saved``: None if it follows from the others; ``memory``: the part of ``state_bytes`` that it counts for, if any;
    ``references``: what its records name.
    """

    name: str
    place: str
    dtype: np.dtype[Any]
    places: Places
    saved: Saved | None
    memory: str | None
    references: tuple[Reference, ...] = ()

    def of(self, shard: ShardArrays) -> npt.NDArray[Any]:
        """Return the array of `shard`, with all the places that it has room for."""
        found: npt.NDArray[Any] = attrgetter(self.place)(shard)
        return found

    def in_use(self, shard: ShardArrays) -> npt.NDArray[Any]:
        """Return the part of the array that is in use."""
        return self.of(shard)[: self.places.used(shard)]


def _pages(shard: ShardArrays) -> int:
    return int(shard.corpus["pages"][0])


def _groups(shard: ShardArrays) -> int:
    return int(shard.corpus["groups"][0])


_ONE: Final = Places(lambda _: 1, lambda _: 1)
_ROWS: Final = Places(_pages, lambda room: room.pages, of=Numbered.PAGE)
_GROUPS: Final = Places(_groups, lambda room: room.groups, of=Numbered.GROUP)
_DOMAINS: Final = Places(lambda shard: int(shard.corpus["domains"][0]), lambda room: room.groups, of=Numbered.DOMAIN)
_TEXT: Final = Places(lambda shard: int(shard.corpus["text_end"][0]), lambda room: room.text)
_NAMES: Final = Places(lambda shard: int(shard.corpus["names_end"][0]), lambda room: room.names)
_VISITS: Final = Places(
    lambda shard: min(int(shard.corpus["journaled"][0]), shard.journal.size), lambda _: JOURNAL_VISITS
)
_SHADOWS: Final = Places(
    lambda shard: -(-_pages(shard) // int(shard.corpus["shadow_stride"][0])), lambda room: min(room.pages, SHADOW_PAGES)
)
_CANDIDATES: Final = Places(
    lambda shard: int(candidate_space(_pages(shard))), lambda room: int(candidate_space(room.pages))
)
_SCHEDULES: Final = Places(
    lambda shard: 1 + int(shard.seasonality.state["schedules"][0]),
    lambda room: 1 + int(most_schedules(room.pages)),
    of=Numbered.SCHEDULE,
)
_PROFILES: Final = Places(
    lambda shard: int(shard.seasonality.state["profiles"][0]),
    lambda room: 1 + room.regions + int(most_profiles(room.pages)),
    of=Numbered.PROFILE,
)
_KEYS: Final = Places(lambda shard: int(shard.related.state["keys"][0]), lambda room: _KEYS_OF_PAGE * room.pages // 2)
_LISTS: Final = Places(  # besides those in the keys' records: each has two rows or more
    lambda shard: int(shard.related.state["lists"][0]), lambda room: KEY_KINDS * room.pages // 2 + 1
)
_SIGHTINGS: Final = Places(
    lambda shard: int(shard.related.state["places"][0]), lambda room: int(sighting_space(room.pages))
)
_HEARD_ROWS: Final = Places(
    lambda shard: _pages(shard) if shard.signals.state["kinds"][0] else 0,
    lambda room: room.pages,
    SIGNALS,
    Numbered.PAGE,
)
_SOURCES: Final = Places(
    lambda shard: int(shard.signals.state["sources"][0]),
    lambda room: MOST_KINDS * room.groups,
    SIGNALS,
    Numbered.SOURCE,
)
_CONTENT_ROWS: Final = Places(
    lambda shard: _pages(shard) if shard.pages.contents.size else 0, lambda room: room.pages, CONTENTS, Numbered.PAGE
)
_BLOCKS: Final = Places(
    lambda shard: int(shard.validators.state["blocks"][0]), lambda room: room.blocks, of=Numbered.BLOCK
)
_KINDS: Final = Places(lambda _: MOST_KINDS, lambda _: MOST_KINDS)

_U1, _U4, _U8, _F4, _F8 = np.dtype("u1"), np.dtype("<u4"), np.dtype("<u8"), np.dtype("<f4"), np.dtype("<f8")

_OF_PAGE: Final = (Reference("group", Numbered.GROUP),)
_OF_LINK: Final = (Reference("schedule", Numbered.SCHEDULE), Reference("profile", Numbered.PROFILE))
_OF_GROUP: Final = (
    *(Reference(name, Numbered.GROUP) for name in ("parent", "host")),
    Reference("probe", Numbered.PAGE, 1),
    Reference("source", Numbered.SOURCE, 1),
)
_OF_SOURCE: Final = (Reference("host", Numbered.GROUP), Reference("next", Numbered.SOURCE, 1))

# Where an array is in images, and how it is digested, follows from its name: a new name is a new format.
ARRAYS: Final = (
    Array("corpus", "corpus", CORPUS, _ONE, Saved.COPIED, None),
    Array("pages", "pages.records", PAGE, _ROWS, Saved.BY_ROW, "pages", _OF_PAGE),
    Array("traces", "pages.traces", TRACE, _ROWS, Saved.BY_ROW, "pages"),
    Array("lease_until_s", "pages.lease_until_s", _F8, _ROWS, Saved.BY_ROW, "leases"),
    Array("lease_s", "pages.lease_s", _F4, _ROWS, Saved.BY_ROW, "leases"),
    Array("links", "seasonality.links", SEASONAL_LINK, _ROWS, Saved.BY_ROW, "seasonality", _OF_LINK),
    Array("signals", "pages.signals", SIGNAL, _HEARD_ROWS, Saved.BY_ROW, "signals"),
    Array("contents", "pages.contents", _U8, _CONTENT_ROWS, Saved.BY_ROW, "contents"),
    Array(
        "validators", "pages.validators", _U4, _ROWS, Saved.BY_ROW, "validators", (Reference(None, Numbered.BLOCK, 1),)
    ),
    Array(
        "validator_texts",
        "pages.validator_texts",
        BLOCK,
        _BLOCKS,
        Saved.OF_ROWS,
        "validators",
        (Reference("next", Numbered.BLOCK, 1),),
    ),
    Array("text", "pages.text", _U1, _TEXT, Saved.APPENDED, "url_text"),
    Array("groups", "groups.records", GROUP, _GROUPS, Saved.BY_GROUP, "groups", _OF_GROUP),
    Array("names", "groups.names", _U1, _NAMES, Saved.APPENDED, "groups"),
    Array("candidates", "groups.candidates", _U1, _CANDIDATES, Saved.COPIED_IF_GROWN, "pattern_sketch"),
    Array("member_links", "groups.member_links", MEMBER_LINK, _ROWS, None, "member_lists"),
    Array("first_members", "groups.first_members", _U4, _GROUPS, None, "member_lists"),
    Array("anchors", "groups.anchors", _U8, _GROUPS, None, "url_text"),
    Array(
        "domain_of",
        "groups.domain_of",
        _U4,
        _GROUPS,
        Saved.COPIED_IF_GROWN,
        "domains",
        (Reference(None, Numbered.DOMAIN),),
    ),
    Array("domains", "groups.domains", DOMAIN, _DOMAINS, Saved.COPIED, "domains"),
    Array("journal", "journal", VISIT, _VISITS, Saved.RING, "journal", (Reference("row", Numbered.PAGE),)),
    Array("shadows", "shadows", SHADOW, _SHADOWS, Saved.COPIED, "shadows"),
    Array("schedules", "seasonality.schedules", SCHEDULE, _SCHEDULES, Saved.OF_ROWS, "seasonality"),
    Array(
        "profiles",
        "seasonality.profiles",
        PROFILE,
        _PROFILES,
        Saved.COPIED,
        "seasonality",
        (Reference("group", Numbered.GROUP, none=NO_GROUP),),
    ),
    Array("pooled", "seasonality.pooled", POOLED, _PROFILES, None, "seasonality"),
    Array("of_group", "seasonality.of_group", _U4, _GROUPS, None, "seasonality"),
    Array("seasonality", "seasonality.state", SEASONALITY, _ONE, Saved.COPIED, None),
    Array("chances", "related.chances", RELATED_CHANCE, _KEYS, Saved.COPIED, "related_pages"),
    Array("keys", "related.keys", RELATED_KEY, _KEYS, None, "related_pages"),
    Array("lists", "related.lists", RELATED_ROWS, _LISTS, None, "related_pages"),
    Array("sightings", "related.sightings", _U4, _SIGHTINGS, None, "related_pages"),
    Array("related", "related.state", RELATED_STATE, _ONE, Saved.COPIED, None),
    Array("signal_sources", "signals.sources", SIGNAL_SOURCE, _SOURCES, Saved.COPIED, "signals", _OF_SOURCE),
    Array("signal_kinds", "signals.kinds", SIGNAL_KIND, _KINDS, Saved.COPIED, None),
    Array("signal_state", "signals.state", SIGNAL_STATE, _ONE, Saved.COPIED, None),
    Array("validator_state", "validators.state", VALIDATOR_STATE, _ONE, Saved.COPIED, None),
    Array("free_blocks", "validators.free", FREE_BLOCKS, _ONE, None, None),
)
BY_NAME: Final = MappingProxyType({array.name: array for array in ARRAYS})


def arrays_in_use(shard: ShardArrays) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of `shard` by name, each cut to what is in use."""
    return {array.name: array.in_use(shard) for array in ARRAYS}


def as_bytes(records: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return `records`, an array or one field of records, as opaque values, which are copied at once. O(1)."""
    return records.view(f"V{records.dtype.itemsize}")


def take_records(array: npt.NDArray[Any], places: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
    """Write the records at `places` of `array` to `out`: all of each, or those fields that `out` has. O(places)."""
    if out.dtype == array.dtype:
        as_bytes(out)[:] = as_bytes(array)[places]
    else:
        for name in out.dtype.names or ():
            out[name] = array[name][places]


def put_records(array: npt.NDArray[Any], places: npt.NDArray[Any], records: npt.NDArray[Any]) -> None:
    """Write to `places` of `array` what `take_records` has taken. O(places)."""
    if records.dtype == array.dtype:
        as_bytes(array)[places] = as_bytes(records)
    else:
        for name in records.dtype.names or ():
            array[name][places] = records[name]


def digest_state(pages: PageLookup, settings: dict[str, Any]) -> str:
    """Return the SHA-256 of settings, records and texts, not of their layout on disk. O(pages).

    Equal for equal states, however they were made.
    """
    arrays = {name: used for name, used in arrays_in_use(pages.arrays).items() if BY_NAME[name].saved}
    leased = (arrays["pages"]["flags"] & LEASED) != 0
    until_s = arrays["lease_until_s"]
    used = leased | (arrays["pages"]["failures"] > 0) | ((until_s < 0.0) & (until_s > -np.inf))
    arrays["lease_until_s"] = np.where(used, until_s, 0.0)
    arrays["lease_s"] = np.where(leased, arrays["lease_s"], np.float32(0.0))
    arrays |= {name: arrays[name].copy() for name in ("pages", "traces", "groups", "domains", "corpus")}
    spans, text = arrays["traces"]["url_span"].copy(), arrays["text"]
    urls = (pack_urls(text, spans[start : start + _URLS]).blob for start in range(0, spans.size, _URLS))
    arrays["traces"]["url_span"] = whole_spans(spans)  # URLs count, not how they are kept
    arrays["corpus"]["text_end"] = span_lengths(spans).sum()
    arrays["pages"]["flags"] &= np.uint8(0xFF ^ OUT)  # when an expiry was noticed is not part of the state
    arrays["groups"]["out"] = 0
    arrays["domains"]["hash"] = 0  # the key of the indexes is drawn by each process
    day, domains = int(arrays["corpus"]["day"][0]), arrays["domains"]
    domains["visits"][domains["day"] != day] = 0  # of an earlier day
    domains["day"] = np.where(domains["visits"] > 0, day, 0)
    arrays["corpus"]["day"] = day if arrays["corpus"]["day_visits"][0] else 0
    arrays["corpus"]["refused_pages"] = 0  # a repeated outcome that is refused counts again
    if not arrays["contents"].any():
        arrays["contents"] = arrays["contents"][:0]  # whether outcomes that stored none had begun it
    rows = np.flatnonzero(arrays["validators"])
    heads, arrays["validators"] = arrays["validators"][rows].astype(np.int64), rows
    arrays["validator_texts"] = pack_entries(arrays["validator_texts"], heads)[0] if rows.size else heads
    arrays["validator_state"] = arrays["validator_state"]["pages"]  # which blocks are free is not part of the state
    whole = hashlib.sha256(json.dumps([_DIGEST_VERSION, settings], sort_keys=True).encode())
    for name in sorted(arrays):
        for part in urls if name == "text" else [arrays[name]]:
            whole.update(np.ascontiguousarray(part).view(np.uint8).data)
    return whole.hexdigest()
