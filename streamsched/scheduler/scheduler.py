"""The scheduler: one shard's pages, their ranking and their leases, behind the library's public door."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from streamsched.errors import SettingsError, UnknownPage
from streamsched.estimation.change_detection import CHANGE_BITS
from streamsched.estimation.seasonality.regions import REGIONS, TimeRegion, check_regions
from streamsched.evolution.data.training_data import Span, Training, count_cycles, gather_training, impute_training
from streamsched.formula import Formula
from streamsched.formula.champion import BY_HAND, OBJECTIVES, Champion, find_formula, parse_provided
from streamsched.numerics.argument_checks import check_share, check_time, check_whole
from streamsched.numerics.arrays import Floats, Hashes, Ints
from streamsched.numerics.durations import parse_duration
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.numerics.topk_order import tie_keys
from streamsched.outcomes import Outcome, OutcomeBatch
from streamsched.persistence.call_codec import GrantedLeases, StreamNeeded
from streamsched.persistence.image_writer import save_state
from streamsched.persistence.recovery import restore_state
from streamsched.politeness.policy import PolitenessPolicy
from streamsched.politeness.politeness_settings import HostRule, Politeness, Rule
from streamsched.ranking.formula_switch import FormulaSwitch
from streamsched.ranking.full_scan import FullScan
from streamsched.records.schema import ShardArrays
from streamsched.records.visit_journal import copy_sample, find_sampled, number_sample, sample_bar
from streamsched.scheduler.batch_builder import BatchBuilder
from streamsched.scheduler.explanation import Explanation
from streamsched.scheduler.panel import Panel
from streamsched.scheduler.quotas import BatchQuotas
from streamsched.scheduler.results import KEPT_REJECTIONS, Batch, Observed
from streamsched.scheduler.surge_probes import SurgeProbes
from streamsched.state.digest import digest_state
from streamsched.state.page_table import PageTable

__all__ = ["DEFAULT_FORMULA", "Batch", "Observed", "Scheduler"]

DEFAULT_FORMULA: Final = OBJECTIVES["changes"]
_NOT_DIGESTED: Final = ("positions", "champion")  # they say how the state came about
_SHORTEST_CYCLE_S: Final = 1.0
_LONGEST_CYCLE_S: Final = 1e12  # longer, and rates per cycle leave the range in which float64 sums them


class Scheduler:
    """Which pages to visit next: keeps every page's state from crawl outcomes, and ranks them by a formula.

    `cycle`: the unit of t and of rates, as ``"1d"`` or seconds; `objective`: what the crawl is for, ``"changes"`` found
    or ``"freshness"`` of the copies kept, weighted by importance, or any formula; `formula`: the same as a formula
    alone, in place of an objective; `seed`: salts the order of equal scores, which is drawn anew each cycle;
    `politeness`: how often pages and hosts may be visited; `per_host`: the most pages of one host in a batch, as in
    `politeness`; `change_bits`: from how many differing bits of 64 two fingerprints are two contents; `panel`: the
    share of the pages handed out that goes to a uniform sample visited every cycle, for evolution to learn from;
    `new_share`: the share of the pages handed out that pages never visited have at the least, where there are so many;
    `explore_share`: that of pages drawn by lot; `surges`: whether visits tell of surges, which change many pages of a
    host or URL pattern at once: without, the terminal is 0 and each change counts as its page's own; `surge_probes`:
    whether batches have pages that are visited for what they tell of surges, where the formula reads these; `regions`:
    whose pages' hours of the week are learned apart, by top-level domain, and by which clocks; None to learn no rhythms
    at all, which saves some memory and time; `threads`: of the ranking, None for the machine's (the result is the
    same). Methods may be called from several threads; each waits for the others.

    >>> s = Scheduler(cycle="1d")
    >>> s.observe([Outcome("https://a.example/", 0.0), Outcome("https://a.example/", 86400.0, changed=True)]).changed
    1
    >>> s.next_batch(k=10, now=172800.0).urls
    ['https://a.example/']
    """

    def __init__(  # noqa: PLR0913  every setting by its name
        self,
        *,
        cycle: str | float = "1d",
        objective: str | None = None,
        formula: str | Formula | None = None,
        seed: int = 0,
        politeness: Politeness | None = None,
        per_host: int | None = None,
        change_bits: int = CHANGE_BITS,
        panel: float = 0.0,
        new_share: float = 0.1,
        explore_share: float = 0.0,
        surges: bool = True,
        surge_probes: bool = True,
        regions: Mapping[str, TimeRegion] | None = REGIONS,
        threads: int | None = None,
    ) -> None:
        """Start with no pages. Raises SettingsError for a setting that cannot work, FormulaError for a formula."""
        self.cycle_s = parse_duration(cycle, "cycle")
        if not _SHORTEST_CYCLE_S <= self.cycle_s <= _LONGEST_CYCLE_S:
            raise SettingsError("cycle", cycle, f"{_SHORTEST_CYCLE_S:g} to {_LONGEST_CYCLE_S:g} seconds")
        self.seed = check_whole("seed", seed, None, "a whole number")
        self.positions: dict[str, Any] = {}  # where each stream stands; saved with the state they belong to
        self._threads = None if threads is None else check_whole("threads", threads, 1, "1 to 256, or None", most=256)
        self._lock = threading.RLock()
        self._behind: StreamNeeded | None = None  # why calls are missing that the directory it is from has logged
        bits = check_whole("change_bits", change_bits, 1, "1 to 64 bits", most=64)
        self._pages = PageTable(self.cycle_s, bits, None if regions is None else check_regions(regions))
        self._surges = bool(surges)
        self._politeness_policy = PolitenessPolicy(politeness, per_host)
        self._panel = Panel(check_share("panel", panel), self.cycle_s)
        new, explore = check_share("new_share", new_share), check_share("explore_share", explore_share)
        self._quotas = BatchQuotas(new, explore, self.seed)
        self._champion = self._wanted = Champion(parse_provided(find_formula(objective, formula)))
        self._formula_switch = FormulaSwitch(self._pages, self.formula, self._threads)
        self._scouts = SurgeProbes() if surge_probes else None
        self._batch_builder = self._assemble()

    def __len__(self) -> int:
        """Return how many pages are known."""
        return len(self._pages)

    def __contains__(self, url: str) -> bool:
        with self._lock:  # look-ups share the index's buffers with those of outcomes
            return int(self._find([url])[0]) >= 0

    def __repr__(self) -> str:
        return f"Scheduler({len(self)} pages, formula {self.formula.text!r})"

    @property
    def formula(self) -> Formula:
        """The score function in use."""
        return self._champion.formula

    @property
    def politeness(self) -> Politeness:
        """How often pages and hosts may be visited; what `set_rules` sets goes before it."""
        return self._politeness_policy.politeness

    @property
    def per_host(self) -> int | None:
        """The most pages of one host in a batch: the politeness' `per_batch`. May be set anew."""
        return self.politeness.per_batch

    @per_host.setter
    def per_host(self, most: int | None) -> None:
        with self._lock:
            self._politeness_policy.limit_batches(most)

    @property
    def champion(self) -> Champion:
        """The score function in use, and how it came to be that."""
        return self._champion

    @property
    def pages(self) -> PageTable:
        """The page table beneath: for tools that count or export; change it through the scheduler only."""
        return self._pages

    def state_bytes(self) -> dict[str, int]:
        """Return the bytes of memory in use for each part of the state, the rankings among them. O(1)."""
        with self._lock:
            return self._pages.state_bytes() | {"ranking": self._formula_switch.nbytes()}

    def observe(self, outcomes: OutcomeBatch | Outcome | Iterable[Outcome]) -> Observed:
        """Apply crawl outcomes in their order, each at once; say what became of them. O(1) an outcome.

        Outcomes that break the format are rejected and named, outcomes not newer than their page's last are duplicates
        or late and leave everything as it was; the others go on.
        """
        if isinstance(outcomes, Outcome):
            outcomes = [outcomes]
        batch = outcomes if isinstance(outcomes, OutcomeBatch) else OutcomeBatch.from_outcomes(outcomes)
        problems = batch.problems()
        if problems:
            valid = np.ones(len(batch), np.bool_)
            valid[[problem.record for problem in problems]] = False
            batch = batch.take(np.flatnonzero(valid))
        with self._lock:
            limits, then = self._politeness_policy.limits, self._formula_switch.count
            counts = self._pages.observe(batch, limits, surges=self._surges, then=then).tolist()
            self._politeness_policy.reach(self._pages.arrays)
        applied, changed, first_visits, failures, duplicates, late, _, served, hits = counts
        kept = tuple(problems[:KEPT_REJECTIONS])
        return Observed(applied, changed, first_visits, duplicates, late, len(problems), failures, kept, served, hits)

    def discover(self, urls: Sequence[str] | PackedUrls, *, now: float, importance: npt.ArrayLike | None = None) -> int:
        """Add pages that are known but never visited; return how many were new. O(1) a URL.

        Until its first visit a page is ranked as though it had been visited at `now`. `importance`: float64[n], the
        weight of each from now on, of known pages too. Raises InvalidOutcome for a URL that breaks the format.
        """
        packed = urls if isinstance(urls, PackedUrls) else PackedUrls.pack(urls)
        weights = None if importance is None else np.broadcast_to(np.asarray(importance, np.float64), len(packed))
        _check_urls(packed, now, weights)
        with self._lock:
            added = self._add(packed, now)
            if weights is not None:
                self._pages.weigh(packed, weights)
        return added

    def rank(self, k: int = 1000, *, now: float, surge_probes: bool = False) -> Batch:
        """Return the best `k` pages that may be handed out at `now`, shares and panel aside, without leasing them.

        It knows no lease, so of a host with a `delay` there may be more than in any batch. `surge_probes`: have in
        place of the worst of them the surge_probes that a batch has, pages visited for what they tell of surges.

        O(k); O(pages) for times long after that of the last batch, or before it.
        """
        now, k = check_time(now), _check_pages(k)
        with self._lock:
            return self._batch_builder.look(k, now, surge_probes=surge_probes)

    def next_batch(self, k: int = 1000, *, now: float, lease: str | float = "10m") -> Batch:
        """Return the best `k` pages and lease them, members of the panel that are due before all others.

        Where the formula reads `surge`, surge_probes take the places of the worst: pages of groups that nobody has
        visited for long, where finding a surge is worth more than what these would find.

        None of them is handed out again before its outcome is observed or `now` + `lease` has come. Of a host with a
        `delay` there are as many as can be visited that far apart within the lease, one at the least: the crawler
        spaces these visits, and the host is in no other batch before their time is over. O(k) where the clock goes on
        in steps; O(pages) for the first batches, after a leap of the clock, or for a good part of all.
        """
        now, k = check_time(now), _check_pages(k)
        lease_s = parse_duration(lease, "lease")
        with self._lock:
            return self._batch_builder.hand_out(k, now, lease_s)

    def restore_leases(self, handed: GrantedLeases) -> None:
        """Lease the pages that `next_batch` handed out once, as it did. O(pages handed out)."""
        with self._lock:
            self._batch_builder.restore_leases(handed)

    def release(self, urls: Sequence[str]) -> int:
        """Give leased pages back unvisited; return how many of `urls` are known. O(1) a URL.

        Their hosts go on resting for the delays of these visits: the pages do not say whose delay was added last, and
        so a host is rather visited late than early. `block(host, now)` ends that rest, where no page of it is out.
        """
        with self._lock:
            rows = self._find(urls)
            self._politeness_policy.leases.release(self._pages.arrays, rows[rows >= 0])
            self._formula_switch.keep_up(rows)
        return int(np.count_nonzero(rows >= 0))

    def ask(self, urls: Sequence[str], *, now: float) -> int:
        """Let pages be visited once, now, whatever their scores; return how many of them were new. O(1) a URL.

        They go before others until their next outcomes and wait only for their leases and hosts; but a page that is
        never to be visited stays so. New pages are added as by `discover`.
        """
        packed = PackedUrls.pack(urls)
        _check_urls(packed, now)
        with self._lock:
            added = self._add(packed, now)
            rows = self._pages.find(packed)
            self._politeness_policy.ask(self._pages.arrays, rows)
            self._formula_switch.keep_up(rows)
        return added

    def block(self, host: str, until: float) -> int:
        """Hand out no page of `host` before `until`, UTC epoch seconds; return how many known hosts that are. O(1).

        ``*.example.org`` names several, O(hosts). Hosts that become known later are blocked as well, by the last call
        that fits them. What hosts rested for before is forgotten, so a time that has passed ends the rest. Raises
        SettingsError for what is no host or no time.
        """
        with self._lock:
            blocked, sooner = self._politeness_policy.block(self._pages.arrays, host, until)
            if sooner:  # else what is said of pages until then holds
                self._formula_switch.forget()
        return blocked.size

    def set_rules(self, rules: Mapping[str, Rule | HostRule | None]) -> int:
        """Set rules for hosts, URL patterns and pages, None to take them back; return how many pages may be concerned.

        Each goes by the last that was set of its page, else of its patterns, else of its host: `rule_targets`
        says how these are written. But where any of them says never, no other undoes it: only None for that very
        target, or another rule in its place. Holds for pages that come later, too; to take back what was not set
        concerns none. O(pages), O(1) for each rule of one page. Raises SettingsError, and sets none, where one cannot
        work.
        """
        with self._lock:
            concerned = self._politeness_policy.set_rules(self._pages, rules).size
            self._formula_switch.forget()
        return concerned

    def set_politeness(self, politeness: Politeness) -> None:
        """Keep to other `politeness` from now on, of rests under way too; leases last as they were granted. O(pages).

        Raises SettingsError for what are none.
        """
        if not isinstance(politeness, Politeness):
            raise SettingsError("politeness", politeness, "Politeness")
        with self._lock:
            told = self._politeness_policy.state() | {"politeness": politeness.to_json()}
            self._politeness_policy = PolitenessPolicy.restored(told, self._pages.arrays)
            self._batch_builder = self._assemble()
            self._formula_switch.forget()

    def set_rule(self, target: str, rule: Rule | HostRule | None) -> int:
        """Set one rule as `set_rules` does; many at once take less time."""
        return self.set_rules({target: rule})

    def score(self, urls: Sequence[str], *, now: float) -> Floats:
        """Return the scores of `urls` at `now`: float64[n]. O(1) a URL. Raises UnknownPage for a page never seen."""
        with self._lock:
            rows = self._known(urls)
            return self._scan.score(self._pages.arrays, check_time(now), self.cycle_s, rows)

    def scores(self, *, now: float) -> Floats:
        """Return the scores of all pages by row: float64[pages]. O(pages)."""
        with self._lock:
            return self._scan.score(self._pages.arrays, check_time(now), self.cycle_s)

    def tie_keys(self, *, now: float = 0.0) -> Hashes:
        """Return the salted page hashes by row, uint64[pages]: the smaller goes first among equal scores. O(pages)."""
        with self._lock:
            return tie_keys(
                self._pages.arrays.pages.records["url_hash"][: len(self)], self._batch_builder.salt(check_time(now))
            )

    def explain(self, url: str, *, now: float, k: int = 1000, lease: str | float = "10m") -> Explanation:
        """Return what is known of a page, its score and place at `now`, and why the next batch of `k` has it or not.

        `lease`: of that batch; hosts with a delay give as many pages as can be visited in it. O(pages). Raises
        UnknownPage for a page never seen.
        """
        now, k = check_time(now), _check_pages(k)
        lease_s = parse_duration(lease, "lease")
        with self._lock:
            row = int(self._known([url])[0])
            return self._batch_builder.explain(row, self._champion, self._batch_builder.query(k, now, lease_s))

    def training(self, cycles: int, *, now: float, seed: int = 0) -> Training:
        """Return in which of the last `cycles` whole cycles up to `now` each page of a uniform sample changed.

        What visits did not see is drawn from the pages' posteriors, by `seed`; the result says which that is. O(pages).
        """
        return next(self.trainings(cycles, now=now, seeds=[seed]))

    def trainings(self, cycles: int, *, now: float, seeds: Iterable[int]) -> Iterator[Training]:
        """Yield what `training` returns for each of `seeds`, all of one state: that of the first. O(pages)."""
        span = Span.up_to(check_time(now), check_whole("cycles", cycles, 1, "1 or more cycles"), self.cycle_s)
        sample, panel_bar = self._copy_sample()
        gathered = gather_training(sample, span, panel_bar)
        for seed in seeds:
            yield impute_training(gathered, check_whole("seed", seed, None, "a whole number"))

    def known_cycles(self, *, now: float, share: float = 0.5) -> float:
        """Return how many cycles up to `now` are whole for `share` of the pages or more; inf for a long time. O(pages).

        No longer a history should be asked for where that many pages are to be in it.
        """
        return count_cycles(self._copy_sample()[0], check_time(now), self.cycle_s, share)

    def use(self, formula: str | Formula | Champion, *, wait: bool = False) -> None:
        """Rank by `formula` from now on; a formula without a history of its own counts as set by hand.

        Where many pages are ranked by another, that goes on until the new ranking stands, about two seconds at ten
        million pages; `wait` returns after that. Raises FormulaError at the column that does not fit.
        """
        parsed = parse_provided(formula.formula if isinstance(formula, Champion) else formula)
        champion = formula if isinstance(formula, Champion) else Champion(parsed, BY_HAND)

        self._wanted = champion
        waiting = self._formula_switch.change(parsed, self._lock, lambda: self._crown(champion))
        if wait:
            waiting()

    def _crown(self, champion: Champion) -> None:
        """Note, under the lock, that `champion` ranks from now on."""
        self._champion = champion

    def save(self, path: str | Path) -> Path:
        """Save the state to the directory `path`, made if need be, atomically; return the file written. O(pages).

        That of the instant of the call: other threads go on meanwhile, and wait for milliseconds at a time.
        """
        if self._behind is not None and Path(self._behind.path).resolve() == Path(path).resolve():
            raise self._behind  # to save it would be to lose the calls that it lacks
        return save_state(Path(path), self)

    @classmethod
    def load(cls, path: str | Path, *, threads: int | None = None) -> Scheduler:
        """Return the scheduler saved last in the directory `path`, as it was. O(pages).

        What is damaged is named in the log, ``streamsched.persistence``, and the state before it returned. Raises
        SnapshotError where there is none, or none that is whole.
        """
        restored, needed = restore_state(Path(path), lambda pages, settings: cls.restored(pages, settings, threads))
        restored._behind = needed  # noqa: SLF001  its own
        return restored

    @classmethod
    def restored(cls, pages: PageTable, settings: dict[str, Any], threads: int | None = None) -> Self:
        """Return the scheduler of these pages and of what `settings` returned once. O(pages)."""
        scheduler = cls(
            cycle=settings["cycle_s"],
            formula=settings["formula"],
            seed=settings["seed"],
            change_bits=settings["change_bits"],
            panel=settings["panel"]["share"],
            new_share=settings["shares"]["new"],
            explore_share=settings["shares"]["explore"],
            surges=settings.get("surges", True),
            surge_probes=settings.get("surge_probes", True),
            regions=pages.seasonality.regions,
            threads=threads,
        )
        if settings["champion"]["formula"] == settings["formula"]:
            scheduler._champion = scheduler._wanted = Champion.from_json(settings["champion"])
        scheduler.positions = settings["positions"]
        scheduler._pages = pages
        scheduler._formula_switch = FormulaSwitch(pages, scheduler.formula, scheduler._threads)
        scheduler._politeness_policy = PolitenessPolicy.restored(settings["politeness_policy"], pages.arrays)
        scheduler._panel.restore(settings["panel"])
        scheduler._quotas.restore(settings["shares"])
        scheduler._batch_builder = scheduler._assemble()
        return scheduler

    def digest(self) -> str:
        """Return one hash of the logical state, equal for equal states whatever way they came about. O(pages)."""
        with self._lock:
            return digest_state(self._pages, {k: v for k, v in self.settings().items() if k not in _NOT_DIGESTED})

    def _copy_sample(self) -> tuple[ShardArrays, int]:
        """Return the journal's sample as a table of its own, and the panel's bar. O(pages), O(sample) of it locked.

        Hashes of pages stay as they are, so that the sample is found without the lock.
        """
        with self._lock:
            shard, pages = self._pages.arrays, len(self)
        rows = find_sampled(shard.pages.records, 0, pages, sample_bar(shard.corpus))
        with self._lock:
            copied, panel_bar = copy_sample(self._pages.arrays, rows), self._panel.bar
        return number_sample(copied, rows), panel_bar

    @property
    def lock(self) -> AbstractContextManager[object]:
        """What is held while the state changes, for those who must see several calls as one."""
        return self._lock

    def settings(self) -> dict[str, Any]:
        """Return all of the state that the page table does not hold, as JSON can hold it."""
        return {
            "cycle_s": self.cycle_s,
            "formula": self._wanted.formula.text,  # which may still be made ready
            "champion": self._wanted.to_json(),
            "seed": self.seed,
            "politeness_policy": self._politeness_policy.state(),
            "change_bits": self._pages.change_bits,
            "panel": self._panel.state(),
            "shares": self._quotas.state(),
            "surges": self._surges,
            "regions": self._pages.seasonality.to_json(),
            "positions": dict(self.positions),
        } | ({} if self._scouts else {"surge_probes": False})

    def _assemble(self) -> BatchBuilder:
        return BatchBuilder(
            self._pages,
            self._politeness_policy,
            self._formula_switch,
            self._panel,
            self._quotas,
            self.seed,
            self._scouts,
        )

    def _add(self, urls: PackedUrls, now: float) -> int:
        added = self._pages.discover(urls, float(now))
        self._politeness_policy.reach(self._pages.arrays)
        self._politeness_policy.forget(float(now))
        return added

    def _find(self, urls: Sequence[str]) -> Ints:
        return self._pages.find(PackedUrls.pack(urls))

    def _known(self, urls: Sequence[str]) -> Ints:
        rows = self._find(urls)
        unknown = np.flatnonzero(rows < 0)
        if unknown.size:
            raise UnknownPage(urls[int(unknown[0])])
        return rows

    @property
    def _scan(self) -> FullScan:
        return self._formula_switch.current.scan


def _check_urls(urls: PackedUrls, now: float, importance: Floats | None = None) -> None:
    """Raise InvalidOutcome for the first URL or weight that breaks the format."""
    for problem in OutcomeBatch(urls, np.full(len(urls), check_time(now)), importance=importance).problems():
        raise problem


def _check_pages(k: int) -> int:
    return check_whole("k", k, 0, "0 or more pages")
