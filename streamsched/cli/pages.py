"""``streamsched next`` and ``streamsched explain``: what to visit now, and why."""

from __future__ import annotations

import argparse
import json

from streamsched.cli.arguments import Commands, add_command, add_now, add_state, clock, duration, whole
from streamsched.cli.exits import DONE, NOTHING
from streamsched.errors import SettingsError
from streamsched.scheduler import Batch, Scheduler

__all__ = ["add_commands"]

_NEXT_EXAMPLES = """\
  streamsched next --state state/ -k 100              # 100 URLs, one a line, leased for ten minutes
  streamsched next --state state/ -k 100 --lease 1h --json
  streamsched next --state state/ --peek --scores     # look without leasing
  streamsched next --state state/ --formula 't * X'   # rank by another formula this once
"""
_EXPLAIN_EXAMPLES = """\
  streamsched explain https://example.org/news --state state/
  streamsched explain https://example.org/news --state state/ --now 2026-08-22 --json
"""


def add_commands(commands: Commands) -> None:
    """Add ``next`` and ``explain``."""
    parser = add_command(commands, "next", "print the pages to visit next, best first, and lease them", _NEXT_EXAMPLES)
    add_state(parser)
    add_now(parser)
    parser.add_argument("-k", type=whole(1), default=10, help="how many pages at the most (10)")
    parser.add_argument("--lease", type=duration, default=600.0, metavar="TIME", help="hand none out again for (10m)")
    parser.add_argument("--peek", action="store_true", help="do not lease, leave the state as it is")
    parser.add_argument("--per-host", type=whole(1), metavar="N", help="at most N pages of one host")
    parser.add_argument("--formula", help="rank by this formula, this once")
    parser.add_argument("--scores", action="store_true", help="print each page's score before it")
    parser.add_argument("--json", action="store_true", help="print the batch as JSON")
    parser.set_defaults(run=_next)

    parser = add_command(commands, "explain", "say why a page is ranked where it is", _EXPLAIN_EXAMPLES)
    parser.add_argument("url", metavar="URL")
    add_state(parser)
    add_now(parser)
    parser.add_argument("--json", action="store_true", help="print the explanation as JSON")
    parser.set_defaults(run=_explain)


def _next(arguments: argparse.Namespace) -> int:
    scheduler = Scheduler.load(arguments.state)
    champion = scheduler.formula
    if arguments.formula is not None:
        scheduler.use(arguments.formula)
    if arguments.per_host is not None:
        scheduler.per_host, usual = arguments.per_host, scheduler.per_host
    now = clock(arguments.now)
    if arguments.peek:
        batch = scheduler.rank(arguments.k, now=now)
    else:
        batch = scheduler.next_batch(arguments.k, now=now, lease=arguments.lease)
        if arguments.formula is not None:
            scheduler.use(champion)
        if arguments.per_host is not None:
            scheduler.per_host = usual
        scheduler.save(arguments.state)  # before anyone sees the URLs, so that no crash hands them out twice
    _print_batch(batch, arguments)
    return DONE if len(batch) else NOTHING


def _print_batch(batch: Batch, arguments: argparse.Namespace) -> None:
    if arguments.json:
        scores = [score if score == score and abs(score) != float("inf") else None for score in batch.scores.tolist()]
        content = {"urls": batch.urls, "scores": scores, "hosts": batch.hosts, "now": batch.now}
        print(json.dumps({**content, "lease_until": batch.lease_until_s}, indent=2))  # noqa: T201
        return
    for url, score in zip(batch.urls, batch.scores, strict=True):
        print(f"{score:.6g}\t{url}" if arguments.scores else url)  # noqa: T201


def _explain(arguments: argparse.Namespace) -> int:
    if not arguments.url:
        raise SettingsError("URL", arguments.url, "a URL")
    explanation = Scheduler.load(arguments.state).explain(arguments.url, now=clock(arguments.now))
    print(json.dumps(explanation.as_dict(), indent=2) if arguments.json else explanation)  # noqa: T201
    return DONE
