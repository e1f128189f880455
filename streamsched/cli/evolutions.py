"""``streamsched evolutions``: what evolution was given, found and decided, and why."""

from __future__ import annotations

import argparse
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from streamsched.champion import METRIC_NAMES
from streamsched.cli.arguments import add_examples, add_state
from streamsched.cli.exits import DONE, NOTHING
from streamsched.cli.output import complain, say_json
from streamsched.durations import format_moment
from streamsched.errors import SnapshotError
from streamsched.evolution.records import EvolutionRecord, RecordBook
from streamsched.replay.terminal import print_table

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
        raise SnapshotError(str(arguments.state), "no such directory: expected that of a saved state")
    book = RecordBook(arguments.state)
    records, faults = book.read()
    for fault in faults:
        complain(f"{book.path}: {fault}")
    if arguments.json:
        say_json([record.to_json() for record in records])
    elif records:
        _print_table(records)
    else:
        complain("streamsched: no evolution has been recorded yet")
    return DONE if records else NOTHING


def _print_table(records: list[EvolutionRecord]) -> None:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for head in ("No.", "When (UTC)", "Trigger", "Data", "Challenger", "Gain", "Decision", "Champion after, and why"):
        table.add_column(head, justify="right" if head in ("No.", "Gain") else "left", overflow="fold")
    for record in records:
        table.add_row(*map(Text, _cells(record)))
    print_table(table)


def _cells(record: EvolutionRecord) -> list[str]:
    return [
        str(record.number),
        format_moment(record.when_s, "%Y-%m-%d %H:%M"),
        record.trigger,
        str(record.data or "–"),
        record.challenger or "–",
        _gain(record),
        record.decision,
        f"{record.champion_after.formula}; {record.why}",
    ]


def _gain(record: EvolutionRecord) -> str:
    """Return the gain and its noise in per cent of the champion's fitness."""
    verdict = record.verdict
    if verdict is None or verdict.gain is None or not verdict.champion:
        return "–"
    name = METRIC_NAMES.get(record.metric or "", record.metric or "")
    noise = "?" if verdict.noise is None else f"{100 * verdict.noise / verdict.champion:.1f}"
    return f"{100 * verdict.gain / verdict.champion:+.1f} ± {noise} % {name}"
