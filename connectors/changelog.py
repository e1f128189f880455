"""Change logs: when each page really changed, as ``epoch_seconds <TAB> op <TAB> url``, oldest first, no header.

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
from typing import Final

import numpy as np

from streamsched.connectors.columns import assemble, pack_bytes
from streamsched.connectors.ledger import Fault, describe
from streamsched.connectors.lines import LineFormat
from streamsched.connectors.sieve import Malformed
from streamsched.outcomes import CHANGED, STATUS, OutcomeBatch

__all__ = ["CHANGE_LOG"]

_EPOCH: Final = rb"-?\d{1,15}(?:\.\d{1,9})?"
_LINE: Final = re.compile(rb"^(" + _EPOCH + rb")\t([AMD])\t([^\t\r\n]+)\r?$", re.MULTILINE)
_FIELDS: Final = 3

_Row = tuple[bytes, bytes, bytes]


def _decode_whole(data: bytes, count: int) -> OutcomeBatch | None:
    """Return `count` lines as columns at once, None where one of them does not fit. Some 0.5 µs a line."""
    rows: list[_Row] = _LINE.findall(data)
    return _to_columns(rows) if len(rows) == count else None


def _parse_line(line: bytes) -> _Row:
    """Return epoch, op and URL of `line`; raises Malformed. O(bytes)."""
    found = _LINE.fullmatch(line)
    if found is not None:
        return found[1], found[2], found[3]
    fields = line.rstrip(b"\r").split(b"\t")
    if len(fields) != _FIELDS:
        raise Malformed(Fault("record", "expected epoch, op and url with a tab between them", describe(line)))
    epoch, op, url = fields
    if not re.fullmatch(_EPOCH, epoch):
        raise Malformed(Fault("fetched_at", "expected epoch seconds as a decimal number", describe(epoch)))
    if op not in (b"A", b"M", b"D"):
        raise Malformed(Fault("op", "expected A, M or D", describe(op)))
    raise Malformed(Fault("url", "expected one or more characters, no carriage return", describe(url)))


def _to_columns(rows: Sequence[_Row]) -> OutcomeBatch:
    epochs, ops, urls = zip(*rows, strict=True) if rows else ((), (), ())
    op = np.frombuffer(b"".join(ops), np.uint8)
    appeared = op == ord("A")
    columns = {"status": np.where(op == ord("D"), 404, 200).astype(np.int32), "changed": ~appeared}
    given = np.where(appeared, STATUS, STATUS | CHANGED).astype(np.uint8)
    return assemble(pack_bytes(urls), np.array(list(map(float, epochs)), np.float64), given, columns)


CHANGE_LOG: Final = LineFormat(_decode_whole, _parse_line, _to_columns)
