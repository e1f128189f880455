"""What a run works with: its source, and its scheduler as settings want it, the one standing where the other does."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from streamsched.connectors.file_source import FileSource, open_file
from streamsched.connectors.kafka import SCHEME, KafkaSource, open_kafka, open_sink
from streamsched.connectors.source import Position
from streamsched.errors import SettingsError, SettingsErrors, SourceError
from streamsched.persistence.recovery import has_state
from streamsched.scheduler.any_scheduler import AnyScheduler
from streamsched.scheduler.durable import DurableScheduler
from streamsched.scheduler.scheduler import Scheduler
from streamsched.service.batch_publisher import BatchPublisher
from streamsched.service.run_settings import RunSettings
from streamsched.service.stream_replay import reread_files, reread_with

__all__ = ["open_run_batches", "open_run_source", "open_run_state", "resume_source"]

_PATIENCE: Final = "5s"  # with the brokers of batches: taking outcomes waits meanwhile
_OF_READING: Final = ("group", "partitions", "start", "lost", "until_end", "dead_letters", "versions")


def open_run_source(settings: RunSettings) -> FileSource | KafkaSource:
    """Open the source of `settings`, at its beginning. Raises SettingsError and SourceError as `open_source` does."""
    if not settings.is_topic:
        return open_file(settings.source, format=settings.format, dead_letters=settings.dead_letters)
    for name, given in (("format", settings.format), ("from_start", settings.from_start)):
        if given:
            raise SettingsError(name, given, "none with a topic: messages say what they are, and kafka.start where")
    words: dict[str, Any] = {**settings.kafka, **({"until_end": True} if settings.until_end else {})}
    return open_kafka(settings.source, words, dead_letters=settings.dead_letters)


def open_run_batches(
    settings: RunSettings, scheduler: DurableScheduler, wall: Callable[[], float]
) -> BatchPublisher | None:
    """Return what publishes batches of `scheduler`, None where no topic is named. Raises SourceError."""
    if settings.batches_to is None:
        return None
    reading = {name.replace("-", "_") for name in _OF_READING}
    words = {name: word for name, word in settings.kafka.items() if name.replace("-", "_") not in reading}
    sink = open_sink(settings.batches_to, {"patience": _PATIENCE, **words})
    return BatchPublisher(scheduler, sink, settings.batches, wall=wall, clock=time.monotonic)


def open_run_state(settings: RunSettings, now: float) -> DurableScheduler:
    """Return the saved scheduler, or a new one, as `settings` want it from `now` on, UTC epoch seconds. O(pages).

    Raises SettingsErrors where they want what only a new state can have, and all that `DurableScheduler.open` raises.
    """
    is_new = not has_state(settings.state)
    reread = reread_with(settings.source, settings.kafka) if settings.is_topic else reread_files
    politeness = {} if settings.politeness is None else {"politeness": settings.politeness}
    scheduler = DurableScheduler.open(
        settings.state,
        {**settings.scheduler, **politeness},
        reread=reread,
        plan=settings.save,
        threads=settings.threads,
    )
    try:
        if not is_new:
            _check_lasting(scheduler, settings)
            _change_formula(scheduler, settings, now)
            if settings.politeness is not None and settings.politeness != scheduler.politeness:
                scheduler.set_politeness(settings.politeness)
        if settings.rules:
            scheduler.set_rules(settings.rules)
    except BaseException:
        scheduler.close(save=False)
        raise
    return scheduler


def resume_source(source: FileSource | KafkaSource, scheduler: AnyScheduler, settings: RunSettings) -> None:
    """Have `source` go on where the state stands. Raises SourceError where it is not the one that the state knows."""
    if isinstance(source, KafkaSource):
        for path, position in scheduler.positions.items():
            if path.startswith(SCHEME) and path.removeprefix(SCHEME).rpartition("/")[0] == source.settings.topic:
                source.seek(Position.from_json(position))
        return
    known = scheduler.positions.get(str(Path(settings.source).resolve()))
    if known is None or settings.from_start:
        return
    try:
        source.seek(Position.from_json(known))
    except SourceError as error:
        reason = f"{error.reason}; cannot go on where the state stands: --from-start reads the file anew"
        raise SourceError(error.path, reason, error.offset) from error


def _check_lasting(scheduler: AnyScheduler, settings: RunSettings) -> None:
    lasting = {name: value for name, value in settings.scheduler.items() if name not in ("formula", "objective")}
    asked, saved = (_lasting(one) for one in (Scheduler(**lasting), scheduler))
    wrong = [
        SettingsError(f"scheduler.{name}", given, f"{saved[name]}, as in the saved state")
        for name, given in lasting.items()
        if asked[name] != saved[name]
    ]
    if wrong:
        raise SettingsErrors(wrong)


def _lasting(scheduler: AnyScheduler) -> dict[str, Any]:
    """Return what stays as it was when a state was new, by the names of settings."""
    settings = scheduler.core.settings
    return {
        "cycle": settings.cycle_s,
        "seed": settings.seed,
        "change_bits": settings.change_bits,
        "panel": settings.panel,
        "new_share": settings.new_share,
        "explore_share": settings.explore_share,
    }


def _change_formula(scheduler: AnyScheduler, settings: RunSettings, now: float) -> None:
    """Rank by the formula asked for, with a record where it is another, so that the change can be taken back."""
    given = {name: settings.scheduler[name] for name in ("formula", "objective") if name in settings.scheduler}
    asked = Scheduler(**given).formula if given else scheduler.formula
    if asked != scheduler.formula:
        # Imported only where it is asked for: reading a stream needs none of it.
        from streamsched.evolution.records import RecordBook  # noqa: PLC0415
        from streamsched.service.formula_changes import set_formula  # noqa: PLC0415

        set_formula(scheduler, RecordBook(settings.state), now, asked.text)
