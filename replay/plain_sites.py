"""Plain sites as a test of the default: simulated corpora whose truth is known, with every kind of change process.

Each site has 2,000 pages in eight sections on ten hosts, and is crawled with a small, a usual and a large budget, once
with pages that have nearly always changed before their next visit, once with pages that seldom have. Two policies know
what no crawler knows: `KnownPrior` the distribution of the rates, `KnownRates` each of them. Both take all pages for
Poisson ones, so where other processes change them a policy that learns can do better.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from streamsched.errors import SettingsError
from streamsched.numerics.argument_checks import check_fields, check_whole
from streamsched.numerics.arrays import Bools, Floats, Ints, Rows
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.numerics.topk_order import select_top, tie_keys
from streamsched.outcomes import OutcomeBatch
from streamsched.replay.experiment import Progress
from streamsched.replay.ground_truth import ChangeLog, Window
from streamsched.replay.simulation.policies import make_policy
from streamsched.replay.simulation.simulator import DAY_S, Policy, PolicyQuery, Schedule, simulate

_START_S: Final = 1_700_006_400.0  # a midnight
_HOSTS: Final = 10
_SECTIONS: Final = ("news", "blog", "docs", "shop", "wiki", "jobs", "help", "data")
_SECTION_SPREAD: Final = 1.0  # of the logarithm of a section's mean rate ...
_PAGE_SPREAD: Final = 0.8  # ... and of a page's within its section
_TAIL: Final = 1.2  # index of the Pareto distribution of rates: a fifth of the pages makes seven tenths of the changes
_REGULARITY: Final = 100.0  # gamma shape of the time between changes of a periodic page: 10 % of the period
_BURST: Final = 0.1  # of the time a bursty page is in a burst, which has all of its changes, ...
_BURST_DAYS: Final = 4.0  # ... and lasts so long
_EDITED: Final = 0.5  # of the changes are by edits of whole sections of a host
_LATE: Final = 0.2  # of the pages of a growing site appear during its crawl
_WARMUP: Final = 2
_LEVELS: Final = 64

BUDGETS: Final = (0.005, 0.05, 0.5)
"""Shares of the pages visited a day."""
CHANGES: Final = (8.0, 0.2)
"""Changes of a page between two visits, on average, if all were visited alike: nearly sure, and rare."""


class Changes(NamedTuple):
    """Changes of the pages of a site in any order: ``pages``: int64[m], ``days``: float64[m] from its start."""

    pages: Ints
    days: Floats


Draw: TypeAlias = Callable[[Floats, int, np.random.Generator], Changes]
"""Draws the changes of pages with mean rates: float64[n] a day, over a number of days."""


def _poisson(rates: Floats, days: int, rng: np.random.Generator) -> Changes:
    pages = np.repeat(np.arange(rates.size), rng.poisson(rates * days))
    return Changes(pages, rng.uniform(0.0, days, pages.size))


def _periodic(rates: Floats, days: int, rng: np.random.Generator) -> Changes:
    changes = np.ceil(rates * days * 1.2 + 10.0).astype(np.int64)
    pages = np.repeat(np.arange(rates.size), changes)
    gaps = rng.gamma(_REGULARITY, 1.0 / _REGULARITY, pages.size)
    first = np.cumsum(changes) - changes
    gaps[first] *= rng.random(rates.size)
    total = np.cumsum(gaps)
    at = (total - np.repeat(total[first] - gaps[first], changes)) / rates[pages]
    return Changes(pages[at < days], at[at < days])


def _bursty(rates: Floats, days: int, rng: np.random.Generator) -> Changes:
    """Bursts begin at random times and have one change at least; a page that changes seldom has fewer bursts."""
    often = np.minimum(_BURST / _BURST_DAYS, rates)
    bursts = _poisson(often, days, rng)
    counts = 1 + rng.poisson((rates / often - 1.0)[bursts.pages])
    at = np.repeat(bursts.days, counts) + rng.uniform(0.0, _BURST_DAYS, counts.sum())
    return Changes(np.repeat(bursts.pages, counts)[at < days], at[at < days])


def _edited(rates: Floats, days: int, rng: np.random.Generator) -> Changes:
    """A section of a host is edited as often as its pages change on average."""
    own = _poisson((1.0 - _EDITED) * rates, days, rng)
    group = np.arange(rates.size) % _HOSTS * len(_SECTIONS) + _sections(rates.size)
    edits = _poisson(_EDITED * np.bincount(group, rates) / np.bincount(group), days, rng)
    edit, pages = np.nonzero(edits.pages[:, None] == group)
    return Changes(np.append(own.pages, pages), np.append(own.days, edits.days[edit]))


def _sections(pages: int) -> Ints:
    """Return the section of each page: int64[pages]. The first pages are all of the first section."""
    return np.arange(pages) * len(_SECTIONS) // pages


def _equal(pages: int, _rng: np.random.Generator) -> Floats:
    return np.ones(pages)


def _lognormal(pages: int, rng: np.random.Generator) -> Floats:
    sections = rng.lognormal(0.0, _SECTION_SPREAD, len(_SECTIONS))
    return sections[_sections(pages)] * rng.lognormal(0.0, _PAGE_SPREAD, pages)


def _pareto(pages: int, rng: np.random.Generator) -> Floats:
    return 1.0 + rng.pareto(_TAIL, pages)


def _half_dead(pages: int, rng: np.random.Generator) -> Floats:
    return np.where(rng.random(pages) < 0.5, 1e-9, _lognormal(pages, rng))


@dataclass(frozen=True, slots=True)
class PlainSite:
    """A kind of site: ``rates`` draws the pages' rates, to be scaled; ``draw`` their changes.

    ``grows``: pages appear during the crawl.
    """

    name: str
    doc: str
    rates: Callable[[int, np.random.Generator], Floats] = _lognormal
    draw: Draw = _poisson
    grows: bool = False


SITES: Final = (
    PlainSite("equal", "Poisson changes at one rate", _equal),
    PlainSite("log-normal", "Poisson changes, log-normal rates of sections and of their pages"),
    PlainSite("pareto", "Poisson changes, Pareto rates", _pareto),
    PlainSite("periodic", "each page changes at its own regular interval, 10 % more or less", draw=_periodic),
    PlainSite("bursty", "all changes of a page are in bursts of 4 days, a tenth of the time at most", draw=_bursty),
    PlainSite("edited", "half of all changes are edits of whole sections of a host", draw=_edited),
    PlainSite("dead", "half of the pages never change", _half_dead),
    PlainSite("growing", "a fifth of the pages appear during the crawl", grows=True),
)
"""The kinds of sites; rates are log-normal unless they say otherwise."""


class Site(NamedTuple):
    """A site that was drawn, and the true rates of its pages: float64[n], changes a day."""

    window: Window
    rates: Floats


def draw_site(kind: PlainSite, mean_rate: float, pages: int, days: int, rng: np.random.Generator) -> Site:
    """Return a site of `kind` whose pages change `mean_rate` times a day on average. O(changes log changes)."""
    rates = kind.rates(pages, rng)
    rates *= mean_rate / rates.mean()
    changes = kind.draw(rates, days, rng)
    born = np.zeros(pages)
    if kind.grows:
        late = round(_LATE * pages)
        born[pages - late :] = np.sort(rng.uniform(0.0, days, late))
    sections = rng.permutation(_sections(pages)) if kind.grows else _sections(pages)
    alive = changes.days > born[changes.pages]
    urls = [f"https://site{i % _HOSTS}.example/{_SECTIONS[sections[i]]}/{i}" for i in range(pages)]
    at_pages = np.append(np.arange(pages), changes.pages[alive])
    at_s = _START_S + DAY_S * np.append(born, changes.days[alive])
    log = ChangeLog.collect(PackedUrls.pack(urls), at_pages, at_s, np.zeros(at_s.size, np.bool_))
    return Site(log.window(_START_S, DAY_S, days, later_pages=True), rates)


_NEVER_DAYS: Final = -1e6  # the last visit of a page without one: all of them have changed since


class KnownRates:
    """A policy that knows the rate of each page: float64[n] changes a day.

    It visits in the order of what a visit gains in freshness over the time until the page is visited next, the Whittle
    index of a Poisson page: (1 - exp(-r t) (1 + r t)) / r after t days. Of Poisson pages
    no policy keeps many more copies current.
    """

    def __init__(self, rates: Floats, seed: int) -> None:
        self._rates = rates
        self._seed = seed
        self._visited = self._ages = np.empty(0)
        self._asked: Rows = np.empty(0, np.intp)

    def discover(self, urls: PackedUrls, now: float) -> None:
        """Add pages; when they became known does not matter."""
        del now
        self._visited = np.append(self._visited, np.full(len(urls), _NEVER_DAYS))
        self._asked = np.arange(self._visited.size)

    def rank(self, query: PolicyQuery) -> Rows:
        """Return the best rows. O(pages)."""
        score = self._score(query.now / DAY_S - self._visited)
        self._asked = select_top(score, tie_keys(np.arange(score.size, dtype=np.uint64), self._seed), query.k)
        return self._asked

    def observe(self, outcomes: OutcomeBatch) -> None:
        """Learn from the visits that were asked for, or from those of all pages."""
        rows, now = self._asked, outcomes.fetched_at / DAY_S
        again = self._visited[rows] > _NEVER_DAYS
        self._learn(rows[again], (now - self._visited[rows])[again], outcomes.changed[again] != 0)
        self._visited[rows] = now
        self._asked = np.arange(self._visited.size)

    def _score(self, days: Floats) -> Floats:
        rates = self._rates[: days.size]
        return (1.0 - np.exp(-rates * days) * (1.0 + rates * days)) / rates

    def _learn(self, rows: Rows, days: Floats, changed: Bools) -> None:
        """Learn from visits: nothing, as the rates are known."""


class KnownPrior(KnownRates):
    """A policy that knows the distribution of the rates, `_LEVELS` of its quantiles, and learns each page's by Bayes.

    It visits in the order of the probability of a change. Of Poisson pages that is their exact posterior probability.
    """

    def __init__(self, rates: Floats, seed: int) -> None:
        super().__init__(np.quantile(rates, (np.arange(_LEVELS) + 0.5) / _LEVELS), seed)
        self._weights = np.full((rates.size, _LEVELS), 1.0 / _LEVELS)

    def _score(self, days: Floats) -> Floats:
        unchanged = np.exp(-self._rates * days[:, None])
        return np.asarray(1.0 - np.sum(self._weights[: days.size] * unchanged, axis=1))

    def _learn(self, rows: Rows, days: Floats, changed: Bools) -> None:
        unchanged = np.exp(-self._rates * days[:, None])
        likely = self._weights[rows] * np.where(changed[:, None], -np.expm1(-self._rates * days[:, None]), unchanged)
        self._weights[rows] = likely / likely.sum(axis=1, keepdims=True)


class Cell(NamedTuple):
    """A site to be crawled.

    ``budget``: the share of its pages visited a day; ``changes``: those of a page between two visits, on average, if
    all pages were visited alike.
    """

    site: PlainSite
    budget: float
    changes: float

    def __str__(self) -> str:
        return f"{self.site.name}, {100 * self.budget:g} % a day, {self.changes:g} changes between visits"


CELLS: Final = tuple(Cell(site, budget, changes) for site in SITES for budget in BUDGETS for changes in CHANGES)
"""Each kind of site with each budget, and with pages that change often and seldom."""


@dataclass(frozen=True, slots=True)
class SuiteSettings:
    """The suite: ``pages`` of each site, ``days`` of each crawl, the first ``learned`` of them not measured.

    ``seeds``: a site and a crawl for each; ``workers``: processes. Raises SettingsError if a value is invalid.
    """

    pages: int = 2_000
    days: int = 180
    learned: int = 60
    seeds: tuple[int, ...] = (0,)
    workers: int = 1

    def __post_init__(self) -> None:
        check_fields(self)
        check_whole("pages", self.pages, 100, "100 pages or more")
        check_whole("learned", self.learned, _WARMUP, f"{_WARMUP} days or more")
        check_whole("days", self.days, self.learned + 1, f"more than {self.learned} days")
        check_whole("workers", self.workers, 1, "1 or more")
        if not self.seeds:
            raise SettingsError("seeds", self.seeds, "one or more")
        for seed in self.seeds:
            check_whole("seeds", seed, 0, "whole numbers of 0 or more")


COMPARED: Final = ("default", "posterior", "age", "freshness")
"""Policies of the replay; `KNOWN_PRIOR` and `KNOWN_RATES` are beside them."""
KNOWN_PRIOR: Final = "known prior"
KNOWN_RATES: Final = "known rates"
RIVALS: Final = ("posterior", "age", KNOWN_PRIOR)
"""Those that the default's ChangeRate is compared with the best of."""


