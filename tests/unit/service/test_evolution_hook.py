"""The evolution of a live run: which outcomes its watched hit rate counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamsched import Observed, Outcome, OutcomeBatch, Scheduler
from streamsched.evolution.plan import EvolutionPlan
from streamsched.scheduler.evolver import Evolver
from streamsched.service.stream_hooks import LiveEvolution

DAY = 86_400.0


def crawled(pages: int = 400) -> Scheduler:
    scheduler = Scheduler()
    scheduler.observe([Outcome(f"https://a.example/{p}", 1.0) for p in range(pages)])
    return scheduler


def visit(scheduler: Scheduler, day: int, *, changed: bool) -> OutcomeBatch:
    """Lease a hundred pages; return the outcomes of their visits."""
    urls = scheduler.next_batch(100, now=day * DAY, lease="1h").urls
    return OutcomeBatch(urls, [day * DAY + 60] * len(urls), changed=[changed] * len(urls))


def test_outcomes_of_the_stream_and_of_requests_count_once_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[tuple[int, int]] = []
    monkeypatch.setattr(Evolver, "note", lambda _, observed: noted.append((observed.served, observed.hits)))
    scheduler = crawled()
    with Evolver(scheduler, EvolutionPlan(every=None), tmp_path) as evolver:
        hook = LiveEvolution(evolver, lambda: DAY)

        def apply(outcomes: OutcomeBatch, is_last: bool) -> Observed:
            assert is_last
            return scheduler.observe(outcomes)

        streamed = hook.observe(visit(scheduler, 1, changed=True), apply)
        scheduler.observe(visit(scheduler, 2, changed=False))  # as a request does
        scheduler.observe([Outcome("https://a.example/", 3 * DAY)])  # of no batch
        hook.tick()
        hook.tick()
    assert streamed.served > 0
    assert noted == [(streamed.served, streamed.hits), (streamed.served, 0)]


def test_drift_that_requests_report_begins_an_evolution(tmp_path: Path) -> None:
    """Of what `next_batch` hands out nearly all has changed, until the pages fall still."""
    scheduler = crawled()
    now = [0.0]
    plan = EvolutionPlan(every=None, drift="page_hinkley", rest=100, history=8)
    with Evolver(scheduler, plan, tmp_path) as evolver:
        hook = LiveEvolution(evolver, lambda: now[0])
        hook.tick()
        drifted = []
        for day in range(1, 13):
            now[0] = day * DAY
            scheduler.observe(visit(scheduler, day, changed=day < 7))
            hook.tick()
            drifted.append(hook.drifted)
        assert drifted == [False] * 6 + drifted[6:]
        assert drifted[-1]
        assert evolver.due(101 * DAY) == "drift"
