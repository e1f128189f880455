"""``streamsched run``: crawl outcomes from a file or a topic into a saved state."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import click
from rich.console import Console

from streamsched.cli.exits import DONE, after_drain
from streamsched.cli.interruption import Interruption
from streamsched.cli.options import FILE, current_time
from streamsched.cli.output import echo, echo_json, name_rejections
from streamsched.connectors import Delivery
from streamsched.connectors.file_source import FileSource
from streamsched.connectors.kafka import KafkaSource
from streamsched.persistence.lock import lock_state
from streamsched.scheduler.durable import DurableScheduler
from streamsched.scheduler.scheduler import DEFAULT_FORMULA
from streamsched.service.event_log import log_event, logging_to
from streamsched.service.ingest_loop import IngestLoop
from streamsched.service.progress import ProgressLine
from streamsched.service.run_settings import KNOWN, RunSettings, read_run_settings
from streamsched.service.setting_parsers import LOG_FORMATS, LOG_LEVELS
from streamsched.service.setting_sources import Word, Words, read_assignments, read_environment, read_toml
from streamsched.service.setup import open_run_batches, open_run_source, open_run_state, resume_source

__all__ = ["command"]

_OPTIONS: Final = {  # settings that have an option
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
_TICK_S: Final = 0.25  # after which a wait for messages looks whether it is still wanted
_PROGRESS_S: Final = 10.0  # between two lines of the log
_EPILOG: Final = """
\b
Examples:
  streamsched run --source outcomes.jsonl.gz --state state/
  streamsched run --source kafka://localhost:9092/outcomes?group=crawl --state state/
  streamsched run --source kafka://localhost:9092/outcomes --state state/ --until-end --json
  streamsched run --config run.toml --set politeness.delay=2s
  streamsched run --source kafka://localhost:9092/outcomes --state state/ --batches-to kafka://localhost:9092/visits
  crawler | streamsched run --source - --format jsonl --state state/

The first SIGTERM or Ctrl-C saves the state and ends the run; a second one ends it at once, without a save.

