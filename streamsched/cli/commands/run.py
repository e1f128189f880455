"""``streamsched run``: crawl outcomes from a file or a topic into a saved state."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console

from streamsched.cli.exits import DONE, after_drain
from streamsched.cli.interruption import Interruption
from streamsched.cli.options import FILE, current_time
from streamsched.cli.output import echo, echo_json, name_rejections
from streamsched.persistence.lock import lock_state
from streamsched.scheduler.scheduler import DEFAULT_FORMULA
from streamsched.service.event_log import LOG, log_to
from streamsched.service.ingest_loop import IngestLoop
from streamsched.service.progress import ProgressLine
from streamsched.service.run_settings import RunSettings, read_run_settings
from streamsched.service.setting_sources import Given, read_assignments
from streamsched.service.setting_tables import LOG_FORMATS, LOG_LEVELS
from streamsched.service.setup import open_run_batches, open_run_source, open_run_state, resume_source

if TYPE_CHECKING:
    from streamsched.connectors.source import Delivery, Source
    from streamsched.scheduler.durable import DurableScheduler
    from streamsched.service.evolution import EvolutionHook

__all__ = ["command"]

_OPTIONS: Final = {  # settings that have an option
    "source": "source",
    "state": "state",
    "format": "format",
    "until_end": "until_end",
    "from_start": "from_start",
    "dead_letters": "dead_letters",
    "cycle": "scheduler.cycle",
    "objective": "scheduler.objective",
    "formula": "scheduler.formula",
    "save_every": "save.every",
    "evolve_every": "evolve_every",
    "max_ahead": "max_ahead",
    "batches_to": "batches.to",
    "log_level": "log.level",
    "log_format": "log.format",
}
_TICK_S: Final = 0.25  # most time of a wait for messages before signals are checked
_PROGRESS_S: Final = 10.0  # interval of progress events in the log
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
    "--objective",
    metavar="NAME",
    show_default="in a new state changes",
    help="What visits are for, from now on: changes, freshness, or balanced(D) with a dial D from 0 to 1.",
)
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
@click.option(
    "--max-ahead",
    metavar="TIME",
    show_default="1d for topics and pipes, 100d for files",
    help="Reject outcomes further ahead of the clock, or in a file of its newest outcome; none accepts all.",
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
    options = {name: given[option] for option, name in _OPTIONS.items()}
    settings, unknown = _read_settings(options, given["set"], given["config"])
    console = Console(stderr=True)
    with log_to(console, settings.log.level or ("info" if settings.is_topic else "warning"), settings.log.format):
        for variable in unknown:
            LOG.warning("unknown setting in the environment", variable=variable)
        return _serve(settings, ProgressLine(console), as_json=given["json"])


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
        is_live = settings.is_topic or not source.is_replayable
        scheduler = stack.enter_context(open_run_state(settings, lambda: current_time(None), is_live=is_live))
        resume_source(source, scheduler, settings)
        interruption = stack.enter_context(Interruption(waits=not source.is_replayable))
        evolution = stack.enter_context(_open_evolution(scheduler, settings))
        batches = open_run_batches(settings, scheduler, lambda: current_time(None))
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
            yield LiveEvolution(evolver, lambda: current_time(None))
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
