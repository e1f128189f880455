"""Options of commands that act on a saved state or, with ``--service``, on a running service."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from streamsched.cli.options import DIRECTORY, FILE
from streamsched.errors import NOTHING, SettingsError, SnapshotError
from streamsched.persistence.files import read_regular

if TYPE_CHECKING:
    from streamsched.client import Client


Function = TypeVar("Function", bound=Callable[..., Any])

TOKEN_VARIABLE: Final = "STREAMSCHED_TOKEN"
ATTEMPTS: Final = 3  # a person waits for them

_SERVICE: Final = (
    click.option("--service", metavar="URL", help="URL of a running service."),
    click.option(
        "--token-file",
        type=FILE,
        show_default=f"the variable {TOKEN_VARIABLE}",
        help="File with the token for the service.",
    ),
)


def remote_options(command: Function) -> Function:
    """Give `command` the options that name a service."""
    for option in reversed(_SERVICE):
        command = option(command)
    return command


def state_or_service(command: Function) -> Function:
    """Give `command` the options that name a saved state or a service; `asks_service` says which was given."""
    state = click.option(
        "--state", type=DIRECTORY, help="Directory of the saved state, which no process may be changing."
    )
    return state(remote_options(command))


def asks_service(state: Path | None, service: str | None, **of_states: object) -> bool:
    """Return whether a service is to be asked.

    Raises click.UsageError unless either a state or a service is given, or if a service is given with an option of
    states: `of_states` has their values, None where not given.
    """
    if (state is None) == (service is None):
        raise click.UsageError(f"expected --state DIR or --service URL, found {'both' if state else 'neither'}")
    for name, value in of_states.items():
        if service is not None and value is not None:
            raise click.UsageError(f"--{name.replace('_', '-')} cannot be given with --service")
    return service is not None


def open_client(url: str, token_file: Path | None, attempts: int | None = ATTEMPTS) -> Client:
    """Return a client of the service at `url`, to be used as a context manager; `attempts`: of a call.

    Raises SettingsError if the token cannot be read, or the package that the client needs is not installed.
    """
    try:
        from streamsched.client import Client, RetryPolicy  # noqa: PLC0415  httpx is an extra
    except ImportError as error:
        raise SettingsError("httpx", NOTHING, "an installed package: pip install 'streamsched[client]'") from error
    token = os.environ.get(TOKEN_VARIABLE) or None if token_file is None else _read_token(token_file)
    return Client(url, token=token, retries=RetryPolicy(attempts=attempts))


def _read_token(path: Path) -> str:
    try:
        return read_regular(path).decode("utf-8-sig").strip()
    except (SnapshotError, OSError, UnicodeDecodeError) as error:
        reason = error.reason if isinstance(error, SnapshotError) else str(error)
        raise SettingsError("--token-file", str(path), f"a file that can be read ({reason})") from error
