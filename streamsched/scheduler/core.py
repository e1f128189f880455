"""The scheduler of one shard without its public methods: its parts, its state, and the calls that change them.

`Scheduler`, `DurableScheduler`, `Evolver` and the persistence room share it. Nothing here is public.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from streamsched.errors import SettingsError, UnknownPage
from streamsched.evolution.data.page_sample import count_known_cycles, draw_trainings
from streamsched.formula.champion import BY_HAND, Champion, parse_provided
from streamsched.numerics.argument_checks import check_flag, check_time
from streamsched.numerics.keyed_hash import write_key
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.numerics.topk_order import tie_keys
from streamsched.outcomes import OutcomeBatch
from streamsched.persistence.taken_records import StreamPositions
from streamsched.politeness.policy import PolitenessPolicy
from streamsched.politeness.politeness_settings import HostRule, Politeness, Rule
from streamsched.politeness.rule_targets import find_pages_of_hosts
from streamsched.ranking.formula_switch import FormulaSwitch
from streamsched.scheduler.batches.batch_builder import BatchBuilder, GrantedLeases
from streamsched.scheduler.batches.batch_keys import BatchKeys
from streamsched.scheduler.batches.panel import Panel
from streamsched.scheduler.batches.quotas import BatchQuotas
from streamsched.scheduler.batches.surge_probes import SurgeProbes
from streamsched.scheduler.results import Batch, Granted, Noticed, Observed
from streamsched.scheduler.settings import SchedulerSettings
from streamsched.state.crawl_plan import CrawlPlan
from streamsched.state.digest import digest_state
from streamsched.state.known_pages import forget_rows
from streamsched.state.page_table import PageTable
from streamsched.state.stream_clock import StreamClock, admit_outcomes, admit_signals
from streamsched.state.suspended_streams import SuspendedStreams

if TYPE_CHECKING:
    from streamsched.evolution.data.training_data import Training
    from streamsched.formula.formula import Formula
    from streamsched.numerics.arrays import Floats, Hashes, Ints
    from streamsched.scheduler.batches.batch_keys import KeptBatch
    from streamsched.scheduler.batches.batch_request import BatchRequest
    from streamsched.scheduler.batches.grants import GrantRequest
    from streamsched.signals import SignalBatch

__all__ = ["SchedulerCore"]

Listener: TypeAlias = Callable[[Observed | Noticed | Batch], None]
# How the state came about or is found.
_NOT_DIGESTED: Final = ("positions", "beyond", "streams", "champion", "index_key")


class SchedulerCore:
    """The state of one shard behind a lock.

    ``pages``: the page table; ``clock``: the newest time of its stream; ``reached``: up to where each stream is
    applied; ``lock``: held while the state changes; ``on_champion``: called under the lock when a formula has taken
    over; ``listeners``: each is called under the lock with the results of `observe` and `notice`, and with each new
    batch. All methods may be called from several threads. Arguments are checked by the caller unless a method says
    otherwise.
    """

    def __init__(
        self, settings: SchedulerSettings, pages: PageTable, policy: PolitenessPolicy, champion: Champion
    ) -> None:
        """Assemble the parts of a scheduler; see `new` and `from_state`."""
        self.lock: AbstractContextManager[object] = threading.RLock()
        self.reached = StreamPositions()
        self.on_champion: Callable[[Champion], None] | None = None
        self.listeners: list[Listener] = []
        self.champion = self._wanted = champion
        self.plan: CrawlPlan | None = None  # of the crawl rates in use
        self.pages = pages
        pages.threads = settings.threads or pages.threads
        self.clock = StreamClock(settings.max_ahead)
        self.politeness_policy = policy
        self.panel = Panel(settings.panel, settings.cycle_s)
        self.quotas = BatchQuotas(settings.new_share, settings.explore_share, settings.seed)
        self.streams = SuspendedStreams()
        self.keys = BatchKeys()
        self.forgotten = 0  # rows of forgotten pages
        self.formula_switch = FormulaSwitch(pages, champion.formula, settings.threads)
        self._settings = settings
        self._surge_probes = SurgeProbes() if settings.surge_probes else None
        self.batch_builder = self._make_batch_builder()

    @classmethod
    def new(cls, settings: SchedulerSettings) -> SchedulerCore:
        """Return a scheduler without pages."""
        pages = PageTable(settings.cycle_s, settings.change_bits, settings.regions, settings.bounds)
        return cls(settings, pages, PolitenessPolicy(settings.politeness, None), Champion(settings.formula))

    @classmethod
    def from_state(cls, pages: PageTable, state: Mapping[str, Any], threads: int | None = None) -> SchedulerCore:
        """Return the scheduler of `pages` whose `to_json` was `state`. O(pages)."""
        settings = SchedulerSettings.from_json(state["settings"], threads)
        policy = PolitenessPolicy.restored(
            state["policy"] | {"politeness": settings.politeness.to_json()}, pages.arrays
        )
        core = cls(settings, pages, policy, Champion.from_json(state["champion"]))
        core.reached = StreamPositions.from_json(state)
        core.streams.restore(state["streams"])
        core.panel.restore(state["panel"])
        core.quotas.restore(state["quotas"])
        core.clock.restore(state["clock"])
        core.plan = None if state["plan"] is None else CrawlPlan.from_json(state["plan"])
        core.keys.restore(state["keys"])
        core.forgotten = state["forgotten"]
        return core

    def to_json(self) -> dict[str, Any]:
        """Return all of the state that the page table does not hold, as plain values for JSON."""
        return self.reached.to_json() | {
            "settings": self.settings.to_json(),
            "champion": self._wanted.to_json(),
            "policy": {name: part for name, part in self.politeness_policy.state().items() if name != "politeness"},
            "panel": self.panel.state(),
            "quotas": self.quotas.state(),
            "clock": self.clock.state(),
            "streams": self.streams.to_json(),
            "plan": None if self.plan is None else self.plan.to_json(),
            "keys": self.keys.to_json(),
            "forgotten": self.forgotten,
            "index_key": write_key(self.pages.key),
            "signal_kinds": list(self.pages.signals.names),
        }

    @property
    def settings(self) -> SchedulerSettings:
        """The present settings; their formula may still be preparing to take over."""
        return replace(
            self._settings,
            formula=self._wanted.formula,
            politeness=self.politeness_policy.politeness,
            max_ahead=self.clock.max_ahead_s,
            bounds=self.pages.bounds,
        )

    def digest(self) -> str:
        """Return one hash of the logical state. O(pages)."""
        with self.lock:
            state = {name: value for name, value in self.to_json().items() if name not in _NOT_DIGESTED}
            state["clock"] = self.clock.newest_s  # refusals may be those of outcomes delivered twice
            return digest_state(self.pages, state)

    def observe(self, batch: OutcomeBatch, latest_s: float | None = None, *, stream: str | None = None) -> Observed:
        """Apply the valid outcomes of `batch` in their order. O(1) an outcome.

        `latest_s`: the latest time that is valid by a clock, None if the stream's own times decide; `stream`: what
        delivered them, None if that is unknown.
        """
        problems = batch.problems()
        with self.lock:
            batch, problems = admit_outcomes(self.clock, batch, problems, latest_s)
            limits, then = self.politeness_policy.limits, self.formula_switch.count
            number, surges = self.streams.number(stream if len(batch) else None), self._settings.surges
            counts = self.pages.observe(batch, limits, surges=surges, stream=number, then=then).tolist()
            self.politeness_policy.reach(self.pages.arrays)
            observed = Observed.of(counts, problems)
            _report(self.listeners, observed)
        return observed

    def notice(self, batch: SignalBatch, latest_s: float | None = None) -> Noticed:
        """Apply the valid signals of `batch` in their order; `latest_s` as in `observe`. O(1) a signal."""
        problems = batch.problems()
        with self.lock:
            batch, problems = admit_signals(self.clock, batch, problems, latest_s)
            fates = self.pages.notice(batch, discovers=self._settings.signals_discover).tolist()
            self.politeness_policy.reach(self.pages.arrays)
            self.formula_switch.count(len(batch))
            noticed = Noticed.of(fates, problems)
            _report(self.listeners, noticed)
        return noticed

    def discover(self, urls: PackedUrls, now: float, importance: Floats | None = None) -> int:
        """Add unknown pages and set the importance of all `urls`; return how many were added. O(1) a URL.

        Raises InvalidOutcome, and adds nothing, if a URL or weight breaks the format.
        """
        _check_urls(urls, now, importance)
        with self.lock:
            self.clock.advance(now)
            added = self._add(urls, now)
            if importance is not None:
                self.pages.weigh(urls, importance)
        return added

    def next_batch(self, request: BatchRequest) -> Batch:
        """Return a batch as requested, leased, or that of the same key. Raises KeyReusedError."""
        with self.lock:
            batch = self.batch_builder.lease_batch(request)
            if not batch.repeated:
                self.clock.advance(request.now)
                _report(self.listeners, batch)
        return batch

    def offer(self, request: BatchRequest) -> Batch:
        """Return the batch that `next_batch` would lease. Nothing changes."""
        with self.lock:
            return self.batch_builder.offer(request)

    def grant(self, request: GrantRequest) -> Granted:
        """Lease the pages of a request that may be leased now. Raises KeyReusedError."""
        with self.lock:
            granted = self.batch_builder.grant(request)
            if not granted.batch.repeated:
                self.clock.advance(request.now)
                _report(self.listeners, granted.batch)
        return granted

    def restore_leases(self, leases: GrantedLeases, key: str | None = None, kept: KeptBatch | None = None) -> None:
        """Lease the pages of an earlier batch again, and keep it for its key if it had one. O(batch)."""
        with self.lock:
            self.clock.advance(leases.now)
            self.batch_builder.restore_leases(leases, key, kept)

    def release(self, urls: PackedUrls) -> int:
        """Take back the leases of `urls`; return how many of them are known. O(1) a URL."""
        with self.lock:
            rows = self.pages.find(urls)
            self.politeness_policy.leases.release(self.pages.arrays, rows[rows >= 0])
            self.formula_switch.keep_up(rows)
        return int(np.count_nonzero(rows >= 0))

    def forget(self, urls: PackedUrls | None, hosts: Sequence[str] = ()) -> int:
        """Forget `urls`, or all pages of the `hosts` if that is None; return how many. O(groups + pages)."""
        with self.lock:
            shard = self.pages.arrays
            of_hosts = find_pages_of_hosts(shard.groups, shard.corpus, hosts)[1]
            rows = of_hosts if urls is None else np.unique(self.pages.find(urls))
            rows = rows[rows >= 0]
            self.politeness_policy.leases.release(shard, rows)
            forget_rows(shard, rows)
            self.formula_switch.keep_up(rows)
            self.forgotten += rows.size
        return rows.size

    def ask(self, urls: PackedUrls, now: float) -> int:
        """Give `urls` priority for one visit; return how many were added. O(1) a URL. Raises InvalidOutcome."""
        _check_urls(urls, now)
        with self.lock:
            self.clock.advance(now)
            added = self._add(urls, now)
            rows = self.pages.find(urls)
            rows = rows[rows >= 0]
            self.politeness_policy.ask(self.pages.arrays, rows)
            self.formula_switch.keep_up(rows)
        return added

    def block(self, host: str, until: float) -> int:
        """Block `host` until the time `until`; return how many known hosts that are. Raises SettingsError."""
        with self.lock:
            blocked, sooner = self.politeness_policy.block(self.pages.arrays, host, until)
            if sooner:  # otherwise the bounds of their pages remain valid
                self.formula_switch.forget()
        return blocked.size

    def suspend_streams(self, streams: Collection[str]) -> int:
        """Suspend the hosts of `streams` and no others; return how many pages they have. O(hosts)."""
        with self.lock:
            pages, is_released = self.streams.suspend(self.pages.arrays, streams)
            if is_released:  # otherwise the bounds remain valid
                self.formula_switch.forget()
        return pages

    def set_rules(self, rules: Mapping[str, Rule | HostRule | None]) -> int:
        """Set or remove rules; return how many pages they may concern. Raises SettingsError."""
        with self.lock:
            concerned = self.politeness_policy.set_rules(self.pages, rules).size
            self.formula_switch.forget()
        return concerned

    def set_politeness(self, politeness: Politeness) -> None:
        """Replace the politeness settings. O(pages). Raises SettingsError if `politeness` is not a Politeness."""
        if not isinstance(politeness, Politeness):
            raise SettingsError("politeness", politeness, "Politeness")
        with self.lock:
            state = self.politeness_policy.state() | {"politeness": politeness.to_json()}
            self.politeness_policy = PolitenessPolicy.restored(state, self.pages.arrays)
            self.batch_builder = self._make_batch_builder()
            self.formula_switch.forget()

    def limit_per_host(self, most: int | None) -> None:
        """Limit how many pages of one host a batch has. Raises SettingsError."""
        with self.lock:
            self.politeness_policy.limit_batches(most)

    def limit_ahead(self, max_ahead_s: float | None) -> None:
        """Reject outcomes further ahead of the newest one than that from now on, None for none."""
        with self.lock:
            self.clock.max_ahead_s = max_ahead_s

    def set_bounds(self, bounds: Mapping[str, int | None]) -> None:
        """Replace those of the bounds on pages and URL patterns that `bounds` names. O(1). Raises SettingsError."""
        with self.lock:
            self.pages.bounds = replace(self.pages.bounds, **bounds)

    def use(self, formula: str | Formula | Champion, *, wait: bool) -> None:
        """Rank by `formula` once its bounds are ready; `wait` for that. Raises FormulaError."""
        check_flag("wait", wait)
        parsed = parse_provided(formula.formula if isinstance(formula, Champion) else formula)
        champion = formula if isinstance(formula, Champion) else Champion(parsed, BY_HAND)
        self._wanted = champion
        finish = self.formula_switch.change(parsed, self.lock, lambda: self._crown(champion))
        if wait:
            finish()

    def find(self, urls: Sequence[str]) -> Ints:
        """Return the rows of `urls`: int64[n], -1 for unknown pages. Under the lock."""
        return self.pages.find(PackedUrls.pack(urls))

    def find_known(self, urls: Sequence[str]) -> Ints:
        """Return the rows of `urls`: int64[n]. Under the lock. Raises UnknownPage."""
        rows = self.find(urls)
        if np.any(rows < 0):
            raise UnknownPage(urls[int(np.argmin(rows))])
        return rows

    def score(self, now: float, rows: Ints | None = None) -> Floats:
        """Return the scores of `rows`, or of all pages: float64[n]. Under the lock."""
        return self.formula_switch.current.scan.score(self.pages.arrays, now, self.pages.cycle_s, rows)

    def tie_keys(self, *, now: float = 0.0, rows: Ints | None = None) -> Hashes:
        """Return the salted hashes of `rows`, or of all pages: uint64[n]; the smaller wins among equal scores. O(n)."""
        with self.lock:
            hashes = self.pages.arrays.pages.records["url_hash"][: len(self.pages)]
            return tie_keys(hashes if rows is None else hashes[rows], self.batch_builder.salt(check_time(now)))

    def trainings(self, cycles: int, *, now: float, seeds: Iterable[int]) -> Iterator[Training]:
        """Yield `Scheduler.training` for each of `seeds`, all from one copy of the state. O(pages)."""
        return draw_trainings(self, cycles, now=now, seeds=seeds)

    def known_cycles(self, *, now: float, share: float = 0.5) -> float:
        """Return for how many whole cycles `share` of the pages are known: see `page_sample`. O(pages)."""
        return count_known_cycles(self, now=now, share=share)

    def _crown(self, champion: Champion) -> None:
        """Note, under the lock, that `champion` ranks from now on."""
        self.champion = champion
        if self.on_champion is not None:
            self.on_champion(champion)

    def _make_batch_builder(self) -> BatchBuilder:
        parts = self.pages, self.politeness_policy, self.formula_switch, self.panel, self.quotas
        return BatchBuilder(*parts, self._settings.seed, self._surge_probes, self.streams.names, self.keys)

    def _add(self, urls: PackedUrls, now: float) -> int:
        added = self.pages.discover(urls, now)
        self.politeness_policy.reach(self.pages.arrays)
        self.politeness_policy.forget(now)
        return added


def _report(listeners: Sequence[Listener], result: Observed | Noticed | Batch) -> None:
    for listener in listeners:
        listener(result)


def _check_urls(urls: PackedUrls, now: float, importance: Floats | None = None) -> None:
    """Raise InvalidOutcome for the first URL or weight that breaks the format."""
    for problem in OutcomeBatch(urls, np.full(len(urls), now), importance=importance).problems():
        raise problem
