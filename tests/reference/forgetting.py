"""Slow reference implementation of forgetting: every page has a shadow, and powers are powers."""

from __future__ import annotations

import math

from streamsched.estimation.forgetting import FIRST_HALF_LIFE_DAYS, FIT_MEMORY
from tests.reference import estimators

HALF_LIVES = [FIRST_HALF_LIFE_DAYS * ratio for ratio in (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16)]

Evidence = tuple[float, float]  # what visits added to the shape and to the exposure


def no_evidence() -> list[Evidence]:
    """The shadow of a page without visits: its evidence under each half-life."""
    return [(0.0, 0.0)] * len(HALF_LIVES)


def fade(evidence: Evidence, days: float, half_life: float) -> Evidence:
    """The evidence that is left after a number of days."""
    kept = 0.5 ** min(days / half_life, 1e4)
    return evidence[0] * kept, evidence[1] * kept


def count(interval: float, days: float, half_life: float) -> float:
    """The integral of 2^(-t/H) over an interval, in its unit."""
    faded = days * math.log(2.0) / half_life
    return interval * -math.expm1(-faded) / faded if math.isfinite(half_life) else interval


def learn(prior: Evidence, evidence: Evidence, interval: float, changed: bool, own: float) -> Evidence:
    """The evidence after an observed interval; `own`: the probability that a change was the page's own."""
    if not changed:
        return evidence[0], evidence[1] + interval
    shape, exposure = prior[0] + evidence[0], prior[1] + evidence[1]
    after = estimators.after_change(shape, exposure, interval)
    added = own * (after[0] - shape), own * (after[1] - exposure) + (1.0 - own) * interval
    return evidence[0] + added[0], evidence[1] + added[1]


class Forgetting:
    """The half-life of a corpus and how well each half-life has predicted."""

    def __init__(self, cycle_s: float) -> None:
        self.cycle_days = cycle_s / 86_400.0
        self.half_life = FIRST_HALF_LIFE_DAYS
        self.fits = [0.0] * len(HALF_LIVES)

    def compare(  # noqa: PLR0917  as the kernel
        self,
        shadow: list[Evidence],
        prior: Evidence,
        interval: float,
        changed: bool,
        own: float,
        effective: float = 1.0,
        known: float = 0.0,
    ) -> list[Evidence]:
        """Sum up how each half-life predicts a sampled page's interval; return the shadow after it.

        A change is announced in all but the part `effective` of it, and was, and the page's own, with P `known`.
        """
        after = []
        for i, (half_life, evidence) in enumerate(zip(HALF_LIVES, shadow, strict=True)):
            shape, exposure = prior[0] + evidence[0], prior[1] + evidence[1]
            quiet = -shape * math.log1p(interval * effective / exposure)
            fit = own * math.log(max(-math.expm1(quiet), 1e-300)) if changed else quiet
            self.fits[i] += fit - self.fits[i] / FIT_MEMORY
            days = interval * self.cycle_days
            faded, counted = fade(evidence, days, half_life), count(interval, days, half_life)
            faded = faded[0], faded[1] + counted * (1.0 - effective)
            learned = learn(prior, faded, counted * effective, changed, own)
            after.append((learned[0] + known, learned[1]))
        return after

    def renew(self) -> None:
        """The geometric mean of the half-lives, each with its posterior probability."""
        octaves = [math.log2(half_life / FIRST_HALF_LIFE_DAYS) for half_life in HALF_LIVES]
        odds = [fit - octave**2 / 2 for fit, octave in zip(self.fits, octaves, strict=True)]
        weights = [math.exp(one - max(odds)) for one in odds]
        mean = math.fsum(w * octave for w, octave in zip(weights, octaves, strict=True)) / math.fsum(weights)
        self.half_life = FIRST_HALF_LIFE_DAYS * 2.0**mean
