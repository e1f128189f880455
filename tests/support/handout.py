"""The order in which a batch is handed out, and pages of it that are drawn at random."""

from __future__ import annotations

import numpy as np

from streamsched import Scheduler
from streamsched.state.crawl_plan import CrawlPlan


def by_probability(scheduler: Scheduler, urls: list[str], now: float) -> list[str]:
    """Return `urls`, the likeliest to have changed first; equally likely ones stay in their order."""
    core = scheduler.core
    with core.lock:
        likely = core.batch_builder.change_probabilities(now, core.find(urls)).tolist() if urls else []
    chances = dict(zip(urls, likely, strict=True))
    return sorted(urls, key=lambda url: -chances[url])


def drawing(share: float, scheduler: Scheduler) -> Scheduler:
    """Let `scheduler` follow a plan that asks for a share of each batch to be drawn at random; scores stay."""
    scheduler.use(f"{scheduler.formula.text} + 0 * crawl_rate", wait=True)
    plan = CrawlPlan(1, "mirrorsync", 0.0, "1/s", 1.0, 0, probe_share=share)
    scheduler._follow_plan(plan, np.empty(0, np.float32))
    return scheduler
