"""The columnar frame: a batch of outcomes as one msgpack map of field -> packed array, little-endian.

===============  ==================================  ==========================================================
key              value                               meaning
===============  ==================================  ==========================================================
``v``            1                                   version of this table
``url``          bin                                 all URLs in UTF-8, one after the other
``url_offsets``  bin, uint32[n + 1]                  URL i is ``url[url_offsets[i]:url_offsets[i + 1]]``
``fetched_at``   bin, float64[n]                     UTC epoch seconds
``status``       bin, int16[n] or int32[n]           optional, as all below; 30001 robots_denied, 30002
                                                     not_attempted
``fingerprint``  bin, uint64[n]
``changed``      bin, uint8[n]                       0 or 1
``importance``   bin, float64[n] or float32[n]
``cost``         bin, float64[n] or float32[n]
``retry_after``  bin, float64[n] or float32[n]       seconds
``significance``  bin, float64[n] or float32[n]      0 to 1: how much of the page changed
``moved_to``     bin                                 where the pages redirect, as ``url``
``moved_to_offsets``  bin, uint32[n + 1]             as ``url_offsets``
``given``        bin, uint8[n]                       bits of `streamsched.outcomes` (1 status, 2 fingerprint,
                                                     4 changed, 8 importance, 16 cost, 32 retry_after,
                                                     64 moved_to, 128 significance): which of the columns record i
                                                     carries; absent: every one there is
===============  ==================================  ==========================================================

The element type follows from the length. Any column but the offsets and ``given`` may be a msgpack list instead, nil if
a record lacks the field; ``url`` and ``moved_to`` are then lists of str without offsets, and ``status`` may hold the
words ``"robots_denied"`` and ``"not_attempted"``. Unknown keys are ignored. A key ``records`` marks frames of other
records (`signal_frames`) and makes a frame none of outcomes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from streamsched.connectors.records.packed_columns import (
    Packed,
    check_marks,
    encode_urls,
    read_column,
    read_given,
    read_times,
    read_urls,
)
from streamsched.numerics.argument_checks import check_type
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import COLUMNS, MOVED_TO, OutcomeBatch

__all__ = ["VERSION", "OutcomeFrame", "decode_frame", "encode_frame"]

VERSION: Final = 1

_TYPES: Final = {  # of each column's elements, by their width in bytes; `encode_frame` writes the first
    "status": {2: "<i2", 4: "<i4"},
    "fingerprint": {8: "<u8"},
    "changed": {1: "u1"},
    "importance": {8: "<f8", 4: "<f4"},
    "cost": {8: "<f8", 4: "<f4"},
    "retry_after": {8: "<f8", 4: "<f4"},
    "significance": {8: "<f8", 4: "<f4"},
}


class OutcomeFrame(msgspec.Struct):
    """A frame as decoded from the wire, its packed arrays are views of the input."""

    v: Any = None
    records: Any = None
    url: Packed = None
    url_offsets: Packed = None
    fetched_at: Packed = None
    status: Packed = None
    fingerprint: Packed = None
    changed: Packed = None
    importance: Packed = None
    cost: Packed = None
    retry_after: Packed = None
    significance: Packed = None
    moved_to: Packed = None
    moved_to_offsets: Packed = None
    given: Packed = None


def encode_frame(outcomes: OutcomeBatch) -> bytes:
    """Return `outcomes` as one columnar frame, valid or not. O(bytes); about 80 bytes an outcome.

    Raises ValueError if the URLs exceed 4 GiB, which 32-bit offsets cannot reach.

    >>> batch = OutcomeBatch(["https://a.example/"], [1.0], changed=[True])
    >>> list(decode_frame(msgspec.msgpack.decode(encode_frame(batch)))) == list(batch)
    True
    """
    check_type("outcomes", outcomes, OutcomeBatch, "an OutcomeBatch")
    columns = encode_urls("url", outcomes.urls) | {"fetched_at": outcomes.fetched_at.astype("<f8")}
    carried = 0
    for field, (bit, _) in COLUMNS.items():
        column = getattr(outcomes, field)
        if column.size:
            columns[field] = _narrow(field, column)
            carried |= bit
    if len(outcomes.moved_to):
        columns |= encode_urls("moved_to", outcomes.moved_to)
        carried |= MOVED_TO
    if np.any(outcomes.given != carried):
        columns["given"] = outcomes.given
    return msgspec.msgpack.encode({"v": VERSION, **{field: column.tobytes() for field, column in columns.items()}})


def _narrow(field: str, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return `column` with the elements that a frame holds; a status that no HTTP knows keeps its 32 bits."""
    narrow: npt.NDArray[Any] = column.astype(next(iter(_TYPES[field].values())))
    return column.astype("<i4") if field == "status" and np.any(narrow != column) else narrow


def decode_frame(columns: Mapping[str, Any]) -> OutcomeBatch:
    """Return the outcomes of a frame, given as the map that a msgpack decoder makes of it.

    O(n), the URLs are not copied. Records may still break the event format: see `OutcomeBatch.problems`. Raises
    InvalidOutcome naming the column if the frame is inconsistent; its record is the first value at
    fault in a list, else 0.
    """
    check_type("columns", columns, Mapping, "the columns of a frame by name")
    check_marks(columns, VERSION, None)
    fetched_at = read_times("fetched_at", columns.get("fetched_at"))
    count = len(fetched_at)
    optional: dict[str, Any] = {
        field: read_column(field, columns[field], count, _TYPES[field])
        for field in COLUMNS
        if columns.get(field) is not None
    }
    present = sum(COLUMNS[field][0] for field in optional)
    if columns.get("moved_to") is not None:
        optional["moved_to"] = read_urls(columns, "moved_to", count)
        present |= MOVED_TO
    urls = read_urls(columns, "url", count)
    outcomes = OutcomeBatch(PackedUrls.pack(urls) if isinstance(urls, list) else urls, fetched_at, **optional)
    given = columns.get("given")
    if given is not None:
        outcomes.given &= read_given(given, count, present)
    return outcomes
