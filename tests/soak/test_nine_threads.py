"""Nine threads that call every public method at random: no page is leased twice, and the log of calls tells it all."""

from __future__ import annotations

import itertools
import random
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streamsched import (
    DurableScheduler,
    HostRule,
    Optimiser,
    OptimiserSettings,
    Outcome,
    OutcomeBatch,
    Politeness,
    Rule,
    SavePlan,
    Scheduler,
    Signal,
)
from streamsched.errors import SettingsError
from streamsched.outcomes import StatusWord
from streamsched.records.schema import ShardArrays
from streamsched.state.page_table import PageTable
from tests.soak.orderly import PATIENCE_S, patience
from tests.soak.saved_crawl import quick_and_small
from tests.support.guarded_memory import small_rankings
from tests.support.outcome_streams import DAY

THREADS = 9
CALLS = 40  # of each thread
START_S = 1_000 * DAY
LEASE_S = 366 * DAY  # no lease runs out: who holds a page gives it back
HOSTS = [f"h{i}.example" for i in range(6)]
URLS = [f"https://{HOSTS[i % 6]}/{'ab'[i % 2]}/{i}" for i in range(300)]
FORMULAS = ("posterior", "importance * t", "t * (3 - t)", "1", "exp(-t) * rate", "due")
SETTINGS: dict[str, Any] = {
    "seed": 3, "panel": 0.1, "new_share": 0.1, "threads": 1,
    "politeness": Politeness(delay=2.0, in_flight=40, backoff=60.0, min_revisit=10.0),
}  # fmt: skip
SETTABLE: dict[str, list[float | None]] = {  # properties, and values for them
    "max_ahead": [None, 60.0, DAY],
    "max_pages": [None, 320, 10_000],
    "max_pages_per_host": [None, 60],
    "max_patterns_per_host": [None, 1, 3],
}
_ARRAYS: Callable[[PageTable], ShardArrays] = vars(PageTable)["arrays"].fget
LIFETIME = {"open", "close", "load"}  # and what only one thread can do


