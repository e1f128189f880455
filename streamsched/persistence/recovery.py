"""What a state directory holds: whether there is saved state, and its newest image."""

from __future__ import annotations

from pathlib import Path

from streamsched.errors import SnapshotError
from streamsched.persistence.files import list_images
from streamsched.persistence.write_ahead_log.log_reader import has_calls

__all__ = ["has_state", "newest_image"]


def has_state(directory: Path) -> bool:
    """Return whether `directory` holds saved state, damaged or not. Raises SnapshotError if only its log remains."""
    if list_images(directory):
        return True
    if has_calls(directory):
        raise SnapshotError(str(directory), "holds a log of calls and no image: expected snapshot-00000001.state")
    return False


def newest_image(directory: Path) -> Path:
    """Return the path of the newest image in `directory`. Raises SnapshotError if there is none."""
    names = list_images(directory)
    if not names:
        raise SnapshotError(str(directory), "holds no saved state: expected a file named snapshot-00000001.state")
    return names[-1].in_directory(directory)
