"""Checks every file of a state directory, older images included."""

from __future__ import annotations

from pathlib import Path

from streamsched.errors import SnapshotError
from streamsched.persistence.files import ImageName, list_images
from streamsched.persistence.image_reader import check_image
from streamsched.persistence.image_writer import oldest_call
from streamsched.persistence.recovery import newest_image
from streamsched.persistence.write_ahead_log import read_calls

__all__ = ["check_directory"]


def check_directory(directory: Path) -> list[SnapshotError]:
    """Return the errors of the files in `directory`, newest image first, each with its file. O(bytes).

    Nothing is changed. Raises SnapshotError if there is no saved state.
    """
    newest_image(directory)
    faults: list[SnapshotError] = []
    names = set(list_images(directory))
    for name in sorted(names, reverse=True):
        before = ImageName(name.number, name.step - 1)
        if name.step and before not in names:
            path = name.in_directory(directory)
            faults.append(SnapshotError(str(path), f"cannot be used: {before.in_directory(directory).name} is missing"))
        try:
            check_image(name.in_directory(directory))
        except FileNotFoundError:
            continue  # removed meanwhile by the process that owns the directory
        except SnapshotError as error:
            faults.append(error)
    try:
        for _ in read_calls(directory, oldest_call(directory)):
            pass
    except SnapshotError as error:
        faults.append(error)
    return faults
