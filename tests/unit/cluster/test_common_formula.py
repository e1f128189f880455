"""One evolution for all shards: their samples are one sample, and their trials one trial."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from streamsched import DurableScheduler, Outcome, Scheduler
from streamsched.api.answers import TrainingSample
from streamsched.cluster.common_formula import (
    ClusterEvolver,
    CommonFormula,
    add_up_trials,
    follow,
    join_samples,
    view_trial,
)
from streamsched.errors import ServiceError
from streamsched.evolution.exchange_files import pack_exchange
from streamsched.evolution.plan import EvolutionPlan
from streamsched.evolution.records import RecordBook
from streamsched.scheduler.evolver import draw_histories
from streamsched.service.open_state import set_formula

DAY = 86_400.0
START = 20_000 * DAY
SHARDS = 3
PAGES = 210


def crawl(scheduler: Scheduler, pages: range, days: int) -> None:
    """Visit each page every day; how often it changes depends on its number."""
    for day in range(days):
        at = START + day * DAY
        scheduler.observe([Outcome(_url(i), at, changed=day % (1 + i % 7) == 0) for i in pages])


def _url(page: int) -> str:
    return f"https://h{page % 10}.example/{page}"


def part(shard: int) -> range:
    return range(shard, PAGES, SHARDS)


@pytest.fixture
def shards(tmp_path: Path) -> list[DurableScheduler]:
    """Shards that have crawled for 30 days."""
    opened = [DurableScheduler.open(tmp_path / str(number), {"cycle": "1d"}) for number in range(SHARDS)]
    for number, one in enumerate(opened):
        crawl(one, part(number), 30)
    return opened


def settings_of(shards: list[DurableScheduler], silent: set[int] | None = None) -> Any:
    """Settings that ask `shards` without HTTP, but for those that are `silent`."""

    def ask(shard: int, call: Callable[[Any], Any], timeout_s: float) -> Any:  # noqa: ARG001
        if shard in (silent or ()):
            raise ServiceError(f"shard {shard}", "nobody owns it")

        def training(cycles: int, now: float, *, share: float, draws: int, seed: int) -> TrainingSample:
            drawn = draw_histories(shards[shard].core, cycles, draws, seed, now, share)
            return TrainingSample(data=pack_exchange(*drawn, {}))

        return call(SimpleNamespace(trial=shards[shard].trial_counts, training=training))

    return SimpleNamespace(ask=ask, calls=SimpleNamespace(partitions=len(shards)))


def test_samples_of_shards_are_that_of_one_scheduler(shards: list[DurableScheduler]) -> None:
    whole = Scheduler()
    crawl(whole, range(PAGES), 30)
    now = START + 29.5 * DAY
    joined, data = join_samples([draw_histories(one.core, 20, 4, 1, now) for one in shards])
    expected, all_data = draw_histories(whole.core, 20, 4, 1, now)
    assert (len(joined), data) == (len(expected), all_data)
    order, other = np.argsort(joined[0].hashes), np.argsort(expected[0].hashes)
    assert joined[0].changed[order].tolist() == expected[0].changed[other].tolist()
    for name in ("own_shape", "own_exposure"):
        if name in joined[0].columns:
            assert joined[0].columns[name][order].tolist() == expected[0].columns[name][other].tolist()
    assert np.unique(joined[0].groups).size == sum(np.unique(one.groups).size for one in _histories(shards, now))


def _histories(shards: list[DurableScheduler], now: float) -> list[Any]:
    return [draw_histories(one.core, 20, 1, 1, now)[0][0] for one in shards]


def test_a_younger_or_empty_shard_shortens_or_adds_nothing(shards: list[DurableScheduler]) -> None:
    young, empty, now = Scheduler(), Scheduler(), START + 29.5 * DAY
    for day in range(24, 30):
        young.observe([Outcome(f"https://young.example/{i}", START + day * DAY, changed=True) for i in range(5)])
    every: list[Scheduler] = [*shards, young, empty]
    samples = [draw_histories(one.core, 20, 1, 1, now) for one in every]
    joined, data = join_samples(samples)
    assert (data.cycles, joined[0].cycles) == (samples[3][1].cycles, samples[3][1].cycles)
    assert data.cycles < 20
    assert (data.pages, joined[0].pages) == (PAGES + 5, PAGES + 5)
    assert join_samples(samples[4:])[1].pages == 0


def test_a_share_of_the_pages_is_sampled() -> None:
    scheduler = Scheduler()
    scheduler.observe([Outcome(f"https://a.example/{i}", START) for i in range(4_000)])
    (history,), _ = draw_histories(scheduler.core, 2, 1, 0, START + 5 * DAY, share=0.25)
    assert 800 < history.pages < 1_200


def test_cycles_are_bounded_by_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = Scheduler(cycle="1h")
    scheduler.observe([Outcome(f"https://a.example/{i}", START) for i in range(100)])
    monkeypatch.setattr("streamsched.scheduler.evolver._MOST_HISTORY", 5_000)
    (history,), data = draw_histories(scheduler.core, 100_000, 1, 0, START + 10 * DAY)
    assert (history.changed.shape, data.cycles) == ((100, 50), 50)


def test_the_trials_of_shards_are_that_of_one_scheduler(shards: list[DurableScheduler]) -> None:
    whole = Scheduler()
    crawl(whole, range(PAGES), 30)
    every: list[Scheduler] = [*shards, whole]
    whole.begin_trial("t", now=START + 30 * DAY)
    shards[0].begin_trial("t", now=START + 30 * DAY)
    for one in shards[1:]:
        follow(one, shards[0].trial_counts())
    for day in range(30, 44):
        now = START + day * DAY
        for scheduler in every:
            batch = scheduler.next_batch(PAGES, now=now)
            scheduler.observe([Outcome(url, now + 1.0, changed=int(url[-1]) % 3 == 0) for url in batch.urls])
    total = add_up_trials([one.trial_counts() for one in shards])
    expected = whole.trial_counts()
    assert sum(expected.costs) > 0.0
    assert (total.costs, total.finds, total.pages) == (expected.costs, expected.finds, expected.pages)
    assert view_trial(total) == whole.trial()
    shards[1].end_trial()
    assert sum(add_up_trials([one.trial_counts() for one in shards]).costs) < sum(total.costs)


def test_a_shard_follows_the_formula_and_the_trial(shards: list[DurableScheduler]) -> None:
    leading, other = shards[:2]
    follow(other, leading.trial_counts())
    sequence = other._log.sequence
    follow(other, leading.trial_counts())
    assert other._log.sequence == sequence
    leading.use("rate * t")
    leading.begin_trial("t", now=START + 31 * DAY)
    follow(other, leading.trial_counts())
    assert (other.champion, other.trial()) == (leading.champion, leading.trial())
    leading.end_trial()
    follow(other, leading.trial_counts())
    assert other.trial() is None
    unknown = structs.replace(leading.trial_counts().champion, formula="later_terminal + 1")
    follow(other, structs.replace(leading.trial_counts(), champion=unknown))
    assert other.champion == leading.champion


def test_it_learns_from_all_shards_and_its_record_is_kept_in_the_first(shards: list[DurableScheduler]) -> None:
    plan = EvolutionPlan(trial=False, seed=3)
    breed = "tests.support.fake_evolutions:win"
    with ClusterEvolver(shards[0], plan, settings_of(shards)) as evolver:
        evolver._breed = breed
        record = evolver.evolve_now(START + 29.5 * DAY)
        assert record.data is not None
        assert record.data.pages == PAGES
        assert record.decision == "promoted"
    for one in shards[1:]:
        follow(one, shards[0].trial_counts())
        assert one.champion == record.champion_after
    (shards[0].directory / "evolutions.jsonl").unlink()  # it was not saved with an image
    with ClusterEvolver(shards[0], plan, settings_of(shards)) as evolver:
        assert shards[0].champion == record.champion_after
        evolver._breed = breed
        assert evolver.evolve_now(START + 29.6 * DAY).number == record.number + 1


def test_a_shard_that_does_not_answer_ends_no_trial(shards: list[DurableScheduler]) -> None:
    silent = {2}
    late = START + 800 * DAY
    with ClusterEvolver(shards[0], EvolutionPlan(), settings_of(shards, silent)) as evolver:
        shards[0].begin_trial("t", now=START + 31 * DAY)
        assert evolver.end_trial(late) is None
        silent.clear()
        assert evolver.end_trial(late + 30.0) is None  # it was looked at half a minute ago
        record = evolver.end_trial(late + 90.0)
        assert record is not None
        assert record.trial is not None
        assert shards[0].trial() is None


def test_a_record_is_soon_in_an_image(shards: list[DurableScheduler]) -> None:
    leading: Any = shards[0]
    settings: Any = SimpleNamespace(run=SimpleNamespace(evolution=None))
    formula = CommonFormula(settings, {})
    try:
        formula._save_records(leading)
        before = leading.saved.name
        formula._save_records(leading)
        assert leading.saved.name == before
        set_formula(leading, RecordBook(leading.directory), START + 40 * DAY, "t")
        formula._save_records(leading)
        assert leading.saved.name > before
    finally:
        formula.close()
