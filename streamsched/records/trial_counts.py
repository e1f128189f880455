"""Counts of a trial: what visits chosen by the champion and by a challenger have found. Kernels.

A trial has rounds of equal length. In each round every page is in the arm of the challenger with the trial's share as
its probability, by a hash of its URL salted with the round, else in that of the champion. So each round begins with
arms that differ by chance alone, and pages that come later join either. The first visits of a round are not counted:
they still find what the pages' former formula left behind. Each arm's visits are counted in blocks of pages, from whose
differences `evolution.sequential_test` estimates the noise.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from streamsched.numerics.arrays import Bools, Hashes, Record, Records
from streamsched.numerics.jit import bare_kernel, inlined_kernel, mix

ROUNDS: Final = 26  # at most: a year of rounds of 14 daily cycles
BLOCKS: Final = 16  # of pages in each arm
ARMS: Final = 2
CHALLENGER: Final = 0
CHAMPION: Final = 1
CELLS: Final = ROUNDS * ARMS * BLOCKS
SETTLING: Final = 0.3  # share of a round before visits are counted


@inlined_kernel
def count_visit(corpus: Record, page: Record, at_s: float, found: bool) -> None:
    """Count a visit to `page` at `at_s` that was chosen by score. O(1). ``corpus``: the CORPUS record."""
    if corpus.trial_bar == 0 or not corpus.trial_start_s <= at_s:
        return
    passed = (at_s - corpus.trial_start_s) / corpus.trial_round_s
    if not passed < ROUNDS or passed - math.floor(passed) < SETTLING:
        return
    number = np.int64(passed)
    salted = salted_hash(page.url_hash, corpus.trial_salt, number)
    arm = CHALLENGER if salted < corpus.trial_bar else CHAMPION
    cell = (number * ARMS + arm) * BLOCKS + np.int64(salted & np.uint64(BLOCKS - 1))
    corpus.trial_costs[cell] += page.cost
    if found:
        corpus.trial_finds[cell] += page.importance


@inlined_kernel
def salted_hash(url_hash: int, salt: int, number: int) -> np.uint64:
    """Return what decides the arm and the block of a page in round `number`: a uint64. O(1)."""
    salted: Any = mix(url_hash ^ mix(np.uint64(salt) ^ np.uint64(number + 1)))
    return np.uint64(salted)


@bare_kernel
def find_in_arm(hashes: Hashes, salt: int, bar: int, number: int, inside: Bools) -> None:
    """Set which pages are in the arm of the challenger in round `number`: ``inside``: bool[n]. O(n).

    ``hashes``: uint64[n], those of their URLs.
    """
    for i in range(hashes.size):
        inside[i] = salted_hash(hashes[i], salt, number) < np.uint64(bar)


def start_counting(corpus: Records, *, salt: int, bar: int, start_s: float, round_s: float) -> None:
    """Begin a trial's counts in ``corpus``: CORPUS[1]; a `bar` of 0 ends counting and clears them. O(1)."""
    corpus["trial_salt"], corpus["trial_bar"] = salt, bar
    corpus["trial_start_s"], corpus["trial_round_s"] = start_s, round_s
    corpus["trial_costs"] = corpus["trial_finds"] = 0.0
