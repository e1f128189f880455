"""Training data: its pages and cycles, what is observed, and that it is a copy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from streamsched import Optimiser, Outcome, OutcomeBatch, Scheduler, SettingsError
from streamsched.evolution.data.training_data import Span, Training

DAY = 86_400.0
START = 20_000 * DAY


def url(page: int) -> str:
    return f"https://a.example/{page}"


def visit(page: int, days: Sequence[float], changed: Sequence[int] = ()) -> list[Outcome]:
    return [Outcome(url(page), START + day * DAY, changed=i in changed) for i, day in enumerate(days)]


def trained(*visits: list[Outcome], cycles: int = 4, at: float = 4.0, seed: int = 0) -> Training:
    scheduler = Scheduler()
    for outcomes in visits:
        scheduler.observe(outcomes)
    return scheduler.training(cycles, now=START + at * DAY, seed=seed)


def test_daily_visits_are_the_history() -> None:
    training = trained(visit(0, [0, 1, 2, 3, 4], [1, 4]), visit(1, [-2, 0, 1, 2, 3, 4], [1, 3]))
    assert training.history.changed.tolist() == [[True, False, False, True], [False, True, False, False]]
    assert training.observed.all()
    assert training.observed_share == 1.0
    assert (training.span, training.newcomers, training.panel_pages) == (Span(START, 4, DAY), 0, 0)
    assert (
        str(training)
        == "2 pages × 4 cycles, 100.0% of page-cycles observed, the rest drawn from the posterior; 0 in the panel"
    )


def test_span_ends_with_the_last_whole_cycle() -> None:
    outcomes = visit(0, [0, 1, 2, 3, 4.5], [2])
    for at in (4.0, 4.3, 4.999):
        training = trained(outcomes, at=at)
        assert training.span.end_s == START + 4 * DAY
        assert training.history.changed.tolist() == [[False, True, False, False]]
    assert trained(outcomes, at=3.999).span == Span(START - DAY, 4, DAY)


def test_pages_first_visited_within_the_span_are_left_out_and_counted() -> None:
    scheduler = Scheduler()
    scheduler.observe(visit(0, [0, 4]) + visit(1, [0.5, 1, 2, 3, 4]) + visit(2, [4]))
    scheduler.observe([Outcome(url(3), START - DAY, 503)])
    scheduler.discover([url(4)], now=START - DAY)
    training = scheduler.training(4, now=START + 4 * DAY)
    assert training.history.hashes.tolist() == scheduler.core.pages.arrays.pages.records["url_hash"][:1].tolist()
    assert training.newcomers == 2


def test_gaps_are_imputed_and_marked() -> None:
    training = trained(visit(0, [-1, 2], [1]), visit(1, [-3, 3]), visit(2, [-5]))
    assert training.observed.tolist() == [[False] * 4, [True, True, True, False], [False] * 4]
    assert training.observed_share == 3 / 12
    assert not training.history.changed[1, :3].any()


def test_priors_and_weights_are_those_of_the_pages() -> None:
    scheduler = Scheduler()
    urls = [f"https://{'ab'[i % 2]}.example/{i}" for i in range(40)]
    for day in range(6):
        flags = np.arange(40) % 2 == 0
        scheduler.observe(
            OutcomeBatch(
                urls,
                np.full(40, START + day * DAY),
                changed=flags,
                importance=np.arange(40),
                cost=flags + 1,
                significance=np.arange(40) / 40,
            )
        )
    Optimiser(scheduler).plan_now(START + 5 * DAY)
    history = scheduler.training(5, now=START + 5 * DAY).history
    shard = scheduler.core.pages.arrays
    groups = shard.pages.records["group"][:40]
    assert history.columns["prior_mean"].tolist() == shard.groups.records["mean"][groups].tolist()
    assert len(set(history.columns["prior_mean"].tolist())) == 2
    assert history.prior_shape == scheduler.core.pages.arrays.corpus["shape"][0]
    assert history.columns["importance"].tolist() == list(range(40))
    assert history.columns["cost"].tolist() == [2.0, 1.0] * 20
    assert history.columns["crawl_rate"].tolist() == shard.pages.traces["crawl_rate"][:40].tolist()
    assert len(set(history.columns["crawl_rate"].tolist())) > 20
    expected = [scheduler.explain(one, now=START + 5 * DAY).terminals["significance"] for one in urls]
    assert history.columns["significance"].tolist() == expected
    assert len(set(expected[::2])) == 20  # what the pages that change have learned


def test_same_seed_same_history() -> None:
    visits = [visit(page, [-5.0, -2.0, 1.0], [1, 2]) for page in range(200)]
    first, again, other = trained(*visits), trained(*visits), trained(*visits, seed=1)
    assert np.array_equal(first.history.changed, again.history.changed)
    assert not np.array_equal(first.history.changed, other.history.changed)


def test_imputations_share_one_state() -> None:
    scheduler = Scheduler()
    scheduler.observe([one for page in range(200) for one in visit(page, [-5.0, -2.0, 1.0], [1, 2])])
    now = START + 4 * DAY
    alone = [scheduler.training(4, now=now, seed=seed).history.changed for seed in (0, 1)]
    several = scheduler.core.trainings(4, now=now, seeds=[0, 1])
    first = next(several).history.changed
    scheduler.observe(visit(0, [3.5], [0]))
    assert np.array_equal(first, alone[0])
    assert np.array_equal(next(several).history.changed, alone[1])


def test_visits_dropped_from_the_journal_are_imputed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamsched.state.state_arrays.JOURNAL_VISITS", 4)
    training = trained(visit(0, [-2, -1, 0, 1, 2, 3, 4]), visit(1, [0, 4]))
    assert training.observed.tolist() == [[False, False, False, True], [True, True, True, True]]
    training = trained(visit(1, [0, 4]), visit(0, [-2, -1, 0, 1, 2, 3, 4]))
    assert training.observed.tolist() == [[False] * 4, [False, True, True, True]]


def test_visits_at_boundaries_of_short_cycles_are_exact() -> None:
    cycle = 1.1
    scheduler = Scheduler(cycle=cycle)
    edges = np.arange(1_600_000_000, 1_600_000_030) * cycle
    for at in edges.tolist():
        scheduler.observe([Outcome(url(0), at, changed=True)])
    training = scheduler.training(20, now=float(edges[-1]) + 0.5)
    assert training.observed.all()
    assert training.history.changed.all()


def test_clock_errors_are_harmless() -> None:
    training = trained([Outcome(url(0), -9.9e10), *visit(0, [0, 1]), Outcome(url(0), 9.9e10, changed=True)])
    assert training.observed.tolist() == [[True, False, False, False]]


def test_the_panel_is_marked_and_observed() -> None:
    scheduler = Scheduler(panel=0.5)
    scheduler.observe(OutcomeBatch([url(i) for i in range(100)], np.full(100, START)))
    for day in range(1, 12):
        now = START + day * DAY
        batch = scheduler.next_batch(20, now=now)
        scheduler.observe(OutcomeBatch(batch.urls, np.full(len(batch), now), changed=np.arange(len(batch)) % 3 == 0))
    training = scheduler.training(9, now=START + 11 * DAY)
    assert training.history.pages == 100
    assert training.panel_pages == 10
    assert training.observed[training.panel].all()
    assert not training.observed[~training.panel].all()


def test_an_empty_scheduler_gives_no_pages() -> None:
    training = Scheduler().training(3, now=START)
    assert training.history.changed.shape == (0, 3)
    assert training.observed_share == 0.0


@pytest.mark.parametrize("cycles", [0, -1, 1.5, "3"])
def test_invalid_cycle_counts_are_refused(cycles: int) -> None:
    with pytest.raises(SettingsError, match="cycles: expected 1 to"):
        Scheduler().training(cycles, now=START)


def test_cycles_are_limited_by_the_age_of_pages() -> None:
    scheduler = Scheduler()
    assert scheduler.core.known_cycles(now=START) == 0.0
    scheduler.observe(visit(0, [0, 4]) + visit(1, [1, 2]) + visit(2, [1.5, 2]) + visit(3, [3]))
    scheduler.discover([url(4)], now=START)
    known = [scheduler.core.known_cycles(now=START + 5.2 * DAY, share=share) for share in (0.25, 0.5, 0.75, 1.0)]
    assert known == [5.0, 4.0, 3.0, 2.0]
    for share, cycles in zip((0.25, 0.5, 0.75, 1.0), known, strict=True):
        training = scheduler.training(int(cycles), now=START + 5.2 * DAY)
        assert training.history.pages == 4 * share
    assert scheduler.core.known_cycles(now=START) == 0.0
