"""What a state directory holds: whether there is saved state, its newest image, and the calls logged after it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from streamsched.errors import SnapshotError
from streamsched.persistence.files import list_images
from streamsched.persistence.write_ahead_log import Torn, read_calls

__all__ = ["has_state", "newest_image", "whole_calls"]

_log: Final = logging.getLogger("streamsched.persistence")


def has_state(directory: Path) -> bool:
    """Return whether `directory` holds saved state, damaged or not."""
    return bool(list_images(directory))


def newest_image(directory: Path) -> Path:
    """Return the path of the newest image in `directory`. Raises SnapshotError if there is none."""
    names = list_images(directory)
    if not names:
        raise SnapshotError(str(directory), "holds no saved state: expected a file named snapshot-00000001.state")
    return names[-1].in_directory(directory)


def whole_calls(directory: Path, after: int) -> Iterator[tuple[int, bytes]]:
    """Yield the calls after number `after` as `read_calls` does, ignoring an entry that a crash left unfinished."""
    for found in read_calls(directory, after):
        if isinstance(found, Torn):
            _log.warning("%s; they are ignored", found)
        else:
            yield found
