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
``moved_to``     bin                                 where the pages redirect, as ``url``
``moved_to_offsets``  bin, uint32[n + 1]             as ``url_offsets``
``given``        bin, uint8[n]                       bits of `streamsched.outcomes` (1 status, 2 fingerprint,
                                                     4 changed, 8 importance, 16 cost, 32 retry_after,
                                                     64 moved_to): which of the columns record i carries; absent:
                                                     every one there is
===============  ==================================  ==========================================================

The element type follows from the length. Any column but the offsets and ``given`` may be a msgpack list instead, nil if
a record lacks the field; ``url`` and ``moved_to`` are then lists of str without offsets, and ``status`` may hold the
words ``"robots_denied"`` and ``"not_attempted"``. Unknown keys are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from streamsched.errors import InvalidOutcome
from streamsched.numerics.argument_checks import check_type
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import COLUMNS, MOVED_TO, OutcomeBatch

__all__ = ["VERSION", "FrameColumns", "decode_frame", "encode_frame"]

VERSION: Final = 1

_TYPES: Final = {  # of each column's elements, by their width in bytes; `encode_frame` writes the first
    "url_offsets": {4: "<u4"},
    "fetched_at": {8: "<f8"},
    "status": {2: "<i2", 4: "<i4"},
    "fingerprint": {8: "<u8"},
    "changed": {1: "u1"},
    "importance": {8: "<f8", 4: "<f4"},
    "cost": {8: "<f8", 4: "<f4"},
    "retry_after": {8: "<f8", 4: "<f4"},
    "moved_to_offsets": {4: "<u4"},
    "given": {1: "u1"},
}

_Packed = memoryview | list[Any] | None


class FrameColumns(msgspec.Struct):
    """A frame as decoded from the wire, its packed arrays are views of the input."""

    v: Any = None
    url: _Packed = None
    url_offsets: _Packed = None
    fetched_at: _Packed = None
    status: _Packed = None
    fingerprint: _Packed = None
    changed: _Packed = None
    importance: _Packed = None
    cost: _Packed = None
    retry_after: _Packed = None
    moved_to: _Packed = None
    moved_to_offsets: _Packed = None
    given: _Packed = None


def encode_frame(outcomes: OutcomeBatch) -> bytes:
    """Return `outcomes` as one columnar frame, valid or not. O(bytes); about 80 bytes an outcome.

    Raises ValueError if the URLs exceed 4 GiB, which 32-bit offsets cannot reach.

    >>> batch = OutcomeBatch(["https://a.example/"], [1.0], changed=[True])
    >>> list(decode_frame(msgspec.msgpack.decode(encode_frame(batch)))) == list(batch)
    True
    """
    check_type("outcomes", outcomes, OutcomeBatch, "an OutcomeBatch")
    columns = _encode_urls("url", outcomes.urls) | {"fetched_at": outcomes.fetched_at.astype("<f8")}
    carried = 0
    for field, (bit, _) in COLUMNS.items():
        column = getattr(outcomes, field)
        if column.size:
            columns[field] = _narrow(field, column)
            carried |= bit
    if len(outcomes.moved_to):
        columns |= _encode_urls("moved_to", outcomes.moved_to)
        carried |= MOVED_TO
    if np.any(outcomes.given != carried):
        columns["given"] = outcomes.given
    return msgspec.msgpack.encode({"v": VERSION, **{field: column.tobytes() for field, column in columns.items()}})


def _encode_urls(field: str, urls: PackedUrls) -> dict[str, npt.NDArray[Any]]:
    start, stop = int(urls.offsets[0]), int(urls.offsets[-1])
    if stop - start > np.iinfo(np.uint32).max:
        raise ValueError(
            f"{field}: expected less than 4 GiB in one frame, found {stop - start} bytes: encode fewer outcomes"
        )
    return {field: urls.blob[start:stop], f"{field}_offsets": (urls.offsets - start).astype("<u4")}


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
    if type(columns.get("v")) is not int or columns["v"] != VERSION:
        raise InvalidOutcome(0, "v", columns.get("v"), f"frame version {VERSION}")
    fetched_at = _read_times(columns.get("fetched_at"))
    count = len(fetched_at)
    optional: dict[str, Any] = {
        field: _read_column(field, columns[field], count) for field in COLUMNS if columns.get(field) is not None
    }
    present = sum(COLUMNS[field][0] for field in optional)
    if columns.get("moved_to") is not None:
        optional["moved_to"] = _read_urls(columns, "moved_to", count)
        present |= MOVED_TO
    urls = _read_urls(columns, "url", count)
    outcomes = OutcomeBatch(PackedUrls.pack(urls) if isinstance(urls, list) else urls, fetched_at, **optional)
    given = columns.get("given")
    if given is not None:
        outcomes.given &= _read_given(given, count, present)
    return outcomes


def _read_times(value: Any) -> Any:
    if value is None:
        raise InvalidOutcome(0, "fetched_at", "nothing", "a packed array or list")
    if isinstance(value, list):
        return value
    raw = _view("fetched_at", value)
    if raw.nbytes % 8:
        raise InvalidOutcome(0, "fetched_at", f"{raw.nbytes} bytes", "float64[n], a multiple of 8 bytes")
    return _read_column("fetched_at", value, raw.nbytes // 8)


def _read_column(field: str, value: Any, count: int) -> Any:
    """Return `value` as an aligned array of its own or as the list it is, `count` long."""
    if isinstance(value, list):
        if len(value) != count:
            raise InvalidOutcome(0, field, f"{len(value)} values", f"{count} values, as in fetched_at")
        return value
    raw = _view(field, value)
    for width, name in _TYPES[field].items():
        if raw.nbytes == width * count:
            # The copy is aligned and writable, so that kernels meet one kind of array only.
            return np.frombuffer(raw, name).astype(np.dtype(name).newbyteorder("="))
    sizes = " or ".join(str(width * count) for width in _TYPES[field])
    raise InvalidOutcome(0, field, f"{raw.nbytes} bytes", f"{sizes} bytes, {count} values as in fetched_at")


def _read_urls(columns: Mapping[str, Any], field: str, count: int) -> PackedUrls | list[Any]:
    """Return a column of URLs packed, or as the list it is, `count` long."""
    urls, packed = columns.get(field), columns.get(f"{field}_offsets")
    if isinstance(urls, list):
        return list(_read_column(field, urls, count))
    if urls is None or packed is None or isinstance(packed, list):
        missing = field if urls is None else f"{field}_offsets"
        raise InvalidOutcome(0, missing, "nothing" if packed is None else "a list", "a packed array")
    offsets = _read_column(f"{field}_offsets", packed, count + 1)
    blob = _view(field, urls)
    try:
        return PackedUrls(blob, offsets)
    except ValueError:
        found = offsets[-1].item()
        raise InvalidOutcome(0, f"{field}_offsets", found, f"to ascend to at most {blob.nbytes}") from None


def _read_given(value: Any, count: int, present: int) -> npt.NDArray[np.uint8]:
    given: npt.NDArray[np.uint8] = np.asarray(_read_column("given", value, count))
    if given.dtype != np.uint8:
        raise InvalidOutcome(0, "given", "a list", "uint8[n], packed")
    strange = np.flatnonzero(given & np.uint8(0xFF ^ present))
    if strange.size:
        record = int(strange[0])
        raise InvalidOutcome(record, "given", given[record].item(), "bits of the columns that the frame has")
    return given


def _view(field: str, value: Any) -> memoryview:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise InvalidOutcome(0, field, value, "a packed array or list")
    return memoryview(value).cast("B")
