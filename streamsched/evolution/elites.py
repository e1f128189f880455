"""The elites that the next evolution starts from, in a file beside the records; an evolution also runs without them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamsched.errors import SnapshotError, StreamschedError
from streamsched.evolution.process.exchange_files import read_json, write_json
from streamsched.evolution.records import RecordBook
from streamsched.formula.formula import Formula
from streamsched.persistence.files import as_snapshot_errors

__all__ = ["ARCHIVE_NAME", "Elites", "mend_evolution_times", "read_elites", "write_elites"]

ARCHIVE_NAME: Final = "elites.json"


@dataclass(frozen=True, slots=True)
class Elites:
    """Formulas, the newest first; ``since_cycle``: the cycle from which the first evolution is counted, if known."""

    formulas: tuple[str, ...] = ()
    since_cycle: int | None = None


def write_elites(directory: Path, elites: Elites, number: int = 0, before: Iterable[str] = ()) -> None:
    """Write the elites of record `number`, and those `before` it, which apply if that record was never written.

    Raises SnapshotError if the file cannot be written.
    """
    content = {
        "formulas": list(elites.formulas),
        "record": number,
        "before": list(before),
        "since_cycle": elites.since_cycle,
    }
    with as_snapshot_errors(directory, "cannot be written"):
        directory.mkdir(parents=True, exist_ok=True)
        write_json(directory / ARCHIVE_NAME, content)


def read_elites(directory: Path, next_number: int) -> Elites:
    """Return the elites in `directory`, none if they cannot be read. `next_number`: that of the next record."""
    try:
        kept = read_json(directory / ARCHIVE_NAME)
        is_recorded = kept.get("record", 0) < next_number
        formulas = tuple(Formula.parse(text).text for text in kept["formulas" if is_recorded else "before"])
        since = kept.get("since_cycle")
    except (StreamschedError, KeyError, TypeError):
        return Elites()
    return Elites(formulas, since if isinstance(since, int) else None)


def mend_evolution_times(directory: Path, cycle_s: float, latest_s: float, present_s: float) -> int:
    """Write `present_s` wherever the evolutions in `directory` are later than `latest_s`; return how many. O(bytes).

    Otherwise none would be due before that time. Raises SnapshotError if a file cannot be written.
    """
    mended = RecordBook(directory).mend_times(latest_s, present_s)
    try:
        kept = read_json(directory / ARCHIVE_NAME)
    except SnapshotError:
        return mended  # no elites
    since = kept.get("since_cycle")
    if not isinstance(since, int) or since * cycle_s <= latest_s:
        return mended
    with as_snapshot_errors(directory, "cannot be written"):
        write_json(directory / ARCHIVE_NAME, kept | {"since_cycle": math.floor(present_s / cycle_s)})
    return mended + 1
