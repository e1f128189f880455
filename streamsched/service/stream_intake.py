"""Applies one stream to a durable scheduler, and sets its positions in the state."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streamsched.api.views import Noticed, Observed
from streamsched.connectors.records import SIGNALS
from streamsched.scheduler.durable import DurableScheduler
from streamsched.service.arrivals import Arrival, InputStream
from streamsched.service.event_log import LOG

_PART: Final = 8_192  # records between two pauses: some milliseconds
_OTHERS: Final = {"rejected", "served", "hits"}  # not of a stream; its source counts the rejected ones


class StreamIntake:
    """Applies what arrives of `stream` to `scheduler`. ``total``: the counts of its records so far.

    Records of a source that cannot be replayed are logged like calls: on disk before the next ones are read.
    ``apply_parts(records, apply)``: calls ``apply(part, is_last)`` with `records` in one or several parts. `pause`:
    called after every few thousand records, None to apply as many at once as arrive.
    """

    def __init__(
        self,
        scheduler: DurableScheduler,
        stream: InputStream,
        apply_parts: Callable[[Any, Callable[[Any, bool], Any]], Any] = lambda records, apply: apply(records, True),
        pause: Callable[[], None] | None = None,
    ) -> None:
        self.stream = stream
        self.source = stream.source
        self.total: Any = Noticed() if stream.records is SIGNALS else Observed()
        self._scheduler = scheduler
        self._apply_parts = apply_parts
        self._pause = pause
        self._logged_rejected = self.source.rejected
        self._unread = self.source.rejected  # of them, those that the scheduler has never seen

    def apply(self, arrival: Arrival) -> None:
        """Apply the records that have arrived. Raises SourceError if rejected ones cannot be kept aside."""
        records, position = arrival.records(), arrival.delivery.position
        start = self.source.starts.get(position.path)
        if start is not None and position.path not in self._scheduler.positions:
            self._scheduler.take(self.stream.records.none(), start.path, start.to_json())
            if self.source.is_partitioned:
                level = logging.WARNING if start.offset else logging.INFO
                event = "partition begun: this state has no earlier records of it"
                LOG.log(level, event, partition=start.path, at=start.offset)
        problems = self._scheduler.find_ahead(records)
        if problems:  # kept aside before the position passes them
            for problem in problems:
                problem.record += arrival.start
            self.source.reject(arrival.delivery, problems)

        def apply(part: Any, is_last: bool) -> Any:
            reached = position.to_json() if is_last and arrival.is_last else None
            if self._pause is None:
                return self._apply(part, position.path, reached)
            pieces = [part.take(rows) for rows in _cut(len(part))] or [part]
            total: Any = None
            for number, piece in enumerate(pieces, 1):
                result = self._apply(piece, position.path, reached if number == len(pieces) else None)
                total = result if total is None else total + result
                self._pause()
            return total

        self.total += self._apply_parts(records, apply)

    def _apply(self, records: Any, path: str, position: Any) -> Any:
        if self.source.is_replayable:
            return self._scheduler.take(records, path, position)
        return self._scheduler.notice(records) if self._is_of_signals else self._scheduler.observe(records)

    def note_positions(self) -> None:
        """Record the positions of all partitions in the state, past messages that were only rejected."""
        for path, position in self.source.positions.items():
            reached = self._scheduler.positions.get(path)
            if reached != position.to_json():
                self._scheduler.take(self.stream.records.none(), path, position.to_json())

    def note_rejected(self) -> None:
        """Log how many records were rejected since the last call, and report those that could not be read.

        The scheduler reports the others by itself.
        """
        unread = max(0, self.source.rejected - self.total.rejected - self._unread)
        if unread:
            self._unread += unread
            with self._scheduler.core.lock:
                self._scheduler.core.report(type(self.total)(rejected=unread))
        new = self.source.rejected - self._logged_rejected
        if new:
            self._logged_rejected += new
            # The rejections of a file are printed at the end of the run.
            level = logging.WARNING if self.source.is_partitioned else logging.INFO
            LOG.log(level, "rejected", count=new, last=str(self.source.rejections[-1]))

    @property
    def lag(self) -> int | None:
        """The number of messages that all assigned partitions are behind; None if none is assigned."""
        return sum(self.source.lag.values()) if self.source.positions else None

    def counts(self) -> dict[str, int]:
        """Return the counters of records and of the source by name; those of signals begin with ``signals_``."""
        counts = {name: count for name, count in self.total.counts().items() if name not in _OTHERS}
        prefix = "signals_" if self._is_of_signals else ""
        return {prefix + name: value for name, value in (counts | self.source.counts()).items()}

    @property
    def _is_of_signals(self) -> bool:
        return self.stream.records is SIGNALS


def _cut(count: int) -> Iterator[npt.NDArray[np.intp]]:
    """Yield the rows of each part of `count` records: intp[m]."""
    for start in range(0, count, _PART):
        yield np.arange(start, min(start + _PART, count))
