"""Drift of the hit rate: lasting drops are detected soon, noise is not, and each detector is river's."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from streamsched.evolution.plan import Detector, HitRateWatch


def feed(watch: HitRateWatch, rate: float, batches: int, rng: np.random.Generator, size: int = 200) -> int | None:
    """Add batches with that hit rate; return the number until drift is detected, None if it is not."""
    for batch in range(batches):
        watch.note(size, int(rng.binomial(size, rate)))
        if watch.drifted:
            return batch + 1
    return None


@pytest.mark.parametrize("detector", get_args(Detector))
def test_a_drop_of_the_hit_rate_is_detected_and_noise_is_not(detector: Detector) -> None:
    seen = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        watch = HitRateWatch(detector)
        assert feed(watch, 0.3, 40, rng) is None
        seen.append(feed(watch, 0.15, 40, rng))
    assert all(batches is not None and batches <= 6 for batches in seen)


def test_reset_starts_again() -> None:
    rng = np.random.default_rng(0)
    watch = HitRateWatch()
    feed(watch, 0.3, 20, rng)
    assert feed(watch, 0.1, 20, rng) is not None
    watch.forget()
    assert not watch.drifted
    assert feed(watch, 0.1, 20, rng) is None


@pytest.mark.parametrize(("served", "hits"), [(1, 1), (7, 0), (7, 3), (7, 7), (1000, 1), (1000, 333), (50_000, 20_000)])
def test_every_hit_is_counted(served: int, hits: int) -> None:
    """The detector receives every hit; of too many outcomes, a sample with the same rate."""
    received: list[int] = []

    class Spy:
        drift_detected = False

        def update(self, hit: bool) -> None:
            received.append(hit)

    watch = HitRateWatch()
    watch._detector = Spy()
    watch.note(served, hits)
    assert len(received) == min(served, 1000)
    assert sum(received) == hits if served <= 1000 else sum(received) / 1000 == hits / served
