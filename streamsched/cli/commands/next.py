"""``streamsched next`` and ``streamsched explain``: the pages to visit now, and why a page has its rank."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import click

from streamsched.cli import options
from streamsched.cli.exits import DONE, NOTHING
from streamsched.cli.output import echo, echo_error, echo_json, plain
from streamsched.cli.remote import asks_service, open_client, state_or_service
from streamsched.scheduler.scheduler import Scheduler
from streamsched.service.open_state import open_state
from streamsched.state.stream_clock import WallClock

if TYPE_CHECKING:
    from streamsched.client import Client
    from streamsched.scheduler.results import Batch


_EPILOG: Final = """
\b
Examples:
  streamsched next --state state/ -k 100              # 100 URLs, one per line, leased for ten minutes
  streamsched next --state state/ -k 100 --lease 1h --json
  streamsched next --state state/ --peek --scores     # show the pages without a lease
  streamsched next --state state/ --formula 't * X'   # rank by another formula once
  streamsched next --service http://127.0.0.1:8080 -k 100

Control characters in URLs are percent-encoded; --json prints the URLs unchanged.
"""
_EXPLAIN_EPILOG: Final = """
\b
Examples:
  streamsched explain https://example.org/news --state state/
  streamsched explain https://example.org/news --state state/ --now 2026-08-22 --json
  streamsched explain https://example.org/news --service http://127.0.0.1:8080
"""


@click.command("next", epilog=_EPILOG)
@state_or_service
@options.now
@click.option("-k", type=options.whole(1), default=10, help="Largest number of pages to print.")
@click.option("--lease", type=options.LEASE, default="10m", help="Time for which these pages are not printed again.")
@click.option("--peek", is_flag=True, help="Do not lease the pages; the state stays as it is.")
@click.option("--per-host", type=options.whole(1), help="Print at most N pages per host, this time only.")
@click.option("--formula", metavar="FORMULA", help="Rank by this formula, this time only.")
@click.option("--scores", is_flag=True, help="Print each page's score before its URL.")
@click.option("--json", is_flag=True, help="Print JSON.")
def next_command(**given: Any) -> int:
    """Print the best pages to visit next, and lease them.

    A leased page is not printed again until the lease has expired or an outcome of the page has been read.
    The exit code is 1 if there is no page to visit now.
    """
    arguments = SimpleNamespace(**given)
    if asks_service(arguments.state, arguments.service, now=arguments.now, formula=arguments.formula):
        fields = _ask(arguments)
    elif arguments.peek:
        fields = _batch_fields(_peek(arguments))
        _print(arguments, fields)
    else:
        fields = _lease(arguments)
    return DONE if fields["urls"] else NOTHING


def _print(
    arguments: SimpleNamespace, fields: dict[str, Any], release: Callable[[list[str]], object] | None = None
) -> None:
    """Print a batch; if that fails, give its pages back by `release`: nobody has got them.

    Not if a reader has closed the pipe, as `head` does: it has read some of them.
    """
    try:
        if arguments.json:
            echo_json(fields)
        else:
            for url, score in zip(fields["urls"], fields["scores"], strict=True):
                echo(f"{score:.6g}\t{plain(url)}" if arguments.scores else plain(url))
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError:
        if release is not None:
            release(fields["urls"])
        raise


def _ask(arguments: SimpleNamespace) -> dict[str, Any]:
    """Print what a service answers, and return it as `_batch_fields` does."""
    with open_client(arguments.service, arguments.token_file) as client:
        fields = _answer(client, arguments)
        _print(arguments, fields, None if arguments.peek else client.release)
    return fields


def _answer(client: Client, arguments: SimpleNamespace) -> dict[str, Any]:
    """Return what a service answers, as `_batch_fields` does."""
    if arguments.peek:
        if arguments.per_host is not None:
            raise click.UsageError("--per-host cannot be given with --service and --peek")
        ranking = client.rank(arguments.k)
        pages, missing = ranking.pages, ranking.missing
        more: dict[str, Any] = {"now": ranking.now, "lease_until": None}
    else:
        batch = client.next_batch(arguments.k, lease=arguments.lease, per_host=arguments.per_host)
        until_s = batch.pages[0].lease_until if batch.pages else None
        more = {
            "reasons": [page.why for page in batch.pages],
            "now": batch.now,
            "lease_until": until_s,
            "etags": [page.etag for page in batch.pages],
            "last_modified": [page.last_modified for page in batch.pages],
        }
        pages, missing = [*batch.pages], batch.missing
    if missing:
        numbers = ", ".join(map(str, missing))
        echo_error(f"streamsched: the batch lacks the pages of shards that did not answer in time: {numbers}")
    scores = [math.nan if page.score is None else page.score for page in pages]
    return {
        "urls": [page.url for page in pages],
        "scores": scores,
        "probabilities": [page.probability for page in pages],
        "hosts": [page.host for page in pages],
        **more,
    }


def _batch_fields(batch: Batch) -> dict[str, Any]:
    """Return what ``--json`` prints; ``reasons``: the code of what gave each page its place."""
    return {
        "urls": batch.urls,
        "scores": batch.scores.tolist(),
        "probabilities": batch.probabilities.tolist(),
        "hosts": batch.hosts,
        "reasons": batch.reasons,
        "now": batch.now,
        "lease_until": batch.lease_until_s,
        "etags": batch.etags,
        "last_modified": batch.last_modified,
    }


def _peek(arguments: SimpleNamespace) -> Batch:
    scheduler = Scheduler.load(arguments.state)
    if arguments.formula is not None:
        scheduler.use(arguments.formula)
    if arguments.per_host is not None:
        scheduler.set_politeness(replace(scheduler.politeness, per_batch=arguments.per_host))
    return scheduler.rank(arguments.k, now=options.current_time(arguments.now))


def _lease(arguments: SimpleNamespace) -> dict[str, Any]:
    """Print a batch, and return it; its leases are on disk before, so that no crash hands pages out twice."""
    with open_state(arguments.state, WallClock(lambda: options.current_time(None))) as scheduler:
        wanted: dict[str, Any] = {"now": options.current_time(arguments.now), "lease": arguments.lease}
        if arguments.formula is None:
            batch = scheduler.next_batch(arguments.k, per_host=arguments.per_host, **wanted)
        else:  # ranked by a copy, so that the state keeps its own formula whatever happens
            copy = Scheduler.load(arguments.state)
            copy.use(arguments.formula)
            batch = copy.offer(arguments.k, per_host=arguments.per_host, **wanted)
            granted = scheduler.grant(batch.urls, **wanted)
            batch = replace(batch, lease_until_s=granted.batch.lease_until_s)
        fields = _batch_fields(batch)
        _print(arguments, fields, scheduler.release)
    return fields


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
