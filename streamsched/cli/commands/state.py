"""``streamsched state``: what a state directory holds, whether it is intact, its repair, size, and a hash of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import numpy as np

from streamsched.cli import options
from streamsched.cli.exits import DONE
from streamsched.cli.output import echo, echo_error, echo_json
from streamsched.errors import SnapshotError
from streamsched.numerics.durations import format_duration
from streamsched.persistence.export import export_pages
from streamsched.persistence.files import list_images
from streamsched.persistence.state_directory import check_directory, newest_image
from streamsched.records.page_schema import SHOWN_FLAGS
from streamsched.scheduler.recovered_state import recover_state
from streamsched.scheduler.scheduler import Scheduler
from streamsched.service.open_state import compact_state, drop_lost_log, repair_state
from streamsched.state.future_times import describe_future
from streamsched.state.stream_clock import MAX_AHEAD_OF_CLOCK

if TYPE_CHECKING:
    from streamsched.state.page_table import PageTable

_MANY_PAGES: Final = 10_000  # with fewer, tables that are as large without pages weigh more than the pages

_EPILOG: Final = """
\b
Examples:
  streamsched state show --state state/
  streamsched state verify --state state/ && echo intact
  streamsched state repair --state state/    # times in the future, as wrong clocks left them
  streamsched state compact --state state/   # after `forget`: forgotten pages and empty hosts take no room any more
  streamsched state digest --state state/    # equal for equal states, however they were reached
  streamsched state export --state state/ --to pages.parquet    # for DuckDB, Polars, pandas
  streamsched state backup --state state/ --to copy/    # also while a service uses it
  streamsched state restore --state state/ --from copy/
