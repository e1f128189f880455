"""A stream that is read again, because the log has only how many of its records were applied."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from streamsched.errors import SnapshotError
from streamsched.outcomes import OutcomeBatch

if TYPE_CHECKING:
    from streamsched.signals import SignalBatch

__all__ = ["RereadStream"]


class RereadStream:
    """A stream that is read again. ``beyond``: how many records after ``position`` were read."""

    def __init__(self, path: str, batches: Iterable[OutcomeBatch | SignalBatch]) -> None:
        self.position: Any = None
        self.beyond = 0
        self._path = path
        self._batches = iter(batches)
        self._batch: OutcomeBatch | SignalBatch = OutcomeBatch([], [])
        self._read = 0  # of the batch

    def read(self, count: int, log: str) -> Iterator[OutcomeBatch | SignalBatch]:
        """Yield the next `count` records. Raises SnapshotError if the stream ends before."""
        while count:
            if self._read == len(self._batch):
                self._batch, self._read = self._next(count, log), 0
            start, stop = self._read, min(self._read + count, len(self._batch))
            self._read, count = stop, count - (stop - start)
            yield self._batch if stop - start == len(self._batch) else self._batch.take(np.arange(start, stop))

    def _next(self, count: int, log: str) -> OutcomeBatch | SignalBatch:
        batch = next(self._batches, None)
        if batch is None:
            reason = f"{self._path} ends {count} records earlier than when they were taken: later calls are lost"
            raise SnapshotError(log, reason)
        return batch
