"""Slow reference implementation of a whole shard: a dict of plain objects, and every rule applied literally."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from streamsched.estimation import hierarchical_prior
from streamsched.estimation.gamma_posterior import HIGHEST_SHAPE, LOWEST_SHAPE
from streamsched.numerics.jit import mix
from streamsched.outcomes import Outcome
from streamsched.records.page_schema import LONGEST_INTERVAL, SHORTEST_INTERVAL
from streamsched.records.schema import SHADOW_PAGES
from streamsched.records.url_patterns import GROUP_PAGES, MAX_DEPTH
from streamsched.records.visit_journal import JOURNAL_VISITS, SAMPLE_PAGES
from tests.reference import estimators, forgetting, seasonality
from tests.reference.causes import Causes, changes
from tests.reference.related_pages import RelatedPages
from tests.reference.seasonality_profiles import Seasonality
from tests.reference.signals import Host, Interval, Signals
from tests.reference.significance import PageSignificance, Significances, significance_of
from tests.reference.surges import Surges
from tests.reference.url_hash import hash_of

ESTIMATES = {
    "CG": estimators.cg,
    "NAD": estimators.nad,
    "SAD": estimators.sad,
    "AAD": estimators.aad,
    "GAD": estimators.gad,
}


@dataclass
class Page:
    """The state of one URL: all its visits, with nothing summed that need not be."""

    url: str
    row: int
    last_visit_s: float
    group: tuple[str, ...] = ()
    prior: tuple[float, float] = (0.0, 0.0)  # shape and exposure, as the page was last given them
    last_outcome_s: float = -math.inf
    last_attempt_s: float = -math.inf
    denied: bool = False  # by robots.txt
    left: dict[str, Any] | None = None  # what the last informative visit left: `judge`'s page
    flags: list[bool] = field(default_factory=list)
    own_shape: float = 0.0
    own_exposure: float = 0.0
    shadow: list[forgetting.Evidence] = field(default_factory=forgetting.no_evidence)
    failures: int = 0
    gone: int = 0
    importance: float = 1.0
    cost: float = 1.0
    link: seasonality.Link | None = None
    significance: PageSignificance = field(default_factory=PageSignificance)
    crawl_rate: float = 0.0
    validators: tuple[str | None, str | None] = (None, None)  # ETag and Last-Modified
    lease_until_s: float | None = None  # of the last lease that neither an outcome nor a release has ended
    leased_s: float = math.inf  # when it began
    for_panel: bool = False

    def lease(self, now: float, until_s: float) -> None:
        """Lease the page; the length is kept in single precision, rounded up."""
        self.lease_until_s = until_s
        self.leased_s = until_s - float(np.nextafter(np.float32(until_s - now), np.float32(np.inf)))


@dataclass(frozen=True)
class Visit:
    """An informative visit."""

    url: str
    at_s: float
    changed: bool
    first: bool
    unproven: bool


@dataclass
class Group:
    """A host, or a host and leading directories: ``("a.example", "docs")``."""

    mean: float
    visits: int = 0
    changes: int = 0
    own_mean: float = 0.0  # before averaging with the parent's
    log_odds: float = 0.0  # of a host: that the means of its patterns predict better than their parents'

    def __post_init__(self) -> None:
        self.own_mean = self.mean


class Shard:
    """Outcomes applied one by one, groups and priors as in `url_patterns` and `hierarchical_prior`.

    Prefixes are counted exactly, unlike the shard's sketch; and a sweep looks at each page for a deeper group, while
    the shard skips those that cannot have one.
    """

    def __init__(
        self,
        cycle_s: float,
        change_bits: int = 6,
        changes: str = "exact",
        journal_visits: int = JOURNAL_VISITS,
        bounds: tuple[float, float, float] = (math.inf, math.inf, math.inf),
        clock_skew_s: float = 10.0,
    ) -> None:
        self.clock_skew_s = clock_skew_s
        self.newest_s: float | None = None  # newest applied outcome
        self.most_pages, self.most_host_pages, self.most_host_patterns = bounds
        self.refused_pages = self.refused_patterns = 0
        self.cycle_s = cycle_s
        self.change_bits = change_bits
        self.changes = changes
        self.pages: dict[str, Page] = {}
        self.rows: list[Page] = []  # forgotten ones too
        self.groups: dict[tuple[str, ...], Group] = {}
        self.met: Counter[tuple[str, ...]] = Counter()
        self.mean = hierarchical_prior.FIRST_MEAN_PER_DAY * cycle_s / 86_400.0
        self.shape = hierarchical_prior.FIRST_SHAPE
        self.applied = self.intervals = 0
        self.sweeps = 0
        self.sweep_row = self.sweep_end = 0
        self.first_mean = self.mean
        self.first_intervals: list[tuple[float, float]] = []  # lengths, and how far a change was its own
        self.hurried = 0  # sweeps before this one are fast
        self.swept_pages = 0  # pages with observed intervals that the last sweep passed
        self.rates: list[tuple[tuple[str, ...], float, float]] = []  # of this sweep: a page's group, changes, exposure
        self.shape_information = hierarchical_prior.SHAPE_INFORMATION
        self.served = self.hits = self.moved = 0
        self.journal: deque[Visit] = deque(maxlen=journal_visits)
        self.forgetting = forgetting.Forgetting(cycle_s)
        self.surges = Surges(cycle_s)
        self.causes = Causes()
        self.related = RelatedPages()
        self.significances = Significances()
        self.seasonality = Seasonality(cycle_s)
        self.signals = Signals()
        self.evidence: list[bool] = []  # of each visit after the first that reached its page

    def observe(self, outcome: Outcome) -> str:
        """Apply one outcome; return its verdict.

        One of refused, duplicate, late, untried, denied, failure, first, same, change and no_evidence.
        """
        verdict = self.apply(outcome)
        if verdict in ("refused", "duplicate", "late"):
            return verdict
        self.newest_s = max(outcome.fetched_at, outcome.fetched_at if self.newest_s is None else self.newest_s)
        if outcome.moved_to is not None:
            self.moved += 1
            self.page(outcome.moved_to, outcome.fetched_at)
        return verdict

    def answers(self, outcome: Outcome) -> bool:
        """Whether an outcome, if it is applied, ends a lease of its page: not if it was fetched before the lease."""
        page = self.pages.get(outcome.url)
        leased = page is not None and page.lease_until_s is not None
        return not (page and leased) or outcome.fetched_at >= page.leased_s - self.clock_skew_s

    def apply(self, outcome: Outcome) -> str:
        """Apply one outcome to its own page."""
        page = self.page(outcome.url, outcome.fetched_at)
        if page is None:
            return "refused"
        if outcome.fetched_at <= page.last_outcome_s:
            return "duplicate" if outcome.fetched_at == page.last_outcome_s else "late"
        page.last_outcome_s = outcome.fetched_at
        answers = self.answers(outcome)
        served = answers and page.lease_until_s is not None and not page.for_panel
        if answers:
            page.lease_until_s, page.for_panel = None, False
        if outcome.status == "not_attempted":
            return "untried"
        self.applied += 1
        page.denied = outcome.status == "robots_denied"
        if page.denied:
            return "denied"
        page.last_attempt_s = outcome.fetched_at
        self.give_prior(page)
        page.importance = page.importance if outcome.importance is None else single(outcome.importance)
        page.cost = single(outcome.cost or 0.0) or page.cost  # a cost of 0 is none
        fields = ("status", "fingerprint", "changed", "content")
        visit = {name: getattr(outcome, name) for name in fields if getattr(outcome, name) is not None}
        verdict = estimators.judge(visit, page.left, self.change_bits, self.changes)
        if verdict == "failure":
            page.failures = min(page.failures + 1, 255)
            return verdict
        if verdict in ("same", "change"):
            assert page.link is not None
            counts = len(page.flags), sum(page.flags), len(self.pages)
            span = page.last_visit_s, outcome.fetched_at
            elapsed = min(max((span[1] - span[0]) / self.cycle_s, 0.0), LONGEST_INTERVAL)
            hit = self.shared(page, elapsed)
            due = self.seasonality.learn(page.link, self.posterior(page), span, verdict == "change", counts, hit)
            self.learn(page, outcome.fetched_at, verdict == "change", due)
            assert page.left is not None
            significance = significance_of(visit, page.left, outcome.significance)
            if verdict == "change" and significance is not None:
                self.significances.learn(page.significance, page.group[0], significance)
        else:
            self.related.drop(page.url)
            if self.has_source(page.url):
                self.signals.begin(page.url, self.host_of(page), outcome.fetched_at, 0.0)
        page.left = left_behind(visit, page.left, verdict in ("change", "no_evidence"))
        page.validators = validators_after(outcome, verdict, page.validators)
        page.failures = 0
        page.gone = min(page.gone + 1, 255) if outcome.status in (404, 410) else 0
        page.last_visit_s = outcome.fetched_at
        self.count_visit(page, verdict, served)
        return verdict

    def count_visit(self, page: Page, verdict: str, served: bool) -> None:
        """Count an informative visit: in the journal, in the share of evidence, and as an answer to a batch."""
        if self.is_sampled(page.row):
            told = [verdict == one for one in ("change", "first", "no_evidence")]
            self.journal.append(Visit(page.url, page.last_visit_s, *told))
        if verdict != "first":
            self.evidence.append(verdict != "no_evidence")
        if verdict in ("same", "change"):
            self.count_interval()
            self.served += served
            self.hits += served and verdict == "change"

    def notice(self, url: str, kind: str, at_s: float) -> str:
        """Apply one signal; return its fate."""
        is_new = kind not in self.signals.kinds
        if is_new and len(self.signals.kinds) == 8:
            return "refused"
        if url not in self.pages:
            return "discovered" if self.page(url, at_s) else "refused"
        page = self.pages[url]
        shape, exposure = self.posterior(page)
        rate = shape / exposure * 86_400.0 / self.cycle_s
        fate = self.signals.notice(url, self.host_of(page), kind, at_s - page.last_visit_s, at_s, rate)
        if is_new and fate == "applied":
            self.signals.kinds.append(kind)
        return fate

    def has_source(self, url: str) -> bool:
        """Whether a source has ever announced a change of a page."""
        announced = self.signals.of_page(url)
        return bool(announced.covered | announced.kinds)

    def host_of(self, page: Page) -> Host:
        """A page's host."""
        host, days = page.group[0], self.cycle_s / 86_400.0
        pages = sum(other.group[0] == host for other in self.pages.values())
        return Host(host, pages, self.mean / days, self.groups[page.group[:1]].mean / days)

    def is_sampled(self, row: int) -> bool:
        """Whether the page is in the sample: all of 50,000 pages, half of 100,000, a quarter of 200,000."""
        share = 1
        while len(self.pages) > SAMPLE_PAGES * share:
            share *= 2
        return sample_hash(row) < 2**64 // share

    def page(self, url: str, known_since_s: float) -> Page | None:
        """The page of `url`, created and assigned to its group if it is new; None if a bound refuses it."""
        if url not in self.pages:
            host = names_of(url)[0]
            on_host = sum(names_of(known)[0] == host for known in self.pages)
            if len(self.pages) >= self.most_pages or on_host >= self.most_host_pages:
                self.refused_pages += 1
                return None
            self.pages[url] = Page(url, len(self.rows), known_since_s)
            self.rows.append(self.pages[url])
            self.open_groups(url)
            self.pages[url].group = self.deepest(url)
            self.give_prior(self.pages[url])
            self.related.add(url, list(self.groups).index(self.pages[url].group[:1]))
        return self.pages[url]

    def open_groups(self, url: str) -> None:
        """Add the host of a new page, and a prefix below its group if the page is the 16th to have it."""
        names = names_of(url)
        self.groups.setdefault(names[:1], Group(self.mean))
        for size in range(len(self.deepest(url)) + 1, min(len(names), MAX_DEPTH + 1) + 1):
            self.met[names[:size]] += 1
            if self.met[names[:size]] < GROUP_PAGES:
                break
            if sum(len(name) > 1 and name[0] == names[0] for name in self.groups) >= self.most_host_patterns:
                self.refused_patterns += 1
                break
            self.groups[names[:size]] = Group(self.groups[names[: size - 1]].mean)

    def deepest(self, url: str) -> tuple[str, ...]:
        """The longest name of a group that the URL begins with."""
        names = names_of(url)
        return next(names[:size] for size in range(len(names), 0, -1) if names[:size] in self.groups)

    def learn(self, page: Page, fetched_at: float, changed: bool, due: float | None) -> None:
        """Count one interval, and update the posterior under the page's prior; `due`: by the page's schedule."""
        interval = (fetched_at - page.last_visit_s) / self.cycle_s
        interval = min(max(interval, SHORTEST_INTERVAL), LONGEST_INTERVAL)
        group = self.groups[page.group]
        group.visits += 1
        group.changes += changed
        page.flags.append(changed)
        members = sum(other.group == page.group for other in self.pages.values())
        elapsed = min(max((fetched_at - page.last_visit_s) / self.cycle_s, 0.0), LONGEST_INTERVAL)
        unhit = 1.0 - self.surges.terminal(page.group, page.last_visit_s, elapsed)
        effective, quiet, spared = 1.0, due, 1.0
        announced = self.signals.of_page(page.url)
        if self.has_source(page.url):
            effective, spared = announced.quieten(interval, self.cycle_s) / interval, announced.spared
            quiet = None if due is None else announced.quieten_due(due)
        by_itself = self.posterior(page)
        silent = estimators.probability_changed(*by_itself, interval * effective) if quiet is None else quiet
        alone = silent + (1.0 - silent) * (1.0 - spared)  # 1 - (1 - silent) spared, with the digits of a tiny `silent`
        if self.has_source(page.url):
            days = (fetched_at - page.last_visit_s) / 86_400.0
            rate = by_itself[0] / by_itself[1] * 86_400.0 / self.cycle_s
            by_any = 1.0 - (1.0 - alone) * unhit * self.related.claims[page.url].missed
            seen = Interval(rate, min(max(days, 0.0), 1000.0), changed, effective, max(days, 0.0), by_any)
            self.signals.settle(page.url, self.host_of(page), fetched_at, seen)
        followed, by_one = self.related.settle(page.url, changed, (1.0 - alone) * unhit)
        apart = alone + (1.0 - alone) * followed
        unexplained = alone / apart if changed and followed else 1.0
        part = alone / (alone + (1.0 - alone) * by_one) if changed and followed else 1.0
        visit = page.last_visit_s, fetched_at, changed
        untold = self.surges.untold(page.group, visit, members)
        expected = {
            "itself": changes(silent),
            "shown_surge": changes(1.0 - untold),
            "unseen_surge": self.surges.of(page.group).hazard * elapsed,
            "related": changes(followed),
            "signals": changes(1.0 - spared),
        }
        if page.row % self.shadow_stride() == 0:
            self.causes.learn(expected, changed)
        own = part * self.surges.weigh(page.group, visit, apart, members)
        if changed:
            seen_by = {other.url for other in self.pages.values() if other.left and other.last_visit_s < fetched_at}
            self.related.claim(page.url, unexplained, seen_by, self.applied)
        known = own * (1.0 - spared) / alone if changed else 0.0
        self.count(page, interval, changed, own - known, effective, known)

    def count(self, page: Page, interval: float, changed: bool, own: float, effective: float, known: float) -> None:
        """Count an interval in all that estimates rates; `own`, `effective` and `known` as in `Forgetting.compare`."""
        if len(page.group) > 1 and self.applied % hierarchical_prior.EVIDENCE_STRIDE == 0:
            self.weigh_pattern(page, interval * effective, changed, own)
        if len(page.flags) == 1:
            self.count_first_interval(interval * effective, own if changed else 0.0)
        else:
            self.learn_shape(page, interval * effective, changed, own)
        if page.row % self.shadow_stride() == 0:
            page.shadow = self.forgetting.compare(page.shadow, page.prior, interval, changed, own, effective, known)
        days, half_life = interval * self.cycle_s / 86_400.0, self.forgetting.half_life
        evidence = forgetting.fade((page.own_shape, page.own_exposure), days, half_life)
        counted = forgetting.count(interval, days, half_life)
        evidence = evidence[0], evidence[1] + counted * (1.0 - effective)
        page.own_shape, page.own_exposure = forgetting.learn(page.prior, evidence, counted * effective, changed, own)
        page.own_shape += known

    def shadow_stride(self) -> int:
        """From one page of the sample that half-lives are compared on to the next."""
        stride = 1
        while len(self.pages) > SHADOW_PAGES * stride:
            stride *= 2
        return stride

    def count_first_interval(self, interval: float, changed: float) -> None:
        """Learn the mean when first intervals have doubled, and move all means if no sweep has seen half of them."""
        self.first_intervals.append((interval, changed))
        count = len(self.first_intervals)
        if count < hierarchical_prior.FIRST_INTERVALS or count & (count - 1):
            return
        guess = hierarchical_prior.FIRST_MEAN_PER_DAY * self.cycle_s / 86_400.0
        self.first_mean = mean_of_intervals(self.first_intervals, hierarchical_prior.INTERVAL_SHAPE, guess)
        if count >= 2 * self.swept_pages:
            ratio = self.first_mean / self.mean
            self.hurry(ratio)
            self.mean = self.first_mean
            for group in self.groups.values():
                group.mean *= ratio
                group.own_mean *= ratio

    def hurry(self, ratio: float) -> None:
        """The next sweep is a fast one, and this one is from now on, if the mean moves far."""
        if max(ratio, 1.0 / ratio) > hierarchical_prior.FAR:
            self.hurried = self.sweeps + 2

    def weigh_pattern(self, page: Page, interval: float, changed: bool, own: float) -> None:
        """Add the log-likelihood ratio of the pattern's mean and its parent's to the host's decaying sum.

        A change counts as far as it was the page's own.
        """
        host, parent = self.groups[page.group[:1]], self.groups[page.group[:-1]]
        odds = []
        for mean in (self.groups[page.group].own_mean, parent.mean):
            shape, exposure = self.shape + page.own_shape, self.shape / mean + page.own_exposure
            quiet = -shape * math.log1p(interval / exposure)
            odds.append(math.log(max(-math.expm1(quiet), 1e-300)) if changed else quiet)
        host.log_odds += own * (odds[0] - odds[1]) - host.log_odds / hierarchical_prior.EVIDENCE_MEMORY

    def learn_shape(self, page: Page, interval: float, changed: bool, own: float) -> None:
        """Move the logarithm of the shape by the slope of a visit's log-likelihood over the information so far.

        The prior's mean stays. Slopes by a complex step: the imaginary part of f(s + ih) / h.
        """
        step = 1e-20
        shape = complex(page.prior[0], step)
        exposure = shape * page.prior[1] / page.prior[0] + page.own_exposure
        ratio = interval / exposure
        logged = complex(math.log1p(ratio.real), ratio.imag / (1.0 + ratio.real))  # of 1 + ratio, to the last digit
        quiet = -(shape + page.own_shape) * logged
        slope = page.prior[0] * quiet.imag / step
        if changed:
            slope *= 1.0 - own / max(-math.expm1(quiet.real), 1e-300)
        self.shape_information += slope**2
        moved = self.shape * math.exp(slope / self.shape_information)
        self.shape = min(max(moved, LOWEST_SHAPE), HIGHEST_SHAPE)

    def give_prior(self, page: Page) -> None:
        """Set the page's prior to its group's current one, in single precision."""
        exposure = min(self.shape / self.groups[page.group].mean, LONGEST_INTERVAL)
        page.prior = single(self.shape), single(exposure)
        schedule = page.link.schedule if page.link else None
        page.link = seasonality.Link(self.seasonality.find(page.group), self.sweeps & 1, schedule)
        self.significances.refresh(page.significance, page.group[0])

    def posterior(self, page: Page) -> tuple[float, float]:
        """The page's Gamma posterior: its prior and what its own visits added."""
        return page.prior[0] + page.own_shape, page.prior[1] + page.own_exposure

    def count_interval(self) -> None:
        """Every 16 intervals the sweep goes through 64 of the pages it began with; at its end priors are updated."""
        self.intervals += 1
        if self.intervals % hierarchical_prior.SWEEP_EVERY == 0:
            if self.sweep_row == 0:
                self.sweep_end = len(self.rows)
            step = hierarchical_prior.SWEEP_ROWS * (hierarchical_prior.FAST if self.sweeps < self.hurried else 1)
            rows = range(self.sweep_row, min(self.sweep_row + step, self.sweep_end))
            for row in rows:
                page = self.rows[row]
                if self.pages.get(page.url) is page:
                    self.sum_page(row, page)
            self.sweep_row = rows.stop
            if self.sweep_row == self.sweep_end:
                self.renew()

    def sum_page(self, row: int, page: Page) -> None:
        """Update the page's group and prior; sum its mean rate."""
        page.group = self.deepest(page.url)
        self.give_prior(page)
        assert page.link is not None
        self.seasonality.sum_up(page.link, row, self.sweeps)
        if page.flags:
            exposure = self.posterior(page)[1]
            self.rates.append((page.group, page.own_shape / exposure, page.own_exposure / exposure))

    def renew(self) -> None:
        """Update the corpus, then each group after its parent, shrunk towards the parent; begin a new sweep."""
        mean = ratio_of_sums([rate[1:] for rate in self.rates], self.first_mean, hierarchical_prior.CORPUS_STRENGTH)
        self.hurry(mean / self.mean)
        self.mean = mean
        self.swept_pages = len(self.rates)
        self.forgetting.renew()
        for name, group in self.groups.items():
            above = self.mean if len(name) == 1 else self.groups[name[:-1]].mean
            below = [rate[1:] for rate in self.rates if rate[0][: len(name)] == name]
            group.mean = group.own_mean = ratio_of_sums(below, above, hierarchical_prior.GROUP_STRENGTH)
            if len(name) > 1:
                odds = math.exp(min(-self.groups[name[:1]].log_odds, 700.0))
                group.mean = above * (group.own_mean / above) ** (1.0 / (1.0 + odds))
        self.rates = []
        counts = {name: group.changes for name, group in self.groups.items()}
        self.seasonality.publish(counts, self.sweeps, len(self.pages))
        self.sweeps += 1
        self.sweep_row = 0

    def terminals(self, url: str, now: float) -> dict[str, float]:
        """Every terminal that a page provides, from its whole history."""
        page = self.pages[url]
        shape, exposure = self.posterior(page)
        elapsed = min(max((now - page.last_visit_s) / self.cycle_s, 0.0), LONGEST_INTERVAL)
        estimates = {name: estimate(page.flags) for name, estimate in ESTIMATES.items()}
        assert page.link is not None
        announced = self.signals.of_page(url)
        beats = seasonality.terminals(page.link, (shape, exposure), page.last_visit_s, now, self.cycle_s)
        if announced.quiet and page.link.schedule is None:
            hours = announced.quieten(beats["tau"], self.cycle_s)
            beats["due"] = estimators.probability_changed(shape, exposure, hours)
        elif announced.quiet:
            beats["due"] = announced.quieten_due(beats["due"])
        own = {
            "n": float(len(page.flags)),
            "X": float(sum(page.flags)),
            "t": elapsed,
            "importance": page.importance,
            "cost": page.cost,
            "rate": shape / exposure,
            "confidence": shape,
            "worth": page.importance / page.cost if page.cost else 0.0,
            "posterior": estimators.probability_changed(shape, exposure, announced.quieten(elapsed, self.cycle_s)),
            "signalled": 1.0 - announced.spared,
            "surge": self.shared(page, elapsed),
            "significance": page.significance.expected,
            "crawl_rate": page.crawl_rate,
        }
        unclaimed = self.related.claims[page.url].missed * announced.spared * math.exp(announced.again)
        own["gain"] = self.surges.gain(
            page.group,
            page.last_visit_s,
            elapsed,
            beats["due"],
            shape=shape,
            unclaimed=unclaimed,
            again=announced.again,
        )
        return estimates | beats | own

    def probability(self, url: str, now: float) -> float:
        """The probability that a page has changed, by its weighed causes."""
        return self.causes.probability(self.expected_changes(url, now))

    def expected_changes(self, url: str, now: float) -> dict[str, float]:
        """The changes that each cause makes expect since the last visit."""
        page, terminals = self.pages[url], self.terminals(url, now)
        return {
            "itself": changes(terminals["due"]),
            "shown_surge": changes(1.0 - self.surges.of(page.group).untouched(page.last_visit_s)),
            "unseen_surge": self.surges.of(page.group).hazard * terminals["t"],
            "related": changes(1.0 - self.related.claims[url].missed),
            "signals": changes(terminals["signalled"]),
        }

    def shared(self, page: Page, elapsed: float) -> float:
        """The probability that a surge, or a change of related pages, has reached a page `elapsed` cycles unvisited."""
        spared = 1.0 - self.surges.terminal(page.group, page.last_visit_s, elapsed)
        return 1.0 - spared * self.related.claims[page.url].missed

    def eligible(self, now: float) -> list[str]:
        """The pages that are neither denied nor leased: a lease ends at the very second of its expiry."""
        allowed = {url: page for url, page in self.pages.items() if not page.denied}
        return [url for url, page in allowed.items() if page.lease_until_s is None or page.lease_until_s <= now]


