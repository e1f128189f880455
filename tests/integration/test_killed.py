"""kill -9 at any instant, during saves too: nothing acknowledged is lost, nothing is counted twice."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from streamsched import Scheduler
from streamsched.scheduler.durable import DurableScheduler
from tests.support import killed_scheduler
from tests.support.child_processes import warm_forkserver
from tests.support.guarded_memory import small_reserve


@pytest.fixture(scope="module")
def processes() -> Iterator[ForkServerContext]:
    with warm_forkserver("tests.support.killed_scheduler") as context:
        yield context


@pytest.fixture(scope="module")
def digests() -> list[str]:
    """Those of a scheduler that is never interrupted, before each step and after the last."""
    with small_reserve():
        twin = Scheduler(**killed_scheduler.SETTINGS)
        found = [twin.digest()]
        for number in range(killed_scheduler.STEPS):
            killed_scheduler.do(twin, number)
            found.append(twin.digest())
    return found


def kill_once(context: ForkServerContext, folder: Path, first: int, count: int, *, saving: bool = False) -> int:
    """Run a process from step `first` on, kill it after `count` more steps; return the last that it listed as done.

    `saving`: wait then until it is writing an image.
    """
    steps = folder / "steps"
    steps.unlink(missing_ok=True)
    process = context.Process(target=killed_scheduler.work, args=(folder / "state", first, steps))
    process.start()
    while process.is_alive() and (not steps.exists() or steps.read_bytes().count(b"\n") < count):
        pass
    while saving and process.is_alive() and not any((folder / "state").glob(".snapshot-*")):
        pass
    process.kill()
    process.join()
    return int(steps.read_bytes().split()[-1]) if steps.exists() and steps.stat().st_size else first - 1


def go_on(folder: Path, digests: list[str], first: int, last: int) -> int:
    """Recover the state; return how many steps it holds: every call that was acknowledged, none twice or in part."""
    with (
        small_reserve(),
        DurableScheduler.open(folder / "state", killed_scheduler.SETTINGS, reread=killed_scheduler.reread) as scheduler,
    ):
        done = digests.index(scheduler.digest())
        at = scheduler.positions.get("crawl", 0)
        scheduler.close(save=bool(random.Random(last).getrandbits(1)))
    acknowledged = max((number for number in range(last + 1) if killed_scheduler.is_logged(number)), default=-1)
    assert done > min(acknowledged, last)
    assert at <= done
    assert done >= first - 2  # what was taken from the stream after the last call may have to be taken again
    return done


@pytest.mark.cases(ordinary=1, whole=17)
def test_killed_a_dozen_times(
    processes: ForkServerContext, tmp_path: Path, digests: list[str], rng: random.Random
) -> None:
    folder, done = tmp_path, 0
    for _ in range(12):
        if done >= killed_scheduler.STEPS - 20:
            shutil.rmtree(folder / "state")
            done = 0
        last = kill_once(processes, folder, done, rng.choice([0, 1, 2, 5, 17, 30]), saving=rng.random() < 0.5)
        done = go_on(folder, digests, done, last)
    kill_once(processes, folder, done, killed_scheduler.STEPS + 1)  # not killed: it finishes
    with small_reserve():
        assert Scheduler.load(folder / "state").digest() == digests[-1]
