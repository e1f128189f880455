"""``streamsched run``: take a stream of crawl outcomes into a saved state."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from streamsched.cli.arguments import Commands, add_command, add_state, duration, whole
from streamsched.cli.exits import DONE
from streamsched.connectors import Position, open_source
from streamsched.connectors.recognition import FORMATS
from streamsched.errors import SettingsError, SnapshotError, SourceError
from streamsched.scheduler import DEFAULT_FORMULA, Observed, Scheduler
from streamsched.snapshot import has_snapshot

__all__ = ["add_commands"]

_EXAMPLES = """\
  streamsched run --source outcomes.jsonl.gz --state state/
  streamsched run --source file:history.msgpack --state state/ --dead-letters bad.jsonl --json
  crawler | streamsched run --source - --format jsonl --state state/
"""
_SAVE_EVERY = 5_000_000  # outcomes: a few seconds of reading


def add_commands(commands: Commands) -> None:
    """Add ``run``."""
    parser = add_command(commands, "run", "read crawl outcomes to their end and save the state they lead to", _EXAMPLES)
    parser.add_argument("--source", required=True, metavar="FILE", help="file:PATH, PATH, or - for standard input")
    add_state(parser)
    parser.add_argument("--format", choices=FORMATS, help="of the source; told by name and content if left out")
    parser.add_argument("--until-end", action="store_true", help="stop where the source ends, as files always do")
    parser.add_argument("--dead-letters", type=Path, metavar="FILE", help="append rejected records to FILE (JSON Lines)")
    parser.add_argument("--cycle", type=duration, metavar="TIME", help="the unit of t in a new state (1d)")
    parser.add_argument("--formula", help=f"the score function of a new state ({DEFAULT_FORMULA})")
    parser.add_argument("--save-every", type=whole(1), default=_SAVE_EVERY, metavar="N", help="outcomes (5000000)")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    scheduler = _open_state(arguments)
    path = arguments.source.removeprefix("file:")
    known = scheduler.positions.get(_key(path))
    position = None if known is None else Position.from_json(known)
    source = open_source(path, format=arguments.format, position=position, dead_letters=arguments.dead_letters)
    total, unsaved, failure = Observed(), 0, None
    with source, _progress() as bar:
        task = bar.add_task("", total=None)
        try:
            for delivery in source:
                total += scheduler.observe(delivery.outcomes)
                unsaved += len(delivery.outcomes)
                if path != "-":
                    scheduler.positions[_key(path)] = delivery.position.to_json()
                if unsaved >= arguments.save_every:
                    scheduler.save(arguments.state)
                    unsaved = 0
                bar.update(task, description=f"{total.applied:,} outcomes, {len(scheduler):,} pages")
        except SourceError as error:  # what was read before is worth keeping
            failure = error
    saved = scheduler.save(arguments.state)
    _report(total, source.rejected, scheduler, saved, as_json=arguments.json)
    for rejection in source.rejections[:10]:
        print(f"rejected: {rejection}", file=sys.stderr)  # noqa: T201
    if failure is not None:
        raise failure
    return DONE


def _open_state(arguments: argparse.Namespace) -> Scheduler:
    """Return the saved scheduler, or a new one; settings given must agree with a saved one's."""
    if not has_snapshot(arguments.state):
        if arguments.state.exists() and not arguments.state.is_dir():
            raise SnapshotError(str(arguments.state), "is a file: expected a directory")
        return Scheduler(cycle=arguments.cycle or "1d", formula=arguments.formula or DEFAULT_FORMULA)
    scheduler = Scheduler.load(arguments.state)
    if arguments.cycle is not None and arguments.cycle != scheduler.cycle_s:
        raise SettingsError("--cycle", arguments.cycle, f"{scheduler.cycle_s} seconds, as in the saved state")
    if arguments.formula is not None:
        scheduler.use(arguments.formula)
    return scheduler


def _key(path: str) -> str:
    return path if path == "-" else str(Path(path).resolve())


def _progress() -> Progress:
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def _report(total: Observed, unreadable: int, scheduler: Scheduler, saved: Path, *, as_json: bool) -> None:
    counts: dict[str, Any] = {
        "applied": total.applied,
        "changed": total.changed,
        "first_visits": total.first_visits,
        "failures": total.failures,
        "duplicates": total.duplicates,
        "late": total.late,
        "rejected": total.rejected + unreadable,
        "pages": len(scheduler),
        "state": str(saved),
    }
    if as_json:
        print(json.dumps(counts, indent=2))  # noqa: T201
        return
    for name, value in counts.items():
        print(f"{name:<14} {value:,}" if isinstance(value, int) else f"{name:<14} {value}")  # noqa: T201
