"""The order in which batches are handed out: by the probability of a change, whatever chose the pages."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched import Outcome, Politeness, Scheduler

DAY = 86_400.0
URLS = [f"https://h{i % 7}.example/{i}" for i in range(60)]
NOW = 12 * DAY


def crawled(**settings: object) -> Scheduler:
    """Sixty pages that change from never to daily, last visited one to three days ago."""
    scheduler = Scheduler(**{"politeness": Politeness(), "new_share": 0.0, "host_share": None, **settings})  # type: ignore[arg-type]
    for day in range(9):
        scheduler.observe([Outcome(url, day * DAY, changed=(day * i) % 59 > 40) for i, url in enumerate(URLS)])
    scheduler.observe([Outcome(url, 10 * DAY, changed=False) for url in URLS[::3]])
    return scheduler


def changed(scheduler: Scheduler, urls: list[str]) -> list[float]:
    """The probabilities that pages have changed."""
    return [float(one) for one in scheduler.core.batch_builder.change_probabilities(NOW, scheduler.core.find(urls))]


@pytest.mark.usefixtures("no_surge_probes")
@pytest.mark.parametrize("formula", ["t", "freshness", "balanced(0.3)", "0 - rate", "changes", "surge", "importance"])
def test_a_batch_is_ordered_by_the_probability_of_a_change(formula: str) -> None:
    scheduler = crawled(formula=formula)
    ranked = scheduler.rank(20, now=NOW)
    assert ranked.scores.tolist() == sorted(ranked.scores.tolist(), reverse=True)
    batch = scheduler.next_batch(20, now=NOW)
    assert set(batch.urls) == set(ranked.urls)  # the formula chooses
    assert dict(zip(batch.urls, batch.scores, strict=True)) == dict(zip(ranked.urls, ranked.scores, strict=True))
    chances = changed(scheduler, batch.urls)
    assert chances == pytest.approx(sorted(chances, reverse=True), abs=1e-12)
    assert len(set(chances)) > 5


def test_pages_with_priority_stay_ahead() -> None:
    scheduler = crawled(formula="0 - rate")
    asked = scheduler.rank(60, now=NOW).urls[-2:]
    scheduler.ask(asked, now=NOW)
    batch = scheduler.next_batch(20, now=NOW)
    assert set(batch.urls[:2]) == set(asked)
    chances = changed(scheduler, batch.urls)[2:]
    assert chances == pytest.approx(sorted(chances, reverse=True), abs=1e-12)


def test_an_explanation_gives_the_place_in_the_batch() -> None:
    scheduler = crawled(formula="t * importance")
    places = [scheduler.explain(url, now=NOW, k=20).reasons[0].fields.get("place") for url in URLS]
    batch = scheduler.next_batch(20, now=NOW)
    assert [URLS[i] for i in np.argsort([place or 99 for place in places])[:20]] == batch.urls
    lowest = {
        reason.fields["lowest_score"]
        for url in set(URLS) - set(batch.urls)
        for reason in crawled(formula="t * importance").explain(url, now=NOW, k=20).reasons
        if reason.code == "outranked"
    }
    assert lowest <= {float(batch.scores.min())}


@pytest.mark.parametrize("objective", ["changes", "freshness", "balanced"])
def test_importance_and_cost_weigh_in_every_objective(objective: str) -> None:
    weights = {URLS[0]: (4.0, None), URLS[1]: (0.5, 10.0), URLS[2]: (None, 8.0), URLS[3]: (None, 0.0)}
    scores = []
    for weighted in (False, True):
        scheduler = Scheduler(objective=objective)
        for day in range(4):
            pairs = [weights.get(url, (None, None)) if weighted else (None, None) for url in URLS]
            outcomes = zip(URLS, pairs, strict=True)
            scheduler.observe([Outcome(url, day * DAY, importance=pair[0], cost=pair[1]) for url, pair in outcomes])
        scores.append(scheduler.score(URLS[:5], now=NOW))
    assert scores[1] / scores[0] == pytest.approx([4.0, 0.05, 1 / 8, 1.0, 1.0])  # a cost of 0 is not taken
