"""The default on plain sites: Poisson pages in sections of different rates, and two small bulk edits."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched.numerics.arrays import Floats
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.replay.ground_truth import ChangeLog, Window
from streamsched.replay.simulation.policies import make_policy
from streamsched.replay.simulation.simulator import Schedule, simulate

DAY = 86_400.0
START_S = 1_700_006_400.0  # a midnight
DAYS = 75
PAGES = 2_000
NAMES = ("news", "blog", "docs", "shop", "wiki", "jobs", "help", "data")
SECTIONS = len(NAMES)
HOSTS = 10
EDITS = {20: 3, 50: 6}  # days, and the section that half of the hosts edit then
MEAN_RATE = 0.44  # changes of a page a day


def make_site(rng: np.random.Generator) -> Window:
    """Pages whose rates are log-normal, around those of their sections, which are log-normal too."""
    section, host = np.arange(PAGES) // (PAGES // SECTIONS), np.arange(PAGES) % HOSTS  # visited section by section
    rates = rng.lognormal(0.0, 1.0, SECTIONS)[section] * rng.lognormal(0.0, 0.8, PAGES)
    rates *= MEAN_RATE / rates.mean()
    times: list[Floats] = [rng.uniform(0.0, DAYS, rng.poisson(rate * DAYS)) for rate in rates]
    for day, edited in EDITS.items():
        for page in np.flatnonzero((section == edited) & (host < HOSTS // 2)):
            times[page] = np.append(times[page], day + 0.1)
    urls = [f"https://site{host[page]}.example/{NAMES[section[page]]}/{page}" for page in range(PAGES)]
    pages = np.concatenate([np.arange(PAGES), np.repeat(np.arange(PAGES), [part.size for part in times])])
    seconds = np.concatenate([np.zeros(PAGES), np.concatenate(times) * DAY]) + START_S
    log = ChangeLog.collect(PackedUrls.pack(urls), pages, seconds, np.zeros(seconds.size, np.bool_))
    return log.window(START_S, DAY, DAYS)


def crawl(name: str, site: Window) -> tuple[float, float]:
    """The mean ChangeRate and Freshness of a policy, at 5 % a day."""
    schedule = Schedule(0.05, 2, "since_visit")
    policy = make_policy(name, DAY, 0, schedule, 1)
    trace = simulate(site, policy, schedule, np.zeros(PAGES, np.int64), None, None)
    return float(trace.change_rate[trace.counted].mean()), float(trace.freshness.mean())


@pytest.mark.parametrize("seed", [2, 4, 8])
def test_surges_cost_no_changes_where_pages_change_by_themselves(seed: int) -> None:
    site = make_site(np.random.default_rng(seed))
    assert crawl("default", site)[0] >= 0.98 * crawl("posterior", site)[0]


@pytest.mark.parametrize("seed", [2, 4, 8])
def test_copies_are_fresher_than_by_visiting_the_oldest_first(seed: int) -> None:
    site = make_site(np.random.default_rng(seed))
    oldest_first = crawl("age", site)[1]
    for objective in ("freshness", "balanced"):
        assert crawl(objective, site)[1] > oldest_first
