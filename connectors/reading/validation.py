"""The sieve that lets only valid records through, record by record once a whole stretch did not pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from streamsched.connectors.reading.rejections import Fault, RejectionSink
from streamsched.outcomes import OutcomeBatch

__all__ = ["Malformed", "keep_valid", "parse_each", "reject_each", "sift"]

Row = TypeVar("Row")


class Malformed(ValueError):
    """A record that cannot be delivered; ``fault`` says why."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(fault)


def keep_valid(outcomes: OutcomeBatch, reject: Callable[[int, Fault], None]) -> OutcomeBatch:
    """Return the valid records of `outcomes`, itself where all are, and call `reject` with the others. O(n)."""
    problems = outcomes.problems()
    if not problems:
        return outcomes
    keep = np.ones(len(outcomes), np.bool_)
    for problem in problems:
        keep[problem.record] = False
        reject(problem.record, Fault.of(problem))
    return outcomes.take(np.flatnonzero(keep))


def parse_each(records: Mapping[int, bytes], parse: Callable[[bytes], Row]) -> tuple[dict[int, Row], dict[int, Fault]]:
    """Return what `parse` makes of each of `records`, by line or offset, and the faults of those it calls Malformed."""
    rows: dict[int, Row] = {}
    faults: dict[int, Fault] = {}
    for offset, raw in records.items():
        try:
            rows[offset] = parse(raw)
        except Malformed as malformed:
            faults[offset] = malformed.fault
    return rows, faults


def sift(
    records: Mapping[int, bytes],
    parse: Callable[[bytes], Row],
    to_columns: Callable[[Sequence[Row]], OutcomeBatch],
    ledger: RejectionSink,
) -> OutcomeBatch:
    """Return what is valid of `records`, raw bytes by line or offset, and reject the others in that order. O(bytes).

    `parse` raises Malformed where a record is none; `to_columns` takes those that parsed, one outcome each.
    """
    rows, faults = parse_each(records, parse)
    offsets = list(rows)
    outcomes = keep_valid(
        to_columns(list(rows.values())), lambda record, fault: faults.update({offsets[record]: fault})
    )
    reject_each(records, faults, ledger)
    return outcomes


def reject_each(records: Mapping[int, bytes], faults: Mapping[int, Fault], ledger: RejectionSink) -> None:
    """Reject those of `records` that have `faults`, in order."""
    for offset in sorted(faults):
        ledger.reject(offset, faults[offset], records[offset])