class SiteFigures(NamedTuple):
    """What policies reached on a site, by policy: means over seeds and measured days."""

    cell: Cell
    change_rate: dict[str, float]
    freshness: dict[str, float]

    @property
    def best_rival(self) -> str:
        """Which of `RIVALS` found the most changes."""
        return max(RIVALS, key=self.change_rate.__getitem__)

    @property
    def found(self) -> float:
        """The default's ChangeRate over that of the best rival; 1 if none found a change."""
        best = self.change_rate[self.best_rival]
        return self.change_rate["default"] / best if best > 0.0 else 1.0

    @property
    def against_age(self) -> float:
        """The Freshness of the objective `freshness` over that of visits to the oldest copies first."""
        return self.freshness["freshness"] / self.freshness["age"]

    @property
    def against_known(self) -> float:
        """The Freshness of the objective `freshness` over that of a crawl which knows all rates."""
        return self.freshness["freshness"] / self.freshness[KNOWN_RATES]


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """The figures of each site, in the order of `CELLS`."""

    settings: SuiteSettings
    sites: tuple[SiteFigures, ...]

    def weakest(self, ratio: Callable[[SiteFigures], float]) -> SiteFigures:
        """Return the site where a ratio is the least. O(sites)."""
        return min(self.sites, key=ratio)


