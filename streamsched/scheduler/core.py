"""The state of one shard and the parts that work on it, which `Scheduler` and what runs beside it share."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from streamsched.api.views import Noticed, Observed
from streamsched.errors import CatchingUp, UnknownPage
from streamsched.estimation.change_detection import EXACT, UNPROVEN_MOST, unproven_share
from streamsched.evolution.data.training_data import Training, count_known_cycles, draw_trainings
from streamsched.formula.champion import BY_HAND, Champion, parse_provided
from streamsched.formula.formula import Formula
from streamsched.numerics.argument_checks import check_time
from streamsched.numerics.arrays import Floats, Hashes, Ints
from streamsched.numerics.keyed_hash import write_key
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.numerics.topk_order import tie_keys
from streamsched.outcomes import OutcomeBatch
from streamsched.persistence.taken_records import StreamPositions
from streamsched.politeness.policy import PolitenessPolicy
from streamsched.politeness.politeness_settings import Politeness
from streamsched.ranking.formula_switch import FormulaSwitch
from streamsched.scheduler.batches.batch_builder import BatchBuilder
from streamsched.scheduler.batches.batch_requests import BatchKeys
from streamsched.scheduler.batches.formula_trial import FormulaTrial
from streamsched.scheduler.batches.panel import Panel
from streamsched.scheduler.batches.quotas import BatchQuotas
from streamsched.scheduler.batches.surge_probes import SurgeProbes
from streamsched.scheduler.results import Batch
from streamsched.scheduler.settings import SchedulerSettings
from streamsched.state.crawl_plan import CrawlPlan
from streamsched.state.found_changes import FoundChanges
from streamsched.state.page_table import PageTable
from streamsched.state.state_arrays import digest_state
from streamsched.state.stream_clock import StreamClock
from streamsched.state.url_rule import UrlRule

_log: Final = logging.getLogger("streamsched.evidence")

Listener: TypeAlias = Callable[[OutcomeBatch | Observed | Noticed | Batch], None]
# How the state was made or is found.
_NOT_DIGESTED: Final = ("positions", "beyond", "champion", "index_key", "changes")


class SchedulerCore:
    """The state of one shard behind a lock.

    ``pages``: the page table; ``clock``: the newest time of its stream; ``url_rule``: which URLs it takes;
    ``reached``: up to where each stream is applied; ``lock``: held while the state changes; ``on_champion``: called
    under the lock when the formula of a `use` has taken over; ``listeners``: each is called under the lock with the
    valid outcomes and the result of each `observe`, the result of each `notice`, and each new batch; ``changes``: how
    many outcomes have shown a change; ``on_changes``: called under the lock with the changes of a call that has any.
    All methods may be called from several threads. Arguments are checked by the caller unless a method says otherwise.
    """

    def __init__(
        self, settings: SchedulerSettings, pages: PageTable, policy: PolitenessPolicy, champion: Champion
    ) -> None:
        """Assemble the parts of a scheduler; see `new` and `from_state`."""
        self.lock: AbstractContextManager[object] = threading.RLock()
        self.reached = StreamPositions()
        self.on_champion: Callable[[Champion], None] | None = None
        self.listeners: list[Listener] = []
        self.changes = 0
        self.on_changes: Callable[[FoundChanges], None] | None = None
        self.catching_up: str | None = None
        self._lacks_evidence = False
        self.champion = self._wanted = champion
        self.plan: CrawlPlan | None = None  # of the crawl rates in use
        self.pages = pages
        pages.threads = settings.threads or pages.threads
        self.clock = StreamClock(settings.max_ahead)
        self.url_rule = UrlRule(settings.schemes)
        self.politeness_policy = policy
        self.panel = Panel(settings.panel, settings.cycle_s)
        self.quotas = BatchQuotas(settings.new_share, settings.seed)
        self.trial = FormulaTrial(settings.seed, settings.cycle_s, settings.threads)
        self.keys = BatchKeys()
        self.forgotten = 0  # rows of forgotten pages
        self.formula_switch = FormulaSwitch(pages, champion.formula, settings.threads)
        self._settings = settings
        self.surges, self.signals_discover = settings.surges, settings.signals_discover  # `settings` checks all again
        self.exact = settings.changes == EXACT
        self._surge_probes = SurgeProbes()
        self.batch_builder = self._make_batch_builder()

    @classmethod
    def new(cls, settings: SchedulerSettings) -> SchedulerCore:
        """Return a scheduler without pages."""
        pages = PageTable(settings.cycle_s, settings.regions, settings.bounds)
        return cls(settings, pages, PolitenessPolicy(settings.politeness), Champion(settings.formula))

    @classmethod
    def from_state(cls, pages: PageTable, state: Mapping[str, Any], threads: int | None = None) -> SchedulerCore:
        """Return the scheduler of `pages` whose `to_json` was `state`. O(pages)."""
        settings = SchedulerSettings.from_json(state["settings"], threads)
        policy = PolitenessPolicy.restored(
            state["policy"] | {"politeness": settings.politeness.to_json()}, pages.arrays
        )
        core = cls(settings, pages, policy, Champion.from_json(state["champion"]))
        core.reached = StreamPositions.from_json(state)
        core.panel.restore(state["panel"])
        core.quotas.restore(state["quotas"])
        core.clock.restore(state["clock"])
        core.follow(None if state["plan"] is None else CrawlPlan.from_json(state["plan"]))
        core.trial.restore(state["trial"])
        core.keys.restore(state["keys"])
        core.forgotten = state["forgotten"]
        core.changes = state.get("changes", 0)  # older states did not count them
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
            "plan": None if self.plan is None else self.plan.to_json(),
            "trial": self.trial.state(),
            "keys": self.keys.to_json(),
            "forgotten": self.forgotten,
            "changes": self.changes,
            "index_key": write_key(self.pages.key),
            "signal_kinds": list(self.pages.signal_kinds),
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

    @property
    def batches(self) -> BatchBuilder:
        """The builder of batches, for pages to be leased. Raises CatchingUp."""
        if self.catching_up is not None:
            raise CatchingUp(self.catching_up)
        return self.batch_builder

    def digest(self) -> str:
        """Return one hash of the logical state. O(pages)."""
        with self.lock:
            state = {name: value for name, value in self.to_json().items() if name not in _NOT_DIGESTED}
            state["clock"] = self.clock.newest_s  # refusals may be those of outcomes delivered twice
            return digest_state(self.pages, state)

    def note_changes(self, batch: OutcomeBatch, count: int, found: npt.NDArray[np.float64]) -> None:
        """Count the changes that `batch` has shown, and hand on the `count` first of `found`. Under the lock.

        `found`: as in `state.ingest.IngestCounts`.
        """
        self.changes += count
        if self.on_changes is not None and count:
            self.on_changes(FoundChanges.of(batch, found[:count]))

    def report(self, result: OutcomeBatch | Observed | Noticed | Batch) -> None:
        """Hand `result` to the listeners. Under the lock."""
        if isinstance(result, Observed):
            self._warn_of_evidence()
        for listener in self.listeners:
            listener(result)

    def _warn_of_evidence(self) -> None:
        """Log a warning when most visits begin to say nothing about a change."""
        share = unproven_share(self.pages.arrays.corpus)
        lacks = share is not None and share > UNPROVEN_MOST
        if lacks and not self._lacks_evidence:
            _log.warning(
                "%.0f%% of the newest visits say nothing about a change: report `changed`, `content`, `fingerprint` or "
                "status 304",
                100 * (share or 0.0),
            )
        self._lacks_evidence = lacks

    def replace_politeness(self, politeness: Politeness) -> None:
        """Replace the politeness settings. O(pages). Under the lock."""
        state = self.politeness_policy.state() | {"politeness": politeness.to_json()}
        self.politeness_policy = PolitenessPolicy.restored(state, self.pages.arrays)
        self.batch_builder = self._make_batch_builder()

    def add(self, urls: PackedUrls, now: float) -> int:
        """Add unknown pages; return how many were new. Under the lock."""
        added = self.pages.discover(urls, now)
        self.politeness_policy.reach(self.pages.arrays)
        self.politeness_policy.forget(now)
        return added

    def use(self, formula: str | Formula | Champion, *, wait: bool) -> None:
        """Rank by `formula` once its bounds are ready; `wait` for that. Raises FormulaError."""
        parsed = parse_provided(formula.formula if isinstance(formula, Champion) else formula)
        champion = formula if isinstance(formula, Champion) else Champion(parsed, BY_HAND)
        self._wanted = champion
        finish = self.formula_switch.change(parsed, self.lock, lambda: self._crown(champion))
        if wait:
            finish()

    def follow(self, plan: CrawlPlan | None, champion: Champion | None = None) -> None:
        """Note the plan of the crawl rates in use, None for none; rank by `champion`, if any. Under the lock."""
        self.plan = plan
        if champion is not None:
            self._wanted = champion
            self.pages.unwatch()  # a ranking prepared before would be of the rates before
            self.formula_switch.change(champion.formula, self.lock, lambda: self._note(champion))
        self._share_probes()

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

    def trainings(self, cycles: int, *, now: float, seeds: Iterable[int], share: float = 1.0) -> Iterator[Training]:
        """Yield `Scheduler.training` for each of `seeds`, all from one copy of the state. O(pages)."""
        return draw_trainings(self, cycles, now=now, seeds=seeds, share=share)

    def known_cycles(self, *, now: float, share: float = 0.5) -> float:
        """Return for how many whole cycles `share` of the pages are known: see `page_sample`. O(pages)."""
        return count_known_cycles(self, now=now, share=share)

    def _crown(self, champion: Champion) -> None:
        """Note, under the lock, that `champion` ranks from now on, and report it."""
        self._note(champion)
        if self.on_champion is not None:
            self.on_champion(champion)

    def _note(self, champion: Champion) -> None:
        """Note, under the lock, that `champion` ranks from now on; a trial was of the one before, and ends."""
        self.champion = champion
        self.trial.end(self.pages.arrays)
        self._share_probes()

    def _share_probes(self) -> None:
        """Draw the share of batches at random that the plan asks for, while the formula reads `crawl_rate`."""
        is_read = "crawl_rate" in self.champion.formula.terminals
        self.quotas.explore = self.plan.probe_share if self.plan is not None and is_read else 0.0

    def _make_batch_builder(self) -> BatchBuilder:
        parts = self.pages, self.politeness_policy, self.formula_switch, self.panel, self.quotas
        settings = self._settings
        return BatchBuilder(*parts, settings.seed, settings.host_share, self.trial, self._surge_probes, self.keys)
