"""A state directory read back: the newest whole image, the increments after it, and the calls after these."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

from streamsched.errors import SnapshotError
from streamsched.persistence.call_codec import ReplayTarget, StreamNeeded, replay
from streamsched.persistence.files import list_images
from streamsched.persistence.image_reader import load_images
from streamsched.persistence.write_ahead_log import Torn, read_calls
from streamsched.state.page_table import PageTable

__all__ = ["has_state", "newest_image", "restore_state", "whole_calls"]

_log: Final = logging.getLogger("streamsched.persistence")

Found = TypeVar("Found", bound=ReplayTarget)


def has_state(directory: Path) -> bool:
    """Return whether `directory` holds saved state, sound or not."""
    return bool(list_images(directory))


def newest_image(directory: Path) -> Path:
    """Return the newest image in `directory`; raises SnapshotError where there is none."""
    names = list_images(directory)
    if not names:
        raise SnapshotError(str(directory), "holds no saved state: expected a file named snapshot-00000001.state")
    return names[-1].in_directory(directory)


def restore_state(
    directory: Path, restore: Callable[[PageTable, dict[str, Any]], Found]
) -> tuple[Found, StreamNeeded | None]:
    """Return what `restore` makes of the newest state in `directory`, with the calls after it applied. O(pages).

    For readers: nothing in the directory changes, another process may own it. Where calls followed outcomes of a stream
    that would have to be read again, the state is that before them. The logger ``streamsched.persistence`` and
    what is returned beside the state say so. Raises SnapshotError where there is no state, or none that is whole.
    """
    loaded = load_images(directory)
    shard = restore(loaded.pages, loaded.settings)
    try:
        for _ in replay(shard, whole_calls(directory, loaded.sequence), str(directory)):
            pass
    except StreamNeeded as needed:
        _log.warning("%s; this is the state before", needed)
        return shard, needed
    return shard, None


def whole_calls(directory: Path, after: int) -> Iterator[tuple[int, bytes]]:
    """Yield the calls after number `after` as `read_calls` does, without what a crash left unfinished."""
    for found in read_calls(directory, after):
        if isinstance(found, Torn):
            _log.warning("%s; they are cut off", found)
        else:
            yield found
