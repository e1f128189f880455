"""From hour to hour, the maintained ranking is the full sort, where pages have hours of their own and bounds decide."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from streamsched import Scheduler
from streamsched.estimation.seasonality.regions import TimeRegion
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import Outcome
from streamsched.politeness.politeness_settings import Politeness
from streamsched.ranking.incremental_topk import IncrementalTopK
from tests.reference.seasonality import utc
from tests.support.intensities import Clock, merge, office, published, visit
from tests.support.scheduler_twins import small_shards

pytestmark = pytest.mark.usefixtures("no_surge_probes")

PAGES = 200
HOUR = 3_600.0
START_S = utc(2024, 2, 12)  # six weeks and a half before clocks are put forward in Europe, ...
FROM_S = START_S + 6 * 168 * HOUR
UNTIL_S = utc(2024, 4, 1, 12)  # ... and a day after
ZONES = {"east": TimeRegion(("jp",), "Asia/Kolkata"), "west": TimeRegion(("de",), "Europe/Berlin")}
FREE = Politeness(delay=0.0, in_flight=None, backoff=1.0, min_revisit=0.0)


def learned(formula: str) -> tuple[Scheduler, list[str]]:
    """A scheduler that knows hours of two regions well, and many pages' schedules."""
    rng = np.random.default_rng(1)
    urls = [f"https://{'a.jp' if i % 2 else 'a.de'}/{i}" for i in range(PAGES)]
    per = rng.gamma(2.0, 0.3, PAGES // 2)
    scheduler = Scheduler(formula=formula, politeness=FREE, regions=ZONES, new_share=0.0, threads=1)
    parts = []
    for first, clock, turn in ((0, Clock(1.0), 0), (1, Clock(5.5), 8)):
        visits = visit(rng, np.roll(office(), turn), per, np.full(PAGES // 2, 6.0), weeks=6, clock=clock)
        parts.append((visits, PackedUrls.pack(urls[first::2])))
    scheduler.observe(merge(parts, START_S))
    return scheduler, urls


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts what becomes of searches: whether certificates left any page unexamined."""
    met: Counter[str] = Counter()
    search = IncrementalTopK._search

    def spy(standing: IncrementalTopK, *arguments: Any) -> object:
        found = search(standing, *arguments)
        met["given up" if found is None else "all" if standing.examined >= standing._table.pages else "some"] += 1
        return found

    monkeypatch.setattr(IncrementalTopK, "_search", spy)
    return met


@pytest.mark.parametrize(
    "formula",
    [
        "rhythm * posterior",
        "1 - (1 - due) * (1 - surge)",
        "importance * pow(confidence, -0.5) * rate * tau / cost",
        "gain",
        "rhythm * (rate * tau - 1) + due",
    ],
)
def test_the_ranking_is_exact_across_hours(formula: str, searches: Counter[str]) -> None:
    with small_shards():
        scheduler, urls = learned(formula)
        assert all(published(scheduler, region).max() > 1.5 for region in (1, 2))
        assert int(scheduler.core.pages.arrays.seasonality.state["schedules"][0]) > 10
        rng = np.random.default_rng(2)
        searches.clear()
        leaders, now = [], FROM_S
        while now < UNTIL_S:
            now += float(rng.choice([600.0, 1_200.0, 1_799.5, HOUR]))
            k = int(rng.choice([1, 3]))
            scores = scheduler.score(urls, now=now)
            batch = scheduler.next_batch(k, now=now, lease=1.0)
            assert sorted(batch.scores.tolist(), reverse=True) == sorted(scores.tolist(), reverse=True)[:k]
            assert [float(scores[urls.index(url)]) for url in batch.urls] == batch.scores.tolist()
            leaders.append(batch.urls[0])
            if rng.random() < 0.5:
                scheduler.observe([Outcome(url, now, changed=bool(rng.random() < 0.5)) for url in batch.urls])
        assert len(set(leaders)) > 50
        assert searches["some"] > 0.8 * len(leaders)
