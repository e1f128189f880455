"""``streamsched signals``: the sources of change signals, and how far each has proved true."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from streamsched.cli import options
from streamsched.cli.exits import DONE, NOTHING
from streamsched.cli.output import echo, echo_error, echo_json, plain
from streamsched.numerics.durations import format_duration
from streamsched.scheduler.scheduler import Scheduler

if TYPE_CHECKING:
    from streamsched.estimation.signals.source_list import SourceReliability

__all__ = ["command"]

_ALL_HOSTS: Final = "all hosts"
_HEAD: Final = ("source", "host", "signals", "pages", "precision", "recall", "lateness")
_EPILOG: Final = """
\b
Examples:
  streamsched signals --state state/
  streamsched signals --state state/ --host example.org --json

\b
precision   share of the signals that announced a change, of those that a visit has checked
recall      share of the changes of the source's pages that it announced, of those that a visit has seen
lateness    mean time from a change to its signal
"""


@click.command("signals", epilog=_EPILOG)
@options.state
@click.option("--host", metavar="HOST", help="Only the sources of this host.")
@click.option("--json", is_flag=True, help="Print JSON.")
def command(state: Path, host: str | None, json: bool) -> int:
    """List the sources of change signals and what they proved.

    A source is a kind, such as sitemap or feed, on a host. Each kind has a line for all of its hosts together, by which
    new sources of the kind are judged at first. The figures are learned from the visits that follow signals.
    """
    sources = [one for one in Scheduler.load(state).sources() if host is None or one.host == host]
    if json:
        echo_json([asdict(one) for one in sources])
    elif sources:
        _print_table([_HEAD, *map(_describe, sources)])
    else:
        echo_error(f"streamsched: no signal has been noticed yet{'' if host is None else f' of {plain(host)}'}")
    return DONE if sources else NOTHING


def _describe(source: SourceReliability) -> tuple[str, ...]:
    """Return the cells of a source's line."""
    host = _ALL_HOSTS if source.host is None else source.host
    return (
        plain(source.kind),
        plain(host),
        f"{source.signals:,}",
        f"{source.pages:,}",
        _share(source.precision, source.checked),
        _share(source.recall, source.changes),
        format_duration(source.lateness_s),
    )


def _share(share: float | None, count: float) -> str:
    """Return a share in per cent and what it is of; a dash where nothing is proved."""
    return "–" if share is None else f"{100 * share:.0f} % of {count:,.0f}"


def _print_table(rows: list[tuple[str, ...]]) -> None:
    """Print rows in columns, names aligned left and figures right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.ljust(width) if place < 2 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        echo("  ".join(cells).rstrip())
