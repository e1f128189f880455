"""``streamsched token``, ``rules`` and ``changes``: who may call a running service, its rules, what it has found."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from streamsched.api.answers import Change
from streamsched.api.views import HostLimits, PageLimits
from streamsched.cli import options
from streamsched.cli.exits import DONE, end_with_reader
from streamsched.cli.output import echo, echo_error, plain
from streamsched.cli.remote import ATTEMPTS, open_client, remote_options
from streamsched.errors import SettingsError, SnapshotError
from streamsched.http.tokens import SCOPES, check_new, make_token, write_entry
from streamsched.numerics.durations import format_moment, parse_duration
from streamsched.persistence.files import open_regular

_TOKEN_EPILOG: Final = """
\b
Examples:
  streamsched token crawler-1 --scope crawl
  streamsched token dashboard --scope read --lasts 90d --file tokens.toml

The token is printed on standard output, once: the file holds only its hash. Without --file its table is printed on
standard error.
"""


@click.command("token", epilog=_TOKEN_EPILOG)
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, required=True, type=click.Choice(SCOPES), help="Can be repeated.")
@click.option("--lasts", type=options.DURATION, metavar="TIME", show_default="for ever", help="Time until it expires.")
@click.option("--file", "path", type=options.FILE, help="Append to this file of tokens; created if it does not exist.")
def token_command(name: str, scopes: Sequence[str], lasts: float | None, path: Path | None) -> int:
    """Make a token for the HTTP service.

    NAME is the name of its caller in the file of tokens and the audit log.

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


_DURATIONS: Final = ("delay", "min_revisit", "max_revisit")
_COUNTS: Final = ("in_flight", "per_batch")
_RULES_EPILOG: Final = """
\b
Examples:
  streamsched rules --service http://127.0.0.1:8080
  streamsched rules slow.example delay=30s in_flight=1 --service http://127.0.0.1:8080
  streamsched rules 'shop.example/cart/*' never=true --service http://127.0.0.1:8080
  streamsched rules https://news.example/ max_revisit=15m --service http://127.0.0.1:8080
  streamsched rules slow.example --remove --service http://127.0.0.1:8080

A rule of a host has delay, in_flight and per_batch; one of a URL pattern or a page has min_revisit, max_revisit
and never. It replaces the rule that the target had. A saved state gets its rules from `run` and `serve`.
"""


@click.command("rules", epilog=_RULES_EPILOG)
@click.argument("target", required=False)
@click.argument("fields", nargs=-1, metavar="FIELDS")
@click.option("--remove", is_flag=True, help="Remove the target's rules.")
@remote_options
def rules_command(
    target: str | None, fields: Sequence[str], remove: bool, service: str | None, token_file: Path | None
) -> int:
    """List, set or remove rules of a running service.

    TARGET is a host, a URL pattern or the URL of a page. FIELDS is the rule, each field as NAME=VALUE.
    """
    if service is None:
        raise click.UsageError("--service is required")
    if target is None:
        if remove:
            raise click.UsageError("--remove needs a TARGET")
        return _list_rules(service, token_file)
    if remove == bool(fields):
        raise click.UsageError("expected fields of a rule, or --remove")
    rule = None if remove else dict(_read_field(field) for field in fields)
    with open_client(service, token_file) as client:
        pages = client.set_rules({target: rule}).pages
    echo(f"the rule may concern {pages} known page{'' if pages == 1 else 's'}")
    return DONE


def _list_rules(service: str, token_file: Path | None) -> int:
    """Print each rule on a line, as this command sets it."""
    with open_client(service, token_file) as client:
        rules = client.rules()
    listed: list[tuple[str, HostLimits | PageLimits]] = [*rules.hosts.items(), *rules.pages.items()]
    for target, rule in listed:
        echo(plain(" ".join([target, *_show_fields(rule)])))
    return DONE


def _show_fields(rule: HostLimits | PageLimits) -> Iterator[str]:
    for name, value in rule.as_dict().items():
        if name in _DURATIONS and value is not None:
            yield f"{name}={value:.6f}".rstrip("0").rstrip(".") + "s"
        elif value:
            yield f"{name}={str(value).lower()}"


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


_CHANGES_EPILOG: Final = """
\b
Examples:
  streamsched changes --service http://127.0.0.1:8080
  streamsched changes --service http://127.0.0.1:8080 --follow --after newest
  streamsched changes --service http://127.0.0.1:8080 --follow --json --after 5f2c91aa-1042

Each line has the position after the change, the time at which it was found, and the URL; then `gone` if the page
is, and the URL to which it moved. To go on later, give the last position as --after. The option --json prints a JSON
object a line.
"""


@click.command("changes", epilog=_CHANGES_EPILOG)
@remote_options
@click.option("--after", metavar="POSITION", default="oldest", help="A position, oldest, or newest.")
@click.option("--follow", is_flag=True, help="Wait for further changes, until Ctrl-C.")
@click.option("--limit", type=options.whole(1), help="Largest number of changes to print.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def changes_command(
    service: str | None, token_file: Path | None, after: str, follow: bool, limit: int | None, as_json: bool
) -> int:
    """Print the changes of pages that a service has found.

    Each is printed once, in their order.
    """
    if service is None:
        raise click.UsageError("--service is required")
    if follow:
        end_with_reader()
    with open_client(service, token_file, None if follow else ATTEMPTS) as client:
        for number, change in enumerate(client.changes(after, follow=follow), 1):
            echo(msgspec.json.encode(change).decode() if as_json else _describe_change(change))
            if follow:
                sys.stdout.flush()
            if number == limit:
                break
    return DONE


def _describe_change(change: Change) -> str:
    words = [change.cursor, format_moment(change.fetched_at), plain(change.url)]
    if change.gone:
        words.append("gone")
    if change.moved_to is not None:
        words.append(plain(change.moved_to))
    return "\t".join(words)
