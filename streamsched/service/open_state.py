"""The scheduler of a saved state, for commands that change it by a call and are soon done."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from streamsched.outcomes import OutcomeBatch
from streamsched.persistence.lock import lock_state
from streamsched.persistence.recovery import newest_image
from streamsched.scheduler.durable import DurableScheduler

__all__ = ["open_state"]


def open_state(directory: Path) -> DurableScheduler:
    """Return the scheduler whose state is in `directory`: what it is told is on disk when it answers. O(pages).

    Raises SnapshotError where there is no state, StateInUse where another process owns it.
    """
    with lock_state(directory):
        newest_image(directory)
    return DurableScheduler.open(directory, reread=_reread)


def _reread(path: str, position: dict[str, Any] | None) -> Iterable[OutcomeBatch]:
    # Imported only where it is asked for, after a crash: what reads files takes as long to import as `next` to answer.
    from streamsched.service.stream_replay import reread_files  # noqa: PLC0415

    return reread_files(path, position)
