"""What a visit is worth now, if change signals may be false and may be missing: GREEDY-NCIS.

Busa-Fekete et al. (2025), "A scalable crawling algorithm utilizing noisy change-indicating signals", WWW; the formulas
are derived here. A page changes at a rate Δ; a signal announces each change with the probability λ, and false signals
come at a rate ν. So signals come at γ = λΔ + ν, changes without one at α = (1 - λ)Δ, and a copy that is t old with n
signals since is current with the probability e^(-αt) (ν/γ)^n: each signal is worth β = ln(γ/ν)/α of waiting. The best
policy in continuous time visits a page when s = t + βn reaches a threshold of its own, at which a visit is worth the
same everywhere: V = µ (w - e^(-αs) ψ) for an importance µ, where ψ is the mean time from a visit to the threshold, and
w the mean part of it in which the copy is current. At a constant rate, the page of the greatest V is visited next.

With R(j, x), the probability that a Poisson number of mean x is above j, and x(j) = s - jβ where that is positive:

    ψ = Σ R(j, γ x(j)) / γ        w = Σ ν^j / (α + γ)^(j + 1) R(j, (α + γ) x(j))
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.numerics.argument_checks import check_whole
from streamsched.numerics.arrays import Floats, Ints, frozen
from streamsched.numerics.jit import kernel
from streamsched.numerics.vector_math import exp, expm1, log
from streamsched.optimal.array_checks import check_length, check_values, check_whole_numbers
from streamsched.optimal.crawl_problem import check_pages

MOST_TERMS: Final = 1024  # of the sums: signals between two visits
_HIDDEN: Final = 1e-12  # least share of the changes that no signal announces: β is finite where signals may be false
_NEGLIGIBLE: Final = 1e-17  # of a sum
_MOST: Final = 1e12  # cycles, and false signals per cycle
_MOST_SIGNALS: Final = 1 << 31
_MOST_EXPONENT: Final = 700.0
_LEAST_MEAN: Final = 1e-300


class NoisyPages(NamedTuple):
    """n pages: ``importance`` µ, ``change_rate`` Δ, ``recall`` λ, ``false_rate`` ν, per cycle; float64[n] each."""

    importance: Floats
    change_rate: Floats
    recall: Floats
    false_rate: Floats


class VisitMoments(NamedTuple):
    """``time`` ψ to a threshold, ``current`` w of it, and ``fresh``: the probability that the copy is current then."""

    time: float
    current: float
    fresh: float


def crawl_value(
    pages: NoisyPages, waited: npt.ArrayLike, signals: npt.ArrayLike | None = None, *, terms: int = MOST_TERMS
) -> Floats:
    """Return what a visit of each page is worth now: float64[n]. O(n + signals that can have come).

    - ``waited``, ``signals``: float64[n] and int64[n], cycles and signals since the last visit; default no signals;
    - ``terms``: how many terms of the sums are added, all by default; with 1 or 2 this is an approximation.

    The value rises with the time and with each signal, up to importance/change rate. With a recall of 0 it is that of
    GREEDY, with a false rate of 0 that of GREEDY-CIS. Raises SettingsError as `lambda_crawl` does.

    >>> pages = NoisyPages(*np.array([[1, 1, 1], [0.5, 0.5, 0.5], [0, 0.8, 0.8], [0.1, 0.1, 0.1]]))
    >>> crawl_value(pages, [1, 1, 1], [0, 0, 1]).round(4)
    array([0.1804, 0.0399, 1.306 ])
    """
    known = check_pages(pages.importance, pages.change_rate)
    size = known.importance.size
    recall = check_values("recall", pages.recall, most=1.0)
    noise = check_values("false_rate", pages.false_rate, most=_MOST)
    since = check_values("waited", waited, most=_MOST)
    heard = np.zeros(size, np.int64) if signals is None else signals
    count = check_whole_numbers("signals", heard, _MOST_SIGNALS, "a whole number of signals, 0 or more")
    columns: dict[str, Floats | Ints] = {"recall": recall, "false_rate": noise, "waited": since, "signals": count}
    for name, column in columns.items():
        check_length(name, column, size, "page")
    check_whole("terms", terms, 1, "a whole number of terms, 1 or more")
    values = np.empty(size)
    value_pages(NoisyPages(known.importance, known.change_rate, recall, noise), since, count, terms, values)
    return frozen(values)


@kernel
def value_pages(pages: NoisyPages, waited: Floats, signals: Ints, terms: int, out: Floats) -> None:
    """Write to ``out``: float64[n] what visits are worth after ``waited``: float64[n] and ``signals``: int64[n]."""
    for row in range(out.size):
        out[row] = value_page(pages, row, waited[row], signals[row], terms)


@kernel
def value_page(pages: NoisyPages, row: int, waited: float, signals: int, terms: int) -> float:
    """Return what a visit of the page of a row is worth after a time and a number of signals."""
    moments = find_moments(pages, row, waited, signals, terms)
    lost = moments.fresh * moments.time if moments.fresh > 0.0 else 0.0  # the time may be infinite then
    return float(pages.importance[row] * max(moments.current - lost, 0.0))


@kernel
def find_moments(pages: NoisyPages, row: int, waited: float, signals: int, terms: int) -> VisitMoments:
    """Return the moments of visits at the threshold that a time and a number of signals make up."""
    rate, noise = pages.change_rate[row], pages.false_rate[row]
    told = rate * pages.recall[row]
    if told == 0.0:  # signals say nothing
        changes = min(rate * waited, _MOST_EXPONENT)
        return VisitMoments(waited, (0.0 - expm1(-changes)) / rate if rate > 0.0 else waited, exp(-changes))
    hidden, every = max(rate - told, _HIDDEN * rate), told + noise
    evidence = log(every / noise) if noise > 0.0 else math.inf  # of a signal, for a change
    worth = evidence / hidden
    doubt = hidden * waited + (signals * evidence if signals else 0.0)
    fresh = exp(-doubt) if doubt < _MOST_EXPONENT else 0.0
    time, current, weight, log_factorial = 0.0, 0.0, 1.0 / (hidden + every), 0.0
    for count in range(terms):
        left = waited + (signals - count) * worth if count != signals else waited
        if not left > 0.0:
            break
        more = exceeds(count, log_factorial, every * left)
        part = weight * exceeds(count, log_factorial, (hidden + every) * left)
        time += more / every
        current += part
        if more < _NEGLIGIBLE and part <= _NEGLIGIBLE * current:
            break
        weight *= noise / (hidden + every)
        log_factorial += log(count + 1.0)
    return VisitMoments(time, current, fresh)


@kernel
def exceeds(count: int, log_factorial: float, mean: float) -> float:
    """Return the probability that a Poisson number of that mean is above `count`, whose factorial's logarithm is given.

    The shorter of the two sums, from its largest term on.
    """
    if mean == math.inf:
        return 1.0
    if mean < _LEAST_MEAN:
        return 0.0
    first = exp(max(count * log(mean) - mean - log_factorial, -_MOST_EXPONENT))
    total, place = 0.0, float(count)
    if place + 1.0 > mean:
        term = first * mean / (place + 1.0)
        while term > _NEGLIGIBLE * total:
            total += term
            place += 1.0
            term *= mean / (place + 1.0)
        return total
    term = first
    while term > _NEGLIGIBLE * total:
        total += term
        term *= place / mean
        place -= 1.0
    return max(1.0 - total, 0.0)
