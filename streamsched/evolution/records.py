"""Records of evolutions: the results of each, its inputs and the decision; one JSON object per line in an append-only
file.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_type_hints

import msgspec

from streamsched.api.views import TrialView
from streamsched.errors import SnapshotError
from streamsched.evolution.promotion import Verdict
from streamsched.formula.champion import Champion
from streamsched.persistence.files import (
    append_whole,
    as_snapshot_errors,
    open_regular,
    read_regular,
    sync_directory,
    write_file,
)

RECORDS_NAME: Final = "evolutions.jsonl"
Trigger: TypeAlias = Literal["schedule", "drift", "asked", "trial"]
Decision: TypeAlias = Literal["promoted", "kept", "failed", "set", "trial", "rolled_back"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A formula that an evolution considered, and its mean fitness on three page sets; None if not evaluated there."""

    formula: str
    train: float | None = None
    validation: float | None = None
    held_out: float | None = None


@dataclass(frozen=True, slots=True)
class DataSpan:
    """Training data of an evolution: `cycles` cycles of `pages` pages from `start_s`, UTC epoch seconds.

    `observed`: share of page-cycles that visits observed; the rest was imputed from the pages' posteriors. `panel`:
    number of pages that were visited every cycle regardless of score. `newcomers`: number of pages left out because
    their first visit was after `start_s`.
    """

    start_s: float
    cycles: int
    pages: int
    observed: float = 1.0
    panel: int = 0
    newcomers: int = 0

    def __str__(self) -> str:
        rest = "" if self.observed >= 1.0 else ", the rest completed"
        pages = f"{self.pages:,} page{'s' if self.pages != 1 else ''}"
        cycles = f"{self.cycles} cycle{'s' if self.cycles != 1 else ''}"
        return f"{pages} × {cycles}, {self.observed:.1%} seen{rest}".replace("%", " %")