class Crowd:
    """Threads that share a scheduler, a clock, a stream and a list of the pages that each holds."""

    def __init__(self, scheduler: Scheduler | DurableScheduler, folder: Path, rng: random.Random) -> None:
        self.scheduler = scheduler
        self.folder = folder
        self.rngs = [random.Random(rng.random()) for _ in range(THREADS)]
        self.stream: list[Outcome] = []
        self.held: set[str] = set()
        self.failures: list[BaseException] = []
        self.done: set[str] = set()
        self._clock = itertools.count()
        self._of_stream, self._of_held = threading.Lock(), threading.Lock()
        self._start = threading.Barrier(THREADS)
        self.acts: dict[str, Callable[[random.Random, list[str]], object]] = {
            name: getattr(self, f"_{name}") for name in [*public_methods(type(scheduler)), "plan"]
        }
        self._optimiser = Optimiser(scheduler, OptimiserSettings(every=60.0))

    def run(self) -> None:
        threads = [threading.Thread(target=self._work, args=(rng,), daemon=True) for rng in self.rngs]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PageTable, "arrays", property(self._arrays_under_lock))
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE_S)
        assert not any(thread.is_alive() for thread in threads), "stuck"
        if self.failures:
            raise BaseExceptionGroup("threads that failed", self.failures)

    def _arrays_under_lock(self, pages: PageTable) -> ShardArrays:
        """Return the arrays. Another thread may be moving them, so who uses them must own the lock."""
        lock: Any = self.scheduler.core.lock
        assert pages is not self.scheduler.core.pages or lock._is_owned(), "arrays without the lock"
        return _ARRAYS(pages)

    def _work(self, rng: random.Random) -> None:
        mine: list[str] = []
        try:
            self._start.wait()
            for _ in range(CALLS):
                name = rng.choice(["next_batch", "next_batch", "observe", "observe", *self.acts])
                self.acts[name](rng, mine)
                self.done.add(name)
        except BaseException as error:  # noqa: BLE001  passed to the thread that asserts
            self.failures.append(error)

    @property
    def now(self) -> float:
        return START_S + 5.0 * next(self._clock)

    def give_back(self, mine: list[str], count: int) -> list[str]:
        """Note that this thread no longer holds its first pages; return them. Before their leases end."""
        given, mine[:] = mine[:count], mine[count:]
        with self._of_held:
            self.held.difference_update(given)
        return given

    # --- calls that change the state
    def _next_batch(self, rng: random.Random, mine: list[str]) -> None:
        hosts, key = rng.choice([None, None, rng.sample(HOSTS, 2), ["*.example"]]), f"{rng.random()}"
        k, per_host = rng.randrange(9), rng.choice([None, 2])
        batch = self.scheduler.next_batch(k, now=self.now, lease=LEASE_S, hosts=hosts, per_host=per_host, key=key)
        again = self.scheduler.next_batch(k, now=self.now, lease=LEASE_S, hosts=hosts, per_host=per_host, key=key)
        assert (again.repeated, again.urls) == (True, batch.urls)
        assert hosts in (None, ["*.example"]) or set(batch.hosts) <= set(hosts)
        with self._of_held:
            assert not self.held.intersection(batch.urls), "leased twice"
            self.held.update(batch.urls)
        assert len(set(batch.urls)) == len(batch)
        mine += batch.urls

    def _observe(self, rng: random.Random, mine: list[str]) -> None:
        given = self.give_back(mine, rng.randrange(9))
        observed = self.scheduler.observe(OutcomeBatch.from_outcomes([self._outcome(url, rng) for url in given]))
        counts = (observed.applied, observed.duplicates, observed.late, observed.rejected, observed.refused)
        assert sum(counts) == len(given)
        assert observed.refused == 0  # these pages are known

    def _outcome(self, url: str, rng: random.Random) -> Outcome:
        statuses: list[int | StatusWord | None] = [200, 200, 200, 404, 429, 500, "robots_denied", "not_attempted"]
        moved_to = rng.choice([None, None, None, rng.choice(URLS), f"{url}/moved"])
        return Outcome(
            url,
            self.now,
            rng.choice(statuses),
            changed=rng.random() < 0.5,
            moved_to=None if moved_to == url else moved_to,
        )

    def _take(self, rng: random.Random, mine: list[str]) -> None:
        """Pages of the stream are pages that nobody holds."""
        assert isinstance(self.scheduler, DurableScheduler)
        given = self.give_back(mine, rng.randrange(5))
        with self._of_stream:
            outcomes = [self._outcome(url, rng) for url in [*given, f"https://stream.example/{rng.randrange(50)}"]]
            self.stream += outcomes
            self.scheduler.take(OutcomeBatch.from_outcomes(outcomes), "stream", len(self.stream))

    def reread(self, _path: str, position: Any) -> Iterator[OutcomeBatch]:
        for start in range(position or 0, len(self.stream), 7):
            yield OutcomeBatch.from_outcomes(self.stream[start : start + 7])

    def _release(self, rng: random.Random, mine: list[str]) -> None:
        given = self.give_back(mine, rng.randrange(4))
        assert self.scheduler.release(given) == len(given)

    def _discover(self, rng: random.Random, _mine: list[str]) -> None:
        urls = [f"https://{rng.choice(HOSTS)}/new/{rng.randrange(200)}" for _ in range(4)]
        self.scheduler.discover(urls, now=self.now, importance=rng.choice([None, 2.0, [1.0, 2.0, 0.0, 3.0]]))

    def _notice(self, rng: random.Random, _mine: list[str]) -> None:
        """Signals of known pages, and of pages that nobody has discovered; some are ahead of all outcomes so far."""
        urls = [*rng.sample(URLS, 3), f"https://{rng.choice(HOSTS)}/announced/{rng.randrange(50)}"]
        noticed = self.scheduler.notice([self._signal(url, rng) for url in urls])
        unapplied = noticed.repeated + noticed.late + noticed.refused + noticed.rejected
        assert noticed.applied + noticed.discovered + unapplied == len(urls)
        assert {rejection.field for rejection in noticed.rejections} <= {"at"}

    def _signal(self, url: str, rng: random.Random) -> Signal:
        return Signal(url, self.now - rng.choice([0.0, 30.0, DAY]), rng.choice(["sitemap", "feed", "indexnow"]))

    def _ask(self, rng: random.Random, _mine: list[str]) -> None:
        self.scheduler.ask(rng.sample(URLS, 2), now=self.now)

    def _block(self, rng: random.Random, _mine: list[str]) -> None:
        self.scheduler.block(rng.choice([*HOSTS, "*.example"]), self.now + rng.choice([-1.0, 30.0]))

    def _set_rule(self, rng: random.Random, _mine: list[str]) -> None:
        self.scheduler.set_rule(rng.choice(HOSTS), rng.choice([HostRule(delay=1.0), HostRule(in_flight=9), None]))

    def _set_rules(self, rng: random.Random, _mine: list[str]) -> None:
        rule = rng.choice([Rule(min_revisit=5.0), Rule(never=True), None])
        self.scheduler.set_rules({f"{rng.choice(HOSTS)}/a/*": rule, rng.choice(URLS): rule})

    def _set_politeness(self, rng: random.Random, _mine: list[str]) -> None:
        self.scheduler.set_politeness(Politeness(delay=rng.choice([0.0, 2.0]), in_flight=40, min_revisit=10.0))

    def _set_property(self, rng: random.Random, _mine: list[str]) -> None:
        name = rng.choice(sorted(SETTABLE))
        setattr(self.scheduler, name, rng.choice(SETTABLE[name]))
        assert getattr(self.scheduler, name) in SETTABLE[name]

    def _use(self, rng: random.Random, _mine: list[str]) -> None:
        self.scheduler.use(rng.choice(FORMULAS), wait=rng.random() < 0.5)

    def _begin_trial(self, rng: random.Random, _mine: list[str]) -> None:
        self.scheduler.begin_trial(rng.choice(FORMULAS), now=self.now)

    def _end_trial(self, _rng: random.Random, _mine: list[str]) -> None:
        self.scheduler.end_trial()

    def _trial(self, _rng: random.Random, _mine: list[str]) -> None:
        view = self.scheduler.trial()
        assert view is None or min(view.evidence.costs) >= 0.0

    def _trial_counts(self, _rng: random.Random, _mine: list[str]) -> None:
        shown = self.scheduler.trial_counts()
        assert (shown.challenger is None) == (shown.since_s is None)
        assert min(*shown.costs, *shown.finds) >= 0.0

    def _changes(self, _rng: random.Random, _mine: list[str]) -> None:
        assert isinstance(self.scheduler, DurableScheduler)
        with pytest.raises(SettingsError, match="keep_changes"):
            self.scheduler.changes()

    def _grant(self, rng: random.Random, mine: list[str]) -> None:
        named = [*rng.sample(URLS, 4), "https://unknown.example/"]
        granted = self.scheduler.grant(named, now=self.now, lease=LEASE_S)
        with self._of_held:
            assert not self.held.intersection(granted.batch.urls), "leased twice"
            self.held.update(granted.batch.urls)
        assert sorted([*granted.batch.urls, *granted.refused]) == sorted(named)
        mine += granted.batch.urls

    def _forget(self, rng: random.Random, _mine: list[str]) -> None:
        """Pages that nobody holds."""
        urls = [f"https://forgotten.example/{rng.randrange(9)}" for _ in range(3)]
        self.scheduler.discover(urls, now=self.now)
        known = self.scheduler.forget(urls) if rng.random() < 0.5 else self.scheduler.forget(host="forgotten.example")
        assert 0 <= known <= 9
        self.scheduler.forget(["https://unknown.example/"])

    def _plan(self, rng: random.Random, _mine: list[str]) -> None:
        if rng.random() < 0.5:
            self._optimiser.tick(self.now)
        else:
            self._optimiser.plan_now(self.now)

    def _together(self, rng: random.Random, mine: list[str]) -> None:
        assert isinstance(self.scheduler, DurableScheduler)
        with self.scheduler.together():
            self._observe(rng, mine)
            self._next_batch(rng, mine)

    # --- calls that only read, or write files
    def _page(self, rng: random.Random, _mine: list[str]) -> None:
        url = rng.choice(URLS)
        view = self.scheduler.page(url, now=self.now)
        assert view is not None
        assert view.url == url

    def _host(self, rng: random.Random, _mine: list[str]) -> None:
        view = self.scheduler.host(rng.choice(HOSTS), now=self.now)
        assert view is not None
        assert 0 <= view.leased <= view.pages

    def _hosts(self, rng: random.Random, _mine: list[str]) -> None:
        part = self.scheduler.hosts(size=rng.randrange(1, 4), now=self.now)
        found = [view.host for view in part.hosts]
        while part.next is not None:
            part = self.scheduler.hosts(part.next, rng.randrange(1, 4), now=self.now)
            found += [view.host for view in part.hosts]
        assert set(HOSTS) <= set(found)
        assert len(set(found)) == len(found)

    def _count(self, _rng: random.Random, _mine: list[str]) -> None:
        assert self.scheduler.count() >= len(URLS)

    def _tie_keys(self, rng: random.Random, _mine: list[str]) -> None:
        assert self.scheduler.tie_keys(rng.sample(URLS, 3), now=self.now).size == 3

    def _find_ahead(self, rng: random.Random, _mine: list[str]) -> None:
        self.scheduler.find_ahead([self._outcome(url, rng) for url in rng.sample(URLS, 3)])

    def _rank(self, rng: random.Random, _mine: list[str]) -> None:
        batch = self.scheduler.rank(rng.randrange(9), now=self.now, surge_probes=rng.random() < 0.5)
        assert len(batch.reasons) == len(batch.hosts) == len(batch)

    def _offer(self, rng: random.Random, _mine: list[str]) -> None:
        batch = self.scheduler.offer(rng.randrange(9), now=self.now, hosts=rng.choice([None, HOSTS[:2]]))
        assert batch.lease_until_s is None

    def _score(self, rng: random.Random, _mine: list[str]) -> None:
        assert len(self.scheduler.score(rng.sample(URLS, 3), now=self.now)) == 3

    def _scores(self, _rng: random.Random, _mine: list[str]) -> None:
        assert len(self.scheduler.scores(now=self.now)) >= len(URLS)

    def _explain(self, rng: random.Random, _mine: list[str]) -> None:
        assert str(self.scheduler.explain(rng.choice(URLS), now=self.now))

    def _training(self, _rng: random.Random, _mine: list[str]) -> None:
        self.scheduler.training(3, now=self.now)

    def _digest(self, _rng: random.Random, _mine: list[str]) -> None:
        assert len(self.scheduler.digest()) == 64

    def _sources(self, _rng: random.Random, _mine: list[str]) -> None:
        assert all(one.signals >= 0.0 for one in self.scheduler.sources())

    def _surges(self, _rng: random.Random, _mine: list[str]) -> None:
        assert all(0.0 < one.share <= 1.0 for one in self.scheduler.surges())

    def _week(self, rng: random.Random, _mine: list[str]) -> None:
        view = self.scheduler.week(now=self.now, url=rng.choice(URLS))
        assert view is not None
        assert len(view.hours) == 168

    def _state_bytes(self, _rng: random.Random, _mine: list[str]) -> None:
        assert all(size >= 0 for size in self.scheduler.state_bytes().values())

    def _save(self, rng: random.Random, _mine: list[str]) -> None:
        target = self.folder / f"saved-{rng.random()}"
        self.scheduler.save(target)
        assert len(Scheduler.load(target)) >= len(URLS)

    def _snapshot(self, rng: random.Random, _mine: list[str]) -> None:
        assert isinstance(self.scheduler, DurableScheduler)
        self.scheduler.snapshot(full=rng.random() < 0.3)

    def _latest_time(self, _rng: random.Random, _mine: list[str]) -> None:
        assert isinstance(self.scheduler, DurableScheduler)
        latest_s, _ = self.scheduler.latest_time()
        assert latest_s > START_S - DAY

    def _read_properties(self, _rng: random.Random, _mine: list[str]) -> None:
        for name in properties(type(self.scheduler)):
            getattr(self.scheduler, name)
        assert URLS[0] in self.scheduler
        assert repr(self.scheduler)
        assert len(self.scheduler) >= len(URLS)


