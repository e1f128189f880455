"""The state of a crawl of three years is that of a scheduler which reads the crawl's outcomes anew.

But for the day's leases, which shares of domains count: outcomes do not say that a page was leased.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched import Outcome, Scheduler
from tests.support.cases import examples
from tests.support.outcome_streams import DAY, cut

DAYS = 3 * 365
A_DAY = 12  # visits
VERSION, SITE = 40, 80  # pages of a version of the manual, and of the site: too many for a key of its directory
VERSIONS = [f"https://a.example/{version}/{number}" for version in ("1", "2") for number in range(VERSION)]
URLS = VERSIONS + [f"https://b.example/{number}" for number in range(SITE)]


def draw_changes(seed: int) -> list[list[float]]:
    """Times of each page's changes: rates drift from year to year; both versions, or the site, are edited in bulk."""
    rng = np.random.default_rng(seed)
    times: list[list[float]] = [[] for _ in URLS]
    for year in range(3):
        for page, rate in enumerate(rng.gamma(0.5, 0.02, len(URLS)).tolist()):
            times[page] += (DAY * 365 * (year + rng.random(rng.poisson(365 * rate)))).tolist()
    for number, edit in enumerate((DAY * DAYS * rng.random(40)).tolist()):
        hit = rng.random(SITE) < 0.7
        pages = np.flatnonzero(hit) + len(VERSIONS) if number % 2 else np.flatnonzero(np.tile(hit[:VERSION], 2))
        for page in pages.tolist():
            times[page].append(edit)
    return [sorted(of_page) for of_page in times]


class CrawlOfYears:
    """A crawl by the scheduler's own batches, saved and loaded twice a year."""

    def __init__(self, folder: Path) -> None:
        self.scheduler = Scheduler(seed=1)
        self.outcomes: list[Outcome] = []
        changes = dict(zip(URLS, draw_changes(seed=4), strict=True))
        visited = dict.fromkeys(URLS, -np.inf)
        for day in range(DAYS):
            now = (day + 1) * DAY
            batch = self.scheduler.next_batch(A_DAY, now=now).urls if day else URLS
            found = []
            for place, url in enumerate(batch):
                at = now + place
                found.append(Outcome(url, at, changed=any(visited[url] < time <= at for time in changes[url])))
                visited[url] = at
            self.scheduler.observe(found)
            self.outcomes += found
            if day % 180 == 90:
                self.scheduler.save(folder)
                self.scheduler = Scheduler.load(folder)


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> CrawlOfYears:
    crawl = CrawlOfYears(tmp_path_factory.mktemp("years"))
    arrays = crawl.scheduler.core.pages.arrays
    arrays.corpus["day_visits"] = 0
    arrays.groups.domains["visits"] = 0
    return crawl


def rebuild(outcomes: list[Outcome], sizes: list[int]) -> Scheduler:
    scheduler = Scheduler(seed=1)
    for part in cut(outcomes, sizes):
        scheduler.observe(part)
    return scheduler


def test_everything_that_is_learned_was_learned(crawl: CrawlOfYears) -> None:
    """So that equal states say something."""
    arrays = crawl.scheduler.core.pages.arrays
    corpus, chances = arrays.corpus[0], arrays.related.chances
    assert corpus["half_life"] != 180.0
    assert np.any(corpus["half_life_fits"] != 0.0)
    assert np.count_nonzero(arrays.shadows["exposure"][:, 0]) == len(URLS)
    assert corpus["first_count"] == len(URLS)
    assert corpus["surge_sum"] > 0.5
    assert np.all(corpus["cause_expected"][[0, 2, 3]] > 0.1)
    assert np.all(corpus["cause_found"][[0, 2, 3]] > 0.1)
    assert np.count_nonzero(chances["followed"]) > VERSION // 2
    assert np.any(arrays.seasonality.links["related"] & 0x7FFF)
    assert crawl.scheduler.core.pages.faults() == []


@examples(ordinary=2, whole=5)
@given(st.lists(st.sampled_from([1, 6, 30, 365, 5_000]), min_size=1, max_size=3))
def test_a_state_of_three_years_is_that_of_its_own_stream(crawl: CrawlOfYears, sizes: list[int]) -> None:
    rebuilt = rebuild(crawl.outcomes, sizes)
    assert rebuilt.digest() == crawl.scheduler.digest()
    now = (DAYS + 2) * DAY
    assert rebuilt.rank(len(URLS), now=now).urls == crawl.scheduler.rank(len(URLS), now=now).urls
