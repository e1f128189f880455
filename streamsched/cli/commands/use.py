"""``streamsched use``: set the formula of a saved state, or return to the champion of a record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from streamsched.cli import options
from streamsched.cli.exits import DONE
from streamsched.cli.output import echo
from streamsched.cli.remote import asks_service, open_client, state_or_service
from streamsched.errors import SettingsError
from streamsched.evolution.records import EvolutionRecord, RecordBook
from streamsched.service.formula_changes import set_formula, use_recorded_formula
from streamsched.service.open_state import open_state

if TYPE_CHECKING:
    from streamsched.formula.champion import Champion

__all__ = ["command"]

_EPILOG: Final = """
\b
Examples:
  streamsched use 'posterior + 0.01 * t' --state state/
  streamsched use freshness --state state/
  streamsched use freshness --service http://127.0.0.1:8080
  streamsched use 7 --state state/    # the champion after evolution 7, as `streamsched evolutions` lists it
"""


class _FormulaCommand(click.Command):
    """A command whose argument may begin with a minus: what is no option is a formula."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take -h for help only if it is a word of its own: `-(t * h)` has the letter too."""
        return super().parse_args(ctx, ["--help" if word == "-h" else word for word in args])


@click.command(
    "use",
    cls=_FormulaCommand,
    epilog=_EPILOG,
    context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]},
)
@click.argument("choice", metavar="FORMULA|NUMBER")
@state_or_service
@click.option("--now", type=options.MOMENT, metavar="TIME", show_default="the current time", help="Time of the change.")
def command(choice: str, state: Path | None, service: str | None, token_file: Path | None, now: float | None) -> int:
    """Set the formula of a state or a service, or a former one.

    FORMULA is a score formula in quotes, or an objective: changes, freshness or balanced(D). NUMBER is the number of an
    evolution's record: the champion after that evolution is used again. To set the constant formula 7 or -7, write (7)
    or (-7).
    """
    choice = choice.strip()
    if asks_service(state, service, now=now):
        assert service is not None
        with open_client(service, token_file) as client:
            champion = client.use(int(choice) if _is_number(choice) else choice)
        echo(f"{champion.formula}: {champion.text}")
    else:
        assert state is not None
        _use(choice, state, options.current_time(now))
    return DONE


def _use(choice: str, state: Path, now_s: float) -> None:
    with open_state(state) as scheduler:
        book = RecordBook(state)
        if _is_number(choice):
            champion, number = _champion_of(book, choice), int(choice)
            why = f"asked to go back to the champion of record {number}"
            record = EvolutionRecord(book.next_number(), now_s, "asked", "set", why, scheduler.champion, champion)
            record = use_recorded_formula(scheduler, book, record)
            what = f"{champion}, as after record {number}"
        else:
            record = set_formula(scheduler, book, now_s, choice)
            what = "set by hand"
    echo(f"{scheduler.formula}: {what}; this is record {record.number}")


def _is_number(choice: str) -> bool:
    return choice.removeprefix("-").isdecimal()


def _champion_of(book: RecordBook, choice: str) -> Champion:
    record = book.find(int(choice)) if len(choice) < 20 else None
    if record is None:
        raise SettingsError(
            "NUMBER", choice, f"the number of a record in {book.path}, as `streamsched evolutions` lists them"
        )
    return record.champion_after
