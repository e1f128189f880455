"""Formula changes by hand, each with a record, so that it can be undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsched.evolution.records import EvolutionRecord, RecordBook
from streamsched.formula.champion import BY_HAND, Champion, parse_provided

if TYPE_CHECKING:
    from streamsched.scheduler.any_scheduler import AnyScheduler

__all__ = ["set_formula", "use_recorded_formula"]


def set_formula(scheduler: AnyScheduler, book: RecordBook, now: float, formula: str) -> EvolutionRecord:
    """Rank by `formula` from `now` on; write and return the record of the change. The caller saves the state.

    Raises FormulaError if it cannot be used, SnapshotError if the record cannot be written.
    """
    before, number = scheduler.champion, book.next_number()
    champion = Champion(parse_provided(formula), BY_HAND, number, now)
    why = "asked for this formula"
    return use_recorded_formula(scheduler, book, EvolutionRecord(number, now, "asked", "set", why, before, champion))


def use_recorded_formula(scheduler: AnyScheduler, book: RecordBook, record: EvolutionRecord) -> EvolutionRecord:
    """Rank by the champion in `record`; write and return the record.

    Raises FormulaError if the formula cannot be used, SnapshotError if the record cannot be written.
    """
    parse_provided(record.champion_after.formula)  # raises for a formula of another version before anything is written
    record = book.append(record)
    scheduler.use(record.champion_after)
    return record
