"""``streamsched explain``: why a page has its rank."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import click

from streamsched.cli import options
from streamsched.cli.exits import DONE
from streamsched.cli.output import echo, echo_json, plain
from streamsched.cli.remote import asks_service, open_client, plain_fields, state_or_service
from streamsched.scheduler.scheduler import Scheduler

if TYPE_CHECKING:
    from streamsched.answers import Explained

__all__ = ["command"]

_EPILOG: Final = """
\b
Examples:
  streamsched explain https://example.org/news --state state/
  streamsched explain https://example.org/news --state state/ --now 2026-08-22 --json
  streamsched explain https://example.org/news --service http://127.0.0.1:8080
"""


@click.command("explain", epilog=_EPILOG)
@click.argument("url", metavar="URL", type=options.URL)
@state_or_service
@options.now
@click.option("-k", type=options.whole(1), default=1000, help="Size of the batch to check for the page.")
@click.option("--lease", type=options.DURATION, show_default="10m", help="Lease time of that batch.")
@click.option("--json", is_flag=True, help="Print JSON.")
def command(**given: Any) -> int:
    """Explain the rank of a page.

    URL is the address of the page, as in the crawl outcomes. The explanation has the page's score
    and its parts, the rank, and whether a batch would include the page now. The state stays as it is.
    """
    arguments = SimpleNamespace(**given)
    if asks_service(arguments.state, arguments.service, now=arguments.now, lease=arguments.lease):
        with open_client(arguments.service, arguments.token_file) as client:
            explained = client.explain(arguments.url, k=arguments.k)
        fields, text = _fields_of(explained), _describe(explained)
    else:
        scheduler, now = Scheduler.load(arguments.state), options.current_time(arguments.now)
        lease = "10m" if arguments.lease is None else arguments.lease
        explanation = scheduler.explain(arguments.url, now=now, k=arguments.k, lease=lease)
        fields, text = explanation.as_dict(), str(explanation)
    if arguments.json:
        echo_json(fields)
    else:
        for line in text.split("\n"):
            echo(plain(line))
    return DONE


def _fields_of(explained: Explained) -> dict[str, Any]:
    """Return what a service has answered, as `Explanation.as_dict` does."""
    fields = plain_fields(explained)
    fields["champion"].pop("text")
    fields["reasons"] = [{"code": reason.code, **reason.fields} for reason in explained.reasons]
    return fields


def _describe(explained: Explained) -> str:
    """Return what a service has answered as text, as `str` does of an `Explanation`."""
    place = (
        f"{explained.position} of {explained.of_eligible} eligible pages"
        if explained.position
        else "not in the ranking"
    )
    lines = [
        explained.url,
        f"  score      {_format(explained.score)} = {explained.formula}",
        f"  formula    {explained.champion.text}",
        f"  place      {place}",
    ]
    lines += [f"  because    {reason.text}" for reason in explained.reasons]
    lines += [f"  {name:<10} {_format(value)}" for name, value in explained.terminals.items()]
    return "\n".join(lines)


def _format(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.6g}"
