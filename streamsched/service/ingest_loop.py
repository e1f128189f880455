"""Deliveries taken into a durable scheduler: applied, saved together with where the stream stands, then committed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from streamsched.connectors import Delivery, Position
from streamsched.connectors.file_source import FileSource
from streamsched.connectors.kafka import KafkaSource
from streamsched.errors import SnapshotError, SourceError
from streamsched.outcomes import OutcomeBatch
from streamsched.scheduler.durable import DurableScheduler
from streamsched.scheduler.results import Observed
from streamsched.service.batch_publisher import BatchPublisher
from streamsched.service.event_log import log_event
from streamsched.service.evolution import EvolutionHook

__all__ = ["IngestLoop"]

_CHORES_S: Final = 1.0  # between two looks at what was saved and what is wrong
_NOTHING: Final = OutcomeBatch([], [])


class IngestLoop:
    """Takes what `source` delivers into `scheduler`. For one thread, which may be another one during a rebalance.

    ``total``: what became of the outcomes so far. `again`: whether the source can be read again from a position; else
    outcomes are logged as calls are, on disk before the next are read. `each_s`: how often progress is logged, never
    where None.
    """

    def __init__(  # noqa: PLR0913  what it connects
        self,
        scheduler: DurableScheduler,
        source: FileSource | KafkaSource,
        *,
        again: bool = True,
        evolving: EvolutionHook | None = None,
        batches: BatchPublisher | None = None,
        each_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total = Observed()
        self._scheduler = scheduler
        self._source = source
        self._again = again
        self._evolving = evolving
        self._batches = batches
        self._each_s = each_s
        self._clock = clock
        self._chores_due = clock() + _CHORES_S
        self._told_at, self._told = clock(), 0
        self._rejected = source.rejected
        self._saved = scheduler.saved
        self._committed: Mapping[str, Any] = {}
        self._safe: set[str] = set()  # streams that every image kept knows
        self._trouble: SnapshotError | None = None
        if isinstance(source, KafkaSource):
            source.on_revoke = self._hand_over

    def take(self, deliveries: Iterable[Delivery | None], seen: Callable[[IngestLoop], None]) -> SourceError | None:
        """Apply all `deliveries`, None where nothing came for a while; return what kept more from coming.

        `seen` is called after each.
        """
        try:
            for delivery in deliveries:
                if delivery is not None:
                    self._apply(delivery)
                if self._clock() >= self._chores_due:
                    self._chores_due = self._clock() + _CHORES_S
                    self._do_chores(idle=delivery is None)
                if self._batches is not None:
                    self._batches.tick(self.lag if isinstance(self._source, KafkaSource) else 0)
                seen(self)
        except SourceError as error:
            return error
        return None

    def finish(self) -> None:
        """Save what was taken, and let the group know. Raises SnapshotError where it cannot be saved."""
        self._note_positions()
        if not self._scheduler.is_saved:
            self._scheduler.snapshot()
        self._tell_saved()
        self._tell_rejected()
        self._commit()
        if self._waits_to_commit():  # the first image of a state knew of no stream
            self._commit()

    @property
    def pages(self) -> int:
        """How many pages are known."""
        return len(self._scheduler)

    @property
    def lag(self) -> int | None:
        """How many messages the partitions that are ours are behind in all; None where none is ours."""
        if not isinstance(self._source, KafkaSource) or not self._source.positions:
            return None
        return sum(self._source.lag.values())

    def counts(self) -> dict[str, int]:
        """Return what became of the outcomes so far, by name."""
        names = ("applied", "changed", "first_visits", "failures", "duplicates", "late")
        counts = {name: int(getattr(self.total, name)) for name in names} | {"rejected": self._source.rejected}
        if isinstance(self._source, KafkaSource):
            counts |= {name: getattr(self._source, name) for name in ("misplaced", "unkeyed", "skipped")}
            counts["lag"] = self.lag or 0
        if self._evolving is not None:
            counts["evolutions"] = self._evolving.evolutions
        if self._batches is not None:
            counts["handed_out"] = self._batches.sent
        return counts

    def _apply(self, delivery: Delivery) -> None:
        path, position = delivery.position.path, delivery.position.to_json()
        if isinstance(self._source, KafkaSource) and path not in self._scheduler.positions:
            # Whoever reads it again for a call that comes before the first save must know where it was begun.
            start = self._source.starts[path]
            self._scheduler.take(_NOTHING, path, start.to_json())
            level = logging.WARNING if start.offset else logging.INFO
            log_event(
                "partition begun: this state has nothing of what came before", level, partition=path, at=start.offset
            )

        def apply(part: OutcomeBatch, is_last: bool) -> Observed:
            if not self._again:
                return self._scheduler.observe(part)
            return self._scheduler.take(part, path, position if is_last else None)

        if self._evolving is None:
            self.total += apply(delivery.outcomes, True)
        else:
            self.total += self._evolving.observe(delivery.outcomes, apply)

    def _note_positions(self) -> None:
        """Let the state stand where the source does, past what was only rejected."""
        if isinstance(self._source, KafkaSource):
            for path, position in self._source.positions.items():
                if self._scheduler.positions.get(path) != position.to_json():
                    self._scheduler.take(_NOTHING, path, position.to_json())

    def _do_chores(self, *, idle: bool) -> None:
        if idle:
            self._note_positions()
        self._tell_saved()
        self._tell_rejected()
        self._commit()
        if self._evolving is not None:
            self._evolving.tick()
        if self._each_s is not None and self._clock() >= self._told_at + self._each_s:
            self._tell_progress()

    def _hand_over(self, positions: Mapping[str, Position]) -> None:
        """Save before partitions go to another reader, and let it begin where they stand."""
        self._note_positions()
        try:
            self._scheduler.snapshot()
        except SnapshotError as error:  # then it begins where the last save stands: nothing is lost, for it or for us
            log_event("not saved before partitions were taken away", logging.ERROR, reason=str(error))
        else:
            self._tell_saved()
            for _ in range(self._scheduler.plan.kept):
                if self._is_safe(positions):
                    break
            self._commit(anyway=True)
        log_event("partitions taken away", partitions=",".join(sorted(positions)))

    def _waits_to_commit(self) -> bool:
        return isinstance(self._source, KafkaSource) and not self._safe.issuperset(self._source.positions)

    def _commit(self, *, anyway: bool = False) -> None:
        """Commit the positions that the newest save holds; what brokers do not take now they get with the next.

        `anyway`: though an image may not know of them all, for another reader is waiting.
        """
        if not isinstance(self._source, KafkaSource):
            return
        positions = self._scheduler.saved.positions
        ours = {path: positions[path] for path in self._source.positions if path in positions}
        if ours == self._committed or not (anyway or self._is_safe(ours)):
            return
        try:
            self._source.commit({path: Position.from_json(position) for path, position in ours.items()})
            self._committed = ours
        except SourceError as error:
            log_event("not committed", logging.WARNING, reason=str(error))

    def _is_safe(self, paths: Iterable[str]) -> bool:
        """Return whether all images know of `paths`, having seen to it that they soon will.

        What is committed for a partition that a state does not know is where it begins: were a damaged image passed
        over for one without its position, what lies between the two would be lost.
        """
        if not self._safe.issuperset(paths):
            self._safe = self._scheduler.streams_in_all_images()
        if not self._safe.issuperset(paths):
            with suppress(SnapshotError):  # which is told as trouble
                self._scheduler.snapshot(full=True)
            self._safe = self._scheduler.streams_in_all_images()
        return self._safe.issuperset(paths)

    def _tell_saved(self) -> None:
        saved, trouble = self._scheduler.saved, self._scheduler.trouble
        if saved is not self._saved:
            self._saved = saved
            log_event("saved", file=saved.path.name, bytes=saved.nbytes, pages=len(self._scheduler))
        if trouble is not None and str(trouble) != str(self._trouble):
            log_event("cannot save", logging.ERROR, reason=str(trouble))
        self._trouble = trouble

    def _tell_rejected(self) -> None:
        new = self._source.rejected - self._rejected
        if new:
            self._rejected += new
            level = (
                logging.WARNING if isinstance(self._source, KafkaSource) else logging.INFO
            )  # of files told at the end
            log_event("rejected", level, count=new, last=str(self._source.rejections[-1]))

    def _tell_progress(self) -> None:
        now, applied = self._clock(), self.total.applied
        fields: dict[str, Any] = {"applied": applied, "per_s": (applied - self._told) / (now - self._told_at)}
        self._told_at, self._told = now, applied
        fields |= {"pages": len(self._scheduler), "lag": self.lag}
        if self._batches is not None:
            fields["handed_out"] = self._batches.sent
        log_event("progress", **fields)
        if isinstance(self._source, KafkaSource) and self.lag is None:
            log_event("waiting for partitions: others of the group may hold them", logging.WARNING)
