"""``streamsched rules``: set or remove a rule of a running service."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from streamsched.cli.exits import DONE
from streamsched.cli.output import echo
from streamsched.cli.remote import open_client, remote_options
from streamsched.errors import SettingsError
from streamsched.numerics.durations import parse_duration

__all__ = ["command"]

_DURATIONS: Final = ("delay", "min_revisit", "max_revisit")
_COUNTS: Final = ("in_flight", "per_batch")
_EPILOG: Final = """
\b
Examples:
  streamsched rules slow.example delay=30s in_flight=1 --service http://127.0.0.1:8080
  streamsched rules 'shop.example/cart/*' never=true --service http://127.0.0.1:8080
  streamsched rules https://news.example/ max_revisit=15m --service http://127.0.0.1:8080
  streamsched rules slow.example --remove --service http://127.0.0.1:8080

A rule of a host has delay, in_flight and per_batch; one of a URL pattern or a page has min_revisit, max_revisit
and never. It replaces the rule that the target had. A saved state gets its rules from `run` and `serve`.
"""


@click.command("rules", epilog=_EPILOG)
@click.argument("target")
@click.argument("fields", nargs=-1, metavar="FIELDS")
@click.option("--remove", is_flag=True, help="Remove the target's rule.")
@remote_options
def command(target: str, fields: Sequence[str], remove: bool, service: str | None, token_file: Path | None) -> int:
    """Set or remove a rule of a running service.

    TARGET is a host, a URL pattern or the URL of a page. FIELDS is the rule, each field as NAME=VALUE.
    """
    if service is None:
        raise click.UsageError("--service is required")
    if remove == bool(fields):
        raise click.UsageError("expected fields of a rule, or --remove")
    rule = None if remove else dict(_read_field(field) for field in fields)
    with open_client(service, token_file) as client:
        pages = client.set_rules({target: rule}).pages
    echo(f"the rule may concern {pages} known page{'' if pages == 1 else 's'}")
    return DONE


def _read_field(text: str) -> tuple[str, Any]:
    """Return the name and value of a field. Raises SettingsError if it is none."""
    name, equals, value = text.partition("=")
    if equals and name in _DURATIONS:
        return name, parse_duration(value, name, zero=True)
    if equals and name in _COUNTS and value.isdecimal():
        return name, int(value)
    if name == "never" and value in {"true", "false"}:
        return name, value == "true"
    expected = f"TIME for {', '.join(_DURATIONS)}, a whole number for {', '.join(_COUNTS)}, true or false for never"
    raise SettingsError("NAME=VALUE", text, expected)
