"""Validation of records: valid ones become columns, the others rejections with field, expectation and finding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from streamsched.connectors.reading.rejections import RecordProblem, RejectionSink

if TYPE_CHECKING:
    from streamsched.connectors.source import Records

__all__ = ["ParseError", "keep_valid", "parse_each", "parse_valid", "reject_each"]

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
