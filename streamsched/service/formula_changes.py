"""Formulas set by hand: the scheduler ranks by them, and a record says so, so that the change can be taken back."""

from __future__ import annotations

from streamsched.evolution.records import EvolutionRecord, RecordBook
from streamsched.formula.champion import BY_HAND, Champion, parse_provided
from streamsched.scheduler.any_scheduler import AnyScheduler

__all__ = ["set_formula", "use_recorded_formula"]


def set_formula(scheduler: AnyScheduler, book: RecordBook, now: float, formula: str) -> EvolutionRecord:
    """Rank by `formula` from `now` on, and write and return the record of it; saving the state is left to the caller.

    Raises FormulaError where it cannot be used, SnapshotError where the record cannot be written.
    """
    before, number = scheduler.champion, book.next_number()
    champion = Champion(parse_provided(formula), BY_HAND, number, now)
    why = "asked for this formula"
    return use_recorded_formula(scheduler, book, EvolutionRecord(number, now, "asked", "set", why, before, champion))


def use_recorded_formula(scheduler: AnyScheduler, book: RecordBook, record: EvolutionRecord) -> EvolutionRecord:
    """Rank by the champion that `record` leads to, and write and return the record.

    Raises FormulaError where it cannot be used, SnapshotError where the record cannot be written.
    """
    parse_provided(record.champion_after.formula)  # refuses one of another version before anything is written
    record = book.append(record)
    scheduler.use(record.champion_after)
    return record