class _Run(NamedTuple):
    cell: Cell
    seed: int
    settings: SuiteSettings


def run_suite(settings: SuiteSettings, progress: Progress | None = None) -> SuiteResult:
    """Crawl each of `CELLS` under each policy; the same settings give the same figures. O(runs · days · pages).

    `progress` is called after each site and seed.
    """
    runs = [_Run(cell, seed, settings) for cell in CELLS for seed in settings.seeds]
    figures = []
    for run, found in zip(runs, _measure_all(runs, settings.workers), strict=True):
        figures.append(found)
        if progress is not None:
            progress(len(figures), len(runs), str(run.cell))
    each = len(settings.seeds)
    sites = [_average(figures[at : at + each]) for at in range(0, len(figures), each)]
    return SuiteResult(settings, tuple(sites))


def _measure_all(runs: list[_Run], workers: int) -> Iterator[SiteFigures]:
    """Return the figures of `runs` in their order; the first is run here, so that others find its kernels compiled."""
    here = runs if workers == 1 else runs[:1]
    yield from map(measure_site, here)
    if len(here) < len(runs):
        with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
            yield from pool.map(measure_site, runs[1:])


def measure_site(run: _Run) -> SiteFigures:
    """Return what each policy reached on one site that is drawn with the run's seed. O(days · pages)."""
    cell, seed, settings = run
    rng = np.random.default_rng([seed, CELLS.index(cell)])
    window, rates = draw_site(cell.site, cell.changes * cell.budget, settings.pages, settings.days, rng)
    schedule = Schedule(cell.budget, _WARMUP, "since_visit", settings.learned)
    policies: dict[str, Policy] = {name: make_policy(name, DAY_S, seed, schedule) for name in COMPARED}
    policies |= {KNOWN_PRIOR: KnownPrior(rates, seed), KNOWN_RATES: KnownRates(rates, seed)}
    deciles = np.zeros(window.pages, np.int64)
    traces = {name: simulate(window, policy, schedule, deciles) for name, policy in policies.items()}
    found = {name: _mean(trace.change_rate[trace.counted]) for name, trace in traces.items()}
    return SiteFigures(cell, found, {name: float(trace.freshness.mean()) for name, trace in traces.items()})


def _mean(rates: Floats) -> float:
    """Return the mean ChangeRate; 0 if no page changed on any day."""
    return float(rates.mean()) if rates.size else 0.0


def _average(runs: list[SiteFigures]) -> SiteFigures:
    """Return the means of the runs of one site."""
    names = runs[0].change_rate
    found = {name: float(np.mean([run.change_rate[name] for run in runs])) for name in names}
    fresh = {name: float(np.mean([run.freshness[name] for run in runs])) for name in names}
    return SiteFigures(runs[0].cell, found, fresh)
