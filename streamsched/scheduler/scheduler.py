"""The scheduler of one shard: what it can be asked, and what it does. `logged_calls` describes how calls are logged."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import structs

from streamsched.api.views import (
    Discovered,
    Explanation,
    HostOrder,
    HostPage,
    HostView,
    Noticed,
    Observed,
    PageView,
    Rejection,
    RulesView,
    SourceReliability,
    SurgeView,
    TrialCounts,
    TrialView,
    WeekView,
)
from streamsched.errors import InvalidOutcome, InvalidSignal, SettingsError
from streamsched.estimation.change_detection import EXACT, unproven_share
from streamsched.estimation.seasonality.regions import REGIONS, TimeRegion
from streamsched.estimation.source_list import list_sources
from streamsched.evolution.data.training_data import Training
from streamsched.formula.champion import BY_HAND, Champion, find_formula, parse_provided
from streamsched.formula.formula import Formula
from streamsched.numerics.argument_checks import check_flag, check_path, check_time, check_type, check_whole
from streamsched.numerics.arrays import Floats, Hashes
from streamsched.numerics.durations import parse_lease
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import Outcome, OutcomeBatch
from streamsched.persistence.call_codec import StreamNeeded
from streamsched.persistence.image_writer import save_state
from streamsched.politeness.domain_shares import take_back_visits
from streamsched.politeness.policy import PolitenessPolicy
from streamsched.politeness.politeness_settings import HostRule, Politeness, Rule
from streamsched.politeness.rule_targets import find_pages_of_hosts
from streamsched.reasons import Reason, ReasonCode
from streamsched.records.page_schema import FORGOTTEN, MAX_PAGES_PER_HOST, MAX_PATTERNS_PER_HOST, PageBounds
from streamsched.scheduler.batches.batch_requests import BatchRequest, GrantRequest, check_key
from streamsched.scheduler.batches.formula_trial import Trial
from streamsched.scheduler.core import SchedulerCore
from streamsched.scheduler.logged_calls import (
    Given,
    LeasedRows,
    LoggedCall,
    LogMismatch,
    as_outcomes,
    as_signals,
    as_urls,
    as_weights,
    has_noticed,
    has_observed,
    logged,
)
from streamsched.scheduler.reading.views import (
    count_trial,
    list_hosts,
    list_surges,
    view_host,
    view_page,
    view_rules,
    view_trial,
    view_week,
)
from streamsched.scheduler.reason_text import describe_reasons
from streamsched.scheduler.recovered_state import recover_state
from streamsched.scheduler.results import Batch, Granted, as_noticed, as_observed, find_verdicts
from streamsched.scheduler.settings import SchedulerSettings, parse_cycle
from streamsched.signals import Signal, SignalBatch
from streamsched.state.crawl_plan import CrawlPlan, write_crawl_rates
from streamsched.state.ingest import CHANGES, WRONG
from streamsched.state.known_pages import forget_rows
from streamsched.state.page_table import NO_CHANGES, NO_VERDICTS
from streamsched.state.stream_clock import MAX_AHEAD, admit_outcomes, admit_signals, parse_max_ahead
from streamsched.state.url_rule import SCHEMES

_log: Final = logging.getLogger("streamsched.persistence")


class Scheduler:
    """Decides which pages to visit next: learns each page's change rate from crawl outcomes and ranks by a formula.

    Settings; those of the formula and the bounds may change later:

    - ``cycle``: unit of t and of rates, as ``"1d"`` or seconds;
    - ``objective``: what visits are for: ``changes`` found, ``freshness`` of the copies, or ``balanced(D)`` between the
      two with a dial D from 0 to 1 (``balanced``: 0.5), each weighted by importance and divided by cost. Any of them
      may be followed by ``* significance``: by how much of a page its changes concern. Or a formula;
    - ``formula``: score formula, in place of an objective;
    - ``seed``: seed of all random choices, such as the order of equal scores, which is drawn again each cycle;
    - ``politeness``: how often pages and hosts may be visited;
    - ``panel``: share of visits that goes to a uniform sample visited every cycle, from which evolution learns without
      bias;
    - ``new_share``: at least this share of a batch are never-visited pages, if that many exist;
    - ``host_share``: at most this share of a day's visits, or twice its share of the pages if that is more, goes to one
      registrable domain while others have pages to visit; None or 1 for no limit;
    - ``surges``: whether to detect surges, bulk changes of a host or URL pattern. If not, the terminal is 0 and each
      change counts for its page alone;
    - ``changes``: which hashes decide whether a page has changed, if a visit and its page have both: ``exact``, another
      ``content`` is a change; ``similar``, fingerprints that differ in 6 bits or more;
    - ``max_ahead``: reject outcomes further ahead of the newest one, as their clocks must be wrong; None accepts all;
    - ``regions``: top-level domains and clocks whose weekly profiles are learned separately, None to learn no
      seasonality, which saves some memory and time;
    - ``signals_discover``: whether change signals of unknown pages add them;
    - ``schemes``: reject URLs that are not absolute with one of these schemes, such as ``"https ftp"``; ``any`` for all
      schemes, None to accept texts that are no URLs, such as names of pages in a replay;
    - ``max_pages``: the most pages, None for no bound; further ones are refused and counted;
    - ``max_pages_per_host``: the most pages of a host, as ``max_pages``;
    - ``max_patterns_per_host``: the most URL patterns of a host, whose new pages then join the larger ones;
    - ``threads``: threads of the ranking and of look-ups, None for all cores; the result is the same.

    ``core``: the internals, for other modules of streamsched; not part of the public interface.

    Methods may be called from several threads; each waits for the others. A process forked from this one must not use
    it: load a saved state there.

    >>> from streamsched import Outcome
    >>> s = Scheduler(cycle="1d")
    >>> s.observe([Outcome("https://a.example/", 1.0), Outcome("https://a.example/", 86400.0, changed=True)]).changed
    1
    >>> s.next_batch(k=10, now=172800.0).urls
    ['https://a.example/']
    """

    _incomplete: StreamNeeded | None = None  # why logged calls of the directory it is from were not applied

    def __init__(  # noqa: PLR0913  every setting by its name
        self,
        *,
        cycle: str | float = "1d",
        objective: str | None = None,
        formula: str | Formula | None = None,
        seed: int = 0,
        politeness: Politeness | None = None,
        panel: float = 0.0,
        new_share: float = 0.1,
        host_share: float | None = 0.1,
        surges: bool = True,
        changes: str = EXACT,
        max_ahead: str | float | None = MAX_AHEAD,
        regions: Mapping[str, TimeRegion] | None = REGIONS,
        signals_discover: bool = True,
        schemes: str | None = SCHEMES,
        max_pages: int | None = None,
        max_pages_per_host: int | None = MAX_PAGES_PER_HOST,
        max_patterns_per_host: int | None = MAX_PATTERNS_PER_HOST,
        threads: int | None = None,
    ) -> None:
        """Start without pages. Raises SettingsError for an invalid setting, FormulaError for an invalid formula."""
        settings = SchedulerSettings(
            cycle_s=parse_cycle(cycle),
            formula=parse_provided(find_formula(objective, formula)),
            politeness=PolitenessPolicy(politeness).politeness,
            seed=seed,
            panel=panel,
            new_share=new_share,
            host_share=host_share,
            surges=surges,
            changes=changes,
            max_ahead=parse_max_ahead(max_ahead),
            regions=regions,
            signals_discover=signals_discover,
            schemes=schemes,
            bounds=PageBounds(
                max_pages=max_pages,
                max_pages_per_host=max_pages_per_host,
                max_patterns_per_host=max_patterns_per_host,
            ),
            threads=threads,
        )
        self.core = SchedulerCore.new(settings)

    def _perform(self, call: LoggedCall, given: Given) -> Any:
        """Do a call that changes the state, with prepared arguments; return its result."""
        return call.method(self, **given)

    def use(self, formula: str | Formula | Champion, *, wait: bool = False) -> None:
        """Rank by `formula`, or that of an objective, from now on; unless it is a Champion it counts as set by hand.

        If many pages are ranked, the present formula stays in use until the new ranking is ready, about two seconds
        at ten million pages; `wait`: return after that. Raises FormulaError at the column that is wrong.
        """
        self.core.use(formula, wait=wait)

    @property
    def max_ahead(self) -> float | None:
        """How far ahead of the newest outcome another one may be, in seconds, None for any time. May be set."""
        return self.core.clock.max_ahead_s

    @max_ahead.setter
    def max_ahead(self, max_ahead: str | float | None) -> None:
        self._limit_ahead(max_ahead)

    @property
    def max_pages(self) -> int | None:
        """The most pages that may be known, None for no bound. May be set."""
        return self.core.pages.bounds.max_pages

    @max_pages.setter
    def max_pages(self, most: int | None) -> None:
        self._set_bounds({"max_pages": most})

    @property
    def max_pages_per_host(self) -> int | None:
        """The most pages of a host that may be known, None for no bound. May be set."""
        return self.core.pages.bounds.max_pages_per_host

    @max_pages_per_host.setter
    def max_pages_per_host(self, most: int | None) -> None:
        self._set_bounds({"max_pages_per_host": most})

    @property
    def max_patterns_per_host(self) -> int | None:
        """The most URL patterns of a host, None for no bound. May be set."""
        return self.core.pages.bounds.max_patterns_per_host

    @max_patterns_per_host.setter
    def max_patterns_per_host(self, most: int | None) -> None:
        self._set_bounds({"max_patterns_per_host": most})

    @logged(changed=has_observed)
    def observe(
        self,
        outcomes: OutcomeBatch | Outcome | Iterable[Outcome],
        *,
        latest_s: float | None = None,
        positions: bool = False,
    ) -> Observed:
        """Apply crawl outcomes in their order; return how many changed what. O(1) an outcome.

        Outcomes that break the format, lie too far in the future, or have URLs that are not absolute (``schemes``) are
        rejected and listed in the result. Outcomes no newer than their page's last one are duplicates or late and
        change nothing. Those of unknown pages beyond `max_pages` or `max_pages_per_host` are refused.

        - `latest_s`: the latest time that is valid, in place of that of the scheduler's clock;
        - `positions`: whether the result has the positions of the outcomes that were changes, from 0, and of those that
          showed that their pages have not changed.
        """
        core, given = self.core, as_outcomes(outcomes)
        problems = given.problems()
        with core.lock:
            batch, problems = admit_outcomes(core.clock, given, problems, latest_s)
            limits, then = core.politeness_policy.limits, core.formula_switch.count
            starts = core.url_rule.starts
            found = np.empty((len(batch), 3)) if core.on_changes is not None else NO_CHANGES
            verdicts = np.zeros(len(batch), np.uint8) if positions else NO_VERDICTS
            counts = core.pages.observe(
                batch,
                limits,
                exact=core.exact,
                surges=core.surges,
                starts=starts,
                then=then,
                found=found,
                verdicts=verdicts,
            ).tolist()
            core.politeness_policy.reach(core.pages.arrays)
            core.note_changes(batch, counts[CHANGES], found)
            shown = find_verdicts(verdicts, len(given), problems) if positions else {}
            if counts[WRONG]:  # seldom: which ones they are is found again
                problems = core.url_rule.check(given, problems)
                batch = given.take(np.delete(np.arange(len(given)), [problem.record for problem in problems]))
            observed = as_observed(counts, problems, shown)
            core.report(batch)
            core.report(observed)
        return observed

    @logged(changed=has_noticed)
    def notice(self, signals: SignalBatch | Signal | Iterable[Signal], *, latest_s: float | None = None) -> Noticed:
        """Apply change signals in their order; return how many had which fate. O(1) a signal.

        Signals that break the format, lie too far in the future, or have wrong URLs are rejected as outcomes are. A
        signal raises the probability that its page has changed as far as its source has proved true. `latest_s`: as for
        `observe`.
        """
        core, batch = self.core, as_signals(signals)
        problems = core.url_rule.check(batch, batch.problems())
        with core.lock:
            batch, problems = admit_signals(core.clock, batch, problems, latest_s)
            fates = core.pages.notice(batch, discovers=core.signals_discover).tolist()
            core.politeness_policy.reach(core.pages.arrays)
            core.formula_switch.count(len(batch))
            noticed = as_noticed(fates, problems)
            core.report(noticed)
        return noticed

    def find_ahead(
        self, records: OutcomeBatch | SignalBatch | Outcome | Iterable[Outcome]
    ) -> list[InvalidOutcome] | list[InvalidSignal]:
        """Return which of these valid outcomes or signals would be rejected for their times or URLs. O(n).

        It changes nothing.
        """
        rule = self.core.url_rule
        if isinstance(records, SignalBatch):
            wrong_signals: list[InvalidSignal] = rule.check(records, [])
            with self.core.lock:
                return admit_signals(copy(self.core.clock), records, wrong_signals, self._latest_s())[1]
        outcomes = as_outcomes(records)
        with self.core.lock:
            late = admit_outcomes(copy(self.core.clock), outcomes, [], self._latest_s())[1]
        return rule.check(outcomes, late)

    @logged()
    def discover(
        self, urls: Sequence[str] | PackedUrls, *, now: float, importance: npt.ArrayLike | None = None
    ) -> Discovered:
        """Add pages that are known but never visited; return how many were new. O(1) a URL.

        Until its first visit a page is ranked as if it had been visited at `now`. `importance`: float64[n], the weight
        of each page from now on, known pages included. URLs that break the format or are not absolute (``schemes``)
        are rejected and listed in the result: a site may link to anything. Pages beyond `max_pages` or
        `max_pages_per_host` are refused: `refused_pages` counts them. Raises InvalidOutcome for an item that is not a
        str, and for a weight that is none.
        """
        core, packed = self.core, as_urls(urls)
        weights = None if importance is None else as_weights(importance, len(packed))
        packed, weights, problems = core.url_rule.admit(packed, weights)
        with core.lock:
            core.clock.advance(now)
            added = core.add(packed, now)
            if weights is not None:
                core.pages.weigh(packed, weights)
        return Discovered(added=added, rejected=len(problems), rejections=Rejection.of(problems))

    @logged(LeasedRows())
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
        pages wait for one full host or have equal scores without being alike.
        With `hosts`, O(groups + pages of these hosts).
        """
        core = self.core
        request = BatchRequest.checked(k, now, lease=lease, hosts=hosts, per_host=per_host, key=key)
        with core.lock:
            batch = core.batches.lease_batch(request)
            if not batch.repeated:
                core.clock.advance(now)
                core.report(batch)
        return batch

    @logged(LeasedRows())
    def grant(self, urls: Sequence[str], *, now: float, lease: str | float = "10m", key: str | None = None) -> Granted:
        """Lease exactly these pages, where they may be leased now; the result names the others with the reason.

        For callers that choose from an `offer`. Hosts give as many pages as to a batch, the first ones given. Pages
        that the panel is due are leased for it. `key`: as for `next_batch`. O(1) a URL. Raises KeyReusedError.
        """
        core = self.core
        request = GrantRequest(as_urls(urls), now, parse_lease(lease), check_key(key))
        with core.lock:
            granted = core.batches.grant(request)
            if not granted.batch.repeated:
                core.clock.advance(now)
                core.report(granted.batch)
        return granted

    @logged()
    def release(self, urls: Sequence[str]) -> int:
        """Give leased pages back unvisited; return how many of `urls` are known. O(1) a URL.

        Their hosts stay blocked for the delays of these visits: it is not recorded which page added which delay, and a
        late visit is better than an early one. `block(host, now)` ends that if no other page of the host is leased.
        """
        core = self.core
        with core.lock:
            rows = core.pages.find(as_urls(urls))
            take_back_visits(core.pages.arrays, np.unique(rows[rows >= 0]))
            core.politeness_policy.leases.release(core.pages.arrays, rows[rows >= 0])
            core.formula_switch.keep_up(rows)
        return int(np.count_nonzero(rows >= 0))

    @logged()
    def forget(self, urls: Sequence[str] | None = None, *, host: str | None = None) -> int:
        """Forget pages, or all pages of `host`; return how many were known. O(1) a URL; O(groups + pages) for a host.

        They are in no batch and no count any more, and nothing that was learned of them remains; discovered again,
        each is a new page. What they taught about their hosts and URL patterns stays, and so do rules and blocks.
        Their rows are not used again: the texts of their URLs stay in the state, `scores` and `max_pages` count them,
        and visits stay in the journal until they are overwritten; ``streamsched state compact`` frees all of it.
        ``*.example.org`` names several hosts. Raises SettingsError unless one of `urls` and `host` is given.
        """
        if (urls is None) == (host is None):
            raise SettingsError(
                "urls", None if urls is None else "URLs beside a host", "URLs, or a host in place of them"
            )
        core = self.core
        with core.lock:
            shard = core.pages.arrays
            if urls is None:
                rows = find_pages_of_hosts(shard.groups, shard.corpus, [] if host is None else [host])[1]
            else:
                rows = np.unique(core.pages.find(as_urls(urls)))
            rows = rows[rows >= 0]
            core.politeness_policy.leases.release(shard, rows)
            forget_rows(shard, rows)
            core.formula_switch.keep_up(rows)
            core.forgotten += rows.size
        return rows.size

    @logged()
    def ask(self, urls: Sequence[str] | PackedUrls, *, now: float) -> Discovered:
        """Request one visit of each page, whatever its score; return how many pages were new. O(1) a URL.

        They precede other pages until their next outcomes and wait only for leases and hosts; a rule `never` still
        applies. Unknown pages are added, and wrong URLs rejected, as by `discover`.
        """
        core = self.core
        packed, _, problems = core.url_rule.admit(as_urls(urls))
        with core.lock:
            core.clock.advance(now)
            added = core.add(packed, now)
            rows = core.pages.find(packed)
            rows = rows[rows >= 0]
            core.politeness_policy.ask(core.pages.arrays, rows)
            core.formula_switch.keep_up(rows)
        return Discovered(added=added, rejected=len(problems), rejections=Rejection.of(problems))

    @logged()
    def block(self, host: str, until: float) -> int:
        """Exclude a host from batches until `until`, UTC epoch seconds; return how many known hosts that affects. O(1).

        ``*.example.org`` names several hosts, O(hosts). Hosts that become known later are blocked by the last call
        that matches them. An earlier block of the host is replaced, so a time that has passed ends it. Raises
        SettingsError if `host` is not a host or `until` not a time.
        """
        core = self.core
        with core.lock:
            blocked, sooner = core.politeness_policy.block(core.pages.arrays, host, until)
            if sooner:  # otherwise the bounds of their pages remain valid
                core.formula_switch.forget()
        return blocked.size

    @logged()
    def set_rules(self, rules: Mapping[str, Rule | HostRule | None]) -> int:
        """Set rules for hosts, URL patterns and pages; return how many pages they may concern.

        None removes the rules of a target, both if a host has one for itself and one for its pages. A page follows the
        newest rule for itself, else for one of its patterns, else for its host; see `rule_targets` for how targets are
        written. A `never` rule overrides all others until it is removed or replaced. Rules apply to later pages too;
        removing a rule that was not set concerns none. O(pages), O(1) for each rule of one page.
        Raises SettingsError, and sets none, if one of them is invalid.
        """
        core = self.core
        with core.lock:
            concerned = core.politeness_policy.set_rules(core.pages, rules).size
            core.formula_switch.forget()
        return concerned

    def set_rule(self, target: str, rule: Rule | HostRule | None) -> int:
        """Set one rule as `set_rules` does; for many rules that is faster."""
        check_type("target", target, str, "a host, a URL pattern or a page")
        return self.set_rules({target: rule})

    @logged()
    def set_politeness(self, politeness: Politeness) -> None:
        """Replace the politeness settings, for back-offs under way too; leases keep their length. O(pages).

        Raises SettingsError if `politeness` is not a Politeness.
        """
        if not isinstance(politeness, Politeness):
            raise SettingsError("politeness", politeness, "Politeness")
        core = self.core
        with core.lock:
            core.replace_politeness(politeness)
            core.formula_switch.forget()

    @logged()
    def _limit_ahead(self, max_ahead: Any) -> None:
        with self.core.lock:
            self.core.clock.max_ahead_s = max_ahead

    @logged()
    def _set_bounds(self, bounds: Mapping[str, int | None]) -> None:
        with self.core.lock:
            self.core.pages.bounds = replace(self.core.pages.bounds, **bounds)

    @logged()
    def _use(self, champion: Champion) -> None:
        """Rank by `champion`; see `use`, which logs it when the formula takes over."""
        self.core.use(champion, wait=True)

    def begin_trial(self, challenger: str | Formula | Champion, *, now: float) -> None:
        """Rank a share of the pages by `challenger` from `now` on, a tenth or 65,536 pages if that is less.

        Which pages these are is drawn again every 14 cycles, 26 times. `trial` returns what both formulas found. A
        formula that takes over ends the trial, and so does `end_trial`; the scheduler decides nothing. O(1). Raises
        FormulaError as `use` does.
        """
        if not isinstance(challenger, str | Formula | Champion):
            raise SettingsError("challenger", challenger, "a formula, as text or parsed, or a Champion")
        formula = parse_provided(challenger.formula if isinstance(challenger, Champion) else challenger)
        self._begin_trial(challenger if isinstance(challenger, Champion) else Champion(formula, BY_HAND), now=now)

    @logged()
    def _begin_trial(self, challenger: Champion, *, now: float) -> None:
        core = self.core
        with core.lock:
            core.trial.begin(core.pages.arrays, Trial(challenger, now))

    @logged()
    def end_trial(self) -> None:
        """Rank all pages by the champion again, and forget what the trial has shown. Without a trial nothing. O(1)."""
        with self.core.lock:
            self.core.trial.end(self.core.pages.arrays)

    def trial(self) -> TrialView | None:
        """Return the trial under way and its evidence so far, None without one. O(1)."""
        return view_trial(self.core)

    def trial_counts(self) -> TrialCounts:
        """Return the champion, the challenger on trial, and what the pages of both have shown. O(1)."""
        return count_trial(self.core)

    @logged()
    def _follow_plan(self, plan: CrawlPlan, rates: npt.NDArray[np.float32], champion: Champion | None = None) -> None:
        """Give the first pages the crawl rates of `plan`: float32[plan.pages]. O(pages). For `Optimiser`.

        `champion`: ranks from the same instant on, if the formula in use does not read the rates; it is in the log with
        them, as one without the other would rank by rates that are all 0.
        """
        core = self.core
        with core.lock:
            if rates.size > len(core.pages):
                raise LogMismatch("a plan of more pages than the state has: the log belongs to another state")
            write_crawl_rates(core.pages, rates)
            core.follow(plan, champion)
            core.formula_switch.keep_up()

    def _latest_s(self) -> float | None:
        """Return the latest time that outcomes may have by a clock; None without a clock."""
        return None

    def _check_now(self, now: float) -> float:
        """Return the time of a call that changes the state. Raises SettingsError if it cannot be the present."""
        return check_time(now)

    def __len__(self) -> int:
        """Return how many pages are known."""
        return len(self.core.pages) - self.core.forgotten

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
        return self.core.reached.positions

    @property
    def formula(self) -> Formula:
        """The score function in use."""
        return self.core.champion.formula

    @property
    def champion(self) -> Champion:
        """The score function in use, and its origin."""
        return self.core.champion

    @property
    def politeness(self) -> Politeness:
        """The politeness settings. Rules of `set_rules` override them."""
        return self.core.politeness_policy.politeness

    @property
    def rules(self) -> RulesView:
        """The rules in force by target, those for hosts and those for pages. O(rules)."""
        return view_rules(self.core)

    @property
    def regions(self) -> tuple[str, ...]:
        """The names of the regions whose weeks are learned separately."""
        return tuple(self.core.pages.regions or ())

    @property
    def refused_pages(self) -> int:
        """How many outcomes and discoveries of unknown pages `max_pages` and `max_pages_per_host` have refused."""
        return int(self.core.pages.corpus["refused_pages"][0])

    @property
    def refused_patterns(self) -> int:
        """How many new pages joined a larger URL pattern because of `max_patterns_per_host`."""
        return int(self.core.pages.corpus["refused_patterns"][0])

    @property
    def unproven_share(self) -> float | None:
        """The share of the newest visits, some 1,000, that say nothing about a change; None before 100 visits.

        Above one half a warning is logged: a crawler should report `changed`, `content`, `fingerprint` or status 304.
        """
        return unproven_share(self.core.pages.corpus)

    def state_bytes(self) -> dict[str, int]:
        """Return the bytes of memory in use for each part of the state, rankings included. O(1)."""
        with self.core.lock:
            return self.core.pages.state_bytes() | {"ranking": self.core.formula_switch.nbytes()}

    def sources(self) -> list[SourceReliability]:
        """Return what visits have shown of each source of change signals, each kind before its hosts. O(sources)."""
        with self.core.lock:
            return list_sources(self.core.pages.arrays, self.core.pages.signal_kinds)

    def surges(self, k: int = 100) -> list[SurgeView]:
        """Return the `k` surges under way that the most changed pages wait for, the largest first. O(groups).

        Groups are read in parts, between which other calls may change them.
        """
        return list_surges(self.core, check_whole("k", k, 0, "0 or more surges"))

    def week(
        self, *, now: float, url: str | None = None, host: str | None = None, region: str | None = None
    ) -> WeekView | None:
        """Return how busy each hour of the week is for a page, a host or a region, or for all pages. O(1).

        `now`: chooses the local time. None for an unknown page or host. Raises SettingsError for an unknown region, or
        if more than one is given.
        """
        return view_week(self.core, check_time(now), url=url, host=host, region=region)

    def rank(self, k: int = 1000, *, now: float, surge_probes: bool = False) -> Batch:
        """Return the best `k` pages that may be visited at `now`, without leasing them and without quotas or panel.

        Their order is that of the scores.

        Spacing by a `delay` is ignored, so a host may have more pages than in a batch. `surge_probes`: replace the
        worst pages by the surge probes that a batch would have.

        O(k); O(pages) for times before the last batch or long after it.
        """
        now, k = check_time(now), check_whole("k", k, 0, "0 or more pages")
        surge_probes = check_flag("surge_probes", surge_probes)
        with self.core.lock:
            return self.core.batch_builder.preview(k, now, surge_probes=surge_probes)

    def offer(
        self,
        k: int = 1000,
        *,
        now: float,
        lease: str | float = "10m",
        hosts: Sequence[str] | None = None,
        per_host: int | None = None,
    ) -> Batch:
        """Return the batch that `next_batch` would lease with these arguments, and lease nothing; see `grant`.

        It changes nothing. The cost is that of `next_batch`.
        """
        request = BatchRequest.checked(k, check_time(now), lease=lease, hosts=hosts, per_host=per_host)
        with self.core.lock:
            return self.core.batches.offer(request)

    def score(self, urls: Sequence[str], *, now: float) -> Floats:
        """Return the scores of `urls` at `now`: float64[n]. O(1) a URL. Raises UnknownPage."""
        with self.core.lock:
            return self.core.score(check_time(now), self.core.find_known(urls))

    def scores(self, *, now: float) -> Floats:
        """Return the scores of all pages by row: float64[rows], NaN for those of forgotten pages. O(pages)."""
        with self.core.lock:
            scores = self.core.score(check_time(now))
            if self.core.forgotten:
                scores[self.core.pages.arrays.pages.records["rule"][: scores.size] == FORGOTTEN] = np.nan
            return scores

    def explain(self, url: str, *, now: float, k: int = 1000, lease: str | float = "10m") -> Explanation:
        """Return what is known of a page, its score and rank at `now`, and why the next batch of `k` has it or not.

        `lease`: of that batch; hosts with a delay have as many pages as can be visited in it. O(k), and O(pages) for
        its place, which is estimated for more than 65,536 pages. Raises UnknownPage.
        """
        now, k = check_time(now), check_whole("k", k, 1, "1 or more pages")
        lease_s = parse_lease(lease)
        core = self.core
        with core.lock:
            row = int(core.find_known([url])[0])
            query = core.batch_builder.query(k, now, lease_s)
            explanation = core.batch_builder.explain(row, core.champion, query, core.plan)
        if core.catching_up is None:
            return explanation
        waits = describe_reasons([Reason(ReasonCode.CATCHING_UP, {"partition": core.catching_up})])
        return structs.replace(explanation, in_batch=False, reasons=(*waits, *explanation.reasons))

    def training(self, cycles: int, *, now: float, seed: int = 0) -> Training:
        """Return in which of the last `cycles` whole cycles up to `now` each page of a uniform sample changed.

        Cycles that no visit saw are drawn from the pages' posteriors with `seed`; the result marks them. O(pages).
        """
        return next(self.core.trainings(cycles, now=now, seeds=[seed]))

    def digest(self) -> str:
        """Return one hash of the logical state, equal for equal states however they were made. O(pages)."""
        return self.core.digest()

    def count(self) -> int:
        """Return how many pages are known, as ``len`` does. O(1)."""
        return len(self)

    def page(self, url: str, *, now: float) -> PageView | None:
        """Return what is known of a page at `now`, None for an unknown page. O(1)."""
        return view_page(self.core, url, check_time(now))

    def host(self, name: str, *, now: float) -> HostView | None:
        """Return a host's limits at `now` and what holds it back, None for a host without a known page. O(1)."""
        return view_host(self.core, name, check_time(now))

    def hosts(self, start: int | str = 0, size: int = 100, *, now: float, order: HostOrder = "known") -> HostPage:
        """Return `size` hosts in the order in which they became known, from `start` on. O(size), amortised.

        - `start`: 0, the ``next`` of the part before, or in the order "known" the name of a known host;
        - `order`: "failing" for those with the most pages whose last fetch failed, and only hosts with any. O(pages).
        """
        return list_hosts(self.core, start, size, check_time(now), order)

    def tie_keys(self, urls: Sequence[str], *, now: float) -> Hashes:
        """Return the keys that order pages of equal score at `now`, the smaller first: uint64[n]. O(1) a URL.

        They change each cycle. Raises UnknownPage.
        """
        with self.core.lock:
            return self.core.tie_keys(now=check_time(now), rows=self.core.find_known(urls))

    def save(self, path: str | Path) -> Path:
        """Save the state to the directory `path`, made if necessary, atomically; return the file written. O(pages).

        The file holds the state at the instant of the call. Other threads continue; each waits for milliseconds.
        Raises SnapshotError if it cannot be written, StreamNeeded if logged calls of that directory would be lost.
        """
        directory = check_path("path", path)
        if self._incomplete is not None and Path(self._incomplete.path).resolve() == directory.resolve():
            raise self._incomplete
        return save_state(directory, self.core)

    @classmethod
    def load(cls, path: str | Path, *, threads: int | None = None) -> Scheduler:
        """Return a scheduler in memory with the state in the directory `path`. O(pages), O(calls logged since).

        Nothing in the directory changes; another process may own it. Damaged files are reported by the logger
        ``streamsched.persistence``, and the newest whole state is loaded; if logged calls depend on a stream that must
        be read again, the state before them. Raises SnapshotError if there is no state, none is whole, or logged calls
        are damaged or missing.
        """
        found = recover_state(check_path("path", path), threads)
        scheduler = Scheduler.__new__(Scheduler)  # its settings are part of the state
        scheduler.core = found.core
        if found.needed is not None:
            _log.warning("%s; loaded the state before that call", found.needed)
            scheduler._incomplete = found.needed  # noqa: SLF001  its own
        return scheduler
