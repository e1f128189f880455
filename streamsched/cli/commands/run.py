"""``streamsched run``: take a stream of crawl outcomes into a saved state, as long as it goes on."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from streamsched.cli.arguments import add_examples, clock
from streamsched.cli.exits import DONE, after_drain
from streamsched.cli.interruption import Interruption
from streamsched.cli.output import echo, echo_json, name_rejections
from streamsched.connectors.source import Delivery, Source
from streamsched.persistence.lock import lock_state
from streamsched.scheduler.durable import DurableScheduler
from streamsched.scheduler.scheduler import DEFAULT_FORMULA
from streamsched.service.event_log import LOG, log_to
from streamsched.service.evolution import EvolutionHook
from streamsched.service.ingest_loop import IngestLoop
from streamsched.service.progress import ProgressLine
from streamsched.service.run_settings import RunSettings, read_run_settings
from streamsched.service.setting_sources import Given, read_assignments
from streamsched.service.setting_tables import LOG_FORMATS, LOG_LEVELS
from streamsched.service.setup import open_run_batches, open_run_source, open_run_state, resume_source

__all__ = ["add_arguments"]

_EXAMPLES: Final = """\
  streamsched run --source outcomes.jsonl.gz --state state/
  streamsched run --source kafka://localhost:9092/outcomes?group=crawl --state state/
  streamsched run --source kafka://localhost:9092/outcomes --state state/ --until-end --json
  streamsched run --config run.toml --set politeness.delay=2s
  streamsched run --source kafka://localhost:9092/outcomes --state state/ --batches-to kafka://localhost:9092/visits
  crawler | streamsched run --source - --format jsonl --state state/

A topic is read until SIGTERM or Ctrl-C, or with --until-end up to where it ended at the start; a file to its end.
Either is read on from where the state stands. Both signals have what was read saved; at a second one it leaves at once,
and the state is the one saved last. Settings may also stand in a TOML file or the environment: docs/run.md lists them.
"""
_OPTIONS: Final = {  # those with a name of their own
    "source": "source",
    "state": "state",
    "format": "format",
    "until_end": "until_end",
    "from_start": "from_start",
    "dead_letters": "dead_letters",
    "cycle": "scheduler.cycle",
    "formula": "scheduler.formula",
    "save_every": "save.every",
    "evolve_every": "evolve_every",
    "batches_to": "batches.to",
    "log_level": "log.level",
    "log_format": "log.format",
}
_TICK_S: Final = 0.25  # most time of a wait for messages before signals are checked
_PROGRESS_S: Final = 10.0  # interval of progress events in the log


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``run``. What they are given is checked with all other settings."""
    add_examples(parser, _EXAMPLES)
    parser.add_argument(
        "--source", metavar="SOURCE", help="file:PATH, PATH, - for standard input, or kafka://HOST/TOPIC"
    )
    parser.add_argument("--state", metavar="DIR", help="the directory of the saved state")
    parser.add_argument("--config", type=Path, metavar="FILE", help="a TOML file with settings")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="any setting of such a file")
    parser.add_argument("--format", help="of a file; told by name and content if left out")
    parser.add_argument(
        "--until-end", action="store_const", const=True, help="stop where the source ends now, as files always do"
    )
    parser.add_argument(
        "--from-start", action="store_const", const=True, help="read the file anew: what is known changes nothing"
    )
    parser.add_argument("--dead-letters", metavar="FILE", help="append rejected records to FILE, as JSON")
    parser.add_argument("--cycle", metavar="TIME", help="the unit of t in a new state (1d)")
    parser.add_argument("--formula", help=f"score by it from now on (in a new state: {DEFAULT_FORMULA})")
    parser.add_argument("--save-every", metavar="TIME", help="how often what changed is saved (30s)")
    parser.add_argument(
        "--evolve-every", metavar="N", help="evolve the formula every N cycles: of a file's time, or a topic's present"
    )
    parser.add_argument("--batches-to", metavar="TOPIC", help="publish what to visit next to kafka://HOST/TOPIC")
    parser.add_argument(
        "--log-level", metavar="LEVEL", help=f"{', '.join(LOG_LEVELS)} (of topics info, of files warning)"
    )
    parser.add_argument("--log-format", metavar="NAME", help=f"{' or '.join(LOG_FORMATS)} (text)")
    parser.add_argument("--json", action="store_true", help="print the counts at the end as JSON")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    options = {name: getattr(arguments, option) for option, name in _OPTIONS.items()}
    return run(options, arguments.set, arguments.config, as_json=arguments.json)


