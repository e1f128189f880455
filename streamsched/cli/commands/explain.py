"""``streamsched explain``: why a page has its rank."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

import click

from streamsched.cli import options
from streamsched.cli.exits import DONE
from streamsched.cli.output import echo, echo_json, plain
from streamsched.cli.remote import asks_service, open_client, state_or_service
from streamsched.scheduler.scheduler import Scheduler

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
