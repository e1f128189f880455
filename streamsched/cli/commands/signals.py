"""``streamsched signals``: how far the sources of signals proved true; ``signals fetch`` has a module of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from streamsched.cli import options
from streamsched.cli.exits import DONE, NOTHING
from streamsched.cli.output import echo, echo_error, echo_json, plain
from streamsched.numerics.durations import format_duration
from streamsched.scheduler.scheduler import Scheduler

if TYPE_CHECKING:
    from streamsched.api.views import SourceReliability

_ALL_HOSTS: Final = "all hosts"
_HEAD: Final = ("source", "host", "signals", "pages", "precision", "recall", "lateness")
_EPILOG: Final = """
\b
Examples:
  streamsched signals --state state/
  streamsched signals fetch --discover example.org --to http://127.0.0.1:8080 --state documents/
  streamsched signals --state state/ --host example.org --json

\b
precision   share of the signals that announced a change, of those that a visit has checked
recall      share of the changes of the source's pages that it announced, of those that a visit has seen
lateness    mean time from a change to its signal
"""


class _Group(click.Group):
    """`fetch`, whose module is imported when it runs: httpx is an extra."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature, here and below
        """Return the names of all commands."""
        return ["fetch"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the module of `fetch`."""
        if cmd_name != "fetch":
            return None
        from streamsched.cli.commands.fetch import fetch_command  # noqa: PLC0415

        return fetch_command


@click.group("signals", epilog=_EPILOG, cls=_Group, invoke_without_command=True, no_args_is_help=False)
@click.option("--state", type=options.DIRECTORY, help="Directory of the saved state.")
@click.option("--host", metavar="HOST", help="Only the sources of this host.")
@click.option("--json", is_flag=True, help="Print JSON.")
@click.pass_context
def signals_command(context: click.Context, state: Path | None, host: str | None, json: bool) -> int:
    """List what change signals proved; fetch sitemaps and feeds.

    A source is a kind, such as sitemap or feed, on a host. Each kind has a line for all of its hosts together, by which
    new sources of the kind are judged at first. The figures are learned from the visits that follow signals. `signals
    fetch` fetches sitemaps and feeds.
    """
    if context.invoked_subcommand is not None:
        return DONE
    if state is None:
        raise click.UsageError("--state is required")
    sources = [one for one in Scheduler.load(state).sources() if host is None or one.host == host]
    if json:
        echo_json([one.as_dict() for one in sources])
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
