"""The order in which a batch is handed out, from the order in which its pages were chosen."""

from __future__ import annotations

from streamsched import Scheduler


def by_probability(scheduler: Scheduler, urls: list[str], now: float) -> list[str]:
    """Return `urls`, the likeliest to have changed first; equally likely ones stay in their order."""
    core = scheduler.core
    with core.lock:
        likely = core.batch_builder.change_probabilities(now, core.find(urls)).tolist() if urls else []
    chances = dict(zip(urls, likely, strict=True))
    return sorted(urls, key=lambda url: -chances[url])
