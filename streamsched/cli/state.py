"""``streamsched state``: what a state directory holds, whether it is sound, and one hash of what it means."""

from __future__ import annotations

import argparse
from typing import Any

from streamsched.cli.arguments import add_examples, add_state
from streamsched.cli.exits import DONE
from streamsched.cli.output import say, say_json
from streamsched.durations import format_duration
from streamsched.errors import SnapshotError
from streamsched.scheduler import Scheduler
from streamsched.store.recovery import newest_image

__all__ = ["add_arguments"]

_EXAMPLES = """\
  streamsched state show --state state/
  streamsched state verify --state state/ && echo sound
  streamsched state digest --state state/     # equal for equal states, however they came about
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``state``."""
    add_examples(parser, _EXAMPLES)
    parser.add_argument("action", choices=["show", "verify", "digest"])
    add_state(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_state)


def _state(arguments: argparse.Namespace) -> int:
    scheduler = Scheduler.load(arguments.state)  # checks every byte
    content: dict[str, Any] = {"file": str(newest_image(arguments.state))}
    if arguments.action == "show":
        content |= _describe(scheduler)
    elif arguments.action == "verify":
        faults = scheduler.pages.faults()
        if faults:
            raise SnapshotError(content["file"], f"unsound although its checksums fit: not so that {faults[0]}")
        content["sound"] = True
    else:
        content["digest"] = scheduler.digest()
    if arguments.json:
        say_json(content)
    elif arguments.action == "digest":
        say(content["digest"])
    else:
        positions = content.pop("positions", {})
        for name, value in content.items():
            say(f"{name:<14} {value}")
        for path, position in positions.items():
            say(f"{'position':<14} {path}: {position['kind']}, read to byte {position['offset']}")
    return DONE


def _describe(scheduler: Scheduler) -> dict[str, Any]:
    corpus = scheduler.pages.tables.corpus[0]
    sizes = scheduler.pages.state_bytes()
    return {
        "pages": len(scheduler),
        "groups": int(corpus["groups"]),
        "outcomes": int(corpus["applied"]),
        "failures": int(corpus["failures"]),
        "cycle": format_duration(scheduler.cycle_s),
        "formula": scheduler.formula.text,
        "prior_rate": float(corpus["mean"]),
        "prior_shape": float(corpus["shape"]),
        "bytes_a_page": round(sum(sizes.values()) / max(len(scheduler), 1), 1),
        "positions": scheduler.positions,
    }
