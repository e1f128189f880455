"""Opens what a run works with: its source, its scheduler and its publisher of batches, from the settings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

from streamsched.connectors.file_source import open_file
from streamsched.connectors.kafka import open_kafka, open_sink, open_topic
from streamsched.connectors.kafka.kafka_settings import SCHEME, check_credentials, read_settings
from streamsched.connectors.records.record_types import OUTCOMES, SIGNALS
from streamsched.connectors.source import AnySource, Position, Source
from streamsched.errors import SettingsError, SettingsErrors, SourceError
from streamsched.numerics.durations import write_duration
from streamsched.persistence.image_writer import SavePlan
from streamsched.persistence.recovery import has_state
from streamsched.politeness.politeness_settings import Politeness
from streamsched.scheduler.durable import DurableScheduler
from streamsched.scheduler.planning.optimiser_settings import OptimiserSettings
from streamsched.scheduler.scheduler import Scheduler
from streamsched.service.batch_publisher import BatchPlan, BatchPublisher
from streamsched.service.intake.stream_replay import Topic, reread_with
from streamsched.state.stream_clock import MAX_AHEAD_OF_CLOCK, WallClock, parse_max_ahead

if TYPE_CHECKING:
    from streamsched.outcomes import OutcomeBatch
    from streamsched.scheduler.any_scheduler import AnyScheduler
    from streamsched.service.hooks.stream_parts import StreamHook
    from streamsched.service.run_settings import RunSettings
    from streamsched.signals import SignalBatch

__all__ = [
    "open_run_batches",
    "open_run_hooks",
    "open_run_signals",
    "open_run_source",
    "open_run_state",
    "resume_source",
]

_BOUNDS: Final = frozenset(("max_pages", "max_pages_per_host", "max_patterns_per_host"))
_CHANGEABLE: Final = _BOUNDS | {"formula", "objective"}  # settings of the scheduler that a saved state does not fix
_SHARED: Final = frozenset(("client", "patience"))  # settings of Kafka that the topic of signals has from the table
_PATIENCE: Final = "5s"  # with the brokers of batches: ingest waits meanwhile


def open_run_source(settings: RunSettings) -> Source[OutcomeBatch]:
    """Open the source of `settings` at its beginning. Raises SettingsError and SourceError as `open_source` does."""
    _check_credentials(settings)
    if not settings.is_topic:
        return open_file(settings.source, OUTCOMES, format=settings.format, dead_letters=settings.dead_letters)
    for name, given in (("format", settings.format), ("from_start", settings.from_start)):
        if given:
            expected = "no such setting with a topic: messages show their format, and kafka.start sets the start"
            raise SettingsError(name, given, expected)
    kafka = settings.kafka | ({"until_end": True} if settings.until_end else {})
    return open_kafka(settings.source, kafka, dead_letters=settings.dead_letters)


def open_run_signals(settings: RunSettings) -> Source[SignalBatch] | None:
    """Open the source of signals of `settings` at its beginning, None if there is none. Raises as `open_run_source`."""
    signals = settings.signals
    if signals.source is None:
        return None
    if not signals.source.startswith(SCHEME):
        return open_file(signals.source, SIGNALS, format=signals.format, dead_letters=signals.dead_letters)
    if signals.format:
        raise SettingsError(
            "signals.format", signals.format, "no such setting with a topic: messages show their format"
        )
    return open_topic(SIGNALS, signals.source, _signal_options(settings), dead_letters=signals.dead_letters)


def _signal_options(settings: RunSettings) -> dict[str, Any]:
    """Return the Kafka settings of the topic of signals: those of the clients, which all topics share."""
    shared = {name: value for name, value in settings.kafka.items() if "." in name or name in _SHARED}
    return shared | ({"until_end": True} if settings.until_end else {})


def _check_credentials(settings: RunSettings) -> None:
    """Raise SettingsErrors for what is missing to log in, before anything connects."""
    for url in (settings.source, settings.signals.source, settings.batches.to):
        if url is not None and url.startswith(SCHEME):
            check_credentials(read_settings(url, settings.kafka))


def open_run_batches(
    settings: RunSettings, scheduler: DurableScheduler, wall: Callable[[], float]
) -> BatchPublisher | None:
    """Return the publisher of batches of `scheduler`, None without a topic for them. Raises SourceError."""
    if settings.batches.to is None:
        return None
    sink = open_sink(settings.batches.to, {"patience": _PATIENCE, **settings.kafka})
    plan = BatchPlan(**settings.batches.given())
    return BatchPublisher(scheduler, sink, plan, wall=wall, clock=time.monotonic)


@contextmanager
def open_run_hooks(
    settings: RunSettings, scheduler: DurableScheduler, wall: Callable[[], float], *, is_live: bool
) -> Iterator[list[StreamHook]]:
    """Yield the evolution and the optimiser of a run, as far as `settings` have them.

    `is_live`: they run beside the stream by the time of `wall`; otherwise between the cycles of a file's own time.
    """
    with ExitStack() as stack:
        hooks: list[StreamHook] = []
        if settings.evolve_every is not None:
            hooks.append(_open_evolution(settings.evolve_every, settings, scheduler, wall if is_live else None, stack))
        if settings.optimiser.given():
            hooks.append(_open_optimiser(settings, scheduler, wall if is_live else None, stack))
        yield hooks


def _open_evolution(
    every: int, settings: RunSettings, scheduler: DurableScheduler, wall: Callable[[], float] | None, stack: ExitStack
) -> StreamHook:
    # Imported on demand: a run without evolution needs none of it.
    from streamsched.evolution.plan import EvolutionPlan  # noqa: PLC0415
    from streamsched.scheduler.evolver import Evolver  # noqa: PLC0415
    from streamsched.service.hooks.evolution import FileEvolution, LiveEvolution  # noqa: PLC0415

    if wall is None:
        return FileEvolution(scheduler, EvolutionPlan(every=every, drift=None), settings.state, scheduler.snapshot)
    evolver = Evolver(scheduler, EvolutionPlan(every=every), settings.state)
    return LiveEvolution(stack.enter_context(evolver), wall)


def _open_optimiser(
    settings: RunSettings, scheduler: DurableScheduler, wall: Callable[[], float] | None, stack: ExitStack
) -> StreamHook:
    # Imported on demand, as the evolution is.
    from streamsched.scheduler.planning.optimiser import Optimiser  # noqa: PLC0415
    from streamsched.service.hooks.planning import FilePlanning, LivePlanning  # noqa: PLC0415

    optimiser = stack.enter_context(Optimiser(scheduler, OptimiserSettings(**settings.optimiser.given())))
    return FilePlanning(optimiser) if wall is None else LivePlanning(optimiser, wall)


def open_run_state(settings: RunSettings, wall: Callable[[], float], *, is_live: bool = False) -> DurableScheduler:
    """Return the saved scheduler, or a new one, with `settings` in force from now on. O(pages).

    `wall`: the clock, UTC epoch seconds; `is_live`: whether outcomes ahead of it are rejected, as those of a crawl
    under way are; otherwise the stream's own times decide. Raises SettingsErrors for settings that only a new state can
    have, and the errors of `DurableScheduler.open`.
    """
    is_new = not has_state(settings.state)
    if settings.optimiser.given():
        _check_optimiser(settings, is_new=is_new)
    reread = reread_with(_topics(settings))
    given = settings.politeness.given()
    politeness = Politeness(**given) if given else None
    scheduler = DurableScheduler.open(
        settings.state,
        settings.scheduler.given() | ({} if politeness is None else {"politeness": politeness}),
        reread=reread,
        plan=SavePlan(**settings.save.given()),
        threads=settings.threads,
        clock=WallClock(wall, settings.ahead_of(MAX_AHEAD_OF_CLOCK)) if is_live else None,
    )
    try:
        if not is_new:
            _check_fixed(scheduler, settings)
            _change_formula(scheduler, settings, wall())
            _change_bounds(scheduler, settings)
            if politeness is not None and politeness != scheduler.politeness:
                scheduler.set_politeness(politeness)
        max_ahead = parse_max_ahead(settings.ahead_of(scheduler.max_ahead))
        if not is_live and max_ahead != scheduler.max_ahead:
            scheduler.max_ahead = max_ahead
        if settings.rules:
            scheduler.set_rules(settings.rules)
    except BaseException:
        scheduler.close(save=False)
        raise
    return scheduler


def _check_optimiser(settings: RunSettings, *, is_new: bool) -> None:
    """Raise SettingsError if the optimiser's plans would not be followed, or if it needs another new state."""
    from streamsched.scheduler.planning.optimiser import Optimiser  # noqa: PLC0415  on demand, as below

    given = settings.scheduler.given()
    trial = Scheduler(**given)
    for name in given.keys() & {"formula", "objective"}:
        if "crawl_rate" not in trial.formula.terminals:  # each start would take the pages from the plan again
            expected = "a formula that reads crawl_rate, or none: an optimiser brings its own"
            raise SettingsError(f"scheduler.{name}", given[name], expected)
    if is_new:  # before a state is made whose settings the optimiser cannot use, and that would keep them
        Optimiser(trial, OptimiserSettings(**settings.optimiser.given()))


