"""Priority tiers: pages asked for, then overdue pages, then pages by score."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streamsched import Outcome, Politeness, Rule, Scheduler
from streamsched.politeness.priority import BY_SCORE, OVERDUE, REQUESTED, read_overdue, select_best, tiers_of

DAY = 86_400.0


@pytest.mark.parametrize("k", [-1, 0, 1, 3, 50, 400])
def test_best_pages_are_the_first_of_a_full_sort(k: int) -> None:
    rng = np.random.default_rng(k + 1)
    scores = rng.choice([np.nan, -np.inf, 0.0, 1e291, 1e300, np.inf], 300)
    overdue_s = rng.choice([np.inf, np.inf, -np.inf, 7.0, -1e9], 300)
    ties = rng.integers(0, 40, 300).astype(np.uint64)

    rows = rng.permutation(300)

    def place(i: int) -> tuple[float, bool, float, int, int]:
        by_score = overdue_s[i] == np.inf
        undefined = bool(by_score and np.isnan(scores[i]))
        return (
            float(overdue_s[i]),
            undefined,
            -scores[i] if by_score and not undefined else 0.0,
            int(ties[i]),
            int(rows[i]),
        )

    assert select_best(scores, overdue_s, ties, k, rows).tolist() == sorted(range(300), key=place)[: max(k, 0)]


def test_tiers_follow_from_overdue_times() -> None:
    scheduler = Scheduler(politeness=Politeness(max_revisit="1d"))
    urls = [f"https://a.example/{i}" for i in range(4)]
    scheduler.observe([Outcome(url, 1.0 + i) for i, url in enumerate(urls)])
    scheduler.ask(urls[3:], now=5.0)
    scheduler.set_rule(urls[0], Rule(never=True))
    rows, limits = np.arange(4), scheduler.core.politeness_policy.limits
    overdue_s = read_overdue(scheduler.core.pages.arrays, rows, limits, DAY + 2.0)
    assert overdue_s.tolist() == [math.inf, DAY + 2.0, math.inf, -math.inf]
    assert tiers_of(overdue_s).tolist() == [BY_SCORE, OVERDUE, BY_SCORE, REQUESTED]
    assert tiers_of(overdue_s).dtype == np.uint8
    assert read_overdue(scheduler.core.pages.arrays, rows, limits, DAY + 1.5)[1] == math.inf


def test_no_score_is_above_an_overdue_page() -> None:
    """Neither an infinite one nor one beyond any level that bounds use."""
    scheduler = Scheduler(formula="pow(1e300, 2) * importance", politeness=Politeness(max_revisit="1d"), new_share=0.0)
    urls = [f"https://h{i}.example/" for i in range(3)]
    scheduler.observe([Outcome(urls[0], 1.0, importance=0.0), Outcome(urls[1], 2 * DAY), Outcome(urls[2], DAY)])
    batch = scheduler.next_batch(3, now=1.5 * DAY)
    assert (batch.urls[0], batch.tiers.tolist()) == (urls[0], [OVERDUE, BY_SCORE, BY_SCORE])
    np.testing.assert_array_equal(batch.scores[1:], [np.inf, np.inf])
    np.testing.assert_array_equal(batch.scores, scheduler.score(batch.urls, now=1.5 * DAY))
