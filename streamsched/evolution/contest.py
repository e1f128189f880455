"""The contest before a promotion: which simulated crawls champion and challenger meet in, and what is read of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from streamsched.arrays import Bools, Floats, Rows
from streamsched.evolution.evaluator import Evaluator
from streamsched.evolution.history import ChangeHistory
from streamsched.evolution.promotion import fold_cycles
from streamsched.evolution.trials import Reading, Trial
from streamsched.formula import Formula
from streamsched.jit import mix
from streamsched.order import tie_keys

__all__ = ["BLOCKS", "REPLICATES", "contest_fitness", "contest_trials", "count_spans", "shuffle_pages"]

BLOCKS: Final = 8  # of pages: 7 degrees of freedom, and of 10,000 held-out pages each still visits 60 a cycle
REPLICATES: Final = 3  # of a block: other tie orders, and other first days
_MOST_SPANS: Final = 8
_SPAN_CYCLES: Final = 2  # the least: a page visited in one cycle is seldom visited in the next


def shuffle_pages(history: ChangeHistory, salt: int) -> Rows:
    """Return the rows of all pages in an order drawn from their hashes and `salt`: intp[pages]. O(n log n).

    A share of it is a random sample, and stays much the same when other pages come and go.
    """
    return np.argsort(tie_keys(history.hashes, int(mix(np.uint64(salt)))), kind="stable")


def contest_trials(
    held_out: ChangeHistory, *, budget: float, reading: Reading = "since_visit", warmup: int = 2, salt: int = 0
) -> list[Trial]:
    """Return the trials of a contest on pages that evolution has not seen, `REPLICATES` a block, block by block.

    Each block of pages is crawled from the history's begin to its end, so that the later cycles that count find pages
    as old as a running crawl's; replicates differ in their first cycle and in how ties fall. Where the history is too
    short to begin later, they begin together. Raises ValueError for fewer pages than blocks. O(pages log pages).
    """
    if held_out.pages < BLOCKS:
        raise ValueError(f"contest: expected {BLOCKS} held-out pages or more, found {held_out.pages}")
    order = shuffle_pages(held_out, salt)
    blocks = [held_out.take(np.sort(order[block::BLOCKS])) for block in range(BLOCKS)]
    spare = max(0, held_out.cycles - warmup - 1)
    return [
        Trial(
            block,
            first=min(replicate, spare),
            warmup=warmup,
            budget=budget,
            reading=reading,
            salt=(salt * BLOCKS + number) * REPLICATES + replicate,
        )
        for number, block in enumerate(blocks)
        for replicate in range(REPLICATES)
    ]


def count_spans(later: int) -> int:
    """Return into how many spans `later` cycles are folded: at least two cycles each, at most 8 spans. O(1).

    >>> [count_spans(later) for later in (1, 5, 7, 90)]
    [1, 2, 3, 8]
    """
    return max(1, min(_MOST_SPANS, later // _SPAN_CYCLES))


def contest_fitness(evaluator: Evaluator, programs: Sequence[bytes | Formula], later: int) -> Floats:
    """Return the fitness of each program in the last `later` cycles: float64[programs, BLOCKS, spans, REPLICATES].

    ``evaluator.trials``: those of `contest_trials`. Any two of the result are what `decide` takes. Only cycles count in
    which each program could have found something in every replicate of a block; a span without one in some block is
    left out. O(programs · trials) crawls.
    """
    crawls = [[cuts[0] for cuts in evaluator.series(program)] for program in programs]
    cycles = min(later, *(crawl.counted.size for crawl in crawls[0]))
    shape = (len(programs), len(crawls[0]) // REPLICATES, REPLICATES, cycles)
    counted = np.array([[crawl.counted[-cycles:] for crawl in row] for row in crawls]).reshape(shape)
    whole: Bools = np.all(counted, axis=(0, 2))
    figures = np.array([[getattr(crawl, evaluator.metric)[-cycles:] for crawl in row] for row in crawls])
    folded = np.array([fold_cycles(one, whole, count_spans(cycles)) for one in figures.reshape(shape)])
    return folded[:, :, ~np.isnan(folded).any(axis=(0, 1, 3))]
