"""`streamsched state compact`: what it frees, what stays, and a kill at each write."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamsched import Outcome, Scheduler
from streamsched.persistence.image_writer import SavePlan
from streamsched.persistence.state_directory import check_directory
from streamsched.scheduler.durable import DurableScheduler
from streamsched.service.open_state import compact_state
from tests.support.command_line import Command
from tests.support.guarded_memory import small_reserve

NEVER = SavePlan(every=1e9)
URLS = [f"https://h{number % 20}.example/{number}" for number in range(400)]
STAY = [url for number, url in enumerate(URLS) if number % 20 > 15 and number % 3]
WRITES = ("write", "pwrite", "pwritev", "fsync", "fdatasync", "replace", "rename", "unlink")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state whose pages are mostly forgotten, with calls that are in the log only, and a change feed."""
    with (
        small_reserve(),
        DurableScheduler.open(tmp_path / "state", plan=NEVER, threads=1, keep_changes="7d") as scheduler,
    ):
        scheduler.discover(URLS, now=1e6)
        scheduler.observe([Outcome(url, 1e6 + 3_600.0 * day, changed=day % 2 == 0) for day in range(9) for url in URLS])
        scheduler.snapshot()
        scheduler.forget([url for url in URLS if url not in STAY])
        scheduler.next_batch(3, now=2e6, lease="1h", key="kept")
        scheduler.close(save=False)
    return tmp_path / "state"


def answers(scheduler: Scheduler) -> list[Any]:
    views = [scheduler.page(url, now=2e6 + 60.0) for url in STAY]
    return [len(scheduler), views, scheduler.rank(30, now=2e6 + 60.0).urls]


def test_a_compacted_state_goes_on(state: Path, streamsched: Command) -> None:
    before = answers(Scheduler.load(state))
    with small_reserve():
        shown = streamsched("state", "compact", "--state", state, "--json").json
    assert (shown["before"]["rows"], shown["after"]["rows"]) == (len(URLS), len(STAY))
    assert (shown["before"]["groups"], shown["after"]["groups"]) == (20, 4)
    assert shown["after"]["image_bytes"] < shown["before"]["image_bytes"]
    assert Path(shown["file"]).stat().st_size == shown["after"]["image_bytes"]
    assert check_directory(state) == []
    assert answers(Scheduler.load(state)) == before
    with small_reserve(), DurableScheduler.open(state, plan=NEVER, threads=1) as scheduler:
        assert scheduler.next_batch(3, now=2e6 + 60.0, lease="1h", key="kept").repeated
        scheduler.next_batch(9, now=2e6 + 60.0)
        assert len(scheduler.changes(limit=9_000).changes) == 4 * len(URLS)
        digest = scheduler.digest()
        scheduler.close(save=False)
    assert Scheduler.load(state).digest() == digest
    assert check_directory(state) == []
    shown = streamsched("state", "compact", "--state", state)
    assert (shown.code, shown.err) == (0, "")


def test_a_state_in_use_is_not_compacted(state: Path, streamsched: Command) -> None:
    with small_reserve(), DurableScheduler.open(state, plan=NEVER, threads=1):
        assert streamsched("state", "compact", "--state", state).code == 4


def test_a_kill_leaves_the_state_before_or_the_one_after(state: Path, tmp_path: Path) -> None:
    compacted, copy, killed, rows = tmp_path / "compacted", tmp_path / "copy", 0, set[int]()
    shutil.copytree(state, compacted)
    with small_reserve():
        compact_state(compacted)
        digests = {Scheduler.load(one).digest() for one in (state, compacted)}
        while True:
            shutil.copytree(state, copy)
            if run_killed(lambda: compact_state(copy), killed):
                break
            killed += 1
            scheduler = Scheduler.load(copy)
            rows.add(len(scheduler.core.pages))
            assert scheduler.digest() in digests
            with DurableScheduler.open(copy, plan=NEVER, threads=1) as opened:
                opened.next_batch(2, now=2e6 + 9.0)
                digest = opened.digest()
                opened.close(save=False)
            assert Scheduler.load(copy).digest() == digest
            assert check_directory(copy) == []
            shutil.rmtree(copy)
    assert rows == {len(URLS), len(STAY)}


def run_killed(work: Callable[[], object], after: int) -> bool:
    """Do `work` in a process that is killed at write number `after`; return whether it came to its end before."""
    process = os.fork()
    if process:
        return os.waitpid(process, 0)[1] == 0
    left = after

    def killing(call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
            return call(*args, **kwargs)

        return counted

    for name in WRITES:
        setattr(os, name, killing(getattr(os, name)))
    try:
        work()
    finally:
        os._exit(0)
