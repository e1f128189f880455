"""The sequential test of a trial: has the challenger found more or less a visit than the champion, at any time so far?

The gain of a round is what the challenger's arm found beyond what the same cost found in the champion's. Each round
draws its arms anew, so its expectation given all before is 0 if the formulas are equally good, and the sum of the gains
is a martingale. The evidence is an e-value: the likelihood ratio of the sum, a normal mixture over the gains that are
worth knowing (Robbins 1970; the mSPRT of Johari, Koomen, Pekelis and Walsh 2022; Howard, Ramdas, McAuliffe and Sekhon
2021). If there is no gain it reaches 1 / α at any time with probability α at most (Ville), so it may be looked at after
each batch. The noise is that between blocks of pages, which need not be independent within.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Final, Literal

import numpy as np

from streamsched.api.views import TrialEvidence
from streamsched.numerics.arrays import Floats
from streamsched.records.trial_counts import CHALLENGER, CHAMPION

ALPHA: Final = 0.05  # most chance of calling a formula better that is not, over all looks; as much for worse
_GAIN_SCALE: Final = 0.05  # standard deviation of relative gains that the mixture expects: what evolutions promise
_NORMAL: Final = NormalDist()


def weigh_evidence(finds: Floats, costs: Floats) -> TrialEvidence:
    """Return the evidence of a trial's counts: float64[rounds, 2, blocks], the challenger's arm first. O(cells).

    >>> visits = np.full((1, 2, 16), 1000.0)
    >>> found = np.stack([np.full((1, 16), 330.0), np.full((1, 16), 300.0)], axis=1)
    >>> found[0] += np.where(np.arange(16) % 2, 9.0, -9.0)
    >>> weigh_evidence(found, visits).state
    'better'
    """
    found, cost = finds.sum(axis=2), costs.sum(axis=2)
    totals = _both(found.sum(axis=0)), _both(cost.sum(axis=0))
    both = (cost > 0.0).all(axis=1)
    found, cost = found[both], cost[both]
    rates = found / cost
    residuals = finds[both] - rates[:, :, None] * costs[both]
    # The variance of a ratio estimate by linearisation (Cochran, Sampling Techniques, 1977, section 6.3).
    noises = np.square(residuals).sum(axis=2) * (finds.shape[2] / (finds.shape[2] - 1.0))
    expected = float((rates[:, CHAMPION] * cost[:, CHALLENGER]).sum())
    gain = float(found[:, CHALLENGER].sum()) - expected
    scaled = noises[:, CHAMPION] * np.square(cost[:, CHALLENGER] / cost[:, CHAMPION])
    variance = float((noises[:, CHALLENGER] + scaled).sum())
    if not (expected > 0.0 and variance > 0.0):
        return TrialEvidence("open", None, None, 1.0, 1.0, *totals)
    noise = math.sqrt(variance)
    better, worse = (_mix_normal(sign * gain / noise, expected * expected / variance) for sign in (1.0, -1.0))
    state: Literal["better", "worse", "open"] = "open"
    if max(better, worse) >= 1.0 / ALPHA:
        state = "better" if better > worse else "worse"
    return TrialEvidence(state, gain / expected, noise / expected, better, worse, *totals)


def _both(values: Floats) -> tuple[float, float]:
    return float(values[CHALLENGER]), float(values[CHAMPION])


def _mix_normal(z: float, information: float) -> float:
    """Return the e-value of a gain `z` standard errors above 0 against "not above 0".

    The likelihood ratio of N(θ, 1 / information) against θ = 0, mixed over θ > 0 by a half-normal distribution.
    """
    spread = information * _GAIN_SCALE**2
    shrunk = spread / (1.0 + spread)
    exponent = min(0.5 * z * z * shrunk, 700.0)
    return 2.0 / math.sqrt(1.0 + spread) * math.exp(exponent) * _NORMAL.cdf(z * math.sqrt(shrunk))
