"""Nothing is written unmarked: whatever is asked of a scheduler, records that were not marked are as they were.

And an image that is copied while calls go on, however they fall between its pieces, is that of its instant.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched import Scheduler
from streamsched.numerics.arrays import Hashes
from streamsched.persistence import snapshot_view
from streamsched.persistence.image_format import ImageWriter
from streamsched.persistence.image_reader import load_images
from streamsched.persistence.snapshot_view import CopySpace, SnapshotView
from streamsched.records.dirty_tracking import find_dirty
from streamsched.records.schema import PRIOR
from streamsched.state.state_arrays import digest_state
from tests.support.cases import examples
from tests.support.random_calls import KINDS, URLS, Call, calls, settings_of

pytestmark = pytest.mark.usefixtures("small_tables")


def rows_of(scheduler: Scheduler) -> list[bytes]:
    """Of each row what is not adjusted when others are visited."""
    shard = scheduler.core.pages.arrays
    pages = shard.pages.records.copy()
    for name in PRIOR.names or ():
        pages[name] = 0.0
    return [
        pages[row].tobytes()
        + shard.pages.traces[row].tobytes()
        + shard.pages.lease_until_s[row].tobytes()
        + shard.pages.lease_s[row].tobytes()
        + shard.pages.validators[row].tobytes()
        + (shard.pages.contents[row].tobytes() if shard.pages.contents.size else bytes(8))
        for row in range(int(shard.corpus["pages"][0]))
    ]


def adjusted_of(scheduler: Scheduler) -> list[bytes]:
    shard = scheduler.core.pages.arrays
    rows = range(int(shard.corpus["pages"][0]))
    return [adjusted_bytes(shard.pages.records[row], shard.seasonality.links[row]) for row in rows]


def adjusted_bytes(page: np.void, link: np.void) -> bytes:
    return b"".join(page[name].tobytes() for name in PRIOR.names or ()) + link.tobytes()


def groups_of(scheduler: Scheduler) -> list[bytes]:
    shard = scheduler.core.pages.arrays
    return [shard.groups.records[group].tobytes() for group in range(int(shard.corpus["groups"][0]))]


def changed(before: list[bytes], after: list[bytes]) -> set[int]:
    return {place for place, record in enumerate(before) if after[place] != record}


def numbers(bits: Hashes, count: int) -> set[int]:
    return set(find_dirty(bits, 0, count).tolist())


@pytest.mark.parametrize("kind", range(KINDS))
@examples(ordinary=4, whole=15)
@given(st.lists(calls(), max_size=5), st.data(), st.integers(0, 30), st.integers(0, 5))
def test_nothing_is_written_unmarked(
    kind: int, first: list[Call], data: st.DataObject, rows_copied: int, groups_copied: int
) -> None:
    then = data.draw(calls(only=kind))
    scheduler = Scheduler(**settings_of())
    scheduler.discover(URLS, now=0.0)
    for call in first:
        call(scheduler)
    rows, parts, groups = rows_of(scheduler), adjusted_of(scheduler), groups_of(scheduler)
    marks = scheduler.core.pages.marks
    marks.begin(len(rows), len(groups), contents=bool(scheduler.core.pages.arrays.pages.contents.size))
    marks.copied(rows=rows_copied, groups=groups_copied)
    then(scheduler)
    arrays = marks.arrays
    moved, stirred = changed(rows, rows_of(scheduler)), changed(groups, groups_of(scheduler))
    assert moved <= numbers(arrays.rows, len(rows))
    assert stirred <= numbers(arrays.groups, len(groups))
    adjusted = changed(parts, adjusted_of(scheduler))
    assert adjusted <= numbers(arrays.rows | arrays.adjusted, len(rows))
    kept_first = marks.end()
    old_rows, old_contents, old_groups = kept_first.rows, kept_first.contents, kept_first.groups
    both = [*old_rows, *kept_first.adjusted]  # of a row that is in both, the adjusted part was kept first
    old_parts = {int(old["row"]): adjusted_bytes(old["pages"], old["links"]) for old in both}
    assert {row for row in adjusted if row >= rows_copied} <= old_parts.keys()
    assert {row: parts[row] for row in old_parts} == old_parts
    assert np.unique(kept_first.adjusted["row"]).size == kept_first.adjusted.size
    assert {row for row in moved if row >= rows_copied} <= set(old_rows["row"].tolist())
    assert {group for group in stirred if group >= groups_copied} <= set(old_groups["number"].tolist())
    for at, old in enumerate(old_rows):
        page = old["pages"].copy()
        for name in PRIOR.names or ():
            page[name] = 0.0
        kept = page.tobytes() + b"".join(
            old[name].tobytes() for name in ("traces", "lease_until_s", "lease_s", "validators")
        )
        kept += old_contents[at]["contents"].tobytes() if old_contents.size else bytes(8)
        assert old["row"] >= rows_copied
        assert kept == rows[old["row"]]
    for old in old_groups:
        assert old["groups"].tobytes() == groups[old["number"]]


@examples(ordinary=6, whole=20)
@given(
    st.lists(calls(), max_size=6),
    st.lists(calls(), min_size=1, max_size=5),
    st.lists(st.lists(calls(), max_size=1), min_size=1, max_size=12),
    st.booleans(),
)
def test_image_is_that_of_its_instant(
    first: list[Call], between: list[Call], meanwhile: list[list[Call]], lost: bool
) -> None:
    """An image, an increment that may come to nothing, and one more, each with calls between any two of its pieces."""
    scheduler = Scheduler(**settings_of())
    outgrown = CopySpace(scheduler.core)
    for call in first:
        call(scheduler)
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot_view, "_RUN", 3)
        patch.setattr(snapshot_view, "_PICKED", 2)
        patch.setattr(snapshot_view, "_SEARCHED", 64)
        corpus = None
        for place in range(3):
            digest = digest_of(scheduler)
            moment = SnapshotView(scheduler.core, corpus, CopySpace(scheduler.core) if place else outgrown)
            names = [None, "lost" if lost else "+0001", "+0001" if lost else "+0002"]
            path = Path(folder) / f"snapshot-00000001{names[place] or ''}.state"
            with ImageWriter(path) as writer:
                for at, piece in enumerate(moment.pieces()):
                    writer.add(*piece)
                    for call in meanwhile[at % len(meanwhile)]:
                        call(scheduler)
                saved = not (lost and place == 1)
                if saved:
                    step = 0 if place == 0 else place - lost
                    marks = {"mark": str(step), "follows": str(step - 1) if step else None, "sequence": 0, "log": None}
                    writer.finish({"state": moment.state, "counts": moment.counts()} | marks)
            moment.dismiss(saved=saved, marking=True)
            if saved:
                corpus = moment.corpus
                loaded = load_images(Path(folder))
                assert not loaded.faults
                assert digest_state(loaded.pages, loaded.state) == digest
                assert loaded.pages.faults() == []
            for call in between:
                call(scheduler)


def digest_of(scheduler: Scheduler) -> str:
    return digest_state(scheduler.core.pages, scheduler.core.to_json())


def test_bits_are_listed() -> None:
    bits = np.zeros(5, np.uint64)
    bits[0], bits[2], bits[4] = 1 | 1 << 63, 1 << 5, 1
    assert find_dirty(bits, 0, 320).tolist() == [0, 63, 133, 256]
    assert find_dirty(bits, 64, 256).tolist() == [133]
    assert find_dirty(bits, 0, 63).tolist() == [0]
    assert find_dirty(bits, 0, 0).tolist() == []
