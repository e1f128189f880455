"""Applies what arrives of a run's streams to a durable scheduler: apply, and save with the positions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from streamsched.api.views import Noticed, Observed
from streamsched.connectors.records import OUTCOMES, SIGNALS
from streamsched.connectors.source import Source
from streamsched.errors import SnapshotError, SourceError
from streamsched.outcomes import OutcomeBatch
from streamsched.scheduler.durable import DurableScheduler
from streamsched.service.arrivals import Arrival, InputStream
from streamsched.service.batch_publisher import BatchPublisher
from streamsched.service.event_log import LOG
from streamsched.service.stream_hooks import StreamHook, find_drift, observe_through
from streamsched.service.stream_intake import StreamIntake
from streamsched.signals import SignalBatch

_HOUSEKEEPING_S: Final = 1.0  # interval of looks at saves, rejections and hooks


class StreamProgress(NamedTuple):
    """How far a run has read its stream of outcomes.

    ``lag``: messages that all assigned partitions are behind, of a file 0 at its end; None if that is not known;
    ``reached_s``: the newest time in what arrived last, None before anything did; ``at_end``: whether nothing was left
    when it was looked at last, None if that is not known.
    """

    lag: int | None
    reached_s: float | None
    at_end: bool | None


class IngestLoop:
    """Applies what `source` and `signals` deliver to `scheduler`. For one thread.

    `signals`: a source of signals beside that of outcomes, None for none; `hooks`: what works between the outcomes and
    beside them; `pause`: called between parts of deliveries, so that others who call the scheduler get their turn;
    `progress_s`: interval of progress events in the log, None for none; `about`: further fields of what the log says
    of saves. ``streams``: the streams of both sources, for `arrivals`; ``streams_ended``: whether these have ended,
    which may be set.
    """

    def __init__(  # noqa: PLR0913  what a run may have
        self,
        scheduler: DurableScheduler,
        source: Source[OutcomeBatch],
        *,
        signals: Source[SignalBatch] | None = None,
        hooks: Sequence[StreamHook] = (),
        batches: BatchPublisher | None = None,
        pause: Callable[[], None] | None = None,
        progress_s: float | None = None,
        about: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scheduler = scheduler
        self._hooks = hooks
        self._batches = batches
        self._progress_s = progress_s
        self._clock = clock
        self._housekeeping_at = clock() + _HOUSEKEEPING_S
        self._reached_s: float | None = None
        self._is_idle = False
        self._is_applying = False  # an arrival that may have been cut short
        self._progress_at, self._progress_applied = clock(), 0
        self._saves = SaveLog(scheduler, about)
        outcomes = InputStream(OUTCOMES, source)
        in_parts = partial(observe_through, hooks)
        self._outcomes = StreamIntake(scheduler, outcomes, in_parts, pause=pause)
        self._intakes = [self._outcomes]
        if signals is not None:
            self._intakes.append(StreamIntake(scheduler, InputStream(SIGNALS, signals), pause=pause))
        self.streams = [intake.stream for intake in self._intakes]
        self.streams_ended = False

    def run(self, arrived: Iterable[Arrival | None], on_step: Callable[[IngestLoop], None]) -> SourceError | None:
        """Apply all that has `arrived`, None whenever nothing did for a while; return the error that ended it, if any.

        `on_step` is called after each.
        """
        try:
            for arrival in arrived:
                self._is_idle = arrival is None
                if arrival is not None:
                    if arrival.stream is self._outcomes.stream and arrival.start < arrival.stop:
                        self._reached_s = float(arrival.delivery.records.fetched_at[arrival.start : arrival.stop].max())
                    self._is_applying = True
                    next(intake for intake in self._intakes if intake.stream is arrival.stream).apply(arrival)
                    self._is_applying = False
                if self._clock() >= self._housekeeping_at:
                    self._housekeeping_at = self._clock() + _HOUSEKEEPING_S
                    self._do_housekeeping(idle=arrival is None)
                if self._batches is not None:
                    self._batches.tick(self.lag if self._outcomes.source.is_partitioned else 0)
                on_step(self)
        except SourceError as error:
            return error
        return None

    def finish(self) -> None:
        """Save what was applied. Raises SnapshotError if it cannot be saved."""
        if not self._is_applying:  # else a position of the source may be past what was applied
            self._note_positions()
        if not self._scheduler.is_saved:
            self._scheduler.snapshot()
        self._saves.note()
        self._note_rejected()

    @property
    def total(self) -> Observed:
        """The result of the outcomes so far."""
        observed: Observed = self._outcomes.total
        return observed

    @property
    def noticed(self) -> Noticed | None:
        """The result of the signals so far, None without a source of signals."""
        return self._intakes[1].total if len(self._intakes) > 1 else None

    @property
    def pages(self) -> int:
        """The number of known pages."""
        return len(self._scheduler)

    @property
    def lag(self) -> int | None:
        """The number of messages of outcomes that all assigned partitions are behind; None if none is assigned."""
        return self._outcomes.lag

    @property
    def progress(self) -> StreamProgress:
        """How far the stream of outcomes is read."""
        if not self._outcomes.source.is_partitioned:
            # A pause of a pipe is all that there is; one of a file is a slow disk.
            is_read = self.streams_ended or (self._is_idle and not self._outcomes.source.is_replayable)
            return StreamProgress(0 if is_read else None, self._reached_s, is_read)
        return StreamProgress(self.lag, self._reached_s, None if self.lag is None else self.lag == 0)

    @property
    def drifted(self) -> bool | None:
        """Whether the hit rate has drifted since the last evolution; None if nothing watches it."""
        return find_drift(self._hooks)

    def counts(self) -> dict[str, int]:
        """Return the counters of outcomes, of signals, of evolutions, of plans and of published pages by name."""
        counts = {name: value for intake in self._intakes for name, value in intake.counts().items()}
        for hook in self._hooks:
            counts |= hook.counts()
        if self._batches is not None:
            counts["handed_out"] = self._batches.sent
        return counts

    def _note_positions(self) -> None:
        for intake in self._intakes:
            intake.note_positions()

    def _note_rejected(self) -> None:
        for intake in self._intakes:
            intake.note_rejected()

    def _do_housekeeping(self, *, idle: bool) -> None:
        if idle:
            self._note_positions()
        self._saves.note()
        self._note_rejected()
        for hook in self._hooks:
            hook.tick()
        if self._progress_s is not None and self._clock() >= self._progress_at + self._progress_s:
            self._log_progress()

    def _log_progress(self) -> None:
        now, applied = self._clock(), self.total.applied
        per_s = (applied - self._progress_applied) / (now - self._progress_at)
        self._progress_at, self._progress_applied = now, applied
        fields: dict[str, Any] = {} if self._batches is None else {"handed_out": self._batches.sent}
        fields["refused"] = self.total.refused
        if self.noticed is not None:
            fields |= {"signals_applied": self.noticed.applied, "signals_lag": self._intakes[1].lag}
        LOG.info("progress", applied=applied, per_s=per_s, pages=len(self._scheduler), lag=self.lag, **fields)


class SaveLog:
    """Logs each new image of `scheduler`, and each new reason why it cannot be written; `about`: further fields."""

    def __init__(self, scheduler: DurableScheduler, about: Mapping[str, Any] | None = None) -> None:
        self._about = about or {}
        self._scheduler = scheduler
        self._logged = scheduler.saved
        self._trouble: SnapshotError | None = None

    def note(self) -> None:
        """Log what is new since the last call."""
        saved, trouble = self._scheduler.saved, self._scheduler.trouble
        if saved is not self._logged:
            self._logged = saved
            LOG.info("saved", **self._about, file=saved.path.name, bytes=saved.nbytes, pages=len(self._scheduler))
        if trouble is not None and str(trouble) != str(self._trouble):
            LOG.error("cannot save", **self._about, reason=str(trouble))
        self._trouble = trouble