def validators_after(
    outcome: Outcome, verdict: str, kept: tuple[str | None, str | None]
) -> tuple[str | None, str | None]:
    """The ETag and the Last-Modified of a page after an outcome that reached it: those of its content."""
    if isinstance(outcome.status, int) and outcome.status >= 400:
        return None, None
    reported = zip((outcome.etag, outcome.last_modified), (255, 64), kept, strict=True)
    found = []
    for text, most, before in reported:
        if text is None:
            found.append(before if verdict == "same" else None)
        else:
            fits = len(text) <= most and text.isascii() and text.isprintable()
            found.append(text if text and fits else None)
    return found[0], found[1]


@dataclass
class Panel:
    """The pages of a shard that are visited every cycle."""

    shard: Shard
    share: float
    bar: int = -1
    cycle: float = -math.inf
    handed: int = 0
    own: int = 0

    def members(self) -> list[str]:
        """The pages of the sample up to the bar, the lowest hash first."""
        rows = sorted(page.row for page in self.shard.pages.values() if self.shard.is_sampled(page.row))
        urls = list(self.shard.pages)
        return [urls[row] for row in sorted(rows, key=sample_hash) if sample_hash(row) <= self.bar]

    def choose(self, k: int, now: float, per_host: int | None) -> list[str]:
        """The pages that come first into a batch of `k` pages."""
        if not self.share:
            return []
        cycle = math.floor(now / self.shard.cycle_s)
        if cycle > self.cycle:
            self.resize(round(self.share * self.handed))
            self.cycle, self.handed, self.own = cycle, 0, 0
        eligible = set(self.shard.eligible(now))
        due = [url for url in self.members() if url in eligible and not self.is_tried(url, cycle)]
        due = due if per_host is None else at_most_per_host(due, per_host)
        k = min(k, len(self.shard.pages))
        return due[: max(0, min(k, math.ceil(self.share * (self.handed + k) - 1e-9) - self.own))]

    def is_tried(self, url: str, cycle: float) -> bool:
        """Whether the page had an outcome of a fetch in the cycle, or in a later one."""
        return self.shard.pages[url].last_attempt_s / self.shard.cycle_s >= cycle

    def resize(self, size: int) -> None:
        """Move the bar if the size is far off."""
        if size and not size / 1.5 <= len(self.members()) <= size * 1.5:
            self.bar = 2**64
            hashes = [sample_hash(self.shard.pages[url].row) for url in self.members()]
            self.bar = hashes[size - 1] if size < len(hashes) else 2**64


