"""Pages of one key that change often, each by itself: their claims neither hide their rates nor outweigh them.

A directory of 60 pages changes so often between two visits of a page that claims on it never cease. They explain its
changes as well as a rate does, but a page that changes by itself has a rate.
"""

from __future__ import annotations

import numpy as np
import pytest

from streamsched import PackedUrls, Scheduler
from tests.support.intensities import HOUR, MONDAY_S, visit

PAGES = 120


@pytest.mark.parametrize(("per_day", "hours"), [(4.0, 6.0), (4.0, 1.0), (1.0, 6.0), (0.3, 24.0)])
def test_rates_are_learned_beside_claims(per_day: float, hours: float) -> None:
    """Within a tenth on average: chance alone makes a hundredth or two, as there are 2,000 changes or more."""
    rng = np.random.default_rng(3)
    rates = rng.gamma(4.0, per_day / 4, PAGES)
    visits = visit(rng, np.ones(168), rates, np.full(PAGES, hours))
    urls = PackedUrls.pack([f"https://{'ab'[page % 2]}.example/{page}" for page in range(PAGES)])
    scheduler = Scheduler(formula="rate")
    scheduler.observe(visits.batch(urls))
    learned = scheduler.score(list(urls), now=MONDAY_S + 57 * 24 * HOUR)
    assert np.mean(learned) == pytest.approx(rates.mean(), rel=0.1)
    assert np.corrcoef(learned, rates)[0, 1] > 0.9
