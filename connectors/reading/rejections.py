"""Validation of records: the valid ones become columns, the others rejections.

Of rejections their number and the last 100 are kept, and on request all of them in a dead-letter file.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import msgspec
import numpy as np

from streamsched.connectors.source import Records, Rejection, Unit
from streamsched.errors import InvalidRecord, SourceError, shorten

KEPT: Final = 100  # rejections at hand for a report; the dead-letter file has all
MAX_RAW_BYTES: Final = 1 << 20  # of a record in a dead letter: a frame fits, endless garbage does not
_SHOWN_BYTES: Final = 200  # more than a report shows of a record


class RecordProblem(NamedTuple):
    """A problem of a record: the field, the reason as "expected …", and what was found."""

    field: str
    reason: str
    found: str

    @classmethod
    def of(cls, problem: InvalidRecord, where: str = "") -> RecordProblem:
        """Return `problem` as a RecordProblem; `where` is appended to the reason."""
        return cls(problem.field, f"expected {problem.expected}{where}", shorten(problem.found))


class RejectionSink(Protocol):
    """Receives the records that a decoder rejects."""

    def reject(self, offset: int, fault: RecordProblem, raw: bytes, *, size: int | None = None) -> None:
        """Record a rejection of the record at `offset`; `size` is its length if `raw` is only its head."""
        ...


class Rejections:
    """Counts rejections, keeps the last 100 and writes all of them to a dead-letter file if one is given.

    A dead letter is a JSON line with ``path``, ``unit``, ``offset``, ``field``, ``reason``, ``found`` and the record as
    ``raw`` if it is UTF-8 or else ``raw_base64``, cut to 1 MiB with its full ``raw_bytes`` beside it.
    Lines are appended, and passed to the operating system before the position after them is delivered.
    """

    def __init__(self, dead_letters: str | Path | None = None) -> None:
        self.count = 0
        self.last: deque[Rejection] = deque(maxlen=KEPT)
        self._letters = None
        if dead_letters is not None:
            with _writing(dead_letters):
                self._letters = Path(dead_letters).open("ab")  # noqa: SIM115  closed by `close`

    def add(self, rejection: Rejection, raw: bytes, size: int) -> None:
        """Count `rejection` of the record that begins with `raw` and is `size` bytes long. O(1) beside the letter."""
        self.count += 1
        self.last.append(rejection)
        if self._letters is not None:
            with _writing(self._letters.name):
                self._letters.write(_format_dead_letter(rejection, raw, size))

    def flush(self) -> None:
        """Pass the dead letters written so far to the operating system."""
        if self._letters is not None:
            with _writing(self._letters.name):
                self._letters.flush()

    def close(self) -> None:
        """Close the dead-letter file; a second call does nothing."""
        if self._letters is not None:
            with _writing(self._letters.name):
                self._letters.close()


@dataclass(frozen=True, slots=True)
class RejectionCounter:
    """Counts the rejections of one file or partition; offsets are lines from 1, bytes from 0 or messages."""

    rejections: Rejections
    path: str
    unit: Unit

    def reject(self, offset: int, fault: RecordProblem, raw: bytes, *, size: int | None = None) -> None:
        """Record a rejection of the record at `offset`; `size` is its length if `raw` is only its head."""
        rejection = Rejection(self.path, self.unit, offset, *fault)
        self.rejections.add(rejection, raw, len(raw) if size is None else size)

    def beside(self, path: str) -> RejectionCounter:
        """Return the counter for a companion file."""
        return replace(self, path=path)


@contextmanager
def _writing(path: str | Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SourceError(str(path), f"cannot write dead letters: {error.strerror}") from error


def describe(raw: bytes) -> str:
    """Return the beginning of `raw` as text for a report.

    >>> describe(b"1692662400 M https://example.org/")
    "'1692662400 M https://example.org/'"
    """
    return shorten(raw[:_SHOWN_BYTES].decode("utf-8", "replace"))


def _format_dead_letter(rejection: Rejection, raw: bytes, size: int) -> bytes:
    letter: dict[str, Any] = {field: getattr(rejection, field) for field in rejection.__slots__}
    head = raw[:MAX_RAW_BYTES]
    try:
        letter["raw"] = head.decode("utf-8")
    except UnicodeDecodeError:
        letter["raw_base64"] = base64.b64encode(head).decode("ascii")
    if size > len(head):
        letter["raw_bytes"] = size
    return msgspec.json.encode(letter) + b"\n"


Row = TypeVar("Row")


class ParseError(ValueError):
    """A record could not be decoded; ``problem`` says why."""

    def __init__(self, problem: RecordProblem) -> None:
        self.problem = problem
        super().__init__(problem)


def keep_valid(records: Records, reject: Callable[[int, RecordProblem], None]) -> Records:
    """Return the valid ones of `records` and call `reject` with the others; itself if all are valid."""
    problems = records.problems()
    if not problems:
        return records
    keep = np.ones(len(records), np.bool_)
    for problem in problems:
        keep[problem.record] = False
        reject(problem.record, RecordProblem.of(problem))
    return records.take(np.flatnonzero(keep))


def parse_each(
    records: Mapping[int, bytes], parse: Callable[[bytes], Row]
) -> tuple[dict[int, Row], dict[int, RecordProblem]]:
    """Return the parsed `records` and the problems of those for which `parse` raises ParseError, by line or offset."""
    rows: dict[int, Row] = {}
    problems: dict[int, RecordProblem] = {}
    for offset, raw in records.items():
        try:
            rows[offset] = parse(raw)
        except ParseError as error:
            problems[offset] = error.problem
    return rows, problems


def parse_valid(
    records: Mapping[int, bytes],
    parse: Callable[[bytes], Row],
    to_columns: Callable[[Sequence[Row]], Records],
    rejections: RejectionSink,
) -> tuple[Records, list[int]]:
    """Return the valid ones of `records`, raw bytes by line or offset, and where they are; reject the others in order.

    O(bytes). `parse` raises ParseError if a record cannot be decoded; `to_columns` makes columns of the parsed records.
    """
    rows, problems = parse_each(records, parse)
    offsets = list(rows)
    valid = keep_valid(
        to_columns(list(rows.values())), lambda record, problem: problems.update({offsets[record]: problem})
    )
    reject_each(records, problems, rejections)
    return valid, [offset for offset in offsets if offset not in problems]


def reject_each(records: Mapping[int, bytes], problems: Mapping[int, RecordProblem], rejections: RejectionSink) -> None:
    """Reject the `records` that have `problems`, in order."""
    for offset in sorted(problems):
        rejections.reject(offset, problems[offset], records[offset])
