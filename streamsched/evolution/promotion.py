"""The promotion test: a challenger replaces the champion only if its gain clearly exceeds the sampling noise.

Champion and challenger run on the same blocks of held-out pages, in the same spans of later cycles, under the same tie
salts. The noise has three sources: the choice of pages, the choice of days, and the order of equal scores. Blocks and
spans are crossed, so the variance of the mean difference is that of the block means plus that of the span means, less
the component that both contain (two-way random effects; Searle, Casella & McCulloch, Variance Components, 1992, section
4.3). It is never less than the variance from ties alone. With few blocks and spans the variance estimate is itself
uncertain, so the standard error is inflated by Student's t.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist
from typing import Final

import numpy as np

from streamsched.numerics.arrays import Bools, Floats

NOISE_MULTIPLE: Final = 2.0  # a gain must exceed the noise by this factor: by chance that happens in 2.3 % of contests
_TAIL_PROBABILITY: Final = NormalDist().cdf(-NOISE_MULTIPLE)
_ROUNDING: Final = 1e-9  # relative to fitness: sums in another order differ by less, and no gain is that small
_MIN_LEVELS: Final = 2  # blocks, and spans; a variance needs 2


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of a contest.

    `champion` and `challenger`: mean fitness. `gain`: challenger less champion. `noise`: standard error of the gain,
    inflated by Student's t. These four are None if they could not be computed. `why`: one sentence.
    """

    promote: bool
    champion: float | None
    challenger: float | None
    gain: float | None
    noise: float | None
    blocks: int
    spans: int
    salts: int
    why: str

    @property
    def relative_gain(self) -> float | None:
        """The gain as a share of the champion's fitness; None if there is no gain or the fitness is 0. O(1)."""
        return self.gain / self.champion if self.gain is not None and self.champion else None

    def __post_init__(self) -> None:
        if self.promote and not (
            self.gain is not None and self.noise is not None and self.gain > NOISE_MULTIPLE * self.noise >= 0.0
        ):
            raise ValueError(f"verdict: promotes at a gain of {self.gain} with noise {self.noise}")


def decide(champion: Floats, challenger: Floats, *, rivals: int = 1) -> Verdict:
    """Decide on promotion: the mean gain must exceed `NOISE_MULTIPLE` times the noise. O(cells).

    ``champion`` and ``challenger``: float64[blocks, spans, salts], fitness in the same trials, higher is better. Blocks
    are disjoint sets of held-out pages, at least 2. Spans are disjoint runs of later cycles, at least 2. Salts are
    orders of equal scores; the variance from ties needs 2 or more. `rivals`: number of simultaneous challengers; the
    threshold is corrected for all of them (Bonferroni). A challenger without true gain is promoted in at most 1 of 20
    contests. Raises ValueError if the shapes differ.

    >>> level = np.linspace(0.2, 0.3, 24).reshape(4, 3, 2)
    >>> decide(level, level).promote, decide(level, 1.1 * level).promote
    (False, True)
    """
    old, new = np.asarray(champion, np.float64), np.asarray(challenger, np.float64)
    if old.ndim != 3 or old.shape != new.shape or rivals < 1:
        raise ValueError(f"contest: expected two float64[blocks, spans, salts], found {old.shape} and {new.shape}")
    blocks, spans, salts = old.shape
    finite = np.isfinite(old) & np.isfinite(new)
    if old.size == 0 or not finite.all():
        missing = old.size - int(np.count_nonzero(finite))
        why = f"not promoted: {missing} of {old.size} trials were not finished; a contest compares complete trials only"
        return Verdict(False, None, None, None, None, blocks, spans, salts, why)
    means = float(old.mean()), float(new.mean())
    gain = float((new - old).mean())
    if blocks < _MIN_LEVELS or spans < _MIN_LEVELS:
        why = (
            f"not promoted: {blocks} blocks of pages and {spans} spans of cycles are too few to estimate the noise, "
            f"expected {_MIN_LEVELS} of each"
        )
        return Verdict(False, *means, gain, None, blocks, spans, salts, why)
    noise = _estimate_noise(new - old, _TAIL_PROBABILITY / rivals)
    promote = gain > NOISE_MULTIPLE * noise and gain > _ROUNDING * max(map(abs, means))
    relative = f" ({gain / means[0]:+.2%})".replace("%", " %") if means[0] else ""
    why = (
        f"{'promoted' if promote else 'not promoted'}: the gain of {gain:+.4g}{relative} "
        f"{'exceeds' if promote else 'does not exceed'} {NOISE_MULTIPLE:g} × the noise of {noise:.2g} "
        f"over {_format_count(blocks, 'block')} of held-out pages, {_format_count(spans, 'span')} of later cycles, "
        f"{salts} tie orders"
    )
    return Verdict(bool(promote), *means, gain, noise, blocks, spans, salts, why)


