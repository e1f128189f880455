"""Saves images of a running shard, whole or increments, and removes old ones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from streamsched.errors import SettingsError, SnapshotError
from streamsched.numerics.argument_checks import check_whole
from streamsched.numerics.arrays import Records
from streamsched.numerics.durations import parse_duration
from streamsched.persistence.files import ImageName, as_snapshot_errors, list_images, remove_file
from streamsched.persistence.image_format import ImageWriter, read_image
from streamsched.persistence.log_reader import newest_log
from streamsched.persistence.log_segments import LogName
from streamsched.persistence.snapshot_view import CopySpace, Shard, SnapshotView

IMAGES_KEPT: Final = 2  # each with its increments


@dataclass(frozen=True, slots=True)
class SavePlan:
    """When state is saved. Raises SettingsError if a value is invalid.

    - ``every``: time between two saves of what has changed;
    - ``increments``: number of such saves after which the whole state is saved;
    - ``share``: the whole state is also saved once they are together larger than this share of its last image;
    - ``kept``: number of images of the whole state that are kept, with their increments.
    """

    every: str | float = "30s"
    increments: int = 100
    share: float = 1.0
    kept: int = IMAGES_KEPT

    def __post_init__(self) -> None:
        object.__setattr__(self, "every", parse_duration(self.every, "every"))
        check_whole("increments", self.increments, 0, "0 or more increments")
        check_whole("kept", self.kept, 1, "1 or more images")
        if isinstance(self.share, bool) or not isinstance(self.share, int | float) or not self.share > 0.0:
            raise SettingsError("share", self.share, "a number above 0")


class Calls(Protocol):
    """The log of calls that belongs to a saved state."""

    def at_instant(self) -> int:
        """Return, under the shard's lock, the number of the last call applied."""
        ...

    def before_placing(self) -> LogName | None:
        """Write these calls to disk, as no call that an image holds may be missing from the log; return its name."""
        ...


class Closed:
    """The log `name` that ended with call number `last`."""

    def __init__(self, last: int = 0, name: LogName | None = None) -> None:
        self._last = last
        self._name = name

    def at_instant(self) -> int:  # noqa: D102  as of Calls
        return self._last

    def before_placing(self) -> LogName | None:  # noqa: D102  as of Calls
        return self._name


class SavedImage:
    """An image on disk: its `name`, `path`, size in bytes, CORPUS record, and the mark that the next increment follows.

    ``positions``: of the streams, at its instant.
    """

    def __init__(
        self, name: ImageName, path: Path, nbytes: int, corpus: Records, mark: str, positions: dict[str, Any]
    ) -> None:
        self.name = name
        self.path = path
        self.nbytes = nbytes
        self.corpus = corpus
        self.mark = mark
        self.positions = positions


class ImageSeries:
    """The images that a process saves by `plan`: ``newest``, and the sizes that decide when the whole state is due."""

    def __init__(self, plan: SavePlan) -> None:
        self.newest: SavedImage | None = None
        self._plan = plan
        self._whole_bytes = self._whole_pages = 0  # of the last whole image
        self._increment_bytes = 0  # of the increments since

    def continue_after(self, newest: SavedImage, nbytes: Sequence[int], pages: int) -> None:
        """Continue after loaded images of `nbytes` bytes each, the whole one first, with `pages` pages together."""
        self.newest = newest
        self._whole_bytes, self._whole_pages, self._increment_bytes = nbytes[0], pages, sum(nbytes[1:])

    def add(self, saved: SavedImage, *, is_whole: bool) -> None:
        """Add an image that was saved."""
        self.newest = saved
        if is_whole:
            self._whole_bytes, self._whole_pages, self._increment_bytes = saved.nbytes, int(saved.corpus["pages"][0]), 0
        else:
            self._increment_bytes += saved.nbytes

    def next_before(self, pages: int) -> SavedImage | None:
        """Return the image that an increment of `pages` pages may follow; None if the whole state is due."""
        newest = self.newest
        if newest is None or newest.name.step >= self._plan.increments:
            return None
        new_pages = pages - int(newest.corpus["pages"][0])  # an increment holds all of their records
        expected = self._increment_bytes + new_pages * self._whole_bytes / max(self._whole_pages, 1)
        return None if expected > self._plan.share * self._whole_bytes else newest


def save_image(directory: Path, shard: Shard, before: SavedImage | None, calls: Calls, *, marking: bool) -> SavedImage:
    """Save the state of `shard` to `directory`: what changed since `before`, or all of it if that is None.

    `calls`: the log of `directory`; `marking`: whether increments may follow. One save of a shard at a time; the shard
    is locked for milliseconds at a time. Raises SnapshotError, and changes nothing in the directory, if it cannot be
    written.
    """
    marks = shard.pages.marks
    with marks.turn, as_snapshot_errors(directory, "cannot be written"):
        directory.mkdir(parents=True, exist_ok=True)
        name = _next_name(directory, before)
        path = name.in_directory(directory)
        space = CopySpace(shard)
        with shard.lock:
            was_marking = marks.marking
            moment = SnapshotView(shard, None if before is None else before.corpus, space)
            number = calls.at_instant()
        saved = False
        try:
            with ImageWriter(path) as writer:
                for piece in moment.pieces():
                    writer.add(*piece)
                mark = os.urandom(8).hex()  # distinguishes its increments from those of another history
                contents = {"state": moment.state, "counts": moment.counts(), "sequence": number, "mark": mark}
                log = calls.before_placing()
                nbytes = writer.finish(contents | {"log": log, "follows": None if before is None else before.mark})
            saved = True
        finally:
            with shard.lock:
                moment.dismiss(saved=saved and marking, marking=marking or was_marking)
    return SavedImage(name, path, nbytes, moment.corpus, mark, moment.state["positions"])


def save_state(directory: Path, shard: Shard) -> Path:
    """Save the whole state of `shard` to `directory`, made if missing; return the file. O(pages).

    Calls that a log in the directory holds count as earlier. Only the image before it is kept. Raises SnapshotError.
    """
    saved = save_image(directory, shard, None, Closed(*newest_log(directory)), marking=False)
    drop_images(directory, IMAGES_KEPT)
    return saved.path


def drop_images(directory: Path, kept: int) -> None:
    """Remove all images but the newest `kept` whole ones and their increments. Raises SnapshotError."""
    names = list_images(directory)
    numbers = sorted({name.number for name in names})
    for name in reversed(names):  # an increment before the image it follows
        if name.number in numbers[:-kept]:
            remove_file(name.in_directory(directory))


def oldest_call(directory: Path) -> int:
    """Return the number of the last call that every image in `directory` holds, 0 if the oldest is damaged."""
    first = next((name for name in list_images(directory) if not name.step), None)
    if first is None:
        return 0
    try:
        return int(read_image(first.in_directory(directory)).contents["sequence"])
    except SnapshotError:
        return 0


def _next_name(directory: Path, before: SavedImage | None) -> ImageName:
    if before is not None:
        return ImageName(before.name.number, before.name.step + 1)
    names = list_images(directory)
    return ImageName(names[-1].number + 1 if names else 1)