@cache
def names_of(url: str) -> tuple[str, ...]:
    """The host, lower case, without user and without the scheme's own port, then the path's directories."""
    plain = re.split(r"[?#]", url, maxsplit=1)[0]
    scheme, mark, rest = plain.partition("://")
    if not mark or "/" in scheme:
        scheme, rest = "", plain
    authority, *directories = rest.split("/")
    host = authority.rpartition("@")[2].encode().lower().decode()
    return (host.removesuffix({"http": ":80", "https": ":443"}.get(scheme.lower(), "")), *directories[:-1])


def left_behind(visit: dict[str, Any], before: dict[str, Any] | None, renewed: bool) -> dict[str, Any]:
    """What an informative visit stores for comparison with the next."""
    status = visit.get("status", 200)
    page = {"success": status < 400} | {k: v for k, v in (before or {}).items() if k in ("fingerprint", "content")}
    if status < 400 and renewed:
        page.pop("fingerprint", None)
        page.pop("content", None)
    if status < 400 and status != 304 and "fingerprint" in visit and "fingerprint" not in page:
        page["fingerprint"] = visit["fingerprint"]
    if status < 400 and status != 304 and "content" in visit:
        page["content"] = visit["content"]
    return page


def ratio_of_sums(values: list[tuple[float, float]], towards: float, strength: float) -> float:
    """The sum of changes over that of exposures, with exposures of `strength` more at the rate `towards`."""
    changes, exposures = (sum(value[i] for value in values) for i in (0, 1))
    return float((strength * towards + changes) / (strength + exposures))