@dataclass(frozen=True, slots=True)
class EvolutionResult:
    """Result of an evolution: challenger and verdict, other candidates, elites.

    ``archive``: formulas for the next evolution to start from, best first. `challenger` is None if nothing beat the
    champion on the validation pages; then no contest was held.
    """

    challenger: str | None
    verdict: Verdict | None
    candidates: tuple[Candidate, ...] = ()
    archive: tuple[str, ...] = ()
    metric: str = "ndcg"
    data: DataSpan | None = None

    def __post_init__(self) -> None:
        if self.verdict is not None and not self.challenger:
            raise ValueError("evolution result: expected a challenger, as there is a verdict")

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain JSON values; non-finite numbers become None."""
        return plain_values(self)

    @classmethod
    def from_json(cls, content: object) -> EvolutionResult:
        """Return the result with these fields. Raises ValueError if they are invalid."""
        return msgspec.convert(content, cls)


@dataclass(frozen=True, slots=True)
class EvolutionRecord:
    """One evolution, or one formula set by hand, with everything that led to the champion after it.

    `when_s`: UTC epoch seconds. `trigger`: "schedule", "drift", "asked", or "trial" for the end of a trial. `decision`:
    "promoted", "kept", "failed" (the evolution did not complete), "set" (by hand), "trial" (a challenger won the
    contest, and a trial of it has begun) or "rolled_back" (the trial showed that it is worse). `why`: one sentence.
    `trial`: the evidence with which a trial ended. `seconds`: duration, the only field in which two runs from the same
    data and seed may differ.
    """

    number: int
    when_s: float
    trigger: Trigger
    decision: Decision
    why: str
    champion_before: Champion
    champion_after: Champion
    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    data: DataSpan | None = None
    candidates: tuple[Candidate, ...] = ()
    challenger: str | None = None
    metric: str | None = None
    verdict: Verdict | None = None
    trial: TrialView | None = None
    seconds: float | None = field(default=None, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain JSON values; non-finite numbers become None."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        champions = {name: value.to_json() for name, value in values.items() if isinstance(value, Champion)}
        return plain_values(values | champions)

    @classmethod
    def from_json(cls, content: object) -> EvolutionRecord:
        """Return the record with these fields. Raises ValueError if they are invalid."""
        kinds, given = get_type_hints(cls), msgspec.convert(content, dict[str, Any])
        try:
            values: dict[str, Any] = {
                name: Champion.from_json(value) if kinds[name] is Champion else msgspec.convert(value, kinds[name])
                for name, value in given.items()
            }
            return cls(**values)
        except KeyError as error:
            raise ValueError(f"unknown field {error}") from error
        except TypeError as error:
            needed = [one.name for one in fields(cls) if one.default is MISSING and one.default_factory is MISSING]
            missing = [name for name in needed if name not in given]
            raise ValueError(f"missing {', '.join(missing)}") from error


def plain_values(content: object) -> dict[str, Any]:
    """Return the fields of a result as plain JSON values; non-finite numbers become None."""
    values: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(content))
    return values


@dataclass(frozen=True, slots=True)
class RecordFault:
    """An invalid line: `line` counts from 1; `torn`: it is the last line and was only partly written."""

    line: int
    reason: str
    torn: bool = False

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


class RecordBook:
    """Append-only file ``evolutions.jsonl`` of the evolution records in a directory.

    A line is complete or detectably torn, and on disk when `append` returns. A torn or damaged line affects no other
    line, and its number is not reused.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / RECORDS_NAME

    def read(self) -> tuple[list[EvolutionRecord], list[RecordFault]]:
        """Return all records in file order, and a fault for each invalid line. O(bytes).

        A missing file has no records. Raises SnapshotError if it cannot be read.
        """
        lines = self._bytes().split(b"\n")
        records: list[EvolutionRecord] = []
        faults: list[RecordFault] = []
        for line_number, line in enumerate(lines, 1):
            torn = line_number == len(lines)  # text after the last line break: empty if the last line is complete
            if not line:
                continue
            try:
                records.append(EvolutionRecord.from_json(json.loads(line)))
            except (ValueError, RecursionError) as error:
                reason = "was only partly written" if torn else f"is not a record: {_describe_fault(error)}"
                faults.append(RecordFault(line_number, reason, torn))
        return records, faults

    def find(self, number: int) -> EvolutionRecord | None:
        """Return the record with that number, or None. O(bytes)."""
        return next((record for record in self.read()[0] if record.number == number), None)

    def next_number(self) -> int:
        """Return the number of the next record: greater than all numbers used and all lines written. O(bytes)."""
        lines = self._bytes().splitlines()
        return max([len(lines), *(record.number for record in self.read()[0])]) + 1

    def append(self, record: EvolutionRecord) -> EvolutionRecord:
        """Append a line for `record` and return the record as written, on disk before this returns. O(bytes of the
        file).

        If another writer has used its number meanwhile, the record gets the next one, and so does the champion it
        promoted. Raises SnapshotError if the line cannot be written; the file is then unchanged.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            new = not self.path.exists()
            handle = open_regular(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
            with os.fdopen(handle, "a+b", buffering=0) as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # over choosing the number and writing; closing the file releases it
                record = _renumber(record, self.next_number())
                line = json.dumps(record.to_json(), sort_keys=True, allow_nan=False).encode() + b"\n"
                size = file.seek(0, os.SEEK_END)
                if size:
                    file.seek(size - 1)
                    line = line if file.read(1) == b"\n" else b"\n" + line  # after a torn line, start a new one
                append_whole(file.fileno(), line, size)
            if new:
                sync_directory(self.path.parent)
        except OSError as error:
            raise SnapshotError(str(self.path), f"cannot be written: {error.strerror or error}") from error
        return record

    def mend_times(self, latest_s: float, present_s: float) -> int:
        """Write `present_s` into the records made later than `latest_s`; return how many. O(bytes).

        Lines that are no records stay as they are. Raises SnapshotError if the file cannot be written.
        """
        lines, mended = self._bytes().split(b"\n"), 0
        for at, line in enumerate(lines):
            with suppress(ValueError, RecursionError):
                record = EvolutionRecord.from_json(json.loads(line))
                if record.when_s > latest_s:
                    lines[at] = json.dumps(replace(record, when_s=present_s).to_json(), sort_keys=True).encode()
                    mended += 1
        if mended:
            self._replace(b"\n".join(lines))
        return mended

    def _replace(self, content: bytes) -> None:
        """Replace the file by one with `content`, at once. Raises SnapshotError."""
        with as_snapshot_errors(self.path, "cannot be written"):
            write_file(self.path, content)

    def _bytes(self) -> bytes:
        try:
            return read_regular(self.path)
        except FileNotFoundError:
            return b""


def _describe_fault(error: Exception) -> str:
    """Return what is wrong with a line, without Python's terms."""
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError | RecursionError):
        return "not JSON"
    return str(error).split("\n", maxsplit=1)[0]


def _renumber(record: EvolutionRecord, next_free: int) -> EvolutionRecord:
    """Return `record` with the number `next_free` if its own is smaller: smaller numbers may be in use."""
    if record.number >= next_free:
        return record
    champion = record.champion_after
    if record.decision in ("promoted", "set") and champion.record == record.number:
        champion = replace(champion, record=next_free)
    return replace(record, number=next_free, champion_after=champion)
