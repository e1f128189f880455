"""Whether a challenger replaces the champion: only where its gain stands well clear of every kind of luck.

Both are tried on the same blocks of held-out pages, in the same spans of later cycles, under the same tie salts. Luck
has three sources: which pages were held out, which days these were, and how equal scores fell. Blocks and spans are
crossed, so the variance of the mean difference is that of the block means plus that of the span means less what both
contain (two-way random effects; Searle, Casella & McCulloch, Variance Components, 1992, section 4.3), and never less
than ties alone explain. Few blocks and spans say little about their own spread: the noise is widened by Student's t.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bools, Floats

__all__ = ["TIMES_NOISE", "Verdict", "decide", "fold_cycles", "widen"]

TIMES_NOISE: Final = 2.0  # a gain must exceed the noise so many times: luck alone does that in 2.3 % of contests
_TAIL: Final = NormalDist().cdf(-TIMES_NOISE)
_ROUNDING: Final = 1e-9  # of the fitness: sums in another order differ by less, and no gain is that small
_FEWEST: Final = 2  # blocks, and spans: fewer have no spread


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a contest. `champion` and `challenger`: mean fitness; `gain`: their difference, the latter less the
    former; `noise`: what luck makes of the difference; None where it could not be told. `why`: one sentence.
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
        """The gain as a share of the champion's fitness, None where there is none. O(1)."""
        return self.gain / self.champion if self.gain is not None and self.champion else None

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Verdict:
        """Return the verdict of these fields. Raises ValueError where they are not those of one, or contradict it."""
        try:
            verdict = cls(**fields)
            numbers = [getattr(verdict, name) for name in ("champion", "challenger", "gain", "noise")]
            if not isinstance(verdict.why, str) or not all(
                number is None or (isinstance(number, int | float) and math.isfinite(number)) for number in numbers
            ):
                raise ValueError("verdict: expected finite numbers and a sentence")
        except TypeError as error:
            raise ValueError(f"verdict: {error}") from error
        if verdict.promote is not True and verdict.promote is not False:
            raise ValueError(f"verdict: expected to promote or not, found {verdict.promote!r}")
        if verdict.promote and (
            verdict.gain is None or verdict.noise is None or not verdict.gain > TIMES_NOISE * verdict.noise >= 0.0
        ):
            raise ValueError(f"verdict: promotes at a gain of {verdict.gain} with noise {verdict.noise}")
        return verdict


def decide(champion: Floats, challenger: Floats, *, rivals: int = 1) -> Verdict:
    """Return whether the challenger is promoted: its mean gain must exceed `TIMES_NOISE` times the noise. O(cells).

    ``champion`` and ``challenger``: float64[blocks, spans, salts], fitness in the same trials, higher is better.
    Blocks are disjoint sets of held-out pages, at least 2; spans are disjoint runs of later cycles, at least 2; salts
    are orders of equal scores, 2 or more to see what ties do. `rivals`: how many challengers are contesting at once:
    the best of several has had as many chances, and each must pass as though it alone had them all (Bonferroni).
    A challenger of no true gain is promoted in at most 1 of 20 contests. Raises ValueError where the shapes differ.

    >>> level = np.linspace(0.2, 0.3, 24).reshape(4, 3, 2)
    >>> decide(level, level).promote, decide(level, 1.1 * level).promote
    (False, True)
    """
    old, new = np.asarray(champion, np.float64), np.asarray(challenger, np.float64)
    if old.ndim != 3 or old.shape != new.shape or rivals < 1:
        raise ValueError(f"contest: expected two float64[blocks, spans, salts], found {old.shape} and {new.shape}")
    blocks, spans, salts = old.shape
    known = np.isfinite(old) & np.isfinite(new)
    if old.size == 0 or not known.all():
        missing = old.size - int(np.count_nonzero(known))
        why = f"not promoted: {missing} of {old.size} trials were not finished, and a contest compares like with like"
        return Verdict(False, None, None, None, None, blocks, spans, salts, why)
    means = float(old.mean()), float(new.mean())
    gain = float((new - old).mean())
    if blocks < _FEWEST or spans < _FEWEST:
        why = (
            f"not promoted: {blocks} blocks of pages and {spans} spans of cycles have no spread to tell luck by, "
            f"expected {_FEWEST} of each"
        )
        return Verdict(False, *means, gain, None, blocks, spans, salts, why)
    noise = _noise(new - old, _TAIL / rivals)
    promote = gain > TIMES_NOISE * noise and gain > _ROUNDING * max(map(abs, means))
    where = f"{_count(blocks, 'block')} of held-out pages, {_count(spans, 'span')} of later cycles, {salts} tie orders"
    relation = "exceeds" if promote else "does not exceed"
    share = f" ({gain / means[0]:+.2%})".replace("%", " %") if means[0] else ""
    why = (
        f"{'promoted' if promote else 'not promoted'}: the gain of {gain:+.4g}{share} {relation} "
        f"{TIMES_NOISE:g} × the noise of {noise:.2g} over {where}"
    )
    return Verdict(bool(promote), *means, gain, noise, blocks, spans, salts, why)


