"""``streamsched run``: take a stream of crawl outcomes into a saved state."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from streamsched.cli.arguments import add_examples, add_state, clock, duration, whole
from streamsched.cli.exits import DONE, after_signal
from streamsched.cli.interruption import Interruption
from streamsched.cli.output import name_rejections, say, say_json
from streamsched.connectors import Delivery, Position, Source, open_source
from streamsched.connectors.recognition import FORMATS
from streamsched.errors import SettingsError, SourceError
from streamsched.formula import Formula
from streamsched.replies import Observed
from streamsched.scheduler import DEFAULT_FORMULA, Scheduler
from streamsched.store.lock import lock_state
from streamsched.store.recovery import has_state

if TYPE_CHECKING:
    from streamsched.cli.evolving import EvolvingIntake

__all__ = ["add_arguments"]

_EXAMPLES = """\
  streamsched run --source outcomes.jsonl.gz --state state/
  streamsched run --source file:history.msgpack --state state/ --dead-letters bad.jsonl --json
  crawler | streamsched run --source - --format jsonl --state state/
  streamsched run --source outcomes.jsonl.gz --state state/ --evolve-every 7

A file is read on from where the state stands, so a growing file can be read again and again. Ctrl-C and SIGTERM save
what was read until then; asked a second time, it leaves at once, and the state is the one saved last.
"""
_SAVE_EVERY = 5_000_000  # outcomes: a few seconds of reading


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``run``."""
    add_examples(parser, _EXAMPLES)
    parser.add_argument(
        "--source", required=True, type=_source, metavar="FILE", help="file:PATH, PATH, or - for standard input"
    )
    add_state(parser)
    parser.add_argument("--format", choices=FORMATS, help="of the source; told by name and content if left out")
    parser.add_argument("--until-end", action="store_true", help="stop where the source ends, as files always do")
    parser.add_argument("--from-start", action="store_true", help="read the file anew: what is known changes nothing")
    parser.add_argument("--dead-letters", type=Path, metavar="FILE", help="append rejected records to FILE, as JSON")
    parser.add_argument("--cycle", type=duration, metavar="TIME", help="the unit of t in a new state (1d)")
    parser.add_argument("--formula", help=f"score by it from now on (in a new state: {DEFAULT_FORMULA})")
    parser.add_argument(
        "--save-every", type=whole(1), default=_SAVE_EVERY, metavar="N", help="save after N outcomes (5000000)"
    )
    parser.add_argument(
        "--evolve-every", type=whole(1), metavar="N", help="evolve the formula every N cycles of the outcomes' time"
    )
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    is_file = Path(arguments.source).is_file()  # else a pipe: it may make us wait, and cannot be resumed
    with lock_state(arguments.state, make=True):
        scheduler = _open_state(arguments)
        position = scheduler.positions.get(str(Path(arguments.source).resolve())) if is_file else None
        with _open_source(arguments, position) as source, Interruption(waits=not is_file) as interruption:
            _change_formula(scheduler, arguments)
            intake = _Intake(scheduler, arguments, keeps_positions=is_file)
            failure = intake.take(interruption.until(source))
            saved = scheduler.save(arguments.state)
    name_rejections(source.rejections, source.rejected)
    counts = intake.counts() | {"rejected": source.rejected, "pages": len(scheduler), "state": str(saved)}
    if arguments.json:
        say_json(counts)
    else:
        for name, value in counts.items():
            say(f"{name:<14} {value:,}" if isinstance(value, int) else f"{name:<14} {value}")
    if failure is not None:
        raise failure
    return DONE if interruption.number is None else after_signal(interruption.number)


def _source(text: str) -> str:
    if text.startswith("kafka:"):
        raise argparse.ArgumentTypeError(f"expected file:PATH, PATH or - (Kafka is not there yet), found {text!r}")
    return text.removeprefix("file:")


