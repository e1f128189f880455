"""``streamsched explain``: why a page is ranked where it is."""

from __future__ import annotations

import argparse

from streamsched.cli.arguments import add_examples, add_now, add_state, clock, duration, url, whole
from streamsched.cli.exits import DONE
from streamsched.cli.output import echo, echo_json, plain
from streamsched.scheduler.scheduler import Scheduler

__all__ = ["add_arguments"]

_EXAMPLES = """\
  streamsched explain https://example.org/news --state state/
  streamsched explain https://example.org/news --state state/ --now 2026-08-22 --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``explain``."""
    add_examples(parser, _EXAMPLES)
    parser.add_argument("url", type=url, metavar="URL")
    add_state(parser)
    add_now(parser)
    parser.add_argument("-k", type=whole(1), default=1000, help="the size of the batch that may have it or not (1000)")
    parser.add_argument("--lease", type=duration, default=600.0, metavar="TIME", help="how long it leases for (10m)")
    parser.add_argument("--json", action="store_true", help="print the explanation as JSON")
    parser.set_defaults(run=_explain)


def _explain(arguments: argparse.Namespace) -> int:
    scheduler, now = Scheduler.load(arguments.state), clock(arguments.now)
    explanation = scheduler.explain(arguments.url, now=now, k=arguments.k, lease=arguments.lease)
    if arguments.json:
        echo_json(explanation.as_dict())
    else:
        for line in str(explanation).split("\n"):
            echo(plain(line))
    return DONE
