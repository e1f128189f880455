"""The public methods that `Scheduler` and `DurableScheduler` share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from streamsched.errors import InvalidOutcome, SettingsError
from streamsched.numerics.argument_checks import check_flag, check_time, check_type, check_whole, read_items
from streamsched.numerics.column_casting import as_column
from streamsched.numerics.durations import parse_duration
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import Outcome, OutcomeBatch
from streamsched.scheduler.logged_calls import (
    ASK,
    BLOCK,
    DISCOVER,
    LIMIT_AHEAD,
    LIMIT_PER_HOST,
    NEXT_BATCH,
    OBSERVE,
    RELEASE,
    SET_BOUNDS,
    SET_POLITENESS,
    SET_RULES,
    SUSPEND_STREAMS,
    Call,
)
from streamsched.state.stream_clock import admit_outcomes, parse_max_ahead

if TYPE_CHECKING:
    from streamsched.evolution.data.training_data import Training
    from streamsched.formula.champion import Champion
    from streamsched.formula.formula import Formula
    from streamsched.numerics.arrays import Floats
    from streamsched.politeness.politeness_settings import HostRule, Politeness, Rule
    from streamsched.scheduler.core import SchedulerCore
    from streamsched.scheduler.explanation import Explanation
    from streamsched.scheduler.results import Batch, Observed

__all__ = ["AnyScheduler"]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class AnyScheduler(ABC):
    """A `Scheduler` or a `DurableScheduler`: annotate with it what takes either.

    ``core``: the internals, for other modules of streamsched; not part of the public interface.
    """

    def __init__(self, core: SchedulerCore) -> None:
        self.core = core

    @abstractmethod
    def _perform(self, call: Call[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        """Do a call that changes the state; return its result."""

    @abstractmethod
    def use(self, formula: str | Formula | Champion, *, wait: bool = False) -> None:
        """Rank by `formula`, or that of an objective, from now on; unless it is a Champion it counts as set by hand.

        If many pages are ranked, the present formula stays in use until the new ranking is ready, about two seconds
        at ten million pages; `wait`: return after that. Raises FormulaError at the column that is wrong.
        """

    def __len__(self) -> int:
        """Return how many pages are known."""
        return len(self.core.pages)

    def __contains__(self, url: str) -> bool:
        with self.core.lock:  # look-ups share the index's buffers with those of outcomes
            return int(self.core.find([url])[0]) >= 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} pages, formula {self.formula.text!r})"

    @property
    def cycle_s(self) -> float:
        """The length of a cycle in seconds, the unit of `t` and of rates."""
        return self.core.pages.cycle_s

    @property
    def seed(self) -> int:
        """The seed of all random choices."""
        return self.core.settings.seed

    @property
    def positions(self) -> dict[str, Any]:
        """By stream, the position up to which its outcomes are applied, as JSON; saved with the state."""
        return self.core.positions

    @property
    def formula(self) -> Formula:
        """The score function in use."""
        return self.core.champion.formula

    @property
    def champion(self) -> Champion:
        """The score function in use, and where it came from."""
        return self.core.champion

    @property
    def politeness(self) -> Politeness:
        """The politeness settings. Rules of `set_rules` override them."""
        return self.core.politeness_policy.politeness

    @property
    def per_host(self) -> int | None:
        """The most pages of one host in a batch, `per_batch` of the politeness settings. May be set."""
        return self.politeness.per_batch

    @per_host.setter
    def per_host(self, most: int | None) -> None:
        self._perform(LIMIT_PER_HOST, most)

    @property
    def max_ahead(self) -> float | None:
        """How far ahead of the newest outcome another one may be, in seconds, None for any time. May be set."""
        return self.core.clock.max_ahead_s

    @max_ahead.setter
    def max_ahead(self, max_ahead: str | float | None) -> None:
        self._perform(LIMIT_AHEAD, parse_max_ahead(max_ahead))

    @property
    def max_pages(self) -> int | None:
        """The most pages that may be known, None for no bound. May be set."""
        return self.core.pages.bounds.max_pages

    @max_pages.setter
    def max_pages(self, most: int | None) -> None:
        self._perform(SET_BOUNDS, {"max_pages": most})

    @property
    def max_pages_per_host(self) -> int | None:
        """The most pages of a host that may be known, None for no bound. May be set."""
        return self.core.pages.bounds.max_pages_per_host

    @max_pages_per_host.setter
    def max_pages_per_host(self, most: int | None) -> None:
        self._perform(SET_BOUNDS, {"max_pages_per_host": most})

    @property
    def max_patterns_per_host(self) -> int | None:
        """The most URL patterns of a host, None for no bound. May be set."""
        return self.core.pages.bounds.max_patterns_per_host

    @max_patterns_per_host.setter
    def max_patterns_per_host(self, most: int | None) -> None:
        self._perform(SET_BOUNDS, {"max_patterns_per_host": most})

    @property
    def refused_pages(self) -> int:
        """How many outcomes and discoveries of unknown pages `max_pages` and `max_pages_per_host` have refused."""
        return int(self.core.pages.arrays.corpus["refused_pages"][0])

    @property
    def refused_patterns(self) -> int:
        """How many new pages joined a larger URL pattern because of `max_patterns_per_host`."""
        return int(self.core.pages.arrays.corpus["refused_patterns"][0])

    def state_bytes(self) -> dict[str, int]:
        """Return the bytes of memory in use for each part of the state, rankings included. O(1)."""
        with self.core.lock:
            return self.core.pages.state_bytes() | {"ranking": self.core.formula_switch.nbytes()}

    def observe(self, outcomes: OutcomeBatch | Outcome | Iterable[Outcome]) -> Observed:
        """Apply crawl outcomes in their order; return how many changed what. O(1) an outcome.

        Outcomes that break the format, or lie too far in the future, are rejected and listed in the result. Outcomes
        no newer than their page's last one are duplicates or late and change nothing. Those of unknown pages beyond
        `max_pages` or `max_pages_per_host` are refused.
        """
        return self._perform(OBSERVE, _as_batch(outcomes), self._latest_s())

    def find_ahead(self, outcomes: OutcomeBatch | Outcome | Iterable[Outcome]) -> list[InvalidOutcome]:
        """Return which of these valid `outcomes` `observe` would reject for their times, and change nothing. O(n)."""
        batch = _as_batch(outcomes)
        with self.core.lock:
            return admit_outcomes(copy(self.core.clock), batch, [], self._latest_s())[1]

    def discover(self, urls: Sequence[str] | PackedUrls, *, now: float, importance: npt.ArrayLike | None = None) -> int:
        """Add pages that are known but never visited; return how many were new. O(1) a URL.

        Until its first visit a page is ranked as if it had been visited at `now`. `importance`: float64[n], the weight
        of each page from now on, known pages included. Pages beyond `max_pages` or `max_pages_per_host` are refused:
        `refused_pages` counts them. Raises InvalidOutcome for a URL that breaks the format.
        """
        packed = urls if isinstance(urls, PackedUrls) else PackedUrls.pack(urls)
        weights = None if importance is None else _read_weights(importance, len(packed))
        return self._perform(DISCOVER, packed, self._check_now(now), weights)

    def rank(self, k: int = 1000, *, now: float, surge_probes: bool = False) -> Batch:
        """Return the best `k` pages that may be visited at `now`, without leasing them and without quotas or panel.

        Their order is that of the scores.

        Spacing by a `delay` is ignored, so a host may have more pages than in a batch. `surge_probes`: replace the
        worst pages by the surge probes that a batch would have.

        O(k); O(pages) for times before the last batch or long after it.
        """
        now, k = check_time(now), _check_pages(k)
        surge_probes = check_flag("surge_probes", surge_probes)
        with self.core.lock:
            return self.core.batch_builder.preview(k, now, surge_probes=surge_probes)

    def next_batch(self, k: int = 1000, *, now: float, lease: str | float = "10m") -> Batch:
        """Return the best `k` pages and lease them; due members of the panel come first.

        The formula chooses the pages. They are returned in the order of the probability that they have changed since
        their last visit, so that a crawl that ends early has found most; those asked for or overdue come before.

        If the formula reads `surge`, surge probes replace the worst pages: pages of groups without a recent visit,
        where finding a surge is worth more than what these pages would show.

        No page is returned again before its outcome is observed or `now` + `lease` has passed. A host with a `delay`
        has as many pages as can be visited that far apart within the lease, at least one; the crawler spaces these
        visits, and the host is in no other batch until their time is over. O(k) if the clock advances in steps.
        O(pages) for the first two batches, after a leap of the clock, for a large part of all pages, and while most
        pages have equal scores (pages discovered at one time, before their first visits) or wait for one full host.
        """
        now, k = self._check_now(now), _check_pages(k)
        return self._perform(NEXT_BATCH, k, now, parse_duration(lease, "lease"))

    def release(self, urls: Sequence[str]) -> int:
        """Give leased pages back unvisited; return how many of `urls` are known. O(1) a URL.

        Their hosts stay blocked for the delays of these visits: it is not recorded which page added which delay, and a
        late visit is better than an early one. `block(host, now)` ends that if no other page of the host is leased.
        """
        return self._perform(RELEASE, PackedUrls.pack(urls))

    def ask(self, urls: Sequence[str], *, now: float) -> int:
        """Request one visit of each page, whatever its score; return how many pages were new. O(1) a URL.

        They precede other pages until their next outcomes and wait only for leases and hosts; a rule `never` still
        applies. Unknown pages are added as by `discover`. Raises InvalidOutcome for a URL that breaks the format.
        """
        return self._perform(ASK, PackedUrls.pack(urls), self._check_now(now))

    def block(self, host: str, until: float) -> int:
        """Return no page of `host` before `until`, UTC epoch seconds; return how many known hosts that are. O(1).

        ``*.example.org`` names several hosts, O(hosts). Hosts that become known later are blocked by the last call
        that matches them. An earlier block of the host is replaced, so a time that has passed ends it. Raises
        SettingsError if `host` is not a host or `until` not a time.
        """
        return self._perform(BLOCK, host, check_time(until, "until"))

    def suspend_streams(self, streams: Collection[str]) -> int:
        """Return no page of hosts whose last outcome came from one of `streams`; return how many pages these have.

        For partitions of a topic that another process of the group reads: it has the newer outcomes and leases. It
        replaces the streams of the last call, so an empty collection releases all. Hosts without an outcome of a
        stream of `DurableScheduler.take`, such as those that are only discovered, are never suspended. O(hosts).
        """
        names = read_items("streams", streams, "a collection of streams, as in `positions`")
        if not all(isinstance(name, str) for name in names):
            raise SettingsError("streams", streams, "a collection of streams, as in `positions`")
        return self._perform(SUSPEND_STREAMS, frozenset(names))

    def set_rules(self, rules: Mapping[str, Rule | HostRule | None]) -> int:
        """Set rules for hosts, URL patterns and pages; return how many pages they may concern. None removes a rule.

        A page follows the newest rule for itself, else for one of its patterns, else for its host; see `rule_targets`
        for how targets are written. A `never` rule overrides all others until it is removed or replaced. Rules apply to
        later pages too; removing a rule that was not set concerns none. O(pages), O(1) for each rule of one page.
        Raises SettingsError, and sets none, if one of them is invalid.
        """
        return self._perform(SET_RULES, rules)

    def set_rule(self, target: str, rule: Rule | HostRule | None) -> int:
        """Set one rule as `set_rules` does; for many rules that is faster."""
        check_type("target", target, str, "a host, a URL pattern or a page")
        return self.set_rules({target: rule})

    def set_politeness(self, politeness: Politeness) -> None:
        """Replace the politeness settings, for back-offs under way too; leases keep their length. O(pages).

        Raises SettingsError if `politeness` is not a Politeness.
        """
        self._perform(SET_POLITENESS, politeness)

    def score(self, urls: Sequence[str], *, now: float) -> Floats:
        """Return the scores of `urls` at `now`: float64[n]. O(1) a URL. Raises UnknownPage."""
        with self.core.lock:
            return self.core.score(check_time(now), self.core.find_known(urls))

    def scores(self, *, now: float) -> Floats:
        """Return the scores of all pages by row: float64[pages]. O(pages)."""
        with self.core.lock:
            return self.core.score(check_time(now))

    def explain(self, url: str, *, now: float, k: int = 1000, lease: str | float = "10m") -> Explanation:
        """Return what is known of a page, its score and rank at `now`, and why the next batch of `k` has it or not.

        `lease`: of that batch; hosts with a delay have as many pages as can be visited in it. O(pages). Raises
        UnknownPage.
        """
        now, k = check_time(now), _check_pages(k)
        lease_s = parse_duration(lease, "lease")
        core = self.core
        with core.lock:
            row = int(core.find_known([url])[0])
            return core.batch_builder.explain(row, core.champion, core.batch_builder.query(k, now, lease_s))

    def training(self, cycles: int, *, now: float, seed: int = 0) -> Training:
        """Return in which of the last `cycles` whole cycles up to `now` each page of a uniform sample changed.

        Cycles that no visit saw are drawn from the pages' posteriors with `seed`; the result marks them. O(pages).
        """
        return next(self.core.trainings(cycles, now=now, seeds=[seed]))

    def digest(self) -> str:
        """Return one hash of the logical state, equal for equal states however they came about. O(pages)."""
        return self.core.digest()

    def _latest_s(self) -> float | None:
        """Return the latest time that outcomes may have by a clock; None without a clock."""
        return None

    def _check_now(self, now: float) -> float:
        """Return the time of a call that changes the state. Raises SettingsError if it cannot be the present."""
        return check_time(now)


def _as_batch(outcomes: OutcomeBatch | Outcome | Iterable[Outcome]) -> OutcomeBatch:
    if isinstance(outcomes, Outcome):
        outcomes = [outcomes]
    return outcomes if isinstance(outcomes, OutcomeBatch) else OutcomeBatch.from_outcomes(outcomes)


def _read_weights(importance: npt.ArrayLike, count: int) -> Floats:
    """Return `importance`, one weight for all pages or one for each, as float64[count]. Raises InvalidOutcome."""
    single = isinstance(importance, int | float | np.integer | np.floating)
    values: Any = [importance] * count if single else importance
    weights, missing = as_column("importance", np.dtype(np.float64), values, count)
    if missing is not None:
        raise InvalidOutcome(int(np.flatnonzero(missing)[0]), "importance", None, "a number")
    return weights


def _check_pages(k: int) -> int:
    return check_whole("k", k, 0, "0 or more pages")