def run(options: Mapping[str, Any], assignments: Sequence[str], config: Path | None, *, as_json: bool) -> int:
    """Run with `options`, values by setting name, None for options not given, and `assignments`, ``NAME=VALUE``."""
    settings, unknown = _read_settings(options, assignments, config)
    console = Console(stderr=True)
    with log_to(console, settings.log.level or ("info" if settings.is_topic else "warning"), settings.log.format):
        for variable in unknown:
            LOG.warning("unknown setting in the environment", variable=variable)
        return _serve(settings, ProgressLine(console), as_json=as_json)


def _read_settings(
    options: Mapping[str, Any], assignments: Sequence[str], config: Path | None
) -> tuple[RunSettings, list[str]]:
    """Return the settings, options before assignments, and the unknown variables of the environment."""
    places = {name: f"--{option.replace('_', '-')}" for option, name in _OPTIONS.items()}
    given = {name: Given(value, places[name]) for name, value in options.items() if value is not None}
    file = config or os.environ.get("STREAMSCHED_CONFIG")
    return read_run_settings(read_assignments(assignments) | given, Path(file) if file is not None else None)


def _serve(settings: RunSettings, display: ProgressLine, *, as_json: bool) -> int:
    with ExitStack() as stack:
        with lock_state(settings.state, make=True):
            pass  # nothing is read from a pipe if the state is in use
        source = stack.enter_context(open_run_source(settings))
        scheduler = stack.enter_context(open_run_state(settings, clock(None)))
        resume_source(source, scheduler, settings)
        interruption = stack.enter_context(Interruption(waits=not source.is_replayable))
        evolution = stack.enter_context(_open_evolution(scheduler, settings))
        batches = open_run_batches(settings, scheduler, lambda: clock(None))
        if batches is not None:
            stack.enter_context(batches)
        progress_s = None if display.is_shown else _PROGRESS_S
        loop = IngestLoop(scheduler, source, evolution=evolution, batches=batches, progress_s=progress_s)
        LOG.info("started", source=_without_query(settings.source), state=str(settings.state), pages=len(scheduler))
        with display:
            failure = loop.run(_deliveries(source, interruption), display.show)
        if interruption.number is not None:
            LOG.info("stopping", signal=interruption.number)
        loop.finish()
        if not source.is_partitioned and settings.log.format == "text":
            name_rejections(source.rejections, source.rejected)
        counts: dict[str, int | str] = {**loop.counts(), "pages": len(scheduler), "state": str(scheduler.saved.path)}
        LOG.info("stopped", **counts)
    _print_counts(counts, as_json=as_json)
    if failure is not None:
        raise failure
    return DONE if interruption.number is None else after_drain(interruption.number)


def _deliveries(source: Source, interruption: Interruption) -> Iterator[Delivery | None]:
    """Yield deliveries, None whenever none arrives for a while, until the source ends or a signal arrives."""
    # In tuples, because `until` ends at None.
    for (delivery,) in interruption.until(zip(source.deliveries(_TICK_S), strict=False)):
        yield delivery


@contextmanager
def _open_evolution(scheduler: DurableScheduler, settings: RunSettings) -> Iterator[EvolutionHook | None]:
    if settings.evolve_every is None:
        yield None
        return
    # Imported on demand: a run without evolution needs none of it.
    from streamsched.evolution.plan import EvolutionPlan  # noqa: PLC0415
    from streamsched.scheduler.evolver import Evolver  # noqa: PLC0415
    from streamsched.service.evolution import FileEvolution, LiveEvolution  # noqa: PLC0415

    if settings.is_topic and not settings.until_end:
        with Evolver(scheduler, EvolutionPlan(every=settings.evolve_every), settings.state) as evolver:
            yield LiveEvolution(evolver, lambda: clock(None))
        return
    plan = EvolutionPlan(every=settings.evolve_every, drift=None)
    yield FileEvolution(scheduler, plan, settings.state, scheduler.snapshot)


def _without_query(source: str) -> str:
    """Return `source` without its query, which may hold passwords."""
    return source.partition("?")[0] if source.startswith("kafka://") else source


def _print_counts(counts: dict[str, int | str], *, as_json: bool) -> None:
    if as_json:
        echo_json(counts)
        return
    for name, value in counts.items():
        echo(f"{name:<14} {value:,}" if isinstance(value, int) else f"{name:<14} {value}")
