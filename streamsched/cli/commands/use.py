"""``streamsched use``: set the formula of a saved state by hand, or go back to the champion of any record."""

from __future__ import annotations

import argparse
from typing import Final

from streamsched.cli.arguments import add_examples, add_state, clock, moment
from streamsched.cli.exits import DONE
from streamsched.cli.output import echo
from streamsched.errors import SettingsError
from streamsched.evolution.records import EvolutionRecord, RecordBook
from streamsched.formula.champion import Champion
from streamsched.service.formula_changes import set_formula, use_recorded_formula
from streamsched.service.open_state import open_state

__all__ = ["add_arguments"]

_EXAMPLES: Final = """\
  streamsched use 'posterior + 0.01 * t' --state state/
  streamsched use 7 --state state/      # the champion after evolution 7, as `streamsched evolutions` lists it

A whole number is that of a record; the constant formulas 7 and -7 are written (7) and (-7).
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``use``."""
    add_examples(parser, _EXAMPLES)
    parser.add_argument("choice", metavar="FORMULA|NUMBER", help="a formula, or the number of an evolution's record")
    add_state(parser)
    parser.add_argument("--now", type=moment, metavar="TIME", help="when that is, for the record (the clock's)")
    parser.set_defaults(run=_use)


def _use(arguments: argparse.Namespace) -> int:
    with open_state(arguments.state) as scheduler:
        book = RecordBook(arguments.state)
        now = clock(arguments.now)
        choice: str = arguments.choice.strip()
        if choice.removeprefix("-").isdecimal():
            champion, number = _champion_of(book, choice), int(choice)
            why = f"asked to go back to the champion of record {number}"
            record = EvolutionRecord(book.next_number(), now, "asked", "set", why, scheduler.champion, champion)
            record = use_recorded_formula(scheduler, book, record)
            what = f"{champion}, as after record {number}"
        else:
            record = set_formula(scheduler, book, now, choice)
            what = "set by hand"
    echo(f"{scheduler.formula}: {what}; this is record {record.number}")
    return DONE


def _champion_of(book: RecordBook, choice: str) -> Champion:
    record = book.find(int(choice)) if len(choice) < 20 else None
    if record is None:
        raise SettingsError(
            "NUMBER", choice, f"the number of a record in {book.path}, as `streamsched evolutions` lists them"
        )
    return record.champion_after
