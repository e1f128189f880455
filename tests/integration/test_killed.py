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

import numpy as np
import pytest

from streamsched import Scheduler
from streamsched.persistence.image_writer import SavePlan
from streamsched.records.url_store import url_texts
from streamsched.scheduler.durable import DurableScheduler
from tests.support.cases import how_many
from tests.support.child_processes import warm_forkserver
from tests.support.guarded_memory import small_reserve
from tests.support.killed_scheduler import SETTINGS, STEPS, describe, do, is_logged, read_changes, reread, work
from tests.support.waiting import pause

FEW_STEPS = 60
IN_TURN = SavePlan(every="1d", increments=3)  # an image only when it is asked for


@pytest.fixture(scope="module")
def processes() -> Iterator[ForkServerContext]:
    with warm_forkserver("tests.support.killed_scheduler") as context:
        yield context


class Uninterrupted(NamedTuple):
    """Of a scheduler that is never interrupted: digests and counts of changes before each step and after the last, all
    changes, and the URLs in the order in which they became known.
    """

    digests: list[str]
    counts: list[int]
    changes: list[str]
    urls: list[str]


@pytest.fixture(scope="module")
def expected() -> Uninterrupted:
    with small_reserve():
        twin = Scheduler(**SETTINGS)
        changes: list[str] = []
        twin.core.on_changes = lambda found: changes.extend(describe(found))
        digests, counts = [twin.digest()], [0]
        for number in range(STEPS):
            do(twin, number)
            digests.append(twin.digest())
            counts.append(len(changes))
    assert len(changes) > STEPS
    return Uninterrupted(digests, counts, changes, all_urls(twin))


def all_urls(scheduler: Scheduler) -> list[str]:
    """Return the URLs of all pages, forgotten ones included, by row."""
    pages = scheduler.core.pages
    return url_texts(pages.arrays.pages, np.arange(len(pages)))


def kill_once(context: ForkServerContext, folder: Path, first: int, count: int, *, saving: bool = False) -> int:
    """Run a process from step `first` on, kill it after `count` more steps; return the last that it listed as done.

    `saving`: wait then until it is writing an image.
    """
    steps = folder / "steps"
    steps.unlink(missing_ok=True)
    process = context.Process(target=work, args=(folder / "state", first, steps))
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
        DurableScheduler.open(folder / "state", SETTINGS, reread=reread) as scheduler,
    ):
        done = count_steps(scheduler, folder, expected, last)
        scheduler.close(save=bool(random.Random(last).getrandbits(1)))
    assert done >= first - 2  # what was taken from the stream after the last call may have to be taken again
    return done


def count_steps(scheduler: DurableScheduler, folder: Path, expected: Uninterrupted, last: int) -> int:
    """Return how many steps a recovered state holds: whole ones, with every call up to step `last`, and their URLs."""
    done = expected.digests.index(scheduler.digest())
    urls = all_urls(scheduler)
    assert urls == expected.urls[: len(urls)]
    assert scheduler.core.pages.faults() == []
    check_feed(scheduler, folder, expected.changes[: expected.counts[done]])
    acknowledged = max((number for number in range(last + 1) if is_logged(number)), default=-1)
    assert done > acknowledged
    assert scheduler.positions.get("crawl", 0) <= done
    return done


def check_feed(scheduler: DurableScheduler, folder: Path, changes: list[str]) -> None:
    """Check that the feed has exactly `changes`, and that those that were read before have the same numbers."""
    assert scheduler.feed is not None
    assert scheduler.feed.oldest.number == 0
    assert read_changes(scheduler, scheduler.feed.oldest)[0] == changes
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
        if done >= STEPS - 20:
            shutil.rmtree(folder / "state")
            (folder / "read").unlink()
            done = 0
        last = kill_once(processes, folder, done, rng.choice([0, 1, 2, 5, 17, 30]), saving=rng.random() < 0.5)
        done = go_on(folder, expected, done, last)
    kill_once(processes, folder, done, STEPS + 1)  # not killed: it finishes
    with small_reserve():
        assert Scheduler.load(folder / "state").digest() == expected.digests[-1]


def test_every_place_of_the_log_and_the_images(
    tmp_path: Path, expected: Uninterrupted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a kill leaves after each entry of the log and each image recovers to whole steps, and continues as if there
    had been no kill.
    """
    left: list[tuple[Path, int]] = []

    def leave(last: int) -> None:
        left.append((tmp_path / str(len(left)), last))
        shutil.copytree(tmp_path / "state", left[-1][0] / "state")

    with small_reserve():
        with DurableScheduler.open(
            tmp_path / "state", SETTINGS, reread=reread, plan=IN_TURN, threads=1, keep_changes="7d"
        ) as scheduler:
            log, append = scheduler._log, scheduler._log.append

            def append_alone(entry: bytes) -> int:
                number = append(entry)
                log.commit(number)
                leave(step - 1)
                return number

            monkeypatch.setattr(log, "append", append_alone)
            for step in range(FEW_STEPS):
                do(scheduler, step)
                if step % 4 == 0:
                    scheduler.snapshot()
                    leave(step)
        for folder, last in left:
            with DurableScheduler.open(folder / "state", reread=reread, plan=IN_TURN, threads=1) as recovered:
                for step in range(count_steps(recovered, folder, expected, last), FEW_STEPS):
                    do(recovered, step)
                assert recovered.digest() == expected.digests[FEW_STEPS]
                urls = all_urls(recovered)
                assert urls == expected.urls[: len(urls)]
