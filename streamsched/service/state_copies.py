"""Checked copies of a state, made while its owner continues: a copy is there whole, every byte checked, or not at all.

A copy is a state directory: one image, and the records of evolutions. It needs no log, because the image has all calls.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from typing import Final

from streamsched.errors import SnapshotError
from streamsched.evolution.exchange_files import ARCHIVE_NAME
from streamsched.evolution.records import RECORDS_NAME
from streamsched.numerics.durations import format_moment
from streamsched.persistence.files import (
    as_snapshot_errors,
    draft_of,
    read_regular,
    remove_file,
    sync_directory,
    write_file,
)
from streamsched.persistence.state_directory import check_directory, has_state, lock_state, newest_image
from streamsched.scheduler.scheduler import Scheduler

_NAME: Final = "%Y-%m-%dT%H-%M-%SZ"  # no colons: some file systems do not have them
_LEFT: Final = draft_of(Path("*Z*")).name
BESIDE: Final = (RECORDS_NAME, ARCHIVE_NAME)


def add_copy(scheduler: Scheduler, source: Path, folder: Path, now: float) -> Path:
    """Copy the state of `scheduler`, whose directory is `source`, to a new directory in `folder`; return its image.

    The directory is named by the time `now`, UTC. `folder` is made if it is missing; drafts that a killed process has
    left in it are removed. O(pages). Raises SnapshotError if the copy cannot be written or is damaged, StateInUse if
    another copy is being made in `folder`.
    """
    with lock_state(folder, make=True), as_snapshot_errors(folder, "cannot be written"):
        for left in folder.glob(_LEFT):
            shutil.rmtree(left)
        name = format_moment(now, _NAME)
        names = chain([name], (f"{name}-{number}" for number in count(2)))
        target = next(folder / one for one in names if not (folder / one).exists())
        draft = draft_of(target)
        try:
            _write(scheduler, source, draft)
            draft.rename(target)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        sync_directory(folder)
    return newest_image(target)


def copy_state(source: Path, target: Path) -> Path:
    """Copy the state in `source` to the directory `target`, which must hold none; return the image. O(pages).

    Another process may own `source`. Raises SnapshotError if there is no whole state, or the copy cannot be written or
    is damaged.
    """
    scheduler = Scheduler.load(source)
    with lock_state(target, make=True), as_snapshot_errors(target, "cannot be written"):
        if has_state(target):
            raise SnapshotError(str(target), "holds a state: expected a directory without one")
        return _write(scheduler, source, target)


def _write(scheduler: Scheduler, source: Path, target: Path) -> Path:
    """Write a copy into `target` and check it; return its image, which makes it a state and so comes last."""
    target.mkdir(exist_ok=True)
    for name in BESIDE:
        with suppress(FileNotFoundError):
            write_file(target / name, read_regular(source / name))
    image = scheduler.save(target)
    faults = check_directory(target)
    if faults:
        remove_file(image)
        raise faults[0]
    return image
