"""``streamsched evolutions``: the records of all evolutions of a state."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from streamsched.cli.exits import DONE, NOTHING
from streamsched.cli.output import echo, echo_error, echo_json, plain
from streamsched.cli.remote import asks_service, open_client, plain_fields, state_or_service
from streamsched.errors import SnapshotError
from streamsched.evolution.records import EvolutionRecord, RecordBook
from streamsched.formula.champion import METRIC_NAMES
from streamsched.numerics.durations import format_moment

__all__ = ["command"]

_MOST_RECORDS: Final = 10_000  # that a service answers
_EPILOG: Final = """
\b
Examples:
  streamsched evolutions --state state/
  streamsched evolutions --state state/ --json
  streamsched evolutions --service http://127.0.0.1:8080

To use the champion of record 3 again: streamsched use 3 --state state/
"""


@click.command("evolutions", epilog=_EPILOG)
@state_or_service
@click.option("--json", is_flag=True, help="Print JSON.")
def command(state: Path | None, service: str | None, token_file: Path | None, json: bool) -> int:
    """List the evolutions of a state or a service.

    Each record has the champion, the challenger, the data of the contest, and the reason for the decision. Of a service
    the newest 10,000 are listed.
    """
    if asks_service(state, service):
        assert service is not None
        records = _ask(service, token_file)
    else:
        assert state is not None
        records = _read(state)
    if json:
        echo_json([record.to_json() for record in records])
    else:
        for record in records:
            _print_record(record)
    if not records and not json:
        echo_error("streamsched: no evolution has been recorded yet")
    return DONE if records else NOTHING


def _ask(service: str, token_file: Path | None) -> list[EvolutionRecord]:
    """Return the records of a service."""
    with open_client(service, token_file) as client:
        answer = client.evolutions(_MOST_RECORDS)
    if answer.faults:
        echo_error(f"{service}: {_count(answer.faults)} cannot be read as records")
    views = [plain_fields(view) for view in answer.evolutions]
    for view in views:
        for champion in (view["champion_before"], view["champion_after"]):
            champion.pop("text")
    return [EvolutionRecord.from_json(view) for view in views]


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
