"""``streamsched state``: what a state directory holds, whether it is intact, and a hash of its content."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from streamsched.cli import options
from streamsched.cli.exits import DONE
from streamsched.cli.output import echo, echo_error, echo_json
from streamsched.errors import SnapshotError
from streamsched.numerics.durations import format_duration
from streamsched.persistence.export import export_pages
from streamsched.persistence.files import list_images
from streamsched.persistence.recovery import newest_image
from streamsched.persistence.verification import check_directory
from streamsched.scheduler.scheduler import Scheduler

__all__ = ["command"]

_EPILOG: Final = """
\b
Examples:
  streamsched state show --state state/
  streamsched state verify --state state/ && echo intact
  streamsched state digest --state state/    # equal for equal states, however they were reached
  streamsched state export --state state/ --to pages.parquet    # for DuckDB, Polars, pandas
"""


@click.group("state", epilog=_EPILOG, no_args_is_help=False)
def command() -> None:
    """Show, verify, hash or export a saved state."""


@command.command("show", epilog="Example: streamsched state show --state state/")
@options.state
@click.option("--json", is_flag=True, help="Print JSON.")
def _show(state: Path, json: bool) -> int:
    """Show size, settings and stream positions of a saved state."""
    scheduler = Scheduler.load(state)
    content: dict[str, Any] = {"file": str(newest_image(state)), **_describe(state, scheduler)}
    positions: dict[str, Any] = {} if json else content.pop("positions")
    _print(content, json)
    for path, position in positions.items():
        unit = "message" if position["kind"] == "kafka" else "byte"
        echo(f"{'position':<16} {path}: {position['kind']}, read to {unit} {position['offset']}")
    return DONE


@command.command("verify", epilog="Example: streamsched state verify --state state/")
@options.state
@click.option("--json", is_flag=True, help="Print JSON.")
def _verify(state: Path, json: bool) -> int:
    """Check every byte of every file of a saved state.

    Older snapshots and the log of calls are checked too. Each damaged file is reported.
    """
    faults = check_directory(state)
    for fault in faults[1:]:
        echo_error(f"streamsched: {fault}")
    if faults:
        raise faults[0]
    broken = Scheduler.load(state).core.pages.faults()
    file = str(newest_image(state))
    if broken:
        raise SnapshotError(file, f"checksums are valid but an invariant does not hold: {broken[0]}")
    return _print({"file": file, "sound": True}, json)


@command.command("digest", epilog="Example: streamsched state digest --state state/")
@options.state
@click.option("--json", is_flag=True, help="Print JSON.")
def _digest(state: Path, json: bool) -> int:
    """Print a hash: equal for equal states, however they were reached."""
    digest = Scheduler.load(state).digest()
    if json:
        return _print({"file": str(newest_image(state)), "digest": digest}, json)
    echo(digest)
    return DONE


@command.command("export", epilog="Example: streamsched state export --state state/ --to pages.parquet")
@options.state
@click.option("--to", "output", type=options.FILE, required=True, help="File to write: .parquet, .arrow or .feather.")
@click.option("--json", is_flag=True, help="Print JSON.")
def _export(state: Path, output: Path, json: bool) -> int:
    """Write the pages of a saved state to a Parquet or Arrow file."""
    pages = export_pages(Scheduler.load(state).core.pages, output)
    return _print({"file": str(newest_image(state)), "exported": str(output), "pages": pages}, json)


def _print(content: dict[str, Any], json: bool) -> int:
    if json:
        echo_json(content)
    else:
        for name, value in content.items():
            echo(f"{name:<16} {value}")
    return DONE


def _describe(directory: Path, scheduler: Scheduler) -> dict[str, Any]:
    corpus = scheduler.core.pages.arrays.corpus[0]
    sizes = scheduler.core.pages.state_bytes()
    return {
        "images": len({name.number for name in list_images(directory)}),
        "pages": len(scheduler),
        "groups": int(corpus["groups"]),
        "outcomes": int(corpus["applied"]),
        "failures": int(corpus["failures"]),
        "refused_pages": scheduler.refused_pages,
        "refused_patterns": scheduler.refused_patterns,
        "cycle": format_duration(scheduler.cycle_s),
        "formula": scheduler.formula.text,
        "prior_rate": float(corpus["mean"]),
        "prior_shape": float(corpus["shape"]),
        "bytes_a_page": round(sum(sizes.values()) / max(len(scheduler), 1), 1),
        "positions": scheduler.positions,
    }
