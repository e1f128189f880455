"""``streamsched state``: what a state directory holds, whether it is sound, and one hash of what it means."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from streamsched.cli.arguments import add_examples, add_state
from streamsched.cli.exits import DONE
from streamsched.cli.output import echo, echo_error, echo_json
from streamsched.errors import SettingsError, SnapshotError
from streamsched.numerics.durations import format_duration
from streamsched.persistence.export import export_pages
from streamsched.persistence.files import list_images
from streamsched.persistence.recovery import newest_image
from streamsched.persistence.verification import check_directory
from streamsched.scheduler.scheduler import Scheduler

__all__ = ["add_arguments"]

_EXAMPLES = """\
  streamsched state show --state state/
  streamsched state verify --state state/ && echo sound
  streamsched state digest --state state/     # equal for equal states, however they came about
  streamsched state export --state state/ --to pages.parquet     # or .arrow; for DuckDB, Polars, pandas

`verify` checks every byte of every file, older images and the log of calls too, and names all that is damaged.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``state``."""
    add_examples(parser, _EXAMPLES)
    parser.add_argument("action", choices=["show", "verify", "digest", "export"])
    add_state(parser)
    parser.add_argument("--to", type=Path, metavar="FILE", help="export to FILE: .parquet, .arrow or .feather")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_state)


def _state(arguments: argparse.Namespace) -> int:
    directory: Path = arguments.state
    content: dict[str, Any]
    if arguments.action == "verify":
        content = _verify(directory)
    else:
        scheduler = Scheduler.load(directory)
        content = {"file": str(newest_image(directory))}
        if arguments.action == "show":
            content |= _describe(directory, scheduler)
        elif arguments.action == "digest":
            content["digest"] = scheduler.digest()
        else:
            if arguments.to is None:
                raise SettingsError("--to", None, "a file to export to, such as pages.parquet")
            content = {"exported": str(arguments.to), "pages": export_pages(scheduler.core.pages, arguments.to)}
    if arguments.json:
        echo_json(content)
    elif arguments.action == "digest":
        echo(content["digest"])
    else:
        positions = content.pop("positions", {})
        for name, value in content.items():
            echo(f"{name:<14} {value}")
        for path, position in positions.items():
            unit = "message" if position["kind"] == "kafka" else "byte"
            echo(f"{'position':<14} {path}: {position['kind']}, read to {unit} {position['offset']}")
    return DONE


def _verify(directory: Path) -> dict[str, Any]:
    faults = check_directory(directory)
    for fault in faults[1:]:
        echo_error(f"streamsched: {fault}")
    if faults:
        raise faults[0]
    scheduler = Scheduler.load(directory)
    unsound = scheduler.core.pages.faults()
    file = str(newest_image(directory))
    if unsound:
        raise SnapshotError(file, f"unsound although its checksums fit: not so that {unsound[0]}")
    return {"file": file, "sound": True}


def _describe(directory: Path, scheduler: Scheduler) -> dict[str, Any]:
    corpus = scheduler.core.pages.arrays.corpus[0]
    sizes = scheduler.core.pages.state_bytes()
    return {
        "images": len({name.number for name in list_images(directory)}),
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
