"""The packed arrays of a columnar frame, little-endian, and lists of URLs; shared by all types of records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from streamsched.errors import InvalidOutcome
from streamsched.numerics.packed_urls import PackedUrls

__all__ = [
    "Packed",
    "check_marks",
    "encode_urls",
    "join_urls",
    "pack_bytes",
    "read_column",
    "read_given",
    "read_times",
    "read_urls",
]

Packed: TypeAlias = memoryview | list[Any] | None
"""A column of a frame as decoded from the wire: a packed array is a view of the input."""

_OFFSETS = {4: "<u4"}


def check_marks(columns: Mapping[str, Any], version: int, records: str | None) -> None:
    """Raise InvalidOutcome unless a frame has the version `version` and the mark `records`, None for no mark."""
    if type(columns.get("v")) is not int or columns["v"] != version:
        raise InvalidOutcome(0, "v", columns.get("v"), f"frame version {version}")
    if columns.get("records") != records:
        expected = "no mark, as in frames of outcomes" if records is None else repr(records)
        raise InvalidOutcome(0, "records", columns.get("records"), expected)


def encode_urls(field: str, urls: PackedUrls) -> dict[str, npt.NDArray[Any]]:
    """Return the two columns of `urls`. Raises ValueError from 4 GiB on."""
    start, stop = int(urls.offsets[0]), int(urls.offsets[-1])
    if stop - start > np.iinfo(np.uint32).max:
        raise ValueError(
            f"{field}: expected less than 4 GiB in one frame, found {stop - start} bytes: encode fewer records"
        )
    return {field: urls.blob[start:stop], f"{field}_offsets": (urls.offsets - start).astype("<u4")}


def read_times(field: str, value: Any) -> Any:
    """Return the column of times, whose length is that of the frame: an array, or the list it is."""
    if value is None:
        raise InvalidOutcome(0, field, "nothing", "a packed array or list")
    if isinstance(value, list):
        return value
    raw = _view(field, value)
    if raw.nbytes % 8:
        raise InvalidOutcome(0, field, f"{raw.nbytes} bytes", "float64[n], a multiple of 8 bytes")
    return read_column(field, value, raw.nbytes // 8, {8: "<f8"})


def read_column(field: str, value: Any, count: int, types: Mapping[int, str]) -> Any:
    """Return `value` as an aligned array of its own or as the list it is, `count` long.

    `types`: the element types that the column may have, by their width in bytes.
    """
    if isinstance(value, list):
        if len(value) != count:
            raise InvalidOutcome(0, field, f"{len(value)} values", f"{count} values, as there are times")
        return value
    raw = _view(field, value)
    for width, name in types.items():
        if raw.nbytes == width * count:
            # The copy is aligned and writable, so that kernels meet one kind of array only.
            return np.frombuffer(raw, name).astype(np.dtype(name).newbyteorder("="))
    sizes = " or ".join(str(width * count) for width in types)
    raise InvalidOutcome(0, field, f"{raw.nbytes} bytes", f"{sizes} bytes, {count} values as there are times")


def read_urls(columns: Mapping[str, Any], field: str, count: int) -> PackedUrls | list[Any]:
    """Return a column of URLs packed, or as the list it is, `count` long."""
    urls, packed = columns.get(field), columns.get(f"{field}_offsets")
    if isinstance(urls, list):
        return list(read_column(field, urls, count, {}))
    if urls is None or packed is None or isinstance(packed, list):
        missing = field if urls is None else f"{field}_offsets"
        raise InvalidOutcome(0, missing, "nothing" if packed is None else "a list", "a packed array")
    offsets = read_column(f"{field}_offsets", packed, count + 1, _OFFSETS)
    blob = _view(field, urls)
    try:
        return PackedUrls(blob, offsets)
    except ValueError:
        found = offsets[-1].item()
        raise InvalidOutcome(0, f"{field}_offsets", found, f"to ascend to at most {blob.nbytes}") from None


def read_given(value: Any, count: int, present: int) -> npt.NDArray[np.uint8]:
    """Return the column of bits that say which fields a record carries, a subset of `present`: uint8[n]."""
    given: npt.NDArray[np.uint8] = np.asarray(read_column("given", value, count, {1: "u1"}))
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


def join_urls(parts: Sequence[PackedUrls]) -> PackedUrls:
    """Return the URLs of `parts`, at least one, as one list. O(bytes).

    >>> list(join_urls([PackedUrls.pack(["https://a.example/"]), PackedUrls.pack(["https://b.example/"])]))
    ['https://a.example/', 'https://b.example/']
    """
    offsets = [part.offsets for part in parts]
    blobs = [part.blob[one[0] : one[-1]] for part, one in zip(parts, offsets, strict=True)]
    starts = np.cumsum([0, *(blob.size for blob in blobs)])
    ends = [one[1:] - one[0] + start for one, start in zip(offsets, starts[:-1], strict=True)]
    return PackedUrls(np.concatenate(blobs), np.concatenate([np.zeros(1, np.int64), *ends]))


def pack_bytes(urls: Sequence[bytes]) -> PackedUrls:
    """Return `urls`, UTF-8 or not, packed. O(bytes).

    >>> list(pack_bytes([b"https://a.example/", b"https://b.example/"]))
    ['https://a.example/', 'https://b.example/']
    """
    offsets = np.zeros(len(urls) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, urls), np.int64, len(urls)), out=offsets[1:])
    return PackedUrls(b"".join(urls), offsets)
