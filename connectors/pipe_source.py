"""Pipes that are opened when their first delivery is asked for, since opening one waits for its first bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamsched.connectors.source import Delivery, Position, Records, Rejection, Source
from streamsched.errors import InvalidRecord, SourceError


class PipeSource(Source[Records]):
    """Standard input or a named pipe at `path` as a `Source`; `open_source` opens it.

    Errors of opening are those of the first delivery.
    """

    format = "pipe"
    is_replayable = False

    def __init__(self, path: str, open_source: Callable[[], Source[Records]]) -> None:
        self._path = path
        self._open_source = open_source
        self._source: Source[Records] | None = None

    @property
    def rejected(self) -> int:
        """The number of records rejected since the source was opened."""
        return 0 if self._source is None else self._source.rejected

    @property
    def rejections(self) -> Sequence[Rejection]:
        """The last rejections, at most 100, oldest first."""
        return () if self._source is None else self._source.rejections

    def owns(self, path: str) -> bool:
        """Return False: a pipe has no positions to save."""
        del path
        return False

    def seek(self, position: Position) -> None:
        """Raise SourceError: a pipe cannot be read again."""
        raise SourceError(self._path, "standard input and pipes cannot be resumed", position.offset)

    def reject(self, delivery: Delivery[Records], problems: Sequence[InvalidRecord]) -> None:
        """Count records of the last `delivery` as rejected, and keep them aside with the other dead letters."""
        if self._source is not None:
            self._source.reject(delivery, problems)

    def close(self) -> None:
        """Close the pipe if it was opened; a second call does nothing."""
        if self._source is not None:
            self._source.close()

    def __next__(self) -> Delivery[Records]:
        """Return the next delivery; the first call opens the pipe."""
        if self._source is None:
            self._source = self._open_source()
        return next(self._source)