def _topics(settings: RunSettings) -> list[Topic]:
    topics = [Topic(OUTCOMES, read_settings(settings.source, settings.kafka))] if settings.is_topic else []
    signals = settings.signals.source
    if signals is not None and signals.startswith(SCHEME):
        topics.append(Topic(SIGNALS, read_settings(signals, _signal_options(settings))))
    return topics


def resume_source(source: AnySource, scheduler: AnyScheduler, settings: RunSettings) -> None:
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
                reason = f"{error.reason}; the state cannot be continued: --from-start reads the file anew"
                raise SourceError(error.path, reason, error.offset) from error


def _check_fixed(scheduler: AnyScheduler, settings: RunSettings) -> None:
    """Raise SettingsErrors for settings that differ from those of the saved state and cannot change."""
    given = {name: value for name, value in settings.scheduler.given().items() if name not in _CHANGEABLE}
    saved = _fixed_settings(scheduler)
    asked = _fixed_settings(Scheduler(**(saved | given)))
    shown = saved | {"cycle": write_duration(saved["cycle"])}
    errors = [
        SettingsError(f"scheduler.{name}", value, f"{shown[name]}, as in the saved state")
        for name, value in given.items()
        if asked[name] != saved[name]
    ]
    if errors:
        raise SettingsErrors(errors)


