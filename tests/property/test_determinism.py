"""The same seed and the same operations give the same batches, however many threads score and however it is ranked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.outcomes import Outcome, OutcomeBatch
from streamsched.politeness.politeness_settings import Politeness
from streamsched.ranking import formula_switch, full_scan
from streamsched.ranking.incremental_topk import IncrementalTopK
from streamsched.scheduler.scheduler import Scheduler
from tests.support.cases import examples
from tests.support.guarded_memory import small_rankings, small_reserve
from tests.support.handout import drawing
from tests.support.outcome_streams import DAY

MANNERS = Politeness(delay=10.0, in_flight=40, per_batch=9, backoff=3_600.0, min_revisit=600.0, max_revisit="20d")
FORMULAS = ("posterior", "importance * t * (3 - t)", "1", "NAD * t")

ways = st.sampled_from([(1, True, 1), (1, True, 8), (3, True, 1), (1, False, 1), (3, False, 1)])


@contextmanager
def ranked_so(kept: bool, most_opened: int) -> Iterator[None]:
    """Rankings of these few pages are kept, or they score all pages at each query, in many blocks."""
    with small_reserve(), small_rankings(6, most_opened), pytest.MonkeyPatch.context() as patch:
        for name, value in {"BLOCK": 64, "_MANY_ROWS": 64, "_SAMPLE_ROWS": 3, "_SAMPLE_BLOCKS": 2}.items():
            patch.setattr(full_scan, name, value)
        if not kept:
            patch.setattr(formula_switch, "IncrementalTopK", partial(IncrementalTopK, fewest_pages=1 << 40))
        yield


def live(seed: int, steps: int, way: tuple[int, bool, int]) -> tuple[list[tuple[list[str], bytes, int]], str]:
    """What a crawl gets to see, drawn by `seed`, and what it leaves behind."""
    threads, kept, most_opened = way
    rng = np.random.default_rng(seed)
    seen = []
    with ranked_so(kept, most_opened):
        scheduler = Scheduler(seed=seed, politeness=MANNERS, threads=threads, new_share=0.2, panel=0.1)
        drawing(0.1, scheduler)
        now = 1_000 * DAY
        for step in range(steps):
            found = [f"https://h{int(host)}.example/{step}/{i}" for i, host in enumerate(rng.integers(0, 9, 40))]
            scheduler.discover(found, now=now, importance=rng.integers(0, 4, 40).astype(float))
            now += float(rng.choice([0.0, 60.0, 3_600.0, DAY]))
            batch = scheduler.next_batch(int(rng.integers(0, 60)), now=now, lease="1h")
            seen.append((batch.urls, batch.scores.tobytes(), batch.panel))
            done = [Outcome(url, now, changed=bool(rng.random() < 0.4)) for url in batch.urls if rng.random() < 0.8]
            scheduler.observe(OutcomeBatch.from_outcomes(done))
            if step % 5 == 4:
                scheduler.use(FORMULAS[int(rng.integers(4))], wait=True)
                drawing(0.1, scheduler)
        return seen, scheduler.digest()


@examples(ordinary=3, whole=5)
@given(st.integers(0, 2**32), st.integers(1, 12), ways, ways)
def test_neither_threads_nor_the_way_of_ranking_show(
    seed: int, steps: int, one: tuple[int, bool, int], other: tuple[int, bool, int]
) -> None:
    assert live(seed, steps, one) == live(seed, steps, other)


def test_a_long_crawl_is_the_same_in_every_way() -> None:
    first, *others = (live(7, 25, way) for way in [(1, True, 1), (3, True, 8), (2, False, 1)])
    assert others == [first, first]
    assert len({url for urls, _, _ in first[0] for url in urls}) > 100
    assert live(8, 25, (1, True, 1)) != first
