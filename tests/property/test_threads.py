"""Many threads at one scheduler: whatever they do, it is as though they had come one after the other.

Each call takes the lock once, so the order in which they took it is known. Told in that order to a scheduler that
scores all pages at each query, the same calls must give the same answers; and a twin watches over politeness.
"""

from __future__ import annotations

import itertools
import math
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest

from streamsched import Batch, Scheduler
from streamsched.formula import Formula
from streamsched.outcomes import Outcome, OutcomeBatch
from streamsched.politeness.politeness_settings import HostRule, Politeness
from streamsched.ranking import formula_switch
from streamsched.ranking.formula_switch import FormulaSwitch
from streamsched.ranking.incremental_topk import IncrementalTopK
from tests.reference.ranking import World
from tests.reference.shard import names_of
from tests.support.guarded_memory import small_rankings
from tests.support.outcome_streams import DAY

THREADS = 8
CALLS = 40  # of each thread
PATIENCE_S = 120.0  # beyond which a thread counts as stuck
START_S = 1_000 * DAY
LEASE_S = 400.0
HOSTS = [f"h{i}.example" for i in range(6)]
URLS = [f"https://{HOSTS[i % 6]}/{i}" for i in range(600)]
MANNERS = Politeness(delay=20.0, in_flight=12, per_batch=4, backoff=300.0, min_revisit=100.0)
FORMULAS = ("posterior", "importance * t", "t * (3 - t)", "1", "exp(-t) * rate")


class NumberedLock:
    """A lock that numbers those who take it, in their order."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._numbers = itertools.count()
        self._depth = 0
        self._own = threading.local()

    def __enter__(self) -> None:
        self._lock.acquire()
        self._depth += 1
        if self._depth == 1:
            self._own.number = next(self._numbers)

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        self._lock.release()

    @property
    def number(self) -> int:
        """Of the calling thread's last turn."""
        return int(self._own.number)


@dataclass(order=True)
class Call:
    """What a thread did, and what it got."""

    number: int
    act: Callable[[Scheduler], object] = field(compare=False)
    result: object = field(compare=False)
    name: str = field(compare=False)
    given: Any = field(compare=False)


def made(formula: str = FORMULAS[0]) -> Scheduler:
    scheduler = Scheduler(formula=formula, politeness=MANNERS, seed=3, new_share=0.0, threads=1)
    first = [Outcome(url, START_S - 300.0 - i * DAY / 50, importance=float(i % 13)) for i, url in enumerate(URLS)]
    scheduler.observe(first)
    scheduler.set_rule(HOSTS[0], HostRule(delay=0.0, in_flight=3, per_batch=2))
    scheduler.rank(1, now=START_S)  # bounds are kept from now on
    return scheduler


