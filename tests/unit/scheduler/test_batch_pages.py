"""A batch as pages, as columns and as a table in a notebook."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import polars as pl

from streamsched import Batch, Outcome, ReasonCode, Scheduler
from streamsched.api.answers import LeasedPage

URLS = [f"https://a.example/{n}?<b>&" for n in range(30)]


def crawled() -> Scheduler:
    scheduler = Scheduler(max_ahead=None)
    scheduler.observe([Outcome(url, 1.0, changed=True) for url in URLS])
    return scheduler


def made(scores: list[float]) -> Batch:
    """A batch without a lease, of pages with these scores."""
    count = len(scores)
    return Batch(
        urls=URLS[:count],
        scores=np.array(scores),
        tiers=np.zeros(count, np.uint8),
        probabilities=np.full(count, 0.5),
        rows=np.arange(count),
        name_hosts=lambda: ["a.example"] * count,
        find_reasons=lambda: [ReasonCode.IN_BATCH_BY_SCORE] * count,
        now=0.0,
    )


def test_pages_of_a_batch_are_those_of_the_service() -> None:
    batch = crawled().next_batch(3, now=86_400.0, lease="10m")
    pages = list(batch)
    assert [page.url for page in pages] == batch.urls
    assert [page.host for page in pages] == batch.hosts
    assert [page.score for page in pages] == batch.scores.tolist()
    assert [page.probability for page in pages] == batch.probabilities.tolist()
    assert [page.tier for page in pages] == batch.tiers.tolist()
    leased = [page for page in pages if isinstance(page, LeasedPage)]
    assert [page.lease_until for page in leased] == [batch.lease_until_s] * 3 == [87_000.0] * 3
    assert [page.why for page in leased] == [reason.value for reason in batch.reasons]


def test_ranked_pages_have_no_lease() -> None:
    scheduler = crawled()
    (page,) = scheduler.rank(1, now=86_400.0)
    assert not hasattr(page, "lease_until")
    assert "why" not in scheduler.rank(1, now=86_400.0).to_table()
    assert list(scheduler.rank(0, now=86_400.0)) == []


def test_score_that_is_not_finite_is_none() -> None:
    assert [page.score for page in made([np.nan, 1.0, np.inf])] == [None, 1.0, None]


def test_columns_make_frames() -> None:
    batch = crawled().next_batch(5, now=86_400.0, lease="10m")
    for frame in (pd.DataFrame(batch.to_table()), pl.DataFrame(batch.to_table())):
        assert frame.shape == (5, 9)
        named = ["url", "host", "score", "tier", "probability", "lease_until", "why", "etag", "last_modified"]
        assert list(frame.columns) == named
        assert list(frame["url"]) == batch.urls


def test_notebooks_show_the_first_pages_and_no_markup_of_urls() -> None:
    shown = crawled().next_batch(30, now=86_400.0, lease="10m")._repr_html_()
    assert shown.count("<tr>") == 21
    assert "30 pages" in shown
    assert set(re.findall(r"<(\w+)", shown)) == {"table", "caption", "tr", "th", "td"}
