"""Kinds of sources of signals: eight take a place, each with its first applied signal."""

from __future__ import annotations

from pathlib import Path

from streamsched import Outcome, Scheduler, Signal

PAGE = "https://a.example/"
VISITED_S = 1_700_000_000.0


def visited(*, signals_discover: bool = True) -> Scheduler:
    scheduler = Scheduler(signals_discover=signals_discover)
    scheduler.observe([Outcome(PAGE, VISITED_S)])
    return scheduler


def kinds(scheduler: Scheduler) -> list[str]:
    return [one.kind for one in scheduler.sources() if one.host is None]


def test_signals_that_were_not_applied_take_no_place(tmp_path: Path) -> None:
    scheduler = visited(signals_discover=False)
    unknown = [Signal(f"https://b.example/{i}", VISITED_S + 1.0, f"unknown-{i}") for i in range(9)]
    late = [Signal(PAGE, VISITED_S, f"late-{i}") for i in range(9)]
    noticed = scheduler.notice([*unknown, *late])
    assert (noticed.refused, noticed.late) == (9, 9)
    assert kinds(scheduler) == []
    scheduler.save(tmp_path / "saved")
    assert Scheduler.load(tmp_path / "saved").digest() == scheduler.digest()
    assert scheduler.notice([Signal(PAGE, VISITED_S + 60.0, "feed")]).applied == 1
    assert kinds(scheduler) == ["feed"]


def test_a_discovered_page_counts_for_no_source() -> None:
    scheduler = visited()
    assert scheduler.notice([Signal("https://b.example/", VISITED_S, "feed")]).discovered == 1
    assert kinds(scheduler) == []


def test_a_ninth_kind_is_refused() -> None:
    scheduler = visited()
    names = [f"kind-{i}" for i in range(9)]
    noticed = scheduler.notice([Signal(PAGE, VISITED_S + 60.0 + i, name) for i, name in enumerate(names)])
    assert (noticed.applied, noticed.refused) == (8, 1)
    assert sorted(kinds(scheduler)) == names[:8]
    assert scheduler.notice([Signal(PAGE, VISITED_S + 99.0, "kind-8")]).refused == 1