def fold_cycles(series: Floats, counted: Bools, spans: int) -> Floats:
    """Return the means of `spans` consecutive runs of cycles: float64[blocks, spans, salts]. O(cells).

    ``series``: float64[blocks, salts, cycles], one value per ranked cycle; ``counted``: bool[blocks, cycles], False for
    cycles without anything to find. Successive cycles are correlated, so they are folded into runs much longer than the
    correlation: batch means (Law, Simulation Modeling and Analysis, section 9.5.3). Run lengths differ by at most one
    cycle. A run without a counted cycle in a block is NaN in that block.

    >>> fold_cycles(np.arange(6.0).reshape(1, 1, 6), np.ones((1, 6), bool), 2).ravel().tolist()
    [1.0, 4.0]
    """
    cycles = series.shape[2]
    bounds = [cycles * i // spans for i in range(spans + 1)]
    folded = np.full((series.shape[0], spans, series.shape[1]), np.nan)
    for span, (start, stop) in enumerate(pairwise(bounds)):
        weights = counted[:, start:stop].astype(np.float64)
        total = weights.sum(axis=1)
        sums = np.einsum("bsc,bc->bs", series[:, :, start:stop], weights)
        nonempty = total > 0
        folded[nonempty, span] = sums[nonempty] / total[nonempty, None]
    return folded


def _estimate_noise(difference: Floats, tail: float) -> float:
    """Return the standard error of the mean of ``difference``: float64[blocks, spans, salts], inflated for tail
    probability `tail`.
    """
    blocks, spans, salts = difference.shape
    cells = difference.mean(axis=2)
    by_block, by_span = cells.mean(axis=1), cells.mean(axis=0)
    residual = cells - by_block[:, None] - by_span[None, :] + cells.mean()
    block_variance = float(by_block.var(ddof=1)) / blocks
    span_variance = float(by_span.var(ddof=1)) / spans
    residual_variance = float(np.square(residual).sum()) / ((blocks - 1) * (spans - 1)) / (blocks * spans)
    tie_variance = float(difference.var(axis=2, ddof=1).mean()) / difference.size if salts > 1 else 0.0
    variance = max(block_variance, span_variance, block_variance + span_variance - residual_variance, tie_variance)
    return math.sqrt(variance) * inflate_error(
        _degrees_of_freedom((block_variance, blocks - 1), (span_variance, spans - 1)), tail
    )


def _degrees_of_freedom(*parts: tuple[float, int]) -> float:
    """Return the degrees of freedom of a sum of variances, each with its own (Satterthwaite 1946).

    If a variance has only one, return the smallest: such a variance can be far too small to weight itself.
    """
    fewest = min(degrees for _, degrees in parts)
    weighted = sum(variance * variance / degrees for variance, degrees in parts)
    total = sum(variance for variance, _ in parts)
    return total * total / weighted if weighted > 0.0 and fewest > 1 else float(fewest)


def inflate_error(degrees: float, tail: float = _TAIL_PROBABILITY) -> float:
    """Return the factor by which to inflate a standard error with that many degrees of freedom.

    Chance alone exceeds `NOISE_MULTIPLE` times the inflated error with probability `tail`. O(1).

    >>> round(inflate_error(4.0), 3), round(inflate_error(1e9), 3)
    (1.435, 1.0)
    """
    from scipy.special import stdtrit  # noqa: PLC0415  importing it takes longer than reading the records

    return float(stdtrit(degrees, 1.0 - tail)) / NOISE_MULTIPLE


def _format_count(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"
