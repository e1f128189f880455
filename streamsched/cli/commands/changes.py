"""``streamsched changes``: the changes of pages that a service has found."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from streamsched.cli import options
from streamsched.cli.exits import DONE
from streamsched.cli.output import echo, plain
from streamsched.cli.remote import open_client, remote_options
from streamsched.numerics.durations import format_moment

if TYPE_CHECKING:
    from streamsched.api.answers import Change

_EPILOG: Final = """
\b
Examples:
  streamsched changes --service http://127.0.0.1:8080
  streamsched changes --service http://127.0.0.1:8080 --follow --after newest
  streamsched changes --service http://127.0.0.1:8080 --follow --json --after 5f2c91aa-1042

Each line has the position after the change, the time at which it was found, and the URL; then `gone` if the page
is, and the URL to which it moved. To go on later, give the last position as --after. The option --json prints a JSON
object a line.
"""


@click.command("changes", epilog=_EPILOG)
@remote_options
@click.option("--after", metavar="POSITION", default="oldest", help="A position, oldest, or newest.")
@click.option("--follow", is_flag=True, help="Wait for further changes, until Ctrl-C.")
@click.option("--limit", type=options.whole(1), help="Largest number of changes to print.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def changes_command(
    service: str | None, token_file: Path | None, after: str, follow: bool, limit: int | None, as_json: bool
) -> int:
    """Print the changes of pages that a running service has found, in their order, each once."""
    if service is None:
        raise click.UsageError("--service is required")
    with open_client(service, token_file, None) as client:
        for number, change in enumerate(client.changes(after, follow=follow), 1):
            echo(msgspec.json.encode(change).decode() if as_json else _describe(change))
            if follow:
                sys.stdout.flush()
            if number == limit:
                break
    return DONE


def _describe(change: Change) -> str:
    words = [change.cursor, format_moment(change.fetched_at), plain(change.url)]
    if change.gone:
        words.append("gone")
    if change.moved_to is not None:
        words.append(plain(change.moved_to))
    return "\t".join(words)