def mean_of_intervals(intervals: list[tuple[float, float]], shape: float, guess: float) -> float:
    """The likeliest mean rate of pages seen for one interval each: intervals within an octave have its mean length.

    `FIRST_STRENGTH` intervals more are as long as a page of mean `guess` needs to change by the chance of a half.
    """
    octaves: dict[int, list[tuple[float, float]]] = {}
    for length, changed in intervals:
        octaves.setdefault(math.floor(math.log2(length)), []).append((length, changed))
    even = zero_of(lambda x: (1.0 + guess * x / shape) ** -shape - 0.5, 0.0, 1e3 / guess)
    half = hierarchical_prior.FIRST_STRENGTH / 2
    cells = [(even, half, half)]
    for found in octaves.values():
        changes = sum(changed for _, changed in found)
        cells.append((sum(length for length, _ in found) / len(found), len(found) - changes, changes))

    def rising(log_mean: float) -> float:
        """The derivative of the log-likelihood by ln m."""
        mean, total = math.exp(log_mean), 0.0
        for length, unchanged, changed in cells:
            chance = -math.expm1(-shape * math.log1p(mean * length / shape))
            slope = mean * length / (1.0 + mean * length / shape)
            total += changed * (1.0 - chance) * slope / chance - unchanged * slope
        return total

    return math.exp(zero_of(rising, math.log(guess) - 40.0, math.log(guess) + 40.0))


