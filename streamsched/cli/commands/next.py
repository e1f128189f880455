"""``streamsched next``: what to visit now."""

from __future__ import annotations

import argparse

from streamsched.cli.arguments import add_examples, add_now, add_state, clock, duration, whole
from streamsched.cli.exits import DONE, NOTHING
from streamsched.cli.output import echo, echo_json, plain
from streamsched.scheduler.results import Batch
from streamsched.scheduler.scheduler import Scheduler
from streamsched.service.open_state import open_state

__all__ = ["add_arguments"]

_EXAMPLES = """\
  streamsched next --state state/ -k 100              # 100 URLs, one a line, leased for ten minutes
  streamsched next --state state/ -k 100 --lease 1h --json
  streamsched next --state state/ --peek --scores     # look without leasing
  streamsched next --state state/ --formula 't * X'   # rank by another formula this once

Control characters within a URL are percent-encoded; --json has every URL as it is.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``next``."""
    add_examples(parser, _EXAMPLES)
    add_state(parser)
    add_now(parser)
    parser.add_argument("-k", type=whole(1), default=10, help="how many pages at the most (10)")
    parser.add_argument("--lease", type=duration, default=600.0, metavar="TIME", help="hand none out again for (10m)")
    parser.add_argument("--peek", action="store_true", help="do not lease, leave the state as it is")
    parser.add_argument("--per-host", type=whole(1), metavar="N", help="at most N pages of one host, this once")
    parser.add_argument("--formula", help="rank by this formula, this once")
    parser.add_argument("--scores", action="store_true", help="print each page's score before it")
    parser.add_argument("--json", action="store_true", help="print the batch as JSON")
    parser.set_defaults(run=_next)


def _next(arguments: argparse.Namespace) -> int:
    batch = _peek(arguments) if arguments.peek else _lease(arguments)
    if arguments.json:
        echo_json(_batch_fields(batch))
    else:
        for url, score in zip(batch.urls, batch.scores, strict=True):
            echo(f"{score:.6g}\t{plain(url)}" if arguments.scores else plain(url))
    return DONE if len(batch) else NOTHING


def _batch_fields(batch: Batch) -> dict[str, object]:
    """Return what ``--json`` prints; ``reasons``: the code of what gave each page its place."""
    return {
        "urls": batch.urls,
        "scores": batch.scores.tolist(),
        "hosts": batch.hosts,
        "reasons": batch.reasons,
        "now": batch.now,
        "lease_until": batch.lease_until_s,
    }


def _peek(arguments: argparse.Namespace) -> Batch:
    scheduler = Scheduler.load(arguments.state)
    if arguments.formula is not None:
        scheduler.use(arguments.formula)
    if arguments.per_host is not None:
        scheduler.per_host = arguments.per_host
    return scheduler.rank(arguments.k, now=clock(arguments.now))


def _lease(arguments: argparse.Namespace) -> Batch:
    """Return a batch whose leases are on disk before anyone sees its URLs, so that no crash hands them out twice."""
    with open_state(arguments.state) as scheduler:
        usual = scheduler.champion, scheduler.per_host
        if arguments.formula is not None:
            scheduler.use(arguments.formula)
        if arguments.per_host is not None:
            scheduler.per_host = arguments.per_host
        batch = scheduler.next_batch(arguments.k, now=clock(arguments.now), lease=arguments.lease)
        if arguments.formula is not None:
            scheduler.use(usual[0])
        if arguments.per_host is not None:
            scheduler.per_host = usual[1]
    return batch