def _open_state(arguments: argparse.Namespace) -> Scheduler:
    """Return the saved scheduler, or a new one; the cycle, if given, must be the saved one's."""
    if not has_state(arguments.state):
        return Scheduler(cycle=arguments.cycle or "1d", formula=arguments.formula or DEFAULT_FORMULA)
    scheduler = Scheduler.load(arguments.state)
    if arguments.cycle is not None and arguments.cycle != scheduler.cycle_s:
        raise SettingsError("--cycle", arguments.cycle, f"{scheduler.cycle_s} seconds, as in the saved state")
    return scheduler


def _change_formula(scheduler: Scheduler, arguments: argparse.Namespace) -> None:
    """Rank by the formula asked for, with a record where it is another, so that the change can be taken back."""
    if arguments.formula is not None and Formula.parse(arguments.formula) != scheduler.formula:
        # Imported only where it is asked for: reading a stream needs none of it.
        from streamsched.cli.use import set_formula  # noqa: PLC0415
        from streamsched.evolution.records import RecordBook  # noqa: PLC0415

        set_formula(scheduler, RecordBook(arguments.state), clock(None), arguments.formula)
        scheduler.save(arguments.state)


def _open_source(arguments: argparse.Namespace, known: dict[str, object] | None) -> Source:
    """Return the source, at the position `known` from the saved state unless it is to be read from its start."""
    position = None if known is None or arguments.from_start else Position.from_json(known)
    name: str = arguments.source
    try:
        return open_source(name, format=arguments.format, position=position, dead_letters=arguments.dead_letters)
    except SourceError as error:
        if position is None:
            raise
        reason = f"{error.reason}; cannot go on where the state stands: --from-start reads the file anew"
        raise SourceError(error.path, reason, error.offset) from error


class _Intake:
    """Takes deliveries into a scheduler, shows how far it is, and saves now and then."""

    def __init__(self, scheduler: Scheduler, arguments: argparse.Namespace, *, keeps_positions: bool) -> None:
        self._scheduler = scheduler
        self._state: Path = arguments.state
        self._save_every: int = arguments.save_every
        self._keeps_positions = keeps_positions
        self._total = Observed()
        self._evolving = _make_evolving(scheduler, arguments)

    def take(self, deliveries: Iterable[Delivery]) -> SourceError | None:
        """Observe all `deliveries`; return what kept them from coming, for what came before is worth saving."""
        unsaved = 0
        with _progress() as bar:
            task = bar.add_task("", total=None)
            try:
                for delivery in deliveries:
                    self._total += (self._evolving or self._scheduler).observe(delivery.outcomes)
                    if self._keeps_positions:
                        self._scheduler.positions[delivery.position.path] = delivery.position.to_json()
                    unsaved += len(delivery.outcomes)
                    if unsaved >= self._save_every:
                        self._scheduler.save(self._state)
                        unsaved = 0
                    bar.update(task, description=f"{self._total.applied:,} outcomes, {len(self._scheduler):,} pages")
            except SourceError as error:
                return error
        return None

    def counts(self) -> dict[str, int | str]:
        """Return what became of the outcomes so far."""
        names = ("applied", "changed", "first_visits", "failures", "duplicates", "late")
        counts: dict[str, int | str] = {name: getattr(self._total, name) for name in names}
        return counts if self._evolving is None else counts | {"evolutions": self._evolving.evolutions}


def _make_evolving(scheduler: Scheduler, arguments: argparse.Namespace) -> EvolvingIntake | None:
    if arguments.evolve_every is None:
        return None
    # Imported only where it is asked for: reading a stream needs none of it.
    from streamsched.cli.evolving import EvolvingIntake  # noqa: PLC0415
    from streamsched.evolution.plan import EvolutionPlan  # noqa: PLC0415

    plan = EvolutionPlan(every=arguments.evolve_every, drift=None)
    return EvolvingIntake(scheduler, plan, arguments.state)


def _progress() -> Progress:
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
