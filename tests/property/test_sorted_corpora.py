"""Corpora that are hardest to keep sorted: at every query the maintained ranking is the sort of all scores."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamsched.formula.objectives import OBJECTIVES
from tests.support.cases import examples
from tests.support.guarded_memory import small_reserve
from tests.support.outcome_streams import DAY
from tests.support.scheduler_twins import small_shards
from tests.support.sorted_corpus import LAYOUTS, SortedCorpus

pytestmark = pytest.mark.usefixtures("no_surge_probes")

INFINITE = "pow(1e300, 2)"
HARD = {
    "all equal": "1",
    "all equal, moving": "0 * t",
    "all NaN": f"{INFINITE} - {INFINITE} * (t + 1)",
    "all infinite": f"{INFINITE} * (t + 1)",
    "falling": "0 - t * importance",
    "falling to a limit": "importance / (1 + t)",
    "falling, then rising": "(t - 2) * (t - 2)",
    "a jump": f"0 - {INFINITE} * (2 - t)",
    "a pole": "1 / (t - 2)",
    "a step": "exp(1000 * (t - 2)) / (1 + exp(1000 * (t - 2))) * importance",
    "a short peak": "exp(-10000 * (t - 2) * (t - 2)) * importance",
    "NaN from a hidden time on": "importance + 0 * exp(1e300 * (t - 2))",
}
USUAL = {
    "default": OBJECTIVES["changes"],
    "balanced": OBJECTIVES["balanced"],
    "freshness": OBJECTIVES["freshness"],
    "evolved": "log(t + 0.01) * (SAD - 0.5) + pow(rate, importance)",
    "of no time": "importance / cost",
}
FORMULAS = HARD | USUAL
waits = st.sampled_from([0.0, 1.0, 1.0, 1.0, 60.0, 600.0, 3_600.0, DAY / 3, DAY, 2 * DAY, -1.0, -30.0, -DAY])


@pytest.fixture(autouse=True, scope="module")
def few_reserved() -> Iterator[None]:
    with small_reserve():
        yield


def begin(pages: int, formula: str, layout: str, *, spread: bool, seed: int = 0) -> SortedCorpus:
    """A corpus whose pages were visited twice: at one instant, or over three days."""
    corpus = SortedCorpus(pages, formula, layout, seed)
    for days in (6.0, 2.0):
        ages = days * DAY * corpus.rng.random(pages) if spread else np.full(pages, days * DAY)
        corpus.visit(np.arange(pages), corpus.now - ages, changed=0.3)
    return corpus


@pytest.mark.parametrize("formula", FORMULAS)
@examples(ordinary=3, whole=4)
@given(
    st.integers(1, 90),
    st.sampled_from(sorted(LAYOUTS)),
    st.booleans(),
    st.lists(st.tuples(waits, st.sampled_from([1, 1, 2, 5, 40, 10**9]), st.integers(0, 3)), max_size=16),
)
@example(80, "one host", False, [(1.0, k, 0) for k in (1, 80, 1, 79, 2, 40, 1, 1, 1, 80, 1, 1)])  # alternating
@example(90, "hosts", True, [(1.0, k, 0) for k in range(1, 91, 6)])
@example(60, "one group", False, [(60.0, 1, 0)] * 4 + [(2 * DAY, 1, 0)] + [(60.0, 1, 0)] * 4)
def test_a_small_corpus_is_sorted(
    formula: str, pages: int, layout: str, spread: bool, steps: list[tuple[float, int, int]]
) -> None:
    with small_shards(bits=5, most_opened=1):
        corpus = begin(pages, FORMULAS[formula], layout, spread=spread)
        for wait_s, k, visited in steps:
            corpus.now += wait_s
            rows = corpus.take(k, lease=visited > 0)
            corpus.check()
            if visited > 1:
                corpus.visit(rows[::visited], corpus.now + 0.5, changed=0.5)


def crawl(corpus: SortedCorpus, rng: random.Random, queries: int) -> Counter[str]:
    """Queries in even steps, most of them, with outcomes, leaps, edits of a group and other formulas in between."""
    pages = len(corpus.urls)
    k, step_s = max(rng.choice([1, pages // 1_000, pages // 100, pages // 80]), 1), rng.choice([1.0, 1.0, 60.0])
    for number in range(queries):
        corpus.now += step_s
        event = rng.randrange(12)
        if event == 0:
            corpus.now += rng.choice([600.0, DAY / 3, DAY, 2 * DAY, -20.0, -DAY])
        elif event == 1:
            k = max(rng.choice([1, pages // 1_000, pages // 100, pages // 80, pages // 2, pages]), 1)
        elif event == 2:
            corpus.visit(np.flatnonzero(np.arange(pages) % 97 == rng.randrange(97)), corpus.now, changed=1.0)
        elif event == 3:
            corpus.visit(corpus.rng.integers(pages, size=max(pages // 50, 1)), corpus.now, changed=0.1)
        elif event == 4:
            corpus.scheduler.use(FORMULAS[rng.choice(sorted(FORMULAS))], wait=True)
        rows = corpus.take(k, lease=rng.random() < 0.9)
        if rng.random() < 0.9:
            corpus.visit(rows[:: rng.choice([1, 1, 2])], corpus.now + 0.5, changed=rng.random())
        if number % 5 == 0:
            corpus.check()
    return corpus.met


@pytest.mark.cases(ordinary=1, whole=120)
def test_a_corpus_of_any_size_is_sorted(rng: random.Random) -> None:
    """From one page to several pools, with the constants of the library."""
    pages = round(2.0 ** rng.uniform(0.0, 17.0)) if rng.random() < 0.5 else rng.randrange(1 << 16, 1 << 17)
    formula, layout = FORMULAS[rng.choice(sorted(FORMULAS))], rng.choice(sorted(LAYOUTS))
    corpus = begin(pages, formula, layout, spread=rng.random() < 0.7, seed=rng.getrandbits(30))
    met = crawl(corpus, rng, 40)
    assert 2 * max(met["most examined"], met["most examined before a scan"]) < pages
