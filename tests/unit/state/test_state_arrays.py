"""What `ARRAYS` declares of each array holds: it is in the digest or not, in images and increments, and verified."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamsched import Outcome, Scheduler, Signal
from streamsched.persistence.files import ImageName
from streamsched.persistence.image_format import PATCHES, ImageWriter, read_image
from streamsched.persistence.image_reader import load_images
from streamsched.persistence.snapshot_view import CopySpace, SnapshotView
from streamsched.persistence.state_directory import check_directory
from streamsched.records.dirty_tracking import mark_dirty_groups, mark_dirty_rows
from streamsched.records.schema import ShardArrays
from streamsched.state.state_arrays import ARRAYS, Array, Saved, digest_state

DAY = 86_400.0
SAVED = [array for array in ARRAYS if array.saved]
# Places in use at which any byte counts; else the last.
WRITTEN_AT = {"lease_until_s": 0, "journal": 0, "profiles": 0, "validators": 1}
BESIDE = {  # arrays whose lengths do not follow from what is in use
    *("pages.url", "groups.key", "groups.slots", "groups.scratch", "seasonality.work"),
    *("related.slots", "related.key", "related.hashes", "related.found", "related.work"),
    "validators.work",
}


def made() -> Scheduler:
    """A scheduler that uses every array: pages with schedules, related pages, leases, signals, validators, hashes."""
    scheduler = Scheduler(seed=3, cycle="1d")
    urls = [f"https://a.example/{folder}/page{number}.html" for folder in ("docs", "en/docs") for number in range(20)]
    for day in range(6):
        scheduler.observe([Outcome(url, day * DAY, changed=number % 2 == 0) for number, url in enumerate(urls)])
    scheduler.observe([Outcome(url, 5.5 * DAY, changed=False, etag=str(number)) for number, url in enumerate(urls)])
    scheduler.observe([Outcome(url, 5.6 * DAY, content=number, changed=False) for number, url in enumerate(urls)])
    scheduler.notice([Signal(url, 6 * DAY, "sitemap") for url in urls])
    assert len(scheduler.next_batch(40, now=7 * DAY, lease=DAY)) == 40
    return scheduler


def flip(scheduler: Scheduler, array: Array) -> None:
    """Flip one bit of the last field of a record in use."""
    records = array.in_use(scheduler.core.pages.arrays)
    names = array.dtype.names
    field: Any = records[names[-1]] if names else records
    place: Any = field[WRITTEN_AT.get(array.name, -1) :][:1].copy()
    place.view(np.uint8).reshape(-1)[0] ^= 1
    at = range(records.size)[WRITTEN_AT.get(array.name, -1)]
    field[at : at + 1] = place


def contents(shard: ShardArrays) -> dict[str, bytes]:
    return {array.name: array.in_use(shard).tobytes() for array in SAVED}


def write_image(path: Path, scheduler: Scheduler, number: int, since: Any = None) -> Any:
    moment = SnapshotView(scheduler.core, since, CopySpace(scheduler.core))
    with ImageWriter(path) as writer:
        for piece in moment.pieces():
            writer.add(*piece)
        marks = {"mark": str(number), "follows": str(number - 1) if number else None, "sequence": 0, "log": None}
        writer.finish({"state": moment.state, "counts": moment.counts()} | marks)
    moment.dismiss(saved=True, marking=True)
    return moment.corpus


def save_twice(folder: Path, scheduler: Scheduler, array: Array) -> None:
    """Save an image, write to `array`, and save an increment."""
    corpus = write_image(ImageName(1).in_directory(folder), scheduler, 0)
    if array.saved in {Saved.APPENDED, Saved.COPIED_IF_GROWN}:
        scheduler.discover(["https://b.example/docs/new"], now=8 * DAY)
    elif array.saved is Saved.RING:
        scheduler.observe([Outcome("https://a.example/docs/page0.html", 8 * DAY, changed=True)])
    else:
        shard = scheduler.core.pages.arrays
        mark_dirty_rows(shard.dirty, shard.pages, shard.seasonality, np.delete(np.arange(len(scheduler)), 5))
        shard.dirty.adjusted[0] |= np.uint64(1 << 5)
        mark_dirty_groups(shard.dirty, shard.groups.records, np.arange(int(shard.corpus["groups"][0])))
        flip(scheduler, array)
    write_image(ImageName(1, 1).in_directory(folder), scheduler, 1, corpus)


def leaves(of: Any, path: str = "") -> set[str]:
    if isinstance(of, np.ndarray):
        return {path}
    return set().union(*(leaves(getattr(of, name), f"{path}.{name}".strip(".")) for name in of._fields))


def test_every_array_is_listed_once() -> None:
    shard = made().core.pages.arrays
    places = [array.place for array in ARRAYS]
    assert len({array.name for array in ARRAYS}) == len(set(places)) == len(places)
    found = {name for name in leaves(shard) if not name.startswith(("dirty.", "seasonality.calendar."))}
    assert found == set(places) | BESIDE
    for array in ARRAYS:
        assert array.of(shard).dtype == array.dtype
        assert 0 < array.places.used(shard) <= array.of(shard).size or array.name == "lists"


def test_patches_have_the_arrays_that_increments_hold_in_part() -> None:
    patched = {name for dtype in PATCHES.values() for name in (dtype.names or ())[1:]}
    in_part = {Saved.BY_ROW, Saved.BY_GROUP, Saved.OF_ROWS}
    assert sorted(patched) == sorted(array.name for array in ARRAYS if array.saved in in_part)


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: array.name)
def test_digest_has_what_is_saved(array: Array) -> None:
    scheduler = made()
    if array.name == "lists":
        return  # none is in use
    before = digest_state(scheduler.core.pages, {})
    flip(scheduler, array)
    assert (digest_state(scheduler.core.pages, {}) != before) == (array.saved is not None)
    flip(scheduler, array)
    assert digest_state(scheduler.core.pages, {}) == before


@pytest.mark.parametrize("array", SAVED, ids=lambda array: array.name)
def test_what_was_written_is_in_the_increment(array: Array, tmp_path: Path) -> None:
    scheduler = made()
    before = contents(scheduler.core.pages.arrays)
    save_twice(tmp_path, scheduler, array)
    assert check_directory(tmp_path) == []
    after = contents(scheduler.core.pages.arrays)
    assert after[array.name] != before[array.name]
    loaded = load_images(tmp_path)
    assert loaded.faults == ()
    assert {name for name, raw in contents(loaded.pages.arrays).items() if raw != after[name]} == set()


def test_every_part_is_verified(tmp_path: Path) -> None:
    scheduler = made()
    save_twice(tmp_path, scheduler, ARRAYS[1])
    whole, increment = (read_image(ImageName(1, step).in_directory(tmp_path)) for step in range(2))
    in_full = {array.name for array in SAVED} - {"schedules", "validator_texts"}
    assert {part.name for part in whole.parts} == in_full | {"changed_schedules", "changed_texts"}
    assert {part.name for part in increment.parts} >= set(PATCHES)
    for image in (whole, increment):
        raw = image.path.read_bytes()
        for part in image.parts:
            at = part.offset + part.nbytes // 2
            image.path.write_bytes(raw[:at] + bytes([raw[at] ^ 4]) + raw[at + 1 :])
            reasons = [fault.reason for fault in check_directory(tmp_path)]
            assert reasons == [f"damaged: {part.name} does not match its checksum"]
        image.path.write_bytes(raw)


def test_references_are_whole_numbers_that_hold_every_number() -> None:
    """A field that names a record is an integer; `none` and the largest number fit in it."""
    kinds = {array.places.of for array in ARRAYS}
    for array in ARRAYS:
        for reference in array.references:
            dtype = array.dtype if reference.field is None else array.dtype[reference.field]
            assert np.issubdtype(dtype, np.integer), (array.name, reference.field)
            assert 0 <= reference.none <= np.iinfo(dtype).max
            assert reference.to in kinds