class Crowd:
    """Eight threads that share a scheduler and a clock."""

    def __init__(self, scheduler: Scheduler, lock: NumberedLock, *, swapping: bool) -> None:
        self.scheduler = scheduler
        self.lock = lock
        self.swapping = swapping
        self.calls: list[Call] = []
        self.failures: list[BaseException] = []
        self._clock = itertools.count()
        self._start = threading.Barrier(THREADS)

    def run(self) -> None:
        threads = [threading.Thread(target=self.work, args=(number,), daemon=True) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert not any(thread.is_alive() for thread in threads), "stuck"
        assert self.failures == []

    def work(self, thread: int) -> None:
        rng = np.random.default_rng(thread)
        held: list[str] = []
        try:
            self._start.wait()
            for step in range(CALLS):
                now = START_S + 5.0 * next(self._clock) - 30.0 * float(rng.random() < 0.1)
                self.act(rng, thread, step, now, held)
        except BaseException as error:  # noqa: BLE001 (passed to the thread that asserts)
            self.failures.append(error)

    def act(self, rng: np.random.Generator, thread: int, step: int, now: float, held: list[str]) -> None:
        """One call, or two, of a crawler that takes pages, reports most, gives some back and loses some."""
        choice = rng.random()
        if self.swapping and thread == 0 and step % 8 == 3:
            self.scheduler.use(FORMULAS[1 + step // 8 % 4], wait=step % 16 == 3)
        elif choice < 0.5:
            result = self.call("take", partial(_take, now=now), now)
            held += result.urls
        elif choice < 0.8 and held:
            reported, held[:] = held[: len(held) // 2 + 1], held[len(held) // 2 + 1 :]
            outcomes = [
                Outcome(url, now, status=int(rng.choice([200, 200, 404, 429, 500])), changed=bool(rng.random() < 0.5))
                for url in reported
            ]
            self.call("observe", partial(_observe, outcomes=outcomes), outcomes)
        elif choice < 0.85 and held:
            self.call("release", partial(_release, urls=tuple(held)), tuple(held))
            held.clear()
        elif choice < 0.9:
            host = HOSTS[int(rng.integers(6))]
            self.call("block", partial(_block, host=host, until=now + 40.0), (host, now + 40.0))
        elif choice < 0.95:
            found = [f"https://{HOSTS[thread % 6]}/new/{thread}/{step}/{i}" for i in range(5)]
            self.call("discover", partial(_discover, urls=found, now=now), (found, now))
        else:
            held.clear()  # lost: their leases run out
            self.call("rank", partial(_rank, now=now), now)

    def call(self, name: str, act: Callable[[Scheduler], Any], given: object) -> Any:
        result = act(self.scheduler)
        self.calls.append(Call(self.lock.number, act, result, name, given))
        return result


def _take(scheduler: Scheduler, now: float) -> Batch:
    return scheduler.next_batch(9, now=now, lease=LEASE_S)


def _rank(scheduler: Scheduler, now: float) -> Batch:
    return scheduler.rank(9, now=now)


def _observe(scheduler: Scheduler, outcomes: list[Outcome]) -> object:
    return scheduler.observe(OutcomeBatch.from_outcomes(outcomes))


def _release(scheduler: Scheduler, urls: tuple[str, ...]) -> object:
    return scheduler.release(urls)


def _block(scheduler: Scheduler, host: str, until: float) -> object:
    return scheduler.block(host, until)


def _discover(scheduler: Scheduler, urls: list[str], now: float) -> object:
    return scheduler.discover(urls, now=now)


def _use(scheduler: Scheduler, formula: Formula) -> None:
    scheduler.use(formula, wait=True)


class Watch:
    """A twin that gets each call in turn and fails if a batch breaks the politeness or a lease."""

    def __init__(self) -> None:
        self.world = World(DAY, MANNERS, 3)
        self.world.observe(
            [Outcome(url, START_S - 300.0 - i * DAY / 50, importance=float(i % 13)) for i, url in enumerate(URLS)]
        )
        self.world.set_rule(HOSTS[0], HostRule(delay=0.0, in_flight=3, per_batch=2))

    def see(self, call: Call) -> None:
        if call.name == "observe":
            self.world.observe(call.given)
        elif call.name == "release":
            self.world.release(call.given)
        elif call.name == "block":
            self.world.hosts[call.given[0]].block(call.given[1])
        elif call.name == "discover":
            for url in call.given[0]:
                self.world.add(url, call.given[1])
        elif call.name in ("take", "rank"):
            assert isinstance(call.result, Batch)
            self.see_batch(call.result, call.given, leased=call.name == "take")

    def see_batch(self, batch: Batch, now: float, *, leased: bool) -> None:
        self.world.leases.expire(now)
        rooms = self.world.capacities(now, LEASE_S if leased else math.inf)
        assert len(set(batch.urls)) == len(batch)
        assert all(self.world.is_rested(url, now) for url in batch.urls)
        assert all(count <= rooms[name] for name, count in Counter(names_of(url)[0] for url in batch.urls).items())
        if leased:
            self.world.lease(batch.urls, now, LEASE_S)


@pytest.fixture(autouse=True)
def many_turns() -> Iterator[None]:
    """Threads take turns every few operations, and rankings of few pages are kept as those of many."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    with small_rankings(bits=6, most_opened=1):
        yield
    sys.setswitchinterval(interval)


def full_scans(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(formula_switch, "IncrementalTopK", partial(IncrementalTopK, fewest_pages=1 << 40))


@pytest.mark.parametrize("swapping", [False, True])
def test_calls_of_eight_threads_are_as_if_one_after_the_other(swapping: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler, lock = made(), NumberedLock()
    swaps: list[Call] = []
    take_over = FormulaSwitch._take_over

    def noted(self: FormulaSwitch, formula: Formula, *arguments: Any) -> None:
        take_over(self, formula, *arguments)
        swaps.append(Call(lock.number, partial(_use, formula=formula), None, "use", formula))

    with monkeypatch.context() as patch:
        patch.setattr(FormulaSwitch, "_take_over", noted)
        scheduler.core.lock = lock
        crowd = Crowd(scheduler, lock, swapping=swapping)
        crowd.run()
        scheduler.use("posterior", wait=True)  # behind all that are under way
    calls = sorted(crowd.calls + swaps)
    assert len({call.number for call in calls}) == len(calls) > 6 * CALLS
    assert sum(len(call.result) for call in calls if isinstance(call.result, Batch)) > 150
    assert len(swaps) > 3 * swapping
    full_scans(monkeypatch)
    again, watch = made(), Watch()
    for call in calls:
        watch.see(call)
        assert_same(call.act(again), call.result)
    assert again.digest() == scheduler.digest()
    assert scheduler.core.pages.faults() == []
    roster_ = scheduler.core.formula_switch
    assert roster_.current.check(scheduler.core.pages.arrays) == []


def assert_same(one: object, other: object) -> None:
    if isinstance(one, Batch) and isinstance(other, Batch):
        assert (one.urls, one.lease_until_s) == (other.urls, other.lease_until_s)
        np.testing.assert_array_equal(one.scores, other.scores)
    else:
        assert one == other