"""


_present: Final = click.option(
    "--now", type=options.MOMENT, metavar="TIME", show_default="the current time", help="What is later is the future."
)
_tolerance: Final = click.option(
    "--max-ahead", "ahead_s", type=options.DURATION, default=MAX_AHEAD_OF_CLOCK, help="How far ahead a time may be."
)


@click.group("state", epilog=_EPILOG, no_args_is_help=False)
def state_command() -> None:
    """Show, verify, repair, compact, export or copy a saved state."""


@state_command.command("show", epilog="Example: streamsched state show --state state/")
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


@state_command.command("verify", epilog="Example: streamsched state verify --state state/")
@options.state
@_present
@_tolerance
@click.option("--json", is_flag=True, help="Print JSON.")
def _verify(state: Path, now: float | None, ahead_s: float, json: bool) -> int:
    """Check every byte of every file of a saved state.

    Older snapshots, the log of calls and the change feed are checked too. Each damaged or missing file is reported,
    and so are pages whose last visit lies in the future; the exit code is 4 if there is anything to report. A crash may
    leave bytes of a call that was never acknowledged, and calls that wait for a stream to be read again; these are not
    damage.
    """
    faults = check_directory(state)
    for fault in faults[1:]:
        echo_error(f"streamsched: {fault}")
    if faults:
        raise faults[0]
    found = recover_state(state, report=False)
    file = str(newest_image(state))
    _check_pages(file, found.core.pages, options.current_time(now) + ahead_s)
    result: dict[str, Any] = {"file": file, "sound": True}
    if found.unfinished_bytes:
        result["unfinished_bytes"] = found.unfinished_bytes
    if found.needed is not None:
        result["waits_for"] = found.needed.stream
    return _print(result, json)


def _check_pages(file: str, pages: PageTable, latest_s: float) -> None:
    """Raise SnapshotError about `file` if an invariant does not hold, or a last visit is later than `latest_s`."""
    broken = pages.faults()
    if broken:
        raise SnapshotError(file, f"checksums are valid but an invariant does not hold: {broken[0]}")
    future = describe_future(pages.arrays, latest_s)
    if future is not None:
        raise SnapshotError(file, f"{future}; `streamsched state repair` mends them")


@state_command.command("repair", epilog="Example: streamsched state repair --state state/")
@options.state
@_present
@_tolerance
@click.option("--drop-lost-calls", is_flag=True, help="Continue without logged calls that cannot be read.")
@click.option("--json", is_flag=True, help="Print JSON.")
def _repair(state: Path, now: float | None, ahead_s: float, drop_lost_calls: bool, json: bool) -> int:
    """Mend times in the future, as wrong clocks left them, and on request a damaged log of calls.

    Prints how many records of each kind were changed. A mended page counts as visited at the newest outcome that is
    not in the future, and its change rate is learned again. Leases that began in the future end, and so do rests of
    hosts that last longer than the longest back-off from then on; blocks stay.

    With --drop-lost-calls the state becomes that after the last call before the damage: later calls are lost, and
    older snapshots and the log are removed. Restore the damaged file from a copy instead if there is one.
    """
    dropped = drop_lost_log(state) if drop_lost_calls else []
    for fault in dropped:
        echo_error(f"streamsched: dropped: {fault}")
    counts = repair_state(state, options.current_time(now) + ahead_s)
    changed = {name: count for name, count in counts.items() if count}
    file = str(newest_image(state))
    if json:
        return _print({"file": file, "changed": changed, "dropped": [str(fault) for fault in dropped]}, json)
    if not changed and not dropped:
        echo("nothing to repair")
        return DONE
    return _print({"file": file, **changed}, json)


@state_command.command("compact", epilog="Example: streamsched state compact --state state/")
@options.state
@click.option("--json", is_flag=True, help="Print JSON.")
def _compact(state: Path, json: bool) -> int:
    """Free the room of forgotten pages, and of hosts and URL patterns without pages.

    No process may use the state meanwhile. Prints what it had before and has after; the pages that are known stay as
    they are. A kill leaves the state as it was, or compacted. Older snapshots are removed.
    """
    sizes = compact_state(state)
    file = str(newest_image(state))
    if json:
        return _print({"file": file, "before": {name: size[0] for name, size in sizes.items()},
                       "after": {name: size[1] for name, size in sizes.items()}}, json)  # fmt: skip
    return _print(
        {"file": file} | {name: f"{before:,} before, {after:,} after" for name, (before, after) in sizes.items()}, json
    )


@state_command.command("digest", epilog="Example: streamsched state digest --state state/")
@options.state
@click.option("--json", is_flag=True, help="Print JSON.")
def _digest(state: Path, json: bool) -> int:
    """Print a hash: equal for equal states, however they were reached."""
    digest = Scheduler.load(state).digest()
    if json:
        return _print({"file": str(newest_image(state)), "digest": digest}, json)
    echo(digest)
    return DONE


@state_command.command("export", epilog="Example: streamsched state export --state state/ --to pages.parquet")
@options.state
@click.option("--to", "output", type=options.FILE, required=True, help="File to write: .parquet, .arrow or .feather.")
@click.option("--json", is_flag=True, help="Print JSON.")
def _export(state: Path, output: Path, json: bool) -> int:
    """Write the pages of a saved state to a Parquet or Arrow file."""
    pages = export_pages(Scheduler.load(state).core.pages, output)
    return _print({"file": str(newest_image(state)), "exported": str(output), "pages": pages}, json)


@state_command.command("backup", epilog="Example: streamsched state backup --state state/ --to copy/")
@options.state
@click.option("--to", "target", type=options.DIRECTORY, required=True, help="Directory of the copy, without a state.")
@click.option("--json", is_flag=True, help="Print JSON.")
def _backup(state: Path, target: Path, json: bool) -> int:
    """Copy a saved state, also while a process uses it, and check the copy."""
    return _copy(state, target, json)


@state_command.command("restore", epilog="Example: streamsched state restore --state state/ --from copy/")
@options.state
@click.option("--from", "source", type=options.DIRECTORY, required=True, help="Directory of the copy.")
@click.option("--json", is_flag=True, help="Print JSON.")
def _restore(state: Path, source: Path, json: bool) -> int:
    """Put a copy into a directory without a state, and check it."""
    return _copy(source, state, json)


def _copy(source: Path, target: Path, json: bool) -> int:
    from streamsched.service.state_copies import copy_state  # noqa: PLC0415  takes long to import

    path = copy_state(source, target)
    return _print({"file": str(path), "bytes": path.stat().st_size, "sound": True}, json)


def _print(content: dict[str, Any], json: bool) -> int:
    if json:
        echo_json(content)
    else:
        for name, value in content.items():
            echo(f"{name:<16} {value}")
    return DONE


def _describe(directory: Path, scheduler: Scheduler) -> dict[str, Any]:
    corpus = scheduler.core.pages.arrays.corpus[0]
    size = sum(scheduler.core.pages.state_bytes().values())
    flags = scheduler.core.pages.arrays.pages.records["flags"][: len(scheduler)]
    return {
        "images": len({name.number for name in list_images(directory)}),
        "pages": len(scheduler),
        **{name: int(np.count_nonzero(flags & bit)) for name, (bit, _) in SHOWN_FLAGS.items()},
        "groups": int(corpus["groups"]),
        "outcomes": int(corpus["applied"]),
        "failures": int(corpus["failures"]),
        "unproven_share": scheduler.unproven_share,
        "refused_pages": scheduler.refused_pages,
        "refused_patterns": scheduler.refused_patterns,
        "cycle": format_duration(scheduler.cycle_s),
        "formula": scheduler.formula.text,
        "prior_rate": float(corpus["mean"]),
        "prior_shape": float(corpus["shape"]),
        "half_life": f"{corpus['half_life']:.0f} d",
        "state_bytes": size,
        **({"bytes_a_page": round(size / len(scheduler), 1)} if len(scheduler) >= _MANY_PAGES else {}),
        "positions": scheduler.positions,
    }
