"""``streamsched token``: make a token for the HTTP service."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from streamsched.cli import options
from streamsched.cli.exits import DONE
from streamsched.cli.output import echo, echo_error
from streamsched.errors import SnapshotError
from streamsched.http.access.tokens import PERMISSIONS, check_new, make_token, write_entry
from streamsched.persistence.files import open_regular

__all__ = ["command"]

_EPILOG: Final = """
\b
Examples:
  streamsched token crawler-1 --scope crawl
  streamsched token dashboard --scope read --lasts 90d --file tokens.toml

The token is printed on standard output, once: the file holds only its hash. Without --file its table is printed on
standard error.
"""


@click.command("token", epilog=_EPILOG)
@click.argument("name")
@click.option(
    "--scope", "scopes", multiple=True, required=True, type=click.Choice(PERMISSIONS), help="Can be repeated."
)
@click.option("--lasts", type=options.DURATION, metavar="TIME", show_default="for ever", help="Time until it expires.")
@click.option("--file", "path", type=options.FILE, help="Append to this file of tokens; created if it does not exist.")
def command(name: str, scopes: Sequence[str], lasts: float | None, path: Path | None) -> int:
    """Make a token for the HTTP service.

    The scope crawl allows what crawlers call, read what shows the state, admin what changes rules and the formula.
    """
    token = make_token()
    expires_s = None if lasts is None else options.current_time(None) + lasts
    entry = write_entry(token, name, scopes, expires_s)
    if path is None:
        echo_error(entry.rstrip())
    else:
        _append(path, name, entry)
    echo(token)
    return DONE


def _append(path: Path, name: str, entry: str) -> None:
    """Append a table to the file of tokens.

    Raises SettingsError if the file is not valid or has a token of this name, SnapshotError if it cannot be written.
    """
    if path.exists():
        check_new(path, name)
    try:
        handle = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        with os.fdopen(handle, "a", encoding="utf-8") as file:
            file.write(f"\n{entry}" if path.stat().st_size else entry)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise SnapshotError(str(path), f"cannot be written: {error.strerror or error}") from error
