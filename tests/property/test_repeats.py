"""A stream leaves one state, however it is cut, and whatever of it comes twice."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched import Observed, Outcome, OutcomeBatch, PackedUrls, Politeness, Scheduler
from streamsched.state import page_table
from tests.support.cases import examples
from tests.support.outcome_streams import cut, daily_crawl, streams

pytestmark = pytest.mark.usefixtures("small_tables")

sizes = st.lists(st.sampled_from([1, 2, 7, 30, 1000]), min_size=1, max_size=4)


def fed(*parts: list[Outcome]) -> Scheduler:
    scheduler = Scheduler()
    for part in parts:
        scheduler.observe(part)
    return scheduler


@examples(ordinary=3, whole=10)
@given(streams(), sizes)
def test_cutting_does_not_show(outcomes: list[Outcome], sizes: list[int]) -> None:
    whole = fed(outcomes).digest()
    assert fed(*cut(outcomes, sizes)).digest() == whole
    assert fed(*cut(outcomes, [1])).digest() == whole


@examples(ordinary=3, whole=10)
@given(streams(), st.integers(1, 5))
def test_chunks_within_a_batch_do_not_show(outcomes: list[Outcome], chunk: int) -> None:
    whole = fed(outcomes).digest()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_table, "_CHUNK", chunk)
        assert fed(outcomes).digest() == whole


@examples(ordinary=3, whole=10)
@given(streams(), st.data())
def test_repeats_of_what_came_before_do_not_show(outcomes: list[Outcome], data: st.DataObject) -> None:
    """After each part, any stretch of what was fed so far, from its beginning (a restart) or from anywhere."""
    repeating, at = fed(), 0
    repeating.max_ahead = None  # what is refused once is refused again, and counted
    for part in cut(outcomes, data.draw(sizes)):
        repeating.observe(part)
        at += len(part)
        for _ in range(data.draw(st.integers(0, 2))):
            start = data.draw(st.sampled_from([0, at // 2, at - 1]))
            stretch = outcomes[start : data.draw(st.integers(start, at))]
            result = repeating.observe(stretch)
            assert result == Observed(duplicates=result.duplicates, late=result.late)
            assert result.duplicates + result.late == len(stretch)
    once = fed()
    once.max_ahead = None
    once.observe(outcomes)
    assert repeating.digest() == once.digest()


@examples(ordinary=3, whole=5)
@given(streams())
def test_every_outcome_twice_in_a_row_does_not_show(outcomes: list[Outcome]) -> None:
    assert fed([outcome for outcome in outcomes for _ in range(2)]).digest() == fed(outcomes).digest()


def test_repeats_over_many_groups_and_sweeps_do_not_show() -> None:
    batch = list(daily_crawl(pages=900, visits=8_000, seed=2))
    once = fed(batch)
    assert int(once.core.pages.arrays.corpus["sweep"][0]) > 5
    assert fed(batch[:5_000], batch[:3_000], batch[4_000:], batch).digest() == once.digest()


def test_cutting_does_not_show_where_the_sketch_grows() -> None:
    """Which it does with the 131,074th page, and forgets what it counted; directories have their 16th page by then."""
    urls = PackedUrls.pack([f"https://a.example/{i % 8_737}/{i}" for i in range(140_000)])
    batch = OutcomeBatch(urls, np.ones(140_000))
    digests = []
    for cuts in ([0, 140_000], [0, 50_000, 131_072, 131_073, 140_000], [0, 131_074, 131_075, 140_000]):
        scheduler = Scheduler()
        for start, stop in itertools.pairwise(cuts):
            scheduler.observe(batch.take(np.arange(start, stop)))
        digests.append(scheduler.digest())
    assert len(set(digests)) == 1
    assert scheduler.core.pages.faults() == []


def test_digest_tells_states_apart() -> None:
    url = "https://a.example/"
    states = [
        Scheduler(),
        Scheduler(seed=1),
        Scheduler(formula="t"),
        Scheduler(cycle="1h"),
        Scheduler(politeness=Politeness(per_batch=1)),
        Scheduler(panel=0.1),
        Scheduler(max_ahead="9d"),
        fed([Outcome(url, 1.0)]),
        fed([Outcome(url, 2.0)]),
        fed([Outcome(url, 1.0, 404)]),
        fed([Outcome(url, 1.0, fingerprint=1)]),
        fed([Outcome(url, 1.0, importance=2.0)]),
        fed([Outcome(url + "x", 1.0)]),
        fed([Outcome(url, 1.0), Outcome(url, 2.0)]),
    ]
    leased = fed([Outcome(url, 1.0)])
    leased.next_batch(1, now=2.0)
    assert len({state.digest() for state in [*states, leased]}) == len(states) + 1
    leased.release([url])
    given_back = fed([Outcome(url, 1.0)])
    given_back.discover([], now=2.0)  # the time of the batch is remembered
    assert leased.digest() == given_back.digest()


def test_digest_does_not_tell_how_outcomes_were_given() -> None:
    outcomes = [Outcome("https://a.example/", 1.0, 200), Outcome("https://a.example/", 2.0, 404)]
    given = fed(outcomes).digest()
    assert fed([outcomes[0]], [outcomes[1]]).digest() == given
    columns = Scheduler()
    columns.observe(OutcomeBatch(["https://a.example/"] * 2, [1.0, 2.0], status=[200, 404]))
    assert columns.digest() == given
