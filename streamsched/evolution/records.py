"""Records of evolutions: inputs, findings and decisions; one JSON object per line in an append-only file."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from streamsched.errors import SnapshotError
from streamsched.evolution.findings import Candidate, DataSpan, checked_fields, plain_values
from streamsched.evolution.promotion import Verdict
from streamsched.formula.champion import Champion
from streamsched.persistence.files import (
    append_whole,
    as_snapshot_errors,
    draft_of,
    open_regular,
    put_in_place,
    read_regular,
    sync_directory,
)

__all__ = ["DECISIONS", "RECORDS_NAME", "TRIGGERS", "EvolutionRecord", "RecordBook", "RecordFault"]

RECORDS_NAME: Final = "evolutions.jsonl"
TRIGGERS: Final = ("schedule", "drift", "asked")
DECISIONS: Final = ("promoted", "kept", "failed", "set")


@dataclass(frozen=True, slots=True)
class EvolutionRecord:
    """One evolution, or one formula set by hand, with everything that led to the champion after it.

    `when_s`: UTC epoch seconds. `trigger`: "schedule", "drift" or "asked". `decision`: "promoted", "kept", "failed"
    (the evolution did not complete) or "set" (by hand). `why`: one sentence. `seconds`: duration, the only field in
    which two runs from the same data and seed may differ.
    """

    number: int
    when_s: float
    trigger: str
    decision: str
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
    seconds: float | None = field(default=None, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain JSON values; non-finite numbers become None."""
        values: dict[str, Any] = {item.name: getattr(self, item.name) for item in fields(self)}
        for name in ("champion_before", "champion_after"):
            values[name] = values[name].to_json()
        for name in ("data", "verdict"):
            values[name] = None if values[name] is None else asdict(values[name])
        return plain_values(values | {"candidates": [asdict(item) for item in self.candidates]})

    @classmethod
    def from_json(cls, content: object) -> EvolutionRecord:
        """Return the record with these fields. Raises ValueError if they are invalid."""
        values = checked_fields(cls, content)
        nested: dict[str, Any] = {
            "champion_before": Champion.from_json(values["champion_before"]),
            "champion_after": Champion.from_json(values["champion_after"]),
            "candidates": tuple(Candidate(**checked_fields(Candidate, item)) for item in values.get("candidates", ())),
            "data": None if values.get("data") is None else DataSpan(**checked_fields(DataSpan, values["data"])),
            "verdict": None if values.get("verdict") is None else Verdict.from_json(values["verdict"]),
        }
        record = cls(**values | nested)
        if not isinstance(record.number, int) or not isinstance(record.when_s, int | float):
            raise ValueError(f"record: expected a number and a time, found {record.number!r} and {record.when_s!r}")
        if record.trigger not in TRIGGERS or record.decision not in DECISIONS:
            raise ValueError(f"record: unknown trigger {record.trigger!r} or decision {record.decision!r}")
        return record


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
            except (ValueError, TypeError, AttributeError, RecursionError) as error:
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
            with suppress(ValueError, TypeError, AttributeError, RecursionError):
                record = EvolutionRecord.from_json(json.loads(line))
                if record.when_s > latest_s:
                    lines[at] = json.dumps(replace(record, when_s=present_s).to_json(), sort_keys=True).encode()
                    mended += 1
        if mended:
            self._replace(b"\n".join(lines))
        return mended

    def _replace(self, content: bytes) -> None:
        """Replace the file by one with `content`, at once. Raises SnapshotError."""
        draft = draft_of(self.path)
        with as_snapshot_errors(self.path, "cannot be written"):
            with draft.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            put_in_place(draft, self.path)

    def _bytes(self) -> bytes:
        try:
            return read_regular(self.path)
        except FileNotFoundError:
            return b""


def _describe_fault(error: Exception) -> str:
    """Return what is wrong with a line, without Python's terms."""
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError | RecursionError):
        return "not JSON"
    if isinstance(error, TypeError | AttributeError):
        return "a field has the wrong type"
    return str(error).split("\n", maxsplit=1)[0]


def _renumber(record: EvolutionRecord, next_free: int) -> EvolutionRecord:
    """Return `record` with the number `next_free` if its own is smaller: smaller numbers may be in use."""
    if record.number >= next_free:
        return record
    champion = record.champion_after
    if record.decision in ("promoted", "set") and champion.record == record.number:
        champion = replace(champion, record=next_free)
    return replace(record, number=next_free, champion_after=champion)
