"""The columnar frame of signals: a batch as one msgpack map of field -> packed array, little-endian.

==================  ==================================  =========================================================
key                 value                               meaning
==================  ==================================  =========================================================
``v``               1                                   version of this table
``records``         "signals"                           marks a frame of signals: no frame of outcomes has it
``url``             bin                                 all URLs in UTF-8, one after the other
``url_offsets``     bin, uint32[n + 1]                  URL i is ``url[url_offsets[i]:url_offsets[i + 1]]``
``at``              bin, float64[n]                     UTC epoch seconds
``names``           list of str                         the different sources
``source``          bin, uint8[n] or int32[n]           the position of each signal's source in ``names``
``significance``    bin, float64[n] or float32[n]       optional, 0 to 1
``given``           bin, uint8[n]                       optional: 1 for a signal that has a significance, else 0;
                                                        absent: all have one if the column is there
==================  ==================================  =========================================================

The element type follows from the length. ``url`` may be a list of str without offsets, ``source`` a list of str without
``names``, and ``at`` and ``significance`` lists, nil for a signal without significance. Unknown keys are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np

from streamsched.connectors.records.packed_columns import (
    Packed,
    check_marks,
    encode_urls,
    read_column,
    read_given,
    read_times,
    read_urls,
)
from streamsched.errors import InvalidOutcome, InvalidSignal
from streamsched.numerics.argument_checks import check_type
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.signals import SignalBatch

__all__ = ["SIGNAL_FRAME_VERSION", "SignalFrame", "decode_signal_frame", "encode_signal_frame"]

SIGNAL_FRAME_VERSION: Final = 1
_MARK: Final = "signals"
_MOST_BYTE_CODES: Final = 256
_SOURCES: Final = {1: "u1", 4: "<i4"}
_AMOUNTS: Final = {8: "<f8", 4: "<f4"}


class SignalFrame(msgspec.Struct):
    """A frame as decoded from the wire, its packed arrays are views of the input."""

    v: Any = None
    records: Any = None
    url: Packed = None
    url_offsets: Packed = None
    at: Packed = None
    names: Any = None
    source: Packed = None
    significance: Packed = None
    given: Packed = None


def encode_signal_frame(signals: SignalBatch) -> bytes:
    """Return `signals` as one columnar frame, valid or not. O(bytes); about 70 bytes a signal.

    Raises ValueError if the URLs exceed 4 GiB, which 32-bit offsets cannot reach.

    >>> batch = SignalBatch(["https://a.example/"], [1.0], "sitemap")
    >>> list(decode_signal_frame(msgspec.msgpack.decode(encode_signal_frame(batch)))) == list(batch)
    True
    """
    check_type("signals", signals, SignalBatch, "a SignalBatch")
    names, source = _used_names(signals)
    columns = encode_urls("url", signals.urls) | {"at": signals.at.astype("<f8"), "source": source}
    if signals.significance.size and np.any(signals.given):
        columns["significance"] = signals.significance.astype("<f8")
        if not np.all(signals.given):
            columns["given"] = signals.given.astype(np.uint8)
    packed = {field: column.tobytes() for field, column in columns.items()}
    return msgspec.msgpack.encode({"v": SIGNAL_FRAME_VERSION, "records": _MARK, "names": names, **packed})


def _used_names(signals: SignalBatch) -> tuple[list[str], Any]:
    """Return the names that occur in `signals`, and each signal's position in them, in the narrowest type."""
    used, codes = np.unique(signals.source, return_inverse=True)
    narrow = codes.astype("u1" if used.size <= _MOST_BYTE_CODES else "<i4")
    return [signals.names[code] for code in used.tolist()], narrow


def decode_signal_frame(columns: Mapping[str, Any]) -> SignalBatch:
    """Return the signals of a frame, given as the map that a msgpack decoder makes of it.

    O(n), the URLs are not copied. Signals may still break the event format: see `SignalBatch.problems`. Raises
    InvalidSignal naming the column if the frame is inconsistent; its record is the first value at fault in a list, else
    0.
    """
    check_type("columns", columns, Mapping, "the columns of a frame by name")
    try:
        return _decode(columns)
    except InvalidOutcome as error:
        raise InvalidSignal(error.record, error.field, error.found, error.expected) from None


def _decode(columns: Mapping[str, Any]) -> SignalBatch:
    check_marks(columns, SIGNAL_FRAME_VERSION, _MARK)
    at = read_times("at", columns.get("at"))
    urls = read_urls(columns, "url", len(at))
    source = read_column("source", columns.get("source"), len(at), _SOURCES)
    names = None if isinstance(source, list) else _read_names(columns.get("names"), source)
    amounts = columns.get("significance")
    if amounts is not None:
        amounts = read_column("significance", amounts, len(at), _AMOUNTS)
    packed = PackedUrls.pack(urls) if isinstance(urls, list) else urls
    signals = SignalBatch(packed, at, source, amounts, names=names)
    if columns.get("given") is not None:
        signals.given &= read_given(columns["given"], len(at), present=int(amounts is not None)).astype(np.bool_)
    return signals


def _read_names(names: Any, source: Any) -> tuple[str, ...]:
    """Return the names of a frame; raises InvalidOutcome if `source` has a position beyond them."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidOutcome(0, "names", names, "a list of texts")
    strange = np.flatnonzero((source < 0) | (source >= len(names)))
    if strange.size:
        record = int(strange[0])
        raise InvalidOutcome(record, "source", source[record].item(), f"a position in {len(names)} names")
    return tuple(names)
