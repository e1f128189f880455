"""The columnar frame: a batch of outcomes or signals as one msgpack map of key -> packed array, little-endian.

==================  =========================  ======================================================================
key                 value                      meaning
==================  =========================  ======================================================================
``v``               1                          version of this table
``records``         "signals"                  marks a frame of signals: no frame of outcomes has it
``url``             bin                        all URLs in UTF-8, one after the other
``url_offsets``     bin, uint32[n + 1]         URL i is ``url[url_offsets[i]:url_offsets[i + 1]]``
a field's name      bin                        its column; of the URLs of another field as ``url``, with ``…_offsets``
``names``           list of str                the different sources of signals; ``source`` has positions in it
``given``           bin, uint8[n] or uint16[n] the bits of the optional fields that record i has; absent: all that the
                                               frame has columns of
==================  =========================  ======================================================================

The tables of docs/outcomes.md and docs/signal-streams.md have each field's bit and the element types of its packed
array; which it is follows from the length. Any column but the offsets and ``given`` may be a msgpack list instead, nil
if a record lacks the field; columns of URLs are then lists of str without offsets, ``source`` a list of str without
``names``, and ``status`` may hold words. Unknown keys are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias, TypeVar, overload

import msgspec
import numpy as np
import numpy.typing as npt

from streamsched.errors import InvalidOutcome
from streamsched.fields import GIVEN, NAME, Field, RecordColumns
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import OutcomeBatch
from streamsched.signals import SignalBatch

Batch = TypeVar("Batch", bound=RecordColumns)
Packed: TypeAlias = memoryview | list[Any] | None
"""A column of a frame as decoded from the wire: a packed array is a view of the input."""

VERSION: Final = 1
_MARKS: Final[Mapping[type[RecordColumns], str | None]] = {OutcomeBatch: None, SignalBatch: "signals"}
_OFFSETS: Final = ("<u4",)
_GIVEN: Final = ("u1", "<u2")


def frame_type(batch: type[RecordColumns]) -> type[msgspec.Struct]:
    """Return the type of a decoder's frames of `batch`; their packed arrays are views of the input."""
    names = [field.name for field in batch.FIELDS]
    offsets = [f"{field.name}_offsets" for field in batch.FIELDS if field.kind.dtype is None]
    packed = [(name, Packed, None) for name in (*names, *offsets, "given")]
    names_of_sources = [("names", Any, None)] if batch is SignalBatch else []
    return msgspec.defstruct("Frame", [("v", Any, None), ("records", Any, None), *names_of_sources, *packed])


def most_row_bytes(batch: type[RecordColumns]) -> int:
    """Return the most bytes that a record of `batch` takes in a frame, besides its texts.

    >>> most_row_bytes(SignalBatch)
    26
    """
    columns = [field.kind.packed or _OFFSETS for field in batch.FIELDS]
    return sum(max(np.dtype(each).itemsize for each in types) for types in (*columns, _GIVEN))


def encode_frame(batch: RecordColumns) -> bytes:
    """Return an OutcomeBatch or SignalBatch as one columnar frame, valid or not. O(bytes); about 80 bytes a record.

    Raises ValueError if the URLs exceed 4 GiB, which 32-bit offsets cannot reach.

    >>> batch = OutcomeBatch(["https://a.example/"], [1.0], changed=[True])
    >>> list(decode_frame(msgspec.msgpack.decode(encode_frame(batch)))) == list(batch)
    True
    """
    frame: dict[str, Any] = {"v": VERSION}
    source = None
    if isinstance(batch, SignalBatch):
        used, source = np.unique(batch.source, return_inverse=True)
        frame |= {"records": _MARKS[SignalBatch], "names": [batch.names[code] for code in used.tolist()]}
    carried = int(np.bitwise_or.reduce(batch.given))
    for field in batch.FIELDS:
        column: Any = getattr(batch, field.column)
        if field.bit and not carried & field.bit:
            continue
        if isinstance(column, PackedUrls):
            frame |= _encode_urls(field.name, column)
        else:
            frame[field.name] = _narrow(field, column if source is None or field.kind is not NAME else source).tobytes()
    if (batch.given != carried).any():
        frame["given"] = batch.given.astype(_GIVEN[carried > 0xFF]).tobytes()
    return msgspec.msgpack.encode(frame)


def _encode_urls(name: str, urls: PackedUrls) -> dict[str, bytes]:
    """Return the two columns of `urls`. Raises ValueError from 4 GiB on."""
    start, stop = int(urls.offsets[0]), int(urls.offsets[-1])
    if stop - start > np.iinfo(np.uint32).max:
        raise ValueError(
            f"{name}: expected less than 4 GiB in one frame, found {stop - start} bytes: encode fewer records"
        )
    offsets = (urls.offsets - start).astype("<u4")
    return {name: urls.blob[start:stop].tobytes(), f"{name}_offsets": offsets.tobytes()}


