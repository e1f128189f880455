"""kill -9 at any instant, during saves too: nothing acknowledged is lost, nothing is counted twice.

That holds of the change feed too: it has the changes of the calls, and none that was read gets another number.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import NamedTuple

import pytest

from streamsched import Scheduler
from streamsched.scheduler.durable import DurableScheduler
from tests.support import killed_scheduler
from tests.support.cases import how_many
from tests.support.child_processes import warm_forkserver
from tests.support.guarded_memory import small_reserve
from tests.support.waiting import pause


@pytest.fixture(scope="module")
def processes() -> Iterator[ForkServerContext]:
    with warm_forkserver("tests.support.killed_scheduler") as context:
        yield context


class Uninterrupted(NamedTuple):
    """Of a scheduler that is never interrupted: digests and counts of changes before each step and after the last, and
    all changes.
    """

    digests: list[str]
    counts: list[int]
    changes: list[str]


@pytest.fixture(scope="module")
def expected() -> Uninterrupted:
    with small_reserve():
        twin = Scheduler(**killed_scheduler.SETTINGS)
        changes: list[str] = []
        twin.core.on_changes = lambda found: changes.extend(killed_scheduler.describe(found))
        digests, counts = [twin.digest()], [0]
        for number in range(killed_scheduler.STEPS):
            killed_scheduler.do(twin, number)
            digests.append(twin.digest())
            counts.append(len(changes))
    assert len(changes) > killed_scheduler.STEPS
    return Uninterrupted(digests, counts, changes)


def kill_once(context: ForkServerContext, folder: Path, first: int, count: int, *, saving: bool = False) -> int:
    """Run a process from step `first` on, kill it after `count` more steps; return the last that it listed as done.

    `saving`: wait then until it is writing an image.
    """
    steps = folder / "steps"
    steps.unlink(missing_ok=True)
    process = context.Process(target=killed_scheduler.work, args=(folder / "state", first, steps))
    process.start()
    while process.is_alive() and (not steps.exists() or steps.read_bytes().count(b"\n") < count):
        pause()
    while saving and process.is_alive() and not any((folder / "state").glob(".snapshot-*")):
        pause()
    process.kill()
    process.join()
    return int(steps.read_bytes().split()[-1]) if steps.exists() and steps.stat().st_size else first - 1


def go_on(folder: Path, expected: Uninterrupted, first: int, last: int) -> int:
    """Recover the state; return how many steps it holds: every call that was acknowledged, none twice or in part."""
    with (
        small_reserve(),
        DurableScheduler.open(folder / "state", killed_scheduler.SETTINGS, reread=killed_scheduler.reread) as scheduler,
    ):
        done = expected.digests.index(scheduler.digest())
        check_feed(scheduler, folder, expected.changes[: expected.counts[done]])
        at = scheduler.positions.get("crawl", 0)
        scheduler.close(save=bool(random.Random(last).getrandbits(1)))
    acknowledged = max((number for number in range(last + 1) if killed_scheduler.is_logged(number)), default=-1)
    assert done > min(acknowledged, last)
    assert at <= done
    assert done >= first - 2  # what was taken from the stream after the last call may have to be taken again
    return done


def check_feed(scheduler: DurableScheduler, folder: Path, changes: list[str]) -> None:
    """Check that the feed has exactly `changes`, and that those that were read before have the same numbers."""
    assert scheduler.feed is not None
    assert scheduler.feed.oldest.number == 0
    assert killed_scheduler.read_changes(scheduler, scheduler.feed.oldest)[0] == changes
    if (folder / "read").exists():
        for line in (folder / "read").read_text().splitlines():
            number, _, change = line.partition(" ")
            assert changes[int(number) - 1] == change


@pytest.mark.cases(ordinary=1, whole=17)
def test_killed_again_and_again(
    processes: ForkServerContext, tmp_path: Path, expected: Uninterrupted, rng: random.Random
) -> None:
    folder, done = tmp_path, 0
    for _ in range(how_many(5, 12)):
        if done >= killed_scheduler.STEPS - 20:
            shutil.rmtree(folder / "state")
            (folder / "read").unlink()
            done = 0
        last = kill_once(processes, folder, done, rng.choice([0, 1, 2, 5, 17, 30]), saving=rng.random() < 0.5)
        done = go_on(folder, expected, done, last)
    kill_once(processes, folder, done, killed_scheduler.STEPS + 1)  # not killed: it finishes
    with small_reserve():
        assert Scheduler.load(folder / "state").digest() == expected.digests[-1]
