"""The book of rejections: counted, the last kept, the raw record in a dead letter."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from streamsched.connectors.reading.rejections import (
    MAX_RAW_BYTES,
    RecordProblem,
    RejectionCounter,
    Rejections,
    describe,
)
from streamsched.errors import InvalidOutcome, SourceError

FAULT = RecordProblem("status", "expected a whole number from 0 to 999", "1000")


def test_all_are_counted_and_the_last_hundred_kept() -> None:
    book = Rejections()
    ledger = RejectionCounter(book, "log", "line")
    for line in range(1, 251):
        ledger.reject(line, FAULT, b"raw")
    assert book.count == 250
    assert [rejection.offset for rejection in book.last] == list(range(151, 251))
    assert str(book.last[-1]) == "log, line 250: status: expected a whole number from 0 to 999, found 1000"


def test_a_letter_holds_text_as_text_and_bytes_as_base64(tmp_path: Path) -> None:
    path = tmp_path / "dead"
    book = Rejections(path)
    ledger = RejectionCounter(book, "log", "byte")
    ledger.reject(0, FAULT, 'é "quoted"\n'.encode())
    ledger.reject(7, FAULT, b"\xff\x00")
    ledger.beside("other").reject(9, FAULT, b"head", size=10**9)
    ledger.reject(11, FAULT, b"x" * (MAX_RAW_BYTES + 1))
    book.flush()
    letters = [json.loads(line) for line in path.read_text().splitlines()]
    assert letters[0] == {
        "path": "log",
        "unit": "byte",
        "offset": 0,
        "field": "status",
        "reason": "expected a whole number from 0 to 999",
        "found": "1000",
        "raw": 'é "quoted"\n',
    }
    assert base64.b64decode(letters[1]["raw_base64"]) == b"\xff\x00"
    assert "raw" not in letters[1]
    assert (letters[2]["path"], letters[2]["raw"], letters[2]["raw_bytes"]) == ("other", "head", 10**9)
    assert (len(letters[3]["raw"]), letters[3]["raw_bytes"]) == (MAX_RAW_BYTES, MAX_RAW_BYTES + 1)
    book.close()
    book.close()


def test_letters_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "dead"
    for line in (1, 2):
        book = Rejections(path)
        RejectionCounter(book, "log", "line").reject(line, FAULT, b"raw")
        book.close()
    assert [json.loads(line)["offset"] for line in path.read_text().splitlines()] == [1, 2]


def test_letters_that_cannot_be_written_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot write dead letters"):
        Rejections(tmp_path / "none" / "dead")


def test_a_full_disk_is_an_error() -> None:
    book = Rejections("/dev/full")
    RejectionCounter(book, "log", "line").reject(1, FAULT, b"raw")
    with pytest.raises(SourceError, match="cannot write dead letters"):
        book.flush()
    with pytest.raises(SourceError, match="cannot write dead letters"):
        book.close()


def test_faults_of_invalid_outcomes_and_long_values() -> None:
    problem = InvalidOutcome(3, "url", "x" * 9000, "1 to 8192 bytes of UTF-8")
    fault = RecordProblem.of(problem)
    assert fault[:2] == ("url", "expected 1 to 8192 bytes of UTF-8")
    assert len(fault.found) == 80
    assert len(describe(b"\xff" * 10**6)) == 80