def public_methods(kind: type[Scheduler]) -> list[str]:
    """All methods of `kind`, and two names for its properties: those to read, and those that may be set."""
    names = {name for name in dir(kind) if not name.startswith("_")} - LIFETIME - {*properties(kind)}
    return sorted(names | {"read_properties", "set_property"})


def properties(kind: type[Scheduler]) -> list[str]:
    return sorted(name for name in dir(kind) if not name.startswith("_") and isinstance(getattr(kind, name), property))


@pytest.mark.parametrize("kind", [Scheduler, DurableScheduler])
def test_every_property_that_may_be_set_is_set(kind: type[Scheduler]) -> None:
    own = {name for name in properties(kind) if getattr(kind, name).fset is not None}
    assert own - {"core"} == SETTABLE.keys()


@pytest.fixture(autouse=True)
def many_turns() -> Iterator[None]:
    """Threads take turns every few operations, and rankings of few pages are kept as those of many."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    with small_rankings(bits=6, most_opened=1), quick_and_small(), patience():
        yield
    sys.setswitchinterval(interval)


def begin(scheduler: Scheduler | DurableScheduler) -> None:
    scheduler.observe([Outcome(url, START_S - 900.0 - i, importance=float(i % 13)) for i, url in enumerate(URLS)])
    never = Rule(never=True)  # outcomes and acts of forgetting may concern these pages whoever would hold them
    scheduler.set_rules({"stream.example": never, "forgotten.example": never})
    scheduler.rank(1, now=START_S)  # bounds are kept from now on


def check(scheduler: Scheduler | DurableScheduler) -> None:
    scheduler.use(scheduler.formula, wait=True)  # behind all that are under way
    scheduler.rank(5, now=START_S + DAY)
    assert scheduler.core.pages.faults() == []
    assert scheduler.core.formula_switch.current.check(scheduler.core.pages.arrays) == []


@pytest.mark.cases(ordinary=1, whole=30)
def test_nine_threads_at_a_scheduler_in_memory(rng: random.Random, tmp_path: Path) -> None:
    scheduler = Scheduler(**SETTINGS)
    begin(scheduler)
    Crowd(scheduler, tmp_path, rng).run()
    check(scheduler)
    scheduler.save(tmp_path / "saved")
    assert Scheduler.load(tmp_path / "saved").digest() == scheduler.digest()


@pytest.mark.cases(ordinary=2, whole=60)
def test_nine_threads_at_a_durable_scheduler(rng: random.Random, tmp_path: Path, case: int) -> None:
    """Recovery does the logged calls one after the other: from the beginning, or from images that threads saved."""
    plan = SavePlan(every=1e9) if case % 2 else SavePlan(every="20ms", increments=3)
    with DurableScheduler.open(tmp_path / "state", SETTINGS, plan=plan, threads=1) as scheduler:
        begin(scheduler)
        crowd = Crowd(scheduler, tmp_path, rng)
        if case % 2:
            for name in ("snapshot", "save"):
                del crowd.acts[name]
        crowd.run()
        check(scheduler)
        digest = scheduler.digest()
        scheduler.close(save=False)  # a copy of files while they are being saved would be of no instant
    with DurableScheduler.open(tmp_path / "state", reread=crowd.reread, threads=1) as again:
        at = again.positions.get("stream", 0)
        if at < len(crowd.stream):
            again.take(OutcomeBatch.from_outcomes(crowd.stream[at:]), "stream", len(crowd.stream))
        assert again.digest() == digest
        check(again)
