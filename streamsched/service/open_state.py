"""Opens the scheduler of a saved state, for short commands that change it by a call."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamsched.persistence.lock import lock_state
from streamsched.persistence.recovery import newest_image
from streamsched.scheduler.durable import DurableScheduler

if TYPE_CHECKING:
    from streamsched.outcomes import OutcomeBatch
    from streamsched.scheduler.stream_clock import WallClock

__all__ = ["open_state"]


def open_state(directory: Path, clock: WallClock | None = None) -> DurableScheduler:
    """Return the scheduler of the state in `directory`; its calls return once they are on disk. O(pages).

    `clock`: refuses times ahead of it. Raises SnapshotError if there is no state, StateInUse if another process owns
    it.
    """
    with lock_state(directory):
        newest_image(directory)
    return DurableScheduler.open(directory, reread=_reread, clock=clock)


def _reread(path: str, position: dict[str, Any] | None) -> Iterable[OutcomeBatch]:
    # Imported after a crash only: reading files takes as long to import as `next` takes to run.
    from streamsched.service.stream_replay import reread_files  # noqa: PLC0415

    return reread_files(path, position)
