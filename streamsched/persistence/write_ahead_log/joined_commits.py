"""Joins the waits of one thread for the disk: several calls, one write."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamsched.persistence.write_ahead_log.call_log import CallLog

__all__ = ["JoinedCommits"]


class JoinedCommits:
    """Commits calls to a log at once, or within a block of `together` at its end. For several threads at once."""

    def __init__(self, log: CallLog) -> None:
        self._log = log
        self._mine = _Waits()

    def commit(self, number: int) -> None:
        """Return once the calls up to `number` are on disk; within a block, leave that to its end."""
        if self._mine.blocks:
            self._mine.number = number
        else:
            self._log.commit(number)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Commit this thread's calls in the block at its end, however it ends. Raises SnapshotError then."""
        self._mine.blocks += 1
        try:
            yield
        finally:
            self._mine.blocks -= 1
            if not self._mine.blocks:
                self._log.commit(self._mine.number)


class _Waits(threading.local):
    """Of each thread: the blocks that it is in, and the last call that they must write."""

    blocks = 0
    number = 0
