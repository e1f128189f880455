"""``streamsched evolutions`` and ``use``: the records of all evolutions of a state, and the formula in use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from streamsched.cli import options
from streamsched.cli.exits import DONE, NOTHING
from streamsched.cli.output import echo, echo_error, echo_json, plain
from streamsched.cli.remote import asks_service, open_client, state_or_service
from streamsched.errors import SettingsError, SnapshotError
from streamsched.evolution.records import EvolutionRecord, RecordBook
from streamsched.formula.champion import METRIC_NAMES
from streamsched.numerics.durations import format_moment
from streamsched.service.open_state import open_state, set_formula, use_recorded_formula

if TYPE_CHECKING:
    from streamsched.api.views import TrialView
    from streamsched.formula.champion import Champion


_MOST_RECORDS: Final = 10_000  # that a service answers
_EVOLUTIONS_EPILOG: Final = """
\b
Examples:
  streamsched evolutions --state state/
  streamsched evolutions --state state/ --json
  streamsched evolutions --service http://127.0.0.1:8080

To use the champion of record 3 again: streamsched use 3 --state state/
"""


@click.command("evolutions", epilog=_EVOLUTIONS_EPILOG)
@state_or_service
@click.option("--json", is_flag=True, help="Print JSON.")
def evolutions_command(state: Path | None, service: str | None, token_file: Path | None, json: bool) -> int:
    """List the evolutions of a state or a service.

    Each record has the champion, the challenger, the data of the contest, and the reason for the decision. Of a service
    the newest 10,000 are listed, then the trial under way.
    """
    if asks_service(state, service):
        assert service is not None
        records, trial = _ask(service, token_file)
    else:
        assert state is not None
        records, trial = _read(state), None
    if json:
        echo_json([record.to_json() for record in records])
    else:
        for record in records:
            _print_record(record)
        if trial is not None:
            _print_trial(trial)
    if not records and not json:
        echo_error("streamsched: no evolution has been recorded yet")
    return DONE if records else NOTHING


def _ask(service: str, token_file: Path | None) -> tuple[list[EvolutionRecord], TrialView | None]:
    """Return the records of a service, and the trial under way."""
    with open_client(service, token_file) as client:
        answer = client.evolutions(_MOST_RECORDS)
    if answer.faults:
        echo_error(f"{service}: {_count(answer.faults)} cannot be read as records")
    views = [view.as_dict() for view in answer.evolutions]
    for view in views:
        for champion in (view["champion_before"], view["champion_after"]):
            champion.pop("text")
    return [EvolutionRecord.from_json(view) for view in views], answer.trial


def _read(state: Path) -> list[EvolutionRecord]:
    """Return the records of a saved state. Raises SnapshotError if none can be read."""
    if not state.is_dir():
        found = "is a file" if state.exists() else "no such directory"
        raise SnapshotError(str(state), f"{found}: expected the directory of a saved state")
    book = RecordBook(state)
    records, faults = book.read()
    for fault in faults:
        echo_error(f"{book.path}: {fault}")
    if faults and not records:
        raise SnapshotError(str(book.path), f"{_count(len(faults))} cannot be read as records, and there is no other")
    return records


def _print_record(record: EvolutionRecord) -> None:
    """Print a line with time and decision, then one for each field that the record has."""
    when = format_moment(record.when_s, "%Y-%m-%d %H:%M")
    echo(f"{record.number}  {when} UTC, {record.trigger}: {record.decision}")
    lines = {
        "champion": str(record.champion_after.formula),
        "challenger": f"{record.challenger}  ({_gain(record)})" if record.challenger else None,
        "data": str(record.data) if record.data else None,
        "why": record.why,
    }
    for name, text in lines.items():
        if text:
            echo(f"   {name:<10}  {plain(text)}")


def _print_trial(trial: TrialView) -> None:
    """Print the trial under way as a record is printed."""
    echo(f"-  {format_moment(trial.since_s, '%Y-%m-%d %H:%M')} UTC: in trial")
    echo(f"   challenger  {plain(trial.challenger)}")
    echo(f"   evidence    {trial.evidence}")


def _count(lines: int) -> str:
    return "1 line" if lines == 1 else f"{lines} lines"


def _gain(record: EvolutionRecord) -> str:
    """Return the gain and its noise as percentages of the champion's fitness."""
    verdict = record.verdict
    if verdict is None or verdict.gain is None or not verdict.champion:
        return "no contest"
    name = METRIC_NAMES.get(record.metric or "", record.metric or "")
    noise = "?" if verdict.noise is None else f"{100 * verdict.noise / verdict.champion:.1f}"
    return f"{100 * verdict.gain / verdict.champion:+.1f} ± {noise} % {name}"


_USE_EPILOG: Final = """
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
    epilog=_USE_EPILOG,
    context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]},
)
@click.argument("choice", metavar="FORMULA|NUMBER")
@state_or_service
@click.option("--now", type=options.MOMENT, metavar="TIME", show_default="the current time", help="Time of the change.")
def use_command(
    choice: str, state: Path | None, service: str | None, token_file: Path | None, now: float | None
) -> int:
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
