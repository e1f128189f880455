"""``streamsched explain`` and ``signals``: why a page has its rank, and how far the sources of signals proved true."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import click

from streamsched.cli import options
from streamsched.cli.exits import DONE, NOTHING
from streamsched.cli.output import echo, echo_error, echo_json, plain
from streamsched.cli.remote import asks_service, open_client, state_or_service
from streamsched.numerics.durations import format_duration
from streamsched.scheduler.scheduler import Scheduler

if TYPE_CHECKING:
    from streamsched.api.views import SourceReliability


_EXPLAIN_EPILOG: Final = """
\b
Examples:
  streamsched explain https://example.org/news --state state/
  streamsched explain https://example.org/news --state state/ --now 2026-08-22 --json
  streamsched explain https://example.org/news --service http://127.0.0.1:8080
"""


@click.command("explain", epilog=_EXPLAIN_EPILOG)
@click.argument("url", metavar="URL", type=options.URL)
@state_or_service
@options.now
@click.option("-k", type=options.whole(1), default=1000, help="Size of the batch to check for the page.")
@click.option("--lease", type=options.LEASE, show_default="10m", help="Lease time of that batch.")
@click.option("--json", is_flag=True, help="Print JSON.")
def explain_command(**given: Any) -> int:
    """Explain the rank of a page.

    URL is the address of the page, as in the crawl outcomes. The explanation has the page's score
    and its parts, the rank, and whether a batch would include the page now. The state stays as it is.
    """
    arguments = SimpleNamespace(**given)
    if asks_service(arguments.state, arguments.service, now=arguments.now, lease=arguments.lease):
        with open_client(arguments.service, arguments.token_file) as client:
            explanation = client.explain(arguments.url, k=arguments.k)
    else:
        scheduler, now = Scheduler.load(arguments.state), options.current_time(arguments.now)
        lease = "10m" if arguments.lease is None else arguments.lease
        explanation = scheduler.explain(arguments.url, now=now, k=arguments.k, lease=lease)
    if arguments.json:
        echo_json(explanation.as_dict())
    else:
        for line in str(explanation).split("\n"):
            echo(plain(line))
    return DONE


_ALL_HOSTS: Final = "all hosts"
_SIGNALS_HEAD: Final = ("source", "host", "signals", "pages", "precision", "recall", "lateness")
_SIGNALS_EPILOG: Final = """
\b
Examples:
  streamsched signals --state state/
  streamsched signals --state state/ --host example.org --json

\b
precision   share of the signals that announced a change, of those that a visit has checked
recall      share of the changes of the source's pages that it announced, of those that a visit has seen
lateness    mean time from a change to its signal
"""


@click.command("signals", epilog=_SIGNALS_EPILOG)
@options.state
@click.option("--host", metavar="HOST", help="Only the sources of this host.")
@click.option("--json", is_flag=True, help="Print JSON.")
def signals_command(state: Path, host: str | None, json: bool) -> int:
    """List the sources of change signals and what they proved.

    A source is a kind, such as sitemap or feed, on a host. Each kind has a line for all of its hosts together, by which
    new sources of the kind are judged at first. The figures are learned from the visits that follow signals.
    """
    sources = [one for one in Scheduler.load(state).sources() if host is None or one.host == host]
    if json:
        echo_json([one.as_dict() for one in sources])
    elif sources:
        _print_table([_SIGNALS_HEAD, *map(_signals_describe, sources)])
    else:
        echo_error(f"streamsched: no signal has been noticed yet{'' if host is None else f' of {plain(host)}'}")
    return DONE if sources else NOTHING


def _signals_describe(source: SourceReliability) -> tuple[str, ...]:
    """Return the cells of a source's line."""
    host = _ALL_HOSTS if source.host is None else source.host
    return (
        plain(source.kind),
        plain(host),
        f"{source.signals:,}",
        f"{source.pages:,}",
        _signals_share(source.precision, source.checked),
        _signals_share(source.recall, source.changes),
        format_duration(source.lateness_s),
    )


def _signals_share(share: float | None, count: float) -> str:
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