Settings can also be in a TOML file or in environment variables (docs/run.md); options override both.
"""


@click.command("run", epilog=_EPILOG)
@click.option(
    "--source", metavar="SOURCE", help="Where outcomes come from: a file, - for standard input, or kafka://HOST/TOPIC."
)
@click.option("--state", metavar="DIR", help="Directory of the saved state; created if it does not exist.")
@click.option("--config", type=FILE, help="TOML file with settings.")
@click.option("--set", multiple=True, metavar="NAME=VALUE", help="Set any setting of such a file. Can be repeated.")
@click.option("--format", metavar="FORMAT", show_default="detected by name and content", help="Format of a file.")
@click.option(
    "--until-end", is_flag=True, default=None, help="Stop at the topic's present end; files are always read to theirs."
)
@click.option(
    "--from-start", is_flag=True, default=None, help="Read the file from its start; outcomes already known are ignored."
)
@click.option("--dead-letters", metavar="FILE", help="Append rejected records to FILE as JSON.")
@click.option("--cycle", metavar="TIME", show_default="1d", help="Unit of t in formulas; only for a new state.")
@click.option(
    "--formula",
    metavar="FORMULA",
    show_default=f"in a new state {DEFAULT_FORMULA}",
    help="Score formula to use from now on.",
)
@click.option("--save-every", metavar="TIME", show_default="30s", help="Time between two saves of what has changed.")
@click.option(
    "--evolve-every",
    metavar="N",
    show_default="never",
    help="Evolve the formula every N cycles, of a file's timestamps or of the clock for a topic.",
)
@click.option("--batches-to", metavar="URL", help="Send the pages to visit next to this topic: kafka://HOST/TOPIC.")
@click.option(
    "--log-level",
    metavar="LEVEL",
    show_default="info for topics, warning for files",
    help=f"Least level of log lines: {', '.join(LOG_LEVELS)}.",
)
@click.option(
    "--log-format", metavar="FORMAT", show_default="text", help=f"Format of log lines: {' or '.join(LOG_FORMATS)}."
)
@click.option("--json", is_flag=True, help="Print JSON.")
def command(**given: Any) -> int:
    """Read crawl outcomes into a saved state.

    The outcomes come from a file or a Kafka topic. Reading starts where the last run on this state stopped. A file is
    read to its end, a topic until SIGTERM or Ctrl-C.
    """
    arguments = SimpleNamespace(**given)
    settings, strange = _read_settings(arguments)
    console = Console(stderr=True)
    with logging_to(console, settings.log_level or ("info" if settings.is_topic else "warning"), settings.log_format):
        for variable in strange:
            log_event("a variable of the environment is no setting", logging.WARNING, variable=variable)
        return _serve(settings, ProgressLine(console), as_json=arguments.json)


def _read_settings(arguments: SimpleNamespace) -> tuple[RunSettings, list[str]]:
    """Return the settings, and variables that are none. What stands on the command line goes before the environment.

    The file comes last.
    """
    environment, strange = read_environment(os.environ, KNOWN)
    config = arguments.config or os.environ.get("STREAMSCHED_CONFIG")
    words: Words = {} if config is None else read_toml(Path(config))
    words |= environment | read_assignments(arguments.set)
    for option, name in _OPTIONS.items():
        value = getattr(arguments, option)
        if value is not None:
            words[name] = Word(value, f"--{option.replace('_', '-')}")
    return read_run_settings(words), strange


def _serve(settings: RunSettings, display: ProgressLine, *, as_json: bool) -> int:
    is_pipe = not settings.is_topic and not Path(settings.source).is_file()  # may make us wait; cannot be resumed
    with ExitStack() as stack:
        with lock_state(settings.state, make=True):
            pass  # nothing is taken out of a pipe where the state is in use
        source = open_run_source(settings)
        stack.enter_context(source)
        scheduler = open_run_state(settings, current_time(None))
        stack.enter_context(scheduler)
        if not is_pipe:
            resume_source(source, scheduler, settings)
        interruption = stack.enter_context(Interruption(waits=is_pipe))
        evolving = stack.enter_context(_evolving(scheduler, settings))
        batches = open_run_batches(settings, scheduler, lambda: current_time(None))
        if batches is not None:
            stack.enter_context(batches)
        each_s = None if display.is_shown else _PROGRESS_S
        intake = IngestLoop(scheduler, source, again=not is_pipe, evolving=evolving, batches=batches, each_s=each_s)
        log_event("started", source=_without_query(settings.source), state=str(settings.state), pages=len(scheduler))
        with display:
            failure = intake.take(_deliveries(source, interruption), display.show)
        if interruption.number is not None:
            log_event("stopping", signal=interruption.number)
        intake.finish()
        if not settings.is_topic and settings.log_format == "text":
            name_rejections(source.rejections, source.rejected)
        counts: dict[str, int | str] = {**intake.counts(), "pages": len(scheduler), "state": str(scheduler.saved.path)}
        log_event("stopped", **counts)
    _say_counts(counts, as_json=as_json)
    if failure is not None:
        raise failure
    return DONE if interruption.number is None else after_drain(interruption.number)


def _deliveries(source: FileSource | KafkaSource, interruption: Interruption) -> Iterator[Delivery | None]:
    """Yield what comes until the source ends or a signal does; of a topic None where nothing comes for a while."""
    if not isinstance(source, KafkaSource):
        yield from interruption.until(source)
        return
    while interruption.number is None and not source.ended:
        yield source.poll(_TICK_S)


@contextmanager
def _evolving(scheduler: DurableScheduler, settings: RunSettings) -> Iterator[Any]:
    if settings.evolve_every is None:
        yield None
        return
    # Imported only where it is asked for: reading a stream needs none of it.
    from streamsched.evolution.plan import EvolutionPlan  # noqa: PLC0415
    from streamsched.scheduler.evolver import Evolver  # noqa: PLC0415
    from streamsched.service.evolution import FileEvolution, LiveEvolution  # noqa: PLC0415

    if settings.is_topic and not settings.until_end:
        with Evolver(scheduler, EvolutionPlan(every=settings.evolve_every), settings.state) as evolver:
            yield LiveEvolution(evolver, lambda: current_time(None))
        return
    plan = EvolutionPlan(every=settings.evolve_every, drift=None)
    yield FileEvolution(scheduler, plan, settings.state, scheduler.snapshot)


def _without_query(source: str) -> str:
    """Return `source` without what its query may keep secret."""
    return source.partition("?")[0] if source.startswith("kafka://") else source


def _say_counts(counts: dict[str, int | str], *, as_json: bool) -> None:
    if as_json:
        echo_json(counts)
        return
    for name, value in counts.items():
        echo(f"{name:<14} {value:,}" if isinstance(value, int) else f"{name:<14} {value}")