def _narrow(field: Field, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return `column` with the first elements of a frame that hold its values."""
    first, *others = field.kind.packed
    narrow: npt.NDArray[Any] = column.astype(first)
    return column.astype(others[0]) if column.dtype.kind == "i" and others and (narrow != column).any() else narrow


@overload
def decode_frame(columns: Mapping[str, Any]) -> OutcomeBatch: ...


@overload
def decode_frame(columns: Mapping[str, Any], of: type[Batch]) -> Batch: ...


def decode_frame(columns: Mapping[str, Any], of: type[RecordColumns] = OutcomeBatch) -> RecordColumns:
    """Return the records of a frame, given as the map that a msgpack decoder makes of it.

    `of`: OutcomeBatch or SignalBatch. O(n), the URLs are not copied. Records may still break the event format: see
    `problems`. Raises InvalidOutcome or InvalidSignal naming the column if the frame is inconsistent; its record is the
    first value at fault in a list, else 0.
    """
    try:
        return _decode(columns, of)
    except InvalidOutcome as error:
        raise of.ERROR(error.record, error.field, error.found, error.expected) from None


def _decode(columns: Mapping[str, Any], of: type[Batch]) -> Batch:
    if type(columns.get("v")) is not int or columns["v"] != VERSION:
        raise InvalidOutcome(0, "v", columns.get("v"), f"frame version {VERSION}")
    mark = _MARKS[of]
    if columns.get("records") != mark:
        expected = "no mark, as in frames of outcomes" if mark is None else repr(mark)
        raise InvalidOutcome(0, "records", columns.get("records"), expected)
    time = of.FIELDS[1]
    times = _read_times(time, columns.get(time.name))
    decoded: dict[str, Any] = {time.name: times}
    present = 0
    for field in of.FIELDS:
        if field is time or (field.bit and columns.get(field.name) is None):
            continue
        present |= field.bit
        if field.kind.dtype is None:
            decoded[field.column] = _read_urls(columns, field.name, len(times))
        else:
            decoded[field.column] = _read_column(field.name, columns.get(field.name), len(times), field.kind.packed)
    if isinstance(decoded["urls"], list):
        decoded["urls"] = PackedUrls.pack(decoded["urls"])
    if of is SignalBatch and not isinstance(decoded["source"], list):
        decoded["names"] = _read_names(columns.get("names"), decoded["source"])
    batch = of(**decoded)
    if columns.get("given") is not None:
        batch.given &= _read_given(columns["given"], len(times), present)
    return batch


def _read_times(field: Field, value: Any) -> Any:
    """Return the column of times, whose length is that of the frame: an array, or the list it is."""
    if value is None:
        raise InvalidOutcome(0, field.name, "nothing", "a packed array or list")
    if isinstance(value, list):
        return value
    raw = _view(field.name, value)
    if raw.nbytes % 8:
        raise InvalidOutcome(0, field.name, f"{raw.nbytes} bytes", "float64[n], a multiple of 8 bytes")
    return _read_column(field.name, value, raw.nbytes // 8, field.kind.packed)


def _read_column(name: str, value: Any, count: int, types: tuple[str, ...]) -> Any:
    """Return `value` as an aligned array of its own or as the list it is, `count` long.

    `types`: the element types that the column may have, of different widths.
    """
    if isinstance(value, list):
        if len(value) != count:
            raise InvalidOutcome(0, name, f"{len(value)} values", f"{count} values, as there are times")
        return value
    raw = _view(name, value)
    for dtype in map(np.dtype, types):
        if raw.nbytes == dtype.itemsize * count:
            # The copy is aligned and writable, so that kernels meet one kind of array only.
            return np.frombuffer(raw, dtype).astype(dtype.newbyteorder("="))
    sizes = " or ".join(str(np.dtype(each).itemsize * count) for each in types)
    raise InvalidOutcome(0, name, f"{raw.nbytes} bytes", f"{sizes} bytes, {count} values as there are times")


def _read_urls(columns: Mapping[str, Any], name: str, count: int) -> PackedUrls | list[Any]:
    """Return a column of URLs packed, or as the list it is, `count` long."""
    urls, packed = columns.get(name), columns.get(f"{name}_offsets")
    if isinstance(urls, list):
        return list(_read_column(name, urls, count, ()))
    if urls is None or packed is None or isinstance(packed, list):
        missing = name if urls is None else f"{name}_offsets"
        raise InvalidOutcome(0, missing, "nothing" if packed is None else "a list", "a packed array")
    offsets = _read_column(f"{name}_offsets", packed, count + 1, _OFFSETS)
    blob = _view(name, urls)
    try:
        return PackedUrls(blob, offsets)
    except ValueError:
        found = offsets[-1].item()
        raise InvalidOutcome(0, f"{name}_offsets", found, f"to ascend to at most {blob.nbytes}") from None


def _read_names(names: Any, source: Any) -> tuple[str, ...]:
    """Return the names of a frame; raises InvalidOutcome if `source` has a position beyond them."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidOutcome(0, "names", names, "a list of texts")
    strange = np.flatnonzero((source < 0) | (source >= len(names)))
    if strange.size:
        record = int(strange[0])
        raise InvalidOutcome(record, "source", source[record].item(), f"a position in {len(names)} names")
    return tuple(names)


def _read_given(value: Any, count: int, present: int) -> npt.NDArray[np.uint16]:
    """Return the column of bits that say which fields a record has, a subset of `present`: uint16[n]."""
    column = _read_column("given", value, count, _GIVEN)
    if isinstance(column, list):
        raise InvalidOutcome(0, "given", "a list", "uint8[n] or uint16[n], packed")
    given: npt.NDArray[np.uint16] = column.astype(GIVEN)
    strange = np.flatnonzero(given & GIVEN.type(0xFFFF ^ present))
    if strange.size:
        record = int(strange[0])
        raise InvalidOutcome(record, "given", given[record].item(), "bits of the columns that the frame has")
    return given


def _view(name: str, value: Any) -> memoryview:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise InvalidOutcome(0, name, value, "a packed array or list")
    return memoryview(value).cast("B")
