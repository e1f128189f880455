"""The public methods that `Scheduler` and `DurableScheduler` share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from streamsched.errors import InvalidOutcome, InvalidSignal, SettingsError
from streamsched.numerics.argument_checks import check_time, check_type, read_items
from streamsched.numerics.column_casting import as_column
from streamsched.numerics.durations import parse_duration
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import Outcome, OutcomeBatch
from streamsched.politeness.rule_targets import read_host
from streamsched.scheduler.batches.batch_request import BatchRequest, check_key
from streamsched.scheduler.batches.grants import GrantRequest
from streamsched.scheduler.logged_calls import (
    ASK,
    BLOCK,
    DISCOVER,
    FORGET_PAGES,
    GRANT,
    LIMIT_AHEAD,
    LIMIT_PER_HOST,
    NEXT_BATCH,
    NOTICE,
    OBSERVE,
    RELEASE,
    SET_BOUNDS,
    SET_POLITENESS,
    SET_RULES,
    SUSPEND_STREAMS,
    Call,
)
from streamsched.scheduler.reading.readable import ReadableScheduler
from streamsched.signals import Signal, SignalBatch
from streamsched.state.stream_clock import admit_outcomes, admit_signals, parse_max_ahead

if TYPE_CHECKING:
    from streamsched.formula.champion import Champion
    from streamsched.formula.formula import Formula
    from streamsched.numerics.arrays import Floats
    from streamsched.politeness.politeness_settings import HostRule, Politeness, Rule
    from streamsched.scheduler.results import Batch, Granted, Noticed, Observed

__all__ = ["AnyScheduler"]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class AnyScheduler(ReadableScheduler):
    """A `Scheduler` or a `DurableScheduler`: annotate with it what takes either."""

    @abstractmethod
    def _perform(self, call: Call[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        """Do a call that changes the state; return its result."""

    @abstractmethod
    def use(self, formula: str | Formula | Champion, *, wait: bool = False) -> None:
        """Rank by `formula`, or that of an objective, from now on; unless it is a Champion it counts as set by hand.

        If many pages are ranked, the present formula stays in use until the new ranking is ready, about two seconds
        at ten million pages; `wait`: return after that. Raises FormulaError at the column that is wrong.
        """

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

    def observe(self, outcomes: OutcomeBatch | Outcome | Iterable[Outcome]) -> Observed:
        """Apply crawl outcomes in their order; return how many changed what. O(1) an outcome.

        Outcomes that break the format, or lie too far in the future, are rejected and listed in the result. Outcomes
        no newer than their page's last one are duplicates or late and change nothing. Those of unknown pages beyond
        `max_pages` or `max_pages_per_host` are refused.
        """
        return self._perform(OBSERVE, _as_batch(outcomes), self._latest_s())

    def notice(self, signals: SignalBatch | Signal | Iterable[Signal]) -> Noticed:
        """Apply change signals in their order; return how many had which fate. O(1) a signal.

        Signals that break the format, or lie too far in the future, are rejected as outcomes are. A signal raises the
        probability that its page has changed as far as its source has proved true.
        """
        if not isinstance(signals, SignalBatch):
            signals = SignalBatch.from_signals([signals] if isinstance(signals, Signal) else signals)
        return self._perform(NOTICE, signals, self._latest_s())

    def find_ahead(
        self, records: OutcomeBatch | SignalBatch | Outcome | Iterable[Outcome]
    ) -> list[InvalidOutcome] | list[InvalidSignal]:
        """Return which of these valid outcomes or signals would be rejected for their times; changes nothing. O(n)."""
        with self.core.lock:
            clock, latest_s = copy(self.core.clock), self._latest_s()
            if isinstance(records, SignalBatch):
                return admit_signals(clock, records, [], latest_s)[1]
            return admit_outcomes(clock, _as_batch(records), [], latest_s)[1]

    def discover(self, urls: Sequence[str] | PackedUrls, *, now: float, importance: npt.ArrayLike | None = None) -> int:
        """Add pages that are known but never visited; return how many were new. O(1) a URL.

        Until its first visit a page is ranked as if it had been visited at `now`. `importance`: float64[n], the weight
        of each page from now on, known pages included. Pages beyond `max_pages` or `max_pages_per_host` are refused:
        `refused_pages` counts them. Raises InvalidOutcome for a URL that breaks the format.
        """
        packed = urls if isinstance(urls, PackedUrls) else PackedUrls.pack(urls)
        weights = None if importance is None else _read_weights(importance, len(packed))
        return self._perform(DISCOVER, packed, self._check_now(now), weights)

    def next_batch(
        self,
        k: int = 1000,
        *,
        now: float,
        lease: str | float = "10m",
        hosts: Sequence[str] | None = None,
        per_host: int | None = None,
        key: str | None = None,
    ) -> Batch:
        """Return the best `k` pages and lease them; due members of the panel come first.

        `hosts`: those whose pages are wanted, ``*.example.org`` for several, None for all; `per_host`: the most pages
        of one host in this batch, in addition to settings and rules; `key`: 1 to 128 printable characters. A call with
        the same key and arguments returns the same batch until its leases expire, so that a caller who lost an answer
        can ask again; with other arguments it raises KeyReusedError.

        The formula chooses the pages. They are returned in the order of the probability that they have changed since
        their last visit, so that a crawl that ends early has found most; those asked for or overdue come before.

        If the formula reads `surge`, surge probes replace the worst pages: pages of groups without a recent visit,
        where finding a surge is worth more than what these pages would show.

        No page is returned again before its outcome is observed or `now` + `lease` has passed. A host with a `delay`
        has as many pages as can be visited that far apart within the lease, at least one; the crawler spaces these
        visits, and the host is in no other batch until their time is over. O(k) if the clock advances in steps.
        O(pages) for the first two batches, after a leap of the clock, for a large part of all pages, and while most
        pages have equal scores (pages discovered at one time, before their first visits) or wait for one full host.
        With `hosts`, O(groups + pages of these hosts).
        """
        now = self._check_now(now)
        request = BatchRequest.checked(k, now, lease=lease, hosts=hosts, per_host=per_host, key=key)
        return self._perform(NEXT_BATCH, request)

    def grant(self, urls: Sequence[str], *, now: float, lease: str | float = "10m", key: str | None = None) -> Granted:
        """Lease exactly these pages, where they may be leased now; the result names the others with the reason.

        For callers that choose from an `offer`. Hosts give as many pages as to a batch, the first ones given. Pages
        that the panel is due are leased for it. `key`: as for `next_batch`. O(1) a URL. Raises KeyReusedError.
        """
        packed, now = PackedUrls.pack(urls), self._check_now(now)
        return self._perform(GRANT, GrantRequest(packed, now, parse_duration(lease, "lease"), check_key(key)))

    def release(self, urls: Sequence[str]) -> int:
        """Give leased pages back unvisited; return how many of `urls` are known. O(1) a URL.

        Their hosts stay blocked for the delays of these visits: it is not recorded which page added which delay, and a
        late visit is better than an early one. `block(host, now)` ends that if no other page of the host is leased.
        """
        return self._perform(RELEASE, PackedUrls.pack(urls))

    def forget(self, urls: Sequence[str] | None = None, *, host: str | None = None) -> int:
        """Forget pages, or all pages of `host`; return how many were known. O(1) a URL; O(groups + pages) for a host.

        They are in no batch and no count any more, and nothing that was learned of them remains; discovered anew, each
        is a new page. What they taught about their hosts and URL patterns stays, and so do rules and blocks. Their rows
        are not used again: the texts of their URLs stay in the state, `scores` and `max_pages` count them, and visits
        stay in the journal until they are overwritten. ``*.example.org`` names several hosts. Raises SettingsError
        unless one of `urls` and `host` is given.
        """
        if (urls is None) == (host is None):
            raise SettingsError("urls", urls, "URLs, or a host in place of them")
        if urls is not None:
            return self._perform(FORGET_PAGES, PackedUrls.pack(urls))
        return self._perform(FORGET_PAGES, None, [read_host(host).key])

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
