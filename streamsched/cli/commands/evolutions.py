"""``streamsched evolutions``: what evolution was given, found and decided, and why."""

from __future__ import annotations

import argparse
from typing import Final

from streamsched.cli.arguments import add_examples, add_state
from streamsched.cli.exits import DONE, NOTHING
from streamsched.cli.output import echo, echo_error, echo_json, plain
from streamsched.errors import SnapshotError
from streamsched.evolution.records import EvolutionRecord, RecordBook
from streamsched.formula.champion import METRIC_NAMES
from streamsched.numerics.durations import format_moment

__all__ = ["add_arguments"]

_EXAMPLES: Final = """\
  streamsched evolutions --state state/
  streamsched evolutions --state state/ --json

Go back to the champion of record 3 with: streamsched use 3 --state state/
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``evolutions``."""
    add_examples(parser, _EXAMPLES)
    add_state(parser)
    parser.add_argument("--json", action="store_true", help="print the records as JSON, with all they hold")
    parser.set_defaults(run=_evolutions)


def _evolutions(arguments: argparse.Namespace) -> int:
    if not arguments.state.is_dir():
        what = "is a file" if arguments.state.exists() else "no such directory"
        raise SnapshotError(str(arguments.state), f"{what}: expected the directory of a saved state")
    book = RecordBook(arguments.state)
    records, faults = book.read()
    for fault in faults:
        echo_error(f"{book.path}: {fault}")
    if arguments.json:
        echo_json([record.to_json() for record in records])
    else:
        for record in records:
            _tell(record)
    if faults and not records:
        raise SnapshotError(str(book.path), f"{_count(len(faults))} cannot be read as records, and there is no other")
    if not records and not arguments.json:
        echo_error("streamsched: no evolution has been recorded yet")
    return DONE if records else NOTHING


def _tell(record: EvolutionRecord) -> None:
    """Print a head line for the record, and below it a line for each thing that it tells."""
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
    """Return the gain and its noise in per cent of the champion's fitness."""
    verdict = record.verdict
    if verdict is None or verdict.gain is None or not verdict.champion:
        return "no contest"
    name = METRIC_NAMES.get(record.metric or "", record.metric or "")
    noise = "?" if verdict.noise is None else f"{100 * verdict.noise / verdict.champion:.1f}"
    return f"{100 * verdict.gain / verdict.champion:+.1f} ± {noise} % {name}"
