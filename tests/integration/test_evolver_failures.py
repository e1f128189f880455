"""Evolutions in real processes that die: serving goes on, a record says why, and the next is tried."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from streamsched import OutcomeBatch, Scheduler
from streamsched.evolution.plan import EvolutionPlan
from streamsched.evolution.records import EvolutionRecord, RecordBook
from streamsched.scheduler.evolver import Evolver
from tests.support.cases import how_many
from tests.support.guarded_memory import small_reserve

DAY = 86_400.0
DAYS = 20
PAGES = 400
PLAN = EvolutionPlan(every=1, drift=None, history=16, trial=False)
WAIT_S = 300.0
LOOK_S = 0.01


@pytest.fixture(autouse=True, scope="module")
def small_tables() -> Iterator[None]:
    """ShardArrays of few rows; and kernels compiled before processes of the lowest priority need them."""
    with small_reserve():
        service = Service(None)
        service.evolver.evolve_now(service.now)
        yield


class Service:
    """A scheduler of pages that change at their own rates, and its evolver; counts what it serves."""

    def __init__(self, folder: Path | None) -> None:
        self.scheduler = Scheduler()
        self.rng = np.random.default_rng(0)
        urls = [f"https://h{page % 9}.example/{page}" for page in range(PAGES)]
        rates = self.rng.gamma(0.4, 0.3, PAGES)
        for day in range(1, DAYS + 1):
            changed = self.rng.random(PAGES) < -np.expm1(-rates)
            self.scheduler.observe(OutcomeBatch(urls, np.full(PAGES, day * DAY), changed=changed))
        self.evolver = Evolver(self.scheduler, PLAN, folder)
        self.evolver.due(DAYS * DAY)
        self.now = DAYS * DAY
        self.served = 0

    def serve(self) -> None:
        """Hand out a batch and observe it, within the day."""
        self.now += 0.01
        batch = self.scheduler.next_batch(5, now=self.now, lease=0.001)
        assert len(batch) == 5
        outcomes = OutcomeBatch(batch.urls, np.full(5, self.now), changed=np.arange(5) == 0)
        assert self.scheduler.observe(outcomes).applied == 5
        self.served += 1
        time.sleep(LOOK_S)  # whoever serves all the time takes the processor from what is waited for

    def begin(self) -> None:
        """Let the next day come, and its evolution begin."""
        self.now = (np.floor(self.now / DAY) + 1.0) * DAY
        assert self.evolver.tick(self.now) is None
        assert self.evolver.running

    def finish(self) -> EvolutionRecord:
        """Serve until the evolution has its record."""
        until = time.monotonic() + WAIT_S
        while time.monotonic() < until:
            self.serve()
            record = self.evolver.tick(self.now)
            if record is not None:
                return record
        raise AssertionError("the evolution does not end")

    def child(self) -> int:
        """Serve until the evolution's process runs, and return its number."""
        until = time.monotonic() + WAIT_S
        while time.monotonic() < until:
            job = self.evolver._job
            assert job is not None
            if job.process is not None:
                return job.process.pid
            self.serve()
            assert self.evolver.tick(self.now) is None
        raise AssertionError("the evolution has no process")


def used_s(pid: int) -> float:
    """Seconds of processor that a child has used, infinite once it has ended."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:  # it was waited for
        return float("inf")
    return float("inf") if words[0] == "Z" else (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.longer
def test_killed_at_any_moment_it_leaves_the_champion_serving(tmp_path: Path) -> None:
    service = Service(tmp_path)
    before = service.scheduler.champion
    killed = 0
    with service.evolver:
        moments = (0.0, 0.3, 0.6, 0.1, 0.45)  # of its processor time: starts, imports, reads, breeds
        for moment in sorted(moments[: how_many(3, 5)]):
            service.begin()
            pid = service.child()
            while used_s(pid) < moment:
                service.serve()
            ended = used_s(pid) == float("inf")
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                ended = True
            record = service.finish()
            if ended:  # a fast machine
                break
            killed += 1
            assert (record.decision, record.why) == ("failed", "its process was killed by signal 9")
            assert service.scheduler.champion == record.champion_after == before
            assert list(tmp_path.glob(".evolution-*")) == []
        assert killed >= 2
        service.begin()
        assert service.finish().decision in ("promoted", "kept")
    records, faults = RecordBook(tmp_path).read()
    assert faults == []
    assert [record.decision for record in records[:killed]] == ["failed"] * killed
    assert [record.number for record in records] == list(range(1, len(records) + 1))