def fold_cycles(series: Floats, counted: Bools, spans: int) -> Floats:
    """Return the means of `spans` runs of cycles that follow one another: float64[blocks, spans, salts]. O(cells).

    ``series``: float64[blocks, salts, cycles], one figure a ranked cycle; ``counted``: bool[blocks, cycles], False
    where there was nothing to find. Successive cycles depend on one another, so they are folded into runs much longer
    than the dependence: batch means (Law, Simulation Modeling and Analysis, section 9.5.3). Runs differ by at
    most one cycle in length; one without a counted cycle in some block is NaN there.

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
        some = total > 0
        folded[some, span] = sums[some] / total[some, None]
    return folded


def _noise(difference: Floats, tail: float) -> float:
    """Return the noise of the mean of ``difference``: float64[blocks, spans, salts], made wide enough for `tail`."""
    blocks, spans, salts = difference.shape
    cells = difference.mean(axis=2)
    by_block, by_span = cells.mean(axis=1), cells.mean(axis=0)
    rest = cells - by_block[:, None] - by_span[None, :] + cells.mean()
    over_blocks = float(by_block.var(ddof=1)) / blocks
    over_spans = float(by_span.var(ddof=1)) / spans
    shared = float(np.square(rest).sum()) / ((blocks - 1) * (spans - 1)) / (blocks * spans)
    ties = float(difference.var(axis=2, ddof=1).mean()) / difference.size if salts > 1 else 0.0
    variance = max(over_blocks, over_spans, over_blocks + over_spans - shared, ties)
    return math.sqrt(variance) * widen(_freedom((over_blocks, blocks - 1), (over_spans, spans - 1)), tail)


def _freedom(*parts: tuple[float, int]) -> float:
    """Return the degrees of freedom of a sum of variances, each with its own (Satterthwaite 1946).

    The least of them where a variance has but one: it may then be far too small, and must not set its own weight.
    """
    least = min(degrees for _, degrees in parts)
    spread = sum(variance * variance / degrees for variance, degrees in parts)
    whole = sum(variance for variance, _ in parts)
    return whole * whole / spread if spread > 0.0 and least > 1 else float(least)


def widen(freedom: float, tail: float = _TAIL) -> float:
    """Return by what to multiply a standard error so that luck exceeds `TIMES_NOISE` times it in a share `tail`. O(1).

    >>> round(widen(4.0), 3), round(widen(1e9), 3)
    (1.435, 1.0)
    """
    from scipy.special import stdtrit  # noqa: PLC0415  takes longer to import than reading records does

    return float(stdtrit(freedom, 1.0 - tail)) / TIMES_NOISE


def _count(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"
