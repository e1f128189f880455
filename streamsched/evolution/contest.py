"""The contest before a promotion: which simulated crawls champion and challenger meet in, and what is read of them.

Both crawl all held-out pages together, as a scheduler would. What they gain is then credited to blocks of these pages:
a crawl of a small block alone would visit a handful a cycle and reward other formulas than a large one does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from streamsched.evolution.promotion import fold_cycles
from streamsched.evolution.simulation.trials import Reading, Trial
from streamsched.numerics.jit import mix
from streamsched.numerics.topk_order import tie_keys

if TYPE_CHECKING:
    from streamsched.evolution.data.change_history import ChangeHistory
    from streamsched.evolution.simulation.evaluator import Evaluator, Series
    from streamsched.formula.formula import Formula
    from streamsched.numerics.arrays import Bools, Floats, Rows

__all__ = ["BLOCKS", "REPLICATES", "contest_fitness", "contest_trials", "count_spans", "shuffle_pages"]

BLOCKS: Final = 8  # of pages: 7 degrees of freedom
REPLICATES: Final = 12  # other tie orders, other first days and, where gaps were drawn, other draws
_FIRST_DAYS: Final = 4  # more would leave too few cycles to those that begin last
_MOST_SPANS: Final = 8
_SPAN_CYCLES: Final = 2  # the least: a page visited in one cycle is seldom visited in the next


def shuffle_pages(history: ChangeHistory, salt: int) -> Rows:
    """Return the rows of all pages in an order drawn from their hashes and `salt`: intp[pages]. O(n log n).

    A share of it is a random sample, and stays much the same when other pages come and go.
    """
    return np.argsort(tie_keys(history.hashes, int(mix(np.uint64(salt)))), kind="stable")


def contest_trials(
    draws: Sequence[ChangeHistory], *, budget: float, reading: Reading = "since_visit", warmup: int = 2, salt: int = 0
) -> list[Trial]:
    """Return the `REPLICATES` trials of a contest on pages that evolution has not seen.

    ``draws``: the history of these pages, several times where gaps in it were filled in by chance. Each trial goes from
    its begin to its end, so that the later cycles that count find pages as old as a running crawl's; trials differ in
    their first cycle, in how ties fall and in the draw. Where the history is too short to begin later, they begin
    together. Raises ValueError for fewer pages than blocks. O(1).
    """
    pages, cycles = draws[0].pages, draws[0].cycles
    if pages < BLOCKS:
        raise ValueError(f"contest: expected {BLOCKS} held-out pages or more, found {pages}")
    spare = max(0, cycles - warmup - 1)
    return [
        Trial(
            draws[number % len(draws)],
            first=min(number % _FIRST_DAYS, spare),
            warmup=warmup,
            budget=budget,
            reading=reading,
            salt=salt * REPLICATES + number,
        )
        for number in range(REPLICATES)
    ]


def count_spans(later: int) -> int:
    """Return into how many spans `later` cycles are folded: at least two cycles each, at most 8 spans. O(1).

    >>> [count_spans(later) for later in (1, 5, 7, 90)]
    [1, 2, 3, 8]
    """
    return max(1, min(_MOST_SPANS, later // _SPAN_CYCLES))


def contest_fitness(evaluator: Evaluator, programs: Sequence[bytes | Formula], later: int, salt: int = 0) -> Floats:
    """Return the fitness of each program in the last `later` cycles: float64[programs, BLOCKS, spans, REPLICATES].

    ``evaluator.trials``: those of `contest_trials`. What a visit contributes to its cycle's metric is credited, times
    `BLOCKS`, to the block of its page, so that the mean over blocks is the metric itself. Credited is how much more
    than the average visit it found: a program that only moves visits from one block to another must not seem to win
    here and lose there. Any two of the result are what `decide` takes. Only cycles count in which each program could
    have found something in every replicate. O(programs · trials) crawls.
    """
    history = evaluator.trials[0].history
    block = np.empty(history.pages, np.intp)
    block[shuffle_pages(history, salt + 1)] = np.arange(history.pages) % BLOCKS
    crawls = [[cuts[0] for cuts in evaluator.series(program)] for program in programs]
    cycles = min(later, *(crawl.counted.size for crawl in crawls[0]))
    whole: Bools = np.all([crawl.counted[-cycles:] for row in crawls for crawl in row], axis=0)
    counted = np.tile(whole, (BLOCKS, 1))
    spans = count_spans(cycles)
    average = _average([crawl for row in crawls for crawl in row], cycles)
    credited = [np.stack([_credit(crawl, block, cycles, average) for crawl in row], axis=1) for row in crawls]
    folded = np.stack([fold_cycles(credit, counted, spans) for credit in credited])
    return folded[:, :, ~np.isnan(folded).any(axis=(0, 1, 3))]


def _average(crawls: Sequence[Series], cycles: int) -> float:
    """Return the share of the weight of all visits in the last `cycles` cycles that found a change."""
    whole = sum(float(crawl.weights[-cycles:].sum()) for crawl in crawls)
    found = sum(float(crawl.weights[-cycles:][crawl.hits[-cycles:]].sum()) for crawl in crawls)
    return found / whole if whole else 0.0


def _credit(crawl: Series, block: Rows, cycles: int, average: float) -> Floats:
    """Return the credit of each block in the last `cycles` cycles: float64[BLOCKS, cycles]; its mean is the metric."""
    weights = crawl.weights[-cycles:]
    beyond = weights * (crawl.hits[-cycles:] - average)
    at = block[crawl.rows[-cycles:]] * cycles + np.arange(cycles)[:, None]
    sums = np.bincount(at.ravel(), beyond.ravel(), BLOCKS * cycles).reshape(BLOCKS, cycles)
    return np.asarray(BLOCKS * sums + average * weights.sum(axis=1))
