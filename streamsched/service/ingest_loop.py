"""Applies deliveries of a source to a durable scheduler: apply, save with the source's positions, then commit."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from streamsched.connectors.source import Delivery, Position, Source
from streamsched.errors import SnapshotError, SourceError
from streamsched.outcomes import OutcomeBatch
from streamsched.scheduler.results import Observed
from streamsched.service.event_log import LOG

if TYPE_CHECKING:
    from streamsched.scheduler.durable import DurableScheduler
    from streamsched.service.batch_publisher import BatchPublisher
    from streamsched.service.evolution import EvolutionHook

__all__ = ["IngestLoop"]

_HOUSEKEEPING_S: Final = 1.0  # interval of commits, and of looks at saves, rejections and evolution
_COUNTED: Final = (
    "applied",
    "changed",
    "first_visits",
    "failures",
    "robots_denied",
    "not_attempted",
    "moved",
    "duplicates",
    "late",
    "refused",
)
_NO_OUTCOMES: Final = OutcomeBatch([], [])


class IngestLoop:
    """Applies what `source` delivers to `scheduler`. For one thread, which may be another one during a rebalance.

    ``total``: the result of the outcomes so far. `progress_s`: interval of progress events in the log, None for none.
    Outcomes of a source that cannot be replayed are logged like calls: on disk before the next ones are read.
    """

    def __init__(
        self,
        scheduler: DurableScheduler,
        source: Source,
        *,
        evolution: EvolutionHook | None = None,
        batches: BatchPublisher | None = None,
        progress_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total = Observed()
        self._scheduler = scheduler
        self._source = source
        self._evolution = evolution
        self._batches = batches
        self._progress_s = progress_s
        self._clock = clock
        self._housekeeping_at = clock() + _HOUSEKEEPING_S
        self._progress_at, self._progress_applied = clock(), 0
        self._logged_rejected = source.rejected
        self._logged_save = scheduler.saved
        self._logged_trouble: SnapshotError | None = None
        self._committed: Mapping[str, Any] = {}
        self._owned: frozenset[str] | None = None  # partitions; None before the first are assigned
        self._in_all_images: set[str] = set()  # streams whose positions every kept image holds
        source.on_revoke = self._on_revoke

    def run(self, deliveries: Iterable[Delivery | None], on_step: Callable[[IngestLoop], None]) -> SourceError | None:
        """Apply all `deliveries`, None whenever none arrived for a while; return the error that ended them, if any.

        `on_step` is called after each.
        """
        try:
            for delivery in deliveries:
                if delivery is not None:
                    self._apply(delivery)
                self._follow_ownership(frozenset(self._source.positions))
                if self._clock() >= self._housekeeping_at:
                    self._housekeeping_at = self._clock() + _HOUSEKEEPING_S
                    self._do_housekeeping(idle=delivery is None)
                if self._batches is not None:
                    self._batches.tick(self.lag if self._source.is_partitioned else 0)
                on_step(self)
        except SourceError as error:
            return error
        return None

    def finish(self) -> None:
        """Save what was applied and commit it. Raises SnapshotError if it cannot be saved."""
        self._note_positions()
        if not self._scheduler.is_saved:
            self._scheduler.snapshot()
        self._log_save()
        self._log_rejected()
        self._commit()
        if not self._in_all_images.issuperset(self._source.positions):  # the first image of a state knew no stream
            self._commit()

    @property
    def pages(self) -> int:
        """The number of known pages."""
        return len(self._scheduler)

    @property
    def lag(self) -> int | None:
        """The number of messages that all assigned partitions are behind; None if none is assigned."""
        return sum(self._source.lag.values()) if self._source.positions else None

    def counts(self) -> dict[str, int]:
        """Return the counters of outcomes, of the source, of evolutions and of published pages by name."""
        counts = {name: int(getattr(self.total, name)) for name in _COUNTED} | self._source.counts()
        if self._evolution is not None:
            counts["evolutions"] = self._evolution.evolutions
        if self._batches is not None:
            counts["handed_out"] = self._batches.sent
        return counts

    def _apply(self, delivery: Delivery) -> None:
        path, position = delivery.position.path, delivery.position.to_json()
        start = self._source.starts.get(path)
        if start is not None and path not in self._scheduler.positions:
            self._note_start(start)

        problems = self._scheduler.find_ahead(delivery.outcomes)
        if problems:  # kept aside before the position passes them
            self._source.reject(delivery, problems)

        def apply(part: OutcomeBatch, is_last: bool) -> Observed:
            if not self._source.is_replayable:
                return self._scheduler.observe(part)
            return self._scheduler.take(part, path, position if is_last else None)

        if self._evolution is None:
            self.total += apply(delivery.outcomes, True)
        else:
            self.total += self._evolution.observe(delivery.outcomes, apply)

    def _note_start(self, start: Position) -> None:
        """Record where a new partition begins: a replay for a call before the first save starts there."""
        self._scheduler.take(_NO_OUTCOMES, start.path, start.to_json())
        level = logging.WARNING if start.offset else logging.INFO
        event = "partition begun: this state has nothing of what came before"
        LOG.log(level, event, partition=start.path, at=start.offset)

    def _note_positions(self) -> None:
        """Record the positions of all partitions in the state, past messages that were only rejected."""
        for path, position in self._source.positions.items():
            if self._scheduler.positions.get(path) != position.to_json():
                self._scheduler.take(_NO_OUTCOMES, path, position.to_json())

    def _do_housekeeping(self, *, idle: bool) -> None:
        if idle:
            self._note_positions()
        self._log_save()
        self._log_rejected()
        self._commit()
        if self._evolution is not None:
            self._evolution.tick()
        if self._progress_s is not None and self._clock() >= self._progress_at + self._progress_s:
            self._log_progress()

    def _on_revoke(self, positions: Mapping[str, Position]) -> None:
        """Save and commit before partitions go to another reader, so that it starts at their positions."""
        self._note_positions()
        self._follow_ownership(frozenset(self._source.positions) - frozenset(positions))
        try:
            self._scheduler.snapshot()
        except SnapshotError as error:  # the next reader starts at the last save: nothing is lost for either
            LOG.error("not saved before partitions were taken away", reason=str(error))
        else:
            self._log_save()
            for _ in range(self._scheduler.plan.kept):
                if self._ensure_in_all_images(positions):
                    break
            self._commit(force=True)
        LOG.info("partitions taken away", partitions=",".join(sorted(positions)))

    def _follow_ownership(self, owned: frozenset[str]) -> None:
        """Suspend the partitions that are not `owned`: others have their newer outcomes, and their leases."""
        if not self._source.is_partitioned or owned == self._owned or (not owned and self._owned is None):
            return
        streams = self._scheduler.core.streams
        others = {one for one in streams.names if not self._source.owns(one) and one in streams.suspended}
        suspended = others | {one for one in streams.names if self._source.owns(one) and one not in owned}
        try:
            if suspended != streams.suspended:
                pages = self._scheduler.suspend_streams(suspended)
                LOG.info("ownership changed", owned=len(owned), suspended=len(suspended), pages_suspended=pages)
        except SnapshotError as error:  # nor can a batch be logged: none is handed out until this succeeds
            LOG.error("ownership not recorded", reason=str(error))
        else:
            self._owned = owned

    def _commit(self, *, force: bool = False) -> None:
        """Commit the positions in the newest save; if brokers refuse them now, the next commit makes up for it.

        `force`: commit even if a kept image lacks one of them, because another reader is waiting.
        """
        positions = self._scheduler.saved.positions
        assigned = {path: positions[path] for path in self._source.positions if path in positions}
        if assigned == self._committed or not (force or self._ensure_in_all_images(assigned)):
            return
        try:
            self._source.commit({path: Position.from_json(position) for path, position in assigned.items()})
            self._committed = assigned
        except SourceError as error:
            LOG.warning("not committed", reason=str(error))

    def _ensure_in_all_images(self, paths: Iterable[str]) -> bool:
        """Return whether all kept images hold positions of `paths`; if not, save a full image, so that they soon will.

        A state without a position for a partition starts at the committed offset. If recovery passed over a damaged
        image for one without the position, the messages between the two would be lost.
        """
        if not self._in_all_images.issuperset(paths):
            self._in_all_images = self._scheduler.streams_in_all_images()
        if not self._in_all_images.issuperset(paths):
            with suppress(SnapshotError):  # logged by `_log_save`
                self._scheduler.snapshot(full=True)
            self._in_all_images = self._scheduler.streams_in_all_images()
        return self._in_all_images.issuperset(paths)

    def _log_save(self) -> None:
        saved, trouble = self._scheduler.saved, self._scheduler.trouble
        if saved is not self._logged_save:
            self._logged_save = saved
            LOG.info("saved", file=saved.path.name, bytes=saved.nbytes, pages=len(self._scheduler))
        if trouble is not None and str(trouble) != str(self._logged_trouble):
            LOG.error("cannot save", reason=str(trouble))
        self._logged_trouble = trouble

    def _log_rejected(self) -> None:
        new = self._source.rejected - self._logged_rejected
        if new:
            self._logged_rejected += new
            # The rejections of a file are printed at the end of the run.
            level = logging.WARNING if self._source.is_partitioned else logging.INFO
            LOG.log(level, "rejected", count=new, last=str(self._source.rejections[-1]))

    def _log_progress(self) -> None:
        now, applied = self._clock(), self.total.applied
        per_s = (applied - self._progress_applied) / (now - self._progress_at)
        self._progress_at, self._progress_applied = now, applied
        fields: dict[str, Any] = {} if self._batches is None else {"handed_out": self._batches.sent}
        fields["refused"] = self.total.refused
        LOG.info("progress", applied=applied, per_s=per_s, pages=len(self._scheduler), lag=self.lag, **fields)
        if self._source.is_partitioned and self.lag is None:
            LOG.warning("waiting for partitions: others of the group may hold them")
