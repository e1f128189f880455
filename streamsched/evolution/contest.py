"""The contest before a promotion: the simulated crawls that compare champion and challenger, and their fitness.

Each formula crawls all held-out pages together, as a scheduler would. Its gains are then credited to blocks of these
pages. Separate crawls of small blocks would visit a handful of pages a cycle and favour other formulas than a large
crawl does.
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

BLOCKS: Final = 8  # blocks of pages; leaves 7 degrees of freedom
REPLICATES: Final = 12  # with different tie orders, first cycles and imputations
_STARTS: Final = 4  # different first cycles; more would leave too few cycles to the last
_MAX_SPANS: Final = 8
_MIN_SPAN_CYCLES: Final = 2  # a page visited in one cycle is seldom visited in the next


def shuffle_pages(history: ChangeHistory, salt: int) -> Rows:
    """Return the rows of all pages in a pseudo-random order given by their hashes and `salt`: intp[pages]. O(n log n).

    Any slice of it is a random sample, which changes little when other pages are added or removed.
    """
    return np.argsort(tie_keys(history.hashes, int(mix(np.uint64(salt)))), kind="stable")


def contest_trials(
    imputations: Sequence[ChangeHistory],
    *,
    budget: float,
    reading: Reading = "since_visit",
    warmup: int = 2,
    salt: int = 0,
) -> list[Trial]:
    """Return the `REPLICATES` trials of a contest on pages that evolution has not used.

    ``imputations``: histories of these pages, several if gaps were imputed. Trials differ in first cycle, tie order and
    imputation. Each runs to the end of the history, so that in the cycles that count, pages are as old as in a running
    crawl. If the history is too short for later starts, all trials begin together.
    Raises ValueError if there are fewer pages than blocks. O(1).
    """
    pages, cycles = imputations[0].pages, imputations[0].cycles
    if pages < BLOCKS:
        raise ValueError(f"contest: expected {BLOCKS} held-out pages or more, found {pages}")
    latest_start = max(0, cycles - warmup - 1)
    return [
        Trial(
            imputations[number % len(imputations)],
            first=min(number % _STARTS, latest_start),
            warmup=warmup,
            budget=budget,
            reading=reading,
            salt=salt * REPLICATES + number,
        )
        for number in range(REPLICATES)
    ]


def count_spans(later_cycles: int) -> int:
    """Return the number of spans for `later_cycles` cycles: at least 2 cycles each, at most 8 spans. O(1).

    >>> [count_spans(later_cycles) for later_cycles in (1, 5, 7, 90)]
    [1, 2, 3, 8]
    """
    return max(1, min(_MAX_SPANS, later_cycles // _MIN_SPAN_CYCLES))


def contest_fitness(
    evaluator: Evaluator, programs: Sequence[bytes | Formula], later_cycles: int, salt: int = 0
) -> Floats:
    """Return each program's fitness in the last `later_cycles` cycles: float64[programs, BLOCKS, spans, REPLICATES].

    ``evaluator.trials``: those of `contest_trials`. The contribution of a visit to its cycle's metric, times `BLOCKS`,
    is credited to the block of its page, so the mean over blocks is the metric. A visit's credit is its excess over the
    average visit: a program that only moves visits between blocks must not appear to win in one and lose in another. A
    cycle counts if in every replicate each program could have found a change. Pass any two entries of the result to
    `decide`. O(programs · trials) crawls.
    """
    history = evaluator.trials[0].history
    block = np.empty(history.pages, np.intp)
    block[shuffle_pages(history, salt + 1)] = np.arange(history.pages) % BLOCKS
    crawls = [[cuts[0] for cuts in evaluator.series(program)] for program in programs]
    cycles = min(later_cycles, *(crawl.counted.size for crawl in crawls[0]))
    counted_cycles: Bools = np.all([crawl.counted[-cycles:] for row in crawls for crawl in row], axis=0)
    counted = np.tile(counted_cycles, (BLOCKS, 1))
    spans = count_spans(cycles)
    mean = _hit_share([crawl for row in crawls for crawl in row], cycles)
    block_credits = [np.stack([_credit_blocks(crawl, block, cycles, mean) for crawl in row], axis=1) for row in crawls]
    folded = np.stack([fold_cycles(credit, counted, spans) for credit in block_credits])
    return folded[:, :, ~np.isnan(folded).any(axis=(0, 1, 3))]


def _hit_share(crawls: Sequence[Series], cycles: int) -> float:
    """Return the share of visit weight that found a change, over all visits in the last `cycles` cycles."""
    total = sum(float(crawl.weights[-cycles:].sum()) for crawl in crawls)
    found = sum(float(crawl.weights[-cycles:][crawl.hits[-cycles:]].sum()) for crawl in crawls)
    return found / total if total else 0.0


def _credit_blocks(crawl: Series, block: Rows, cycles: int, mean: float) -> Floats:
    """Return the credit of each block in the last `cycles` cycles: float64[BLOCKS, cycles]; its mean is the metric."""
    weights = crawl.weights[-cycles:]
    excess = weights * (crawl.hits[-cycles:] - mean)
    cells = block[crawl.rows[-cycles:]] * cycles + np.arange(cycles)[:, None]
    sums = np.bincount(cells.ravel(), excess.ravel(), BLOCKS * cycles).reshape(BLOCKS, cycles)
    return np.asarray(BLOCKS * sums + mean * weights.sum(axis=1))
