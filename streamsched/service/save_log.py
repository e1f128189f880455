"""Logs the saves of a scheduler that owns a directory, and what keeps it from saving."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsched.service.event_log import LOG

if TYPE_CHECKING:
    from streamsched.errors import SnapshotError
    from streamsched.scheduler.durable import DurableScheduler

__all__ = ["SaveLog"]


class SaveLog:
    """Logs each new image of `scheduler`, and each new reason why it cannot be written."""

    def __init__(self, scheduler: DurableScheduler) -> None:
        self._scheduler = scheduler
        self._logged = scheduler.saved
        self._trouble: SnapshotError | None = None

    def note(self) -> None:
        """Log what is new since the last call."""
        saved, trouble = self._scheduler.saved, self._scheduler.trouble
        if saved is not self._logged:
            self._logged = saved
            LOG.info("saved", file=saved.path.name, bytes=saved.nbytes, pages=len(self._scheduler))
        if trouble is not None and str(trouble) != str(self._trouble):
            LOG.error("cannot save", reason=str(trouble))
        self._trouble = trouble