def _fixed_settings(scheduler: AnyScheduler) -> dict[str, Any]:
    """Return the settings that cannot change after a state was created, by the names in the table scheduler."""
    settings = scheduler.core.settings
    return {
        "cycle": settings.cycle_s,
        "seed": settings.seed,
        "change_bits": settings.change_bits,
        "panel": settings.panel,
        "new_share": settings.new_share,
        "explore_share": settings.explore_share,
        "signals_discover": settings.signals_discover,
    }


def _change_bounds(scheduler: AnyScheduler, settings: RunSettings) -> None:
    """Put the given bounds on pages and URL patterns in force."""
    for name, value in settings.scheduler.given().items():
        if name in _BOUNDS and getattr(scheduler, name) != value:
            setattr(scheduler, name, value)


def _change_formula(scheduler: AnyScheduler, settings: RunSettings, now: float) -> None:
    """Rank by the given formula; a change is recorded, so that it can be undone."""
    given = {name: value for name, value in settings.scheduler.given().items() if name in ("formula", "objective")}
    asked = Scheduler(**given).formula if given else scheduler.formula
    if asked != scheduler.formula:
        # Imported on demand: a run without a change needs none of it.
        from streamsched.evolution.records import RecordBook  # noqa: PLC0415
        from streamsched.service.formula_changes import set_formula  # noqa: PLC0415

        set_formula(scheduler, RecordBook(settings.state), now, asked.text)
