"""Change logs: when each page really changed, as ``epoch_seconds <TAB> op <TAB> url``, oldest first, no header.

A line may have a fourth field after another tab: the significance of the change, from 0 to 1.

Read as outcomes, a line is the visit that finds the change at the second it happened:

=====  =============================  ===========================================================================
op     meaning                        outcome
=====  =============================  ===========================================================================
``A``  the page appeared              status 200, ``changed`` absent: a first visit, or a change after a ``D``
``M``  its content changed            status 200, ``changed`` true
``D``  it is gone                     status 404, ``changed`` true
=====  =============================  ===========================================================================

So a scheduler that observes the log learns every change; a replay reads the same outcomes as ground truth instead.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from streamsched.connectors.reading.lines import LineChunk, LineFormat
from streamsched.connectors.reading.rejections import ParseError, RecordProblem, describe
from streamsched.fields import GIVEN
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import CHANGED, SIGNIFICANCE, STATUS, OutcomeBatch

_EPOCH: Final = re.compile(rb"-?\d{1,15}(?:\.\d{1,9})?")
_EPOCH_DIGITS: Final = 15
_OPS: Final = frozenset((b"A", b"M", b"D"))
_FIELDS: Final = 3  # on a line without significance
_PART: Final = re.compile(rb"0(?:\.\d{1,400})?|1(?:\.0{1,400})?")

_Row = tuple[bytes, bytes, bytes, bytes]  # the last is empty without significance


def _decode_whole(chunk: LineChunk) -> OutcomeBatch | None:
    """Return the lines as columns; None if they must be parsed one by one. Some 0.4 µs a line."""
    tabs = np.flatnonzero(np.frombuffer(chunk.data, np.uint8) == ord("\t"))
    size = _FIELDS + (tabs.size == _FIELDS * len(chunk))
    most = size - 1  # tabs on a line
    if tabs.size != most * len(chunk) or np.any(tabs[most - 1 :: most] > chunk.ends):
        return None
    if np.any(tabs[most::most] < chunk.ends[:-1]):
        return None
    fields = chunk.data.replace(b"\n", b"\t").split(b"\t")
    epochs, ops, urls, *parts = (fields[column : size * len(chunk) : size] for column in range(size))
    plain = b"".join(epochs).isdigit() and max(map(len, epochs)) <= _EPOCH_DIGITS and all(epochs)
    if not plain or b"\r" in chunk.data or set(ops) - _OPS:
        return None
    if parts and not all(map(_PART.fullmatch, parts[0])):
        return None
    return _to_columns(epochs, ops, urls, *parts)


def _parse_line(line: bytes) -> _Row:
    """Return epoch, op, URL and significance of `line`; raises ParseError. O(bytes)."""
    fields = line.removesuffix(b"\r").split(b"\t")
    if not _FIELDS <= len(fields) <= _FIELDS + 1:
        raise ParseError(RecordProblem("record", "expected epoch, op and url with a tab between them", describe(line)))
    epoch, op, url, *parts = fields
    if not _EPOCH.fullmatch(epoch):
        raise ParseError(RecordProblem("fetched_at", "expected epoch seconds as a decimal number", describe(epoch)))
    if op not in _OPS:
        raise ParseError(RecordProblem("op", "expected A, M or D", describe(op)))
    if parts and not _PART.fullmatch(parts[0]):
        raise ParseError(RecordProblem("significance", "expected a number from 0 to 1", describe(parts[0])))
    return epoch, op, url, parts[0] if parts else b""


def _to_columns(
    epochs: Sequence[bytes], ops: Sequence[bytes], urls: Sequence[bytes], parts: Sequence[bytes] = ()
) -> OutcomeBatch:
    op = np.frombuffer(b"".join(ops), np.uint8)
    appeared = op == ord("A")
    columns: dict[str, Any] = {"status": np.where(op == ord("D"), 404, 200).astype(np.int32), "changed": ~appeared}
    given = np.where(appeared, STATUS, STATUS | CHANGED).astype(GIVEN)
    if any(parts):
        columns["significance"] = np.array([float(part or 0) for part in parts])
        given |= np.array([SIGNIFICANCE if part else 0 for part in parts], GIVEN)
    batch = OutcomeBatch(PackedUrls.pack_bytes(urls), np.array(list(map(float, epochs)), np.float64), **columns)
    batch.given = given
    return batch


def _rows_to_columns(rows: Sequence[_Row]) -> OutcomeBatch:
    epochs, ops, urls, parts = zip(*rows, strict=True) if rows else ((), (), (), ())
    return _to_columns(epochs, ops, urls, parts)


CHANGE_LOG: Final = LineFormat(_decode_whole, _parse_line, _rows_to_columns)
