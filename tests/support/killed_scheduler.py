"""A process to be killed: it makes the same calls in the same order, and lists those that returned in a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from streamsched import HostRule, Optimiser, OutcomeBatch, Politeness, SignalBatch
from streamsched.persistence.change_feed import Cursor
from streamsched.persistence.image_writer import SavePlan
from streamsched.scheduler.durable import DurableScheduler
from streamsched.scheduler.scheduler import Scheduler
from streamsched.state.found_changes import FoundChanges
from tests.support.guarded_memory import small_reserve
from tests.support.outcome_streams import cut, daily_crawl

STEPS: Final = 240
_POLITENESS: Final = Politeness(in_flight=6, host_backoff_503=1)  # hosts rest and are probed often
SETTINGS: Final[dict[str, Any]] = {"seed": 5, "panel": 0.2, "politeness": _POLITENESS, "threads": 1}
_PLAN: Final = SavePlan(every=0.02, increments=3)  # the shortest interval that separates two saves
_KINDS: Final = ["sitemap", "feed"] * 15
_PARTS: Final = [OutcomeBatch.from_outcomes(part) for part in cut(list(daily_crawl(300, 30 * STEPS, seed=3)), [30])]


def is_logged(number: int) -> bool:
    """Whether step `number` is a call, on disk once it returns, rather than outcomes of a stream."""
    return number % 3 == 2


def do(scheduler: Scheduler, number: int) -> None:
    """Do step `number`: take outcomes of the stream, or call."""
    now = 1.7e9 + 7_200.0 * number
    if not is_logged(number):
        if isinstance(scheduler, DurableScheduler):
            scheduler.take(_PARTS[number], "crawl", number + 1)
        else:
            scheduler.observe(_PARTS[number])
    elif number % 2:
        hosts = None if number % 4 == 1 else ["*.example", f"h{number % 20}.example"]
        scheduler.next_batch(8, now=now, lease="2d", hosts=hosts, per_host=3, key=f"batch {number}")
    elif number % 24 == 14:
        Optimiser(scheduler).plan_now(now)
    elif number % 8 == 6:
        scheduler.notice(SignalBatch(_PARTS[number].urls, now - 60.0 * np.arange(30), _KINDS))
    elif number % 4:
        scheduler.observe(_PARTS[number])
    elif number % 16 == 0:
        scheduler.grant(list(_PARTS[number].urls), now=now, lease="1d", key=f"grant {number}")
    elif number % 16 == 8:
        scheduler.forget(list(_PARTS[number].urls)[:5])
    elif number % 5:
        scheduler.discover([f"https://h{number}.example/new"], now=now)
    else:
        scheduler.set_rules({f"h{number % 20}.example": HostRule(delay=float(number))})


def reread(_path: str, position: Any) -> Iterator[OutcomeBatch]:
    """Read the stream again from `position`: the steps that take from it, in batches of another size."""
    for number in range(position or 0, STEPS):
        if not is_logged(number):
            part = _PARTS[number]
            yield OutcomeBatch.from_outcomes(list(part)[:11])
            yield OutcomeBatch.from_outcomes(list(part)[11:])


def describe(found: FoundChanges) -> list[str]:
    """Return the changes `found`, a line each."""
    columns = [found.urls, found.moved_to, *(column.tolist() for column in found[1:5])]
    return [repr(one) for one in zip(*columns, strict=True)]


def read_changes(scheduler: DurableScheduler, cursor: Cursor) -> tuple[list[str], Cursor]:
    """Return the changes after `cursor` that can be read, and the cursor after them."""
    assert scheduler.feed is not None
    lines: list[str] = []
    while True:
        found, cursor = scheduler.feed.read(cursor, 7)
        if found is None:
            return lines, cursor
        lines += describe(found)


def work(directory: Path, first: int, done: Path) -> None:
    """Do all steps from number `first` on, saving meanwhile; add each to the file `done` once it has returned.

    Once in five steps the process reads the change feed and adds the changes to the file `read` beside `done`.
    """
    with DurableScheduler.open(
        directory, SETTINGS, reread=reread, plan=_PLAN, threads=1, keep_changes="7d"
    ) as scheduler:
        handle, read = (
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) for path in (done, done.with_name("read"))
        )
        assert scheduler.feed is not None
        cursor = scheduler.feed.newest
        for number in range(first, STEPS):
            do(scheduler, number)
            os.write(handle, b"%d\n" % number)
            if number % 5 == 0:
                before = cursor.number
                lines, cursor = read_changes(scheduler, cursor)
                os.write(read, "".join(f"{before + i + 1} {line}\n" for i, line in enumerate(lines)).encode())


def _warm_up(then: Callable[[], None]) -> None:
    """Load every kernel, so that processes forked from this one start at once."""
    with small_reserve(), TemporaryDirectory() as folder:
        work(Path(folder) / "state", STEPS - 40, Path(folder) / "done")
        with DurableScheduler.open(Path(folder) / "state", SETTINGS, reread=reread) as scheduler:
            scheduler.snapshot()
            scheduler.digest()
    then()


if os.environ.get("STREAMSCHED_WARM_UP"):
    _warm_up(lambda: None)
