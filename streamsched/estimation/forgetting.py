"""Forgetting: page rates drift, so what a page's own visits added to its Gamma prior fades.

At each observed interval, before it is counted, the page's own shape and exposure are multiplied by 2^(-τ/H): τ is the
length of the interval, H the half-life, in days whatever the cycle. The interval fades too while it lasts: it counts as
the integral of 2^(-t/H) over its length, H/ln 2 (1 - 2^(-τ/H)). So a long time without a change is the same evidence
however it is cut into visits. The prior does not fade, so a page whose evidence is old is close to its group again.
Between visits nothing fades: a score moves with the clock alone.

The half-life is learned for the whole corpus. Every page of a sample has a shadow: what its visits would have added
under each of `HALF_LIVES` half-lives. Each predicts the page's next outcome; the logarithms of these probabilities are
summed (prequential likelihood, Dawid 1984), and at the end of a prior sweep the half-life becomes the geometric mean of
those compared, weighted by their posterior probabilities. The sample is the pages whose rows are multiples of a stride.
The stride doubles when they would be more than `SHADOW_PAGES`. So the half-life depends on the stream alone.

A visit costs an exponential, one to a page of the sample two or three for each half-life.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from streamsched.estimation.gamma_posterior import ObservedInterval, after_change
from streamsched.numerics.arrays import Record, Records
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.vector_math import expm1, log, log1p
from streamsched.records.page_schema import LONGEST_INTERVAL, SHORTEST_INTERVAL
from streamsched.records.schema import HALF_LIVES, SHADOW_PAGES

FIRST_HALF_LIFE_DAYS: Final = 180.0  # change logs of code, docs and packages fit best with 60 to 730
FIT_MEMORY: Final = 50_000.0  # observed intervals of the sample: time constant of the log-likelihoods
_DAY_S: Final = 86_400.0
_LN_2: Final = math.log(2.0)
_MIDDLE: Final = HALF_LIVES // 2  # place of the first half-life; each is twice the one before
_UNLIKELY: Final = 1e-300  # least likelihood of a change, as in `hierarchical_prior`


def half_lives_days() -> list[float]:
    """Return the half-lives compared, ascending.

    >>> half_lives_days()[0], half_lives_days()[-1]
    (11.25, 2880.0)
    """
    return [FIRST_HALF_LIFE_DAYS * 2.0 ** (i - _MIDDLE) for i in range(HALF_LIVES)]


def init_half_life(corpus: Records) -> None:
    """Set the CORPUS record to the half-life before the first outcome."""
    corpus["half_life"] = FIRST_HALF_LIFE_DAYS
    corpus["shadow_stride"] = 1


@inlined_kernel
def has_shadow(corpus: Record, row: int) -> bool:
    """Return whether the page of `row` has a shadow. O(1)."""
    return bool(row & (corpus.shadow_stride - 1) == 0)


@inlined_kernel
def fade_page(page: Record, corpus: Record, observed: ObservedInterval) -> float:
    """Decay the page's own evidence over an interval, before that interval is counted. O(1).

    Returns the cycles that the interval counts as.
    """
    return fade(page, observed.cycles, _fading(observed.cycle_s, corpus.half_life))


@inlined_kernel
def fade(page: Record, cycles: float, fading: float) -> float:
    """As `fade_page`, over an interval of `cycles`, at the rate `fading` per cycle, which is above 0. O(1)."""
    gone = _share_gone(cycles, fading)
    page.own_shape *= 1.0 - gone
    page.own_exposure *= 1.0 - gone
    return gone / fading


@bare_kernel
def update_shadow(  # noqa: PLR0913, PLR0917  a kernel
    shadow: Record,
    corpus: Record,
    page: Record,
    observed: ObservedInterval,
    own: float,
    effective: float,
    known: float,
) -> None:
    """Update a page's SHADOW by an observed interval, and the log-likelihoods by what it predicted. O(HALF_LIVES).

    The page's record is as before the visit, with its current prior. `own`: the probability that a change was the
    page's own and no signal announced it, as signals would not have in the part `effective` of the interval; `known`:
    that of one that a signal did announce. A prediction is made from evidence as the last visit left it, as scores are.
    """
    interval = min(max(observed.cycles * effective, SHORTEST_INTERVAL), LONGEST_INTERVAL)
    longest = FIRST_HALF_LIFE_DAYS * 2.0 ** (HALF_LIVES - 1 - _MIDDLE)
    fading = _fading(observed.cycle_s, longest)
    gone, lasting = _share_gone(observed.cycles, fading), 1.0 / fading
    for i in range(HALF_LIVES - 1, -1, -1):  # the longest first: with half of a half-life, the square is kept
        kept, lasted = 1.0 - gone, min(max(gone * lasting, SHORTEST_INTERVAL), LONGEST_INTERVAL)
        counted = lasted * effective
        shape, exposure = page.prior_shape + shadow.shape[i], page.prior_exposure + shadow.exposure[i]
        fit = 0.0 - shape * log1p(interval / exposure)
        if observed.changed:
            fit = own * log(max(0.0 - expm1(fit), _UNLIKELY))
        corpus.half_life_fits[i] += fit - corpus.half_life_fits[i] / FIT_MEMORY
        shape = page.prior_shape + kept * shadow.shape[i]
        exposure = page.prior_exposure + kept * shadow.exposure[i] + (lasted - counted)
        shadow.shape[i] *= kept
        if observed.changed:
            shape_after, exposure_after = after_change(shape, exposure, counted)
            shadow.shape[i] += own * (shape_after - shape)
            shadow.exposure[i] = kept * shadow.exposure[i] + own * (exposure_after - exposure) + (1.0 - own) * counted
        else:
            shadow.exposure[i] = kept * shadow.exposure[i] + counted
        shadow.shape[i] += known
        shadow.exposure[i] += lasted - counted
        gone *= 2.0 - gone
        lasting *= 0.5


@inlined_kernel
def narrow_shadows(shadows: Records, corpus: Record, pages: int) -> None:
    """Make room for the shadow of the last of `pages` pages: drop every second one if there are too many. O(1)
    amortised.
    """
    if pages > np.int64(SHADOW_PAGES) * corpus.shadow_stride:
        _drop_shadows(shadows)
        corpus.shadow_stride *= 2


@bare_kernel
def _drop_shadows(shadows: Records) -> None:
    half = SHADOW_PAGES // 2
    for i in range(1, SHADOW_PAGES):
        left: Record = shadows[i]
        if i < half:
            kept: Record = shadows[2 * i]
            for j in range(HALF_LIVES):
                left.shape[j] = kept.shape[j]
                left.exposure[j] = kept.exposure[j]
        else:
            for j in range(HALF_LIVES):
                left.shape[j] = 0.0
                left.exposure[j] = 0.0


@bare_kernel
def learn_half_life(corpus: Record) -> None:
    """Set the half-life to the geometric mean of those compared, by their posterior probabilities. O(HALF_LIVES).

    The prior is log-normal around the first half-life, its standard deviation a factor of two.
    """
    best = -np.inf
    for i in range(HALF_LIVES):
        best = max(best, corpus.half_life_fits[i] - 0.5 * (i - _MIDDLE) ** 2)
    total = octaves = 0.0
    for i in range(HALF_LIVES):
        weight = np.exp(corpus.half_life_fits[i] - 0.5 * (i - _MIDDLE) ** 2 - best)
        total += weight
        octaves += weight * (i - _MIDDLE)
    corpus.half_life = FIRST_HALF_LIFE_DAYS * 2.0 ** (octaves / total)


@inlined_kernel
def _share_gone(cycles: float, fading: float) -> float:
    """Return the share of earlier evidence that fades in an interval, 0 to 1."""
    return 0.0 - expm1(-(min(max(cycles, SHORTEST_INTERVAL), LONGEST_INTERVAL) * fading))


@inlined_kernel
def _fading(cycle_s: float, half_life_days: float) -> float:
    """Return the rate at which evidence fades, per cycle; an endless interval counts as 1 / rate cycles."""
    return cycle_s * (_LN_2 / _DAY_S) / half_life_days