def zero_of(falling: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling function is 0, by bisection."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return low


def single(number: float) -> float:
    """The nearest float32."""
    return float(np.float32(number))


def full_sort(scores: dict[str, float], seed: int, cycle: int) -> list[str]:
    """All pages by score, the highest first and NaN last; equal scores by a hash salted by the seed and the cycle."""
    salt = int.from_bytes(hashlib.blake2b(f"{seed} {cycle}".encode(), digest_size=8).digest(), "little")

    def place(url: str) -> tuple[bool, float, int]:
        tie = int(mix(np.uint64(hash_of(url.encode()) ^ salt)))
        return math.isnan(scores[url]), 0.0 if math.isnan(scores[url]) else -scores[url], tie

    return sorted(scores, key=place)


def sample_hash(row: int) -> int:
    """The hash by which the page of a row is sampled."""
    return int(mix(np.uint64(mix(np.uint64(row ^ 0x2545F4914F6CDD1D)))))


def at_most_per_host(urls: list[str], per_host: int) -> list[str]:
    """The URLs in their order, but only the first few of each host."""
    taken: Counter[str] = Counter()
    kept = []
    for url in urls:
        taken[names_of(url)[0]] += 1
        if taken[names_of(url)[0]] <= per_host:
            kept.append(url)
    return kept
