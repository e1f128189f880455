"""Ranking: scoring all pages and selecting the top 1,000, beside whole NumPy columns and argpartition."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.corpus import DAY_S, make_urls, visit_all
from benchmarks.rivals import rank_columns_posterior, rank_columns_t_times_x
from benchmarks.timing import Row, best_seconds
from streamsched import Scheduler

__all__ = ["measure"]

_K = 1_000
_GOALS = {"t * X": 0.120, "posterior": 0.250}
_GOAL_PAGES = 10_000_000
_NOW = 5 * DAY_S


def measure(pages: int, repeats: int) -> list[Row]:
    """Return the rows of the ranking benchmark at `pages` pages and at a tenth of them."""
    rows: list[Row] = []
    for size in (pages // 10, pages):
        scheduler = _prepare(size)
        rivals = _rivals(scheduler)
        for formula, rival in rivals.items():
            scheduler.use(formula)
            ours = best_seconds(lambda scheduler=scheduler: scheduler.rank(_K, now=_NOW), repeats)  # type: ignore[misc]
            theirs = best_seconds(rival, repeats)
            goal = f"≤ {1e3 * _GOALS[formula]:.0f} ms" if size == _GOAL_PAGES else ""
            name = f"{formula}, top {_K:,} of {size:,}"
            rows.append((name, f"{1e3 * ours:.0f} ms", f"{1e3 * theirs:.0f} ms", f"{theirs / ours:.1f}×", goal))
    return rows


def _prepare(pages: int) -> Scheduler:
    rng = np.random.default_rng(0)
    urls = make_urls(pages)
    scheduler = Scheduler(threads=2)
    for day in range(3):
        scheduler.observe(visit_all(urls, day, rng))
    return scheduler


def _rivals(scheduler: Scheduler) -> dict[str, Callable[[], object]]:
    shard = scheduler.core.pages.arrays
    pages = shard.pages.records[: len(scheduler)]
    shape = pages["prior_shape"].astype(np.float64)
    last = pages["last_visit_s"].copy()
    changes = pages["changes"].astype(np.float64)
    exposure = pages["prior_exposure"].astype(np.float64) + pages["own_exposure"]
    return {
        "t * X": partial(rank_columns_t_times_x, last, changes, _NOW, _K),
        "posterior": partial(rank_columns_posterior, last, shape + pages["own_shape"], exposure, _NOW, _K),
    }
