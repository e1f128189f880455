"""A whole image and its increments: settings that changed between them, and files under names that are not theirs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from streamsched import DurableScheduler, Outcome, SavePlan, Scheduler, SnapshotError
from streamsched.persistence.state_directory import check_directory

NEVER = SavePlan(every=1e9, increments=9, share=1e9)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A whole image and two increments."""
    with DurableScheduler.open(tmp_path / "state", {"seed": 9}, plan=NEVER, threads=1) as scheduler:
        for number in range(2):
            scheduler.observe([Outcome(f"https://a.example/{number}", 1e9 + number)])
            scheduler.snapshot()
        scheduler.close(save=False)
    assert check_directory(tmp_path / "state") == []
    return tmp_path / "state"


def test_increment_is_not_taken_for_a_whole_image(state: Path) -> None:
    digest = Scheduler.load(state).digest()
    wrong = state / "snapshot-00000009.state"
    shutil.copyfile(state / "snapshot-00000001+0002.state", wrong)
    assert Scheduler.load(state).digest() == digest
    assert [fault.path for fault in check_directory(state)] == [str(wrong)]


@pytest.mark.parametrize("place", ["of another image", "a link to nothing"])
def test_what_is_no_increment_of_its_image_is_passed_over_and_reported(state: Path, place: str) -> None:
    digest = Scheduler.load(state).digest()
    wrong = state / "snapshot-00000001+0002.state"
    if place == "of another image":
        shutil.copyfile(state / "snapshot-00000001+0001.state", wrong)
    else:
        wrong.unlink()
        wrong.symlink_to("nowhere")
    assert [fault.path for fault in check_directory(state)] == [str(wrong)]
    assert Scheduler.load(state).digest() == digest  # the log has the calls


def test_bounds_are_those_of_the_last_increment(state: Path) -> None:
    """Even if the increment has the call that set them, so that the log has no need to be read."""
    with DurableScheduler.open(state, plan=NEVER, threads=1) as scheduler:
        scheduler.max_pages, scheduler.max_pages_per_host, scheduler.max_patterns_per_host = 7, None, 3
        scheduler.snapshot()
        scheduler.close(save=False)
    assert scheduler.saved.path.name.count("+") == 1
    with DurableScheduler.open(state, plan=NEVER, threads=1) as again:
        assert (again.max_pages, again.max_pages_per_host, again.max_patterns_per_host) == (7, None, 3)


def test_entry_that_cannot_be_removed_is_named(state: Path) -> None:
    folder = state / "snapshot-00000000.state"  # older than all others
    folder.mkdir()
    with DurableScheduler.open(state, plan=NEVER, threads=1) as scheduler:
        with pytest.raises(SnapshotError) as caught:
            scheduler.snapshot(full=True)
        assert caught.value.path == str(folder)
        folder.rmdir()
