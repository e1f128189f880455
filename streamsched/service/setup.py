"""Opens what a run works with: its source, its scheduler and its publisher of batches, from the settings."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from streamsched.connectors.file_source import PipeSource, is_pipe, open_file
from streamsched.connectors.kafka import open_kafka, open_sink, open_topic
from streamsched.connectors.kafka.kafka_settings import SCHEME, check_credentials, read_settings
from streamsched.connectors.records import OUTCOMES, SIGNALS, RecordType
from streamsched.connectors.source import AnySource, Position, Records, Source
from streamsched.errors import SettingsError, SettingsErrors, SourceError
from streamsched.evolution.plan import EvolutionPlan
from streamsched.numerics.durations import write_duration
from streamsched.outcomes import OutcomeBatch
from streamsched.persistence.state_directory import has_state
from streamsched.scheduler.durable import DurableScheduler
from streamsched.scheduler.planning.optimiser_settings import OptimiserSettings
from streamsched.scheduler.scheduler import Scheduler
from streamsched.service.batch_publisher import BatchPublisher
from streamsched.service.change_writer import ChangeWriter, FileOfChanges, TopicOfChanges
from streamsched.service.event_log import LOG
from streamsched.service.open_state import set_formula
from streamsched.service.run_settings import RunSettings
from streamsched.service.stream_hooks import (
    Cancelling,
    FileEvolution,
    FilePlanning,
    LiveEvolution,
    LivePlanning,
    StreamHook,
)
from streamsched.service.stream_replay import Topic, reread_with
from streamsched.signals import SignalBatch
from streamsched.state.future_times import describe_future
from streamsched.state.stream_clock import WallClock

_FORMULA: Final = frozenset(("formula", "objective"))
_OF_CLOCK: Final = frozenset(field.name for field in fields(WallClock))
_REPLACEABLE: Final = frozenset(  # settings that can be set later: the bounds on times and pages
    name for name, one in inspect.getmembers(Scheduler) if isinstance(one, property) and one.fset is not None
)
_SHARED: Final = frozenset(("client", "patience"))  # settings of Kafka that the topic of signals has from the table
_PATIENCE: Final = "5s"  # with the brokers of batches: ingest waits meanwhile


def open_run_source(settings: RunSettings) -> Source[OutcomeBatch]:
    """Open the source of `settings` at its beginning. Raises SettingsError and SourceError as `open_source` does."""
    for url in (settings.source, settings.signals.source, settings.batches.to):
        if url is not None and url.startswith(SCHEME):
            check_credentials(read_settings(url, settings.kafka))
    if not settings.is_topic:
        return _open_file(settings, settings.source, OUTCOMES, settings.format, settings.dead_letters)
    for name, given in (("format", settings.format), ("from_start", settings.from_start)):
        if given:
            expected = "no such setting with a topic: messages show their format, and kafka.start sets the start"
            raise SettingsError(name, given, expected)
    kafka = dict(settings.kafka) | ({"until_end": True} if settings.until_end else {})
    return open_kafka(settings.source, kafka, dead_letters=settings.dead_letters)


def _open_file(
    settings: RunSettings, path: str, records: RecordType[Records], form: str | None, dead_letters: Path | None
) -> Source[Records]:
    """Open a file or a pipe; a pipe of a run that serves HTTP only once it is read, as the service must not wait."""
    opening = partial(open_file, path, records, format=form, dead_letters=dead_letters)
    return PipeSource(path, opening) if "address" in settings.http and is_pipe(path) else opening()


def open_run_signals(settings: RunSettings) -> Source[SignalBatch] | None:
    """Open the source of signals of `settings` at its beginning, None if there is none. Raises as `open_run_source`."""
    signals = settings.signals
    if signals.source is None:
        return None
    if not signals.source.startswith(SCHEME):
        return _open_file(settings, signals.source, SIGNALS, signals.format, signals.dead_letters)
    if signals.format:
        raise SettingsError(
            "signals.format", signals.format, "no such setting with a topic: messages show their format"
        )
    return open_topic(SIGNALS, signals.source, _signal_options(settings), dead_letters=signals.dead_letters)


def _signal_options(settings: RunSettings) -> dict[str, Any]:
    """Return the Kafka settings of the topic of signals: those of the clients, which all topics share."""
    shared = {name: value for name, value in settings.kafka.items() if "." in name or name in _SHARED}
    return shared | ({"until_end": True} if settings.until_end else {})


def open_run_batches(
    settings: RunSettings, scheduler: DurableScheduler, wall: Callable[[], float]
) -> BatchPublisher | None:
    """Return the publisher of batches of `scheduler`, None without a topic for them. Raises SourceError."""
    if settings.batches.to is None:
        return None
    sink = open_sink(settings.batches.to, {"patience": _PATIENCE, **settings.kafka})
    return BatchPublisher(scheduler, sink, settings.batches, wall=wall, clock=time.monotonic)


def open_run_changes(settings: RunSettings, scheduler: DurableScheduler) -> ChangeWriter | None:
    """Return what writes the changes that `scheduler` finds, None without a place for them.

    Raises SourceError if the brokers cannot be reached, or the file not be opened.
    """
    to = settings.changes.to
    if to is None:
        return None
    if to.startswith(SCHEME):
        opening = partial(open_sink, to, {"patience": _PATIENCE, **settings.kafka})
        return ChangeWriter(scheduler, TopicOfChanges(opening, opening()), to)
    return ChangeWriter(scheduler, FileOfChanges(Path(to)), to)


@contextmanager
def open_run_hooks(
    settings: RunSettings,
    scheduler: DurableScheduler,
    wall: Callable[[], float],
    *,
    is_live: bool,
    cancelling: Cancelling = nullcontext,
) -> Iterator[list[StreamHook]]:
    """Yield the evolution and the optimiser of a run, as far as `settings` have them.

    `is_live`: they run beside the stream by the time of `wall`; otherwise between the cycles of a file's own time, an
    evolution within `cancelling`.
    """
    with ExitStack() as stack:
        hooks: list[StreamHook] = []
        if settings.evolution is not None:
            if is_live:
                hooks.append(_open_evolution(settings, settings.evolution, scheduler, wall, stack))
            else:
                plan = replace(settings.evolution, drift=None, trial=False)  # a file's visits were chosen by others
                hooks.append(FileEvolution(scheduler, plan, settings.state, scheduler.snapshot, cancelling))
        if settings.optimiser is not None:
            hooks.append(_open_optimiser(settings.optimiser, scheduler, wall if is_live else None, stack))
        yield hooks


def _open_evolution(
    settings: RunSettings,
    plan: EvolutionPlan,
    scheduler: DurableScheduler,
    wall: Callable[[], float],
    stack: ExitStack,
) -> StreamHook:
    # Imported on demand: a run without evolution needs none of it.
    from streamsched.scheduler.evolver import Evolver  # noqa: PLC0415

    return LiveEvolution(stack.enter_context(Evolver(scheduler, plan, settings.state)), wall)


def _open_optimiser(
    plan: OptimiserSettings, scheduler: DurableScheduler, wall: Callable[[], float] | None, stack: ExitStack
) -> StreamHook:
    # Imported on demand, as the evolution is.
    from streamsched.scheduler.planning.optimiser import Optimiser  # noqa: PLC0415

    optimiser = stack.enter_context(Optimiser(scheduler, plan))
    return FilePlanning(optimiser) if wall is None else LivePlanning(optimiser, wall)


def open_run_state(
    settings: RunSettings,
    wall: Callable[[], float],
    *,
    is_live: bool = False,
    opening: Callable[..., DurableScheduler] = DurableScheduler.open,
) -> DurableScheduler:
    """Return the saved scheduler, or a new one, with `settings` in force from now on. O(pages).

    `wall`: the clock, UTC epoch seconds; `is_live`: whether outcomes ahead of it are rejected, as those of a crawl
    under way are; otherwise the stream's own times decide; `opening`: opens it, as `DurableScheduler.open` does. Raises
    SettingsErrors for settings that only a new state can have, and the errors of `DurableScheduler.open`.
    """
    is_new = not has_state(settings.state)
    given = dict(settings.scheduler)
    clock = WallClock(wall, **{name: given.pop(name) for name in _OF_CLOCK & given.keys()}) if is_live else None
    if settings.optimiser is not None:
        _check_optimiser(settings.optimiser, given, is_new=is_new)
    topics = [Topic(OUTCOMES, read_settings(settings.source, settings.kafka))] if settings.is_topic else []
    signals = settings.signals.source
    if signals is not None and signals.startswith(SCHEME):
        topics.append(Topic(SIGNALS, read_settings(signals, _signal_options(settings))))
    scheduler = opening(
        settings.state,
        given | ({} if settings.politeness is None else {"politeness": settings.politeness}),
        reread=reread_with(topics),
        plan=settings.save,
        threads=given.get("threads"),
        clock=clock,
        keep_changes=settings.changes.keep,
    )
    future = None if clock is None else describe_future(scheduler.core.pages.arrays, clock.latest_s())
    if future is not None:
        LOG.warning("times in the future", found=future, mend="streamsched state repair")
    try:
        if not is_new:
            _change_settings(scheduler, given)
            _change_formula(scheduler, settings.state, given, wall())
            if settings.politeness is not None and settings.politeness != scheduler.politeness:
                scheduler.set_politeness(settings.politeness)
        if settings.rules:
            scheduler.set_rules(settings.rules)
    except BaseException:
        scheduler.close(save=False)
        raise
    return scheduler


def _check_optimiser(plan: OptimiserSettings, given: Mapping[str, Any], *, is_new: bool) -> None:
    """Raise SettingsError if the formula ignores `crawl_rate`, or a new state would need other settings."""
    from streamsched.scheduler.planning.optimiser import Optimiser  # noqa: PLC0415  on demand, as above

    trial = Scheduler(**given)
    for name in given.keys() & _FORMULA:
        if "crawl_rate" not in trial.formula.terminals:  # each start would take the pages from the plan again
            expected = "a formula that reads crawl_rate, or none: an optimiser brings its own"
            raise SettingsError(f"scheduler.{name}", given[name], expected)
    if is_new:  # before a state is made whose settings the optimiser cannot use, and that would keep them
        Optimiser(trial, plan)


def resume_source(source: AnySource, scheduler: Scheduler, settings: RunSettings) -> None:
    """Continue `source` at the positions in the state. Raises SourceError if they do not fit it."""
    if settings.from_start or not source.is_replayable:
        return
    for path, position in scheduler.positions.items():
        if source.owns(path):
            try:
                source.seek(Position.from_json(position))
            except SourceError as error:
                if source.is_partitioned:
                    raise
                reason = f"{error.reason}; the state cannot be continued: --from-start reads the file again"
                raise SourceError(error.path, reason, error.offset) from error


def _change_settings(scheduler: Scheduler, given: Mapping[str, Any]) -> None:
    """Put the given bounds in force. Raises SettingsErrors for settings that differ and that a saved state fixes."""
    asked = Scheduler(**given)
    errors = []
    for name in given.keys() - _FORMULA - _REPLACEABLE - {"threads"}:
        field = "cycle_s" if name == "cycle" else name
        wanted, saved = (getattr(one.core.settings, field) for one in (asked, scheduler))
        if wanted != saved:
            shown = write_duration(saved) if name == "cycle" else saved
            errors.append(SettingsError(f"scheduler.{name}", given[name], f"{shown}, as in the saved state"))
    if errors:
        raise SettingsErrors(errors)
    for name in given.keys() & _REPLACEABLE:
        if getattr(asked, name) != getattr(scheduler, name):
            setattr(scheduler, name, getattr(asked, name))


def _change_formula(scheduler: Scheduler, state: Path, given: Mapping[str, Any], now: float) -> None:
    """Rank by the given formula; a change is recorded, so that it can be undone."""
    asked = {name: value for name, value in given.items() if name in _FORMULA}
    formula = Scheduler(**asked).formula if asked else scheduler.formula
    if formula != scheduler.formula:
        # Imported on demand: a run without a change needs none of it.
        from streamsched.evolution.records import RecordBook  # noqa: PLC0415

        set_formula(scheduler, RecordBook(state), now, formula.text)
