"""Loads the newest whole image and its increments, on several threads; every byte is checked."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from streamsched.errors import SnapshotError
from streamsched.persistence.files import ImageName, list_images, open_regular
from streamsched.persistence.image_format import PATCHES, Image, Part, read_image
from streamsched.persistence.log_segments import LogName
from streamsched.state.page_table import PageTable
from streamsched.state.state_arrays import ARRAYS, BY_NAME, Room, Saved, put_records

_THREADS: Final = min(4, os.cpu_count() or 1)  # that read: more would only wait for the same disk
_OF_CONTENTS: Final = ("contents", "changed_contents")
_READ_BYTES: Final = 1 << 20  # checksummed while they are in the processor's cache
_log: Final = logging.getLogger("streamsched.persistence")


@dataclass(frozen=True, slots=True)
class LoadedImages:
    """The state in image ``name``, which includes the calls up to number ``sequence``.

    ``state``: what `SchedulerCore.to_json` returned; ``log``: the log that has the later calls, None without one;
    ``mark``: the next increment refers to it; ``files``: the image and increments that were read; ``faults``: the
    errors of newer ones, each with its file.
    """

    pages: PageTable
    state: dict[str, Any]
    name: ImageName
    sequence: int
    log: LogName | None
    mark: str
    files: tuple[Path, ...]
    faults: tuple[SnapshotError, ...]


def load_images(directory: Path) -> LoadedImages:
    """Return the newest state that the images in `directory` hold. O(pages).

    Every byte read is checked. Damaged images are reported in the log and the result, and the state before them is
    loaded. Raises SnapshotError if there is no image, or none is whole.
    """
    names = list_images(directory)
    faults: list[SnapshotError] = []
    for number in sorted({name.number for name in names}, reverse=True):
        chain = [name for name in names if name.number == number]
        try:
            loaded = _load_chain(directory, chain, faults)
        except FileNotFoundError:  # removed by the process that owns the directory: there is a newer one
            return load_images(directory)
        except SnapshotError as error:
            faults.append(error)
            continue
        for fault in faults:
            _log.warning("%s; the state before it is loaded instead", fault)
        return loaded
    if faults:
        raise faults[0]
    raise SnapshotError(str(directory), "holds no saved state: expected a file named snapshot-00000001.state")


def log_of(contents: Mapping[str, Any]) -> LogName | None:
    """Return the log that the contents of an image name, None if they name none."""
    return None if contents["log"] is None else LogName(*contents["log"])


def check_image(path: Path) -> Image:
    """Check every byte of the image at `path` and return it; raises SnapshotError if one is damaged. O(bytes)."""
    image = read_image(path)
    _each_part(image, image.parts, lambda part: np.empty(part.count, part.dtype))
    return image


def check_place(image: Image, before: Image | None) -> None:
    """Raise SnapshotError unless `image` is an increment that follows `before`, or a whole image if that is None."""
    follows = image.contents["follows"]
    if before is None and follows is not None:
        raise SnapshotError(str(image.path), "cannot be used: it is an increment, under the name of a whole image")
    if before is not None and follows != before.contents["mark"]:
        raise SnapshotError(str(image.path), f"cannot be used: it does not follow {before.path.name}")


def _load_chain(directory: Path, chain: list[ImageName], faults: list[SnapshotError]) -> LoadedImages:
    """Return the state of an image and its increments, up to the first increment that is damaged or missing."""
    base = chain[0].in_directory(directory)
    if chain[0].step:
        raise SnapshotError(str(base), f"damaged: {ImageName(chain[0].number).in_directory(directory).name} is missing")
    image = read_image(base)
    check_place(image, None)
    _read_ahead(base)
    images = _follow(directory, image, chain, faults)
    pages = PageTable.of_state(images[-1].contents["state"])  # bounds may have been set since the whole image
    kernels = threading.Thread(target=PageTable(pages.cycle_s).rebuild_index)
    kernels.start()  # loading them from the kernel cache takes as long as reading a gigabyte
    while True:
        try:
            for one in images:
                _apply(one, pages)
            break
        except SnapshotError as error:
            at = next(i for i, one in enumerate(images) if str(one.path) == error.path)
            if at == 0:
                raise
            faults.append(error)  # some of its parts may be in the tables already: start again without it
            images = images[:at]
            pages = PageTable.of_state(images[-1].contents["state"])
    kernels.join()
    pages.rebuild_index()
    contents = images[-1].contents
    name = ImageName(chain[0].number, len(images) - 1)
    files = tuple(one.path for one in images)
    return LoadedImages(
        pages, contents["state"], name, contents["sequence"], log_of(contents), contents["mark"], files, tuple(faults)
    )


def _read_ahead(path: Path) -> None:
    """Advise the system to read the file at `path` ahead."""
    if hasattr(os, "posix_fadvise"):
        with suppress(OSError), os.fdopen(open_regular(path), "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)


def _follow(directory: Path, base: Image, chain: list[ImageName], faults: list[SnapshotError]) -> list[Image]:
    """Return `base` and its increments, up to one that is missing or has damaged contents."""
    images = [base]
    for place, name in enumerate(chain[1:], 1):
        path = name.in_directory(directory)
        try:
            if name.step != place:
                before = ImageName(name.number, place).in_directory(directory)
                raise SnapshotError(str(path), f"cannot be used: {before.name}, which it follows, is missing")
            image = read_image(path)
            check_place(image, images[-1])
        except SnapshotError as error:
            faults.append(error)
            break
        images.append(image)
    return images


def _apply(image: Image, pages: PageTable) -> None:
    """Read the parts of `image` into the arrays of `pages`, checking each."""
    if any(part.name in _OF_CONTENTS for part in image.parts):
        pages.keep_contents()
    pages.reserve(Room(**image.contents["counts"]))
    shard = pages.arrays
    before = [array.places.used(shard) for array in ARRAYS]
    whole = [part for part in image.parts if part.name not in PATCHES]
    patches = [part for part in image.parts if part.name in PATCHES]
    _each_part(image, whole, lambda part: _place_of(image, part, BY_NAME[part.name].of(shard)))
    found = _each_part(image, patches, lambda part: np.empty(part.count, part.dtype))
    for part, records in zip(patches, found, strict=True):
        assert part.dtype.names is not None
        place, *names = part.dtype.names
        for array in (BY_NAME[name] for name in names):
            target = array.in_use(shard)
            if records.size and int(records[place].max()) >= target.size:
                raise SnapshotError(str(image.path), f"damaged: a record of {part.name} has an index out of range")
            put_records(target, records[place], records[array.name])
    for array, used in zip(ARRAYS, before, strict=True):
        array.of(shard)[array.places.used(shard) : used] = np.zeros((), array.dtype)  # shadows become fewer


def _place_of(image: Image, part: Part, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the slice of `array` that a part is read into."""
    start = part.start % array.size if BY_NAME[part.name].saved is Saved.RING and array.size else part.start
    if start + part.count > array.size:
        raise SnapshotError(str(image.path), f"damaged: {part.name} has more records than its contents say")
    place: npt.NDArray[Any] = array[start : start + part.count]
    return place


def _each_part(
    image: Image, parts: Iterable[Part], place: Callable[[Part], npt.NDArray[Any]]
) -> list[npt.NDArray[Any]]:
    """Read each of `parts` into the array that `place` returns for it; return the arrays. Raises SnapshotError."""
    try:
        with os.fdopen(open_regular(image.path), "rb", buffering=0) as file, ThreadPoolExecutor(_THREADS) as pool:
            handle = file.fileno()
            return list(pool.map(lambda part: _read_part(image, handle, part, place(part)), parts))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise SnapshotError(str(image.path), f"cannot be read: {error.strerror or error}") from error


def _read_part(image: Image, handle: int, part: Part, records: npt.NDArray[Any]) -> npt.NDArray[Any]:
    view = records.view(np.uint8).data
    crc = at = 0
    while at < len(view):
        chunk = view[at : at + _READ_BYTES]
        size = os.preadv(handle, [chunk], part.offset + at)
        if not size:
            raise SnapshotError(str(image.path), f"damaged: ends within {part.name}")
        crc = crc32c(chunk[:size], crc)
        at += size
    if crc != part.crc:
        raise SnapshotError(str(image.path), f"damaged: {part.name} does not match its checksum")
    return records
