"""Checks every file of a state directory, older images and what they hold of the log included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streamsched.errors import SnapshotError
from streamsched.persistence.files import ImageName, list_images, list_segments
from streamsched.persistence.image_format import Image, read_image
from streamsched.persistence.image_reader import check_image, check_place, log_of
from streamsched.persistence.recovery import newest_image
from streamsched.persistence.write_ahead_log.log_reader import LoggedCalls
from streamsched.persistence.write_ahead_log.segment_reading import read_segment

__all__ = ["check_directory"]


def check_directory(directory: Path) -> list[SnapshotError]:
    """Return the errors of the files in `directory`, newest image first, each with its file. O(bytes).

    Nothing is changed, and another process may own the directory. What a crash leaves is no error. Raises SnapshotError
    if there is no saved state.
    """
    newest_image(directory)
    while True:
        names = list_images(directory)
        faults = [*_check_images(directory, names), *_check_log(directory, names)]
        if not faults or names == list_images(directory):
            return faults  # else files were removed meanwhile, by the process that owns the directory


def _check_images(directory: Path, names: list[ImageName]) -> list[SnapshotError]:
    faults: list[SnapshotError] = []
    whole: dict[ImageName, Image] = {}
    for name in sorted(names):
        before = ImageName(name.number, name.step - 1)
        if name.step and before not in names:
            path = name.in_directory(directory)
            faults.append(SnapshotError(str(path), f"cannot be used: {before.in_directory(directory).name} is missing"))
        try:
            whole[name] = check_image(name.in_directory(directory))
            if not name.step or before in whole:  # else the error of that one says it
                check_place(whole[name], whole.get(before))
        except FileNotFoundError:
            continue
        except SnapshotError as error:
            faults.append(error)
    return faults[::-1]


def _check_log(directory: Path, names: list[ImageName]) -> list[SnapshotError]:
    """Return the damages of all segments, and the first call that an image cannot be continued with."""
    faults = [fault for first, path in list_segments(directory) for fault in _check_segment(path, first)]
    known = {fault.path for fault in faults}
    for contents in _each_log(directory, names):
        calls = LoggedCalls(directory, contents["sequence"], log_of(contents))
        try:
            for _ in calls:
                pass
            found = calls.faults
        except SnapshotError as error:
            found = [error]
        faults += [fault for fault in found if fault.path not in known]
        known |= {fault.path for fault in found}
    return faults


def _check_segment(path: Path, first: int) -> list[SnapshotError]:
    """Return the damages of the segment at `path`, none if the process that owns the directory has removed it."""
    try:
        segment = read_segment(path, first)
    except FileNotFoundError:
        return []
    except SnapshotError as error:
        return [error]
    faults = [damage.error() for damage in segment.damages]
    if segment.torn is not None and not segment.torn.is_prefix:
        faults.append(SnapshotError(str(path), str(segment.torn).removeprefix(f"{path}: ")))
    return faults


def _each_log(directory: Path, names: list[ImageName]) -> list[dict[str, Any]]:
    """Return the contents of the newest image and of the oldest with the same log, which needs the most of that log."""
    found: list[dict[str, Any]] = []
    for name in sorted(names):
        try:
            found.append(read_image(name.in_directory(directory)).contents)
        except (FileNotFoundError, SnapshotError):
            continue
    if not found:
        return []
    newest = found[-1]
    same = [
        contents for contents in found if contents["log"] and newest["log"] and contents["log"][0] == newest["log"][0]
    ]
    return [newest, *same[:1]]
