"""Simulated sources against their twin, page by page, and what is heard between two cycles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched import OutcomeBatch, PackedUrls, SignalBatch
from streamsched.numerics.arrays import Rows
from streamsched.replay import SimulatedSource, Window
from streamsched.replay.simulation.scheduled_policies import SignalledPolicy
from streamsched.replay.simulation.signal_sources import simulate_signals
from streamsched.replay.simulation.signal_stream import join_signals
from streamsched.replay.simulation.simulator import PolicyQuery, Schedule, simulate
from tests.reference import simulated_signals

START_S, CYCLE_S, CYCLES = 1_000.0, 10.0, 6
parts = st.sampled_from([0.05, 0.3, 0.7, 1.0])
seconds = st.sampled_from([0.0, 5.0, 12.5, 100.0])
sources = st.one_of(
    st.builds(SimulatedSource, st.sampled_from(["feed", "x"]), parts, parts, parts, seconds, seconds),
    st.builds(SimulatedSource, st.just("flood"), parts, start_s=seconds, flood_s=st.sampled_from([3.0, 10.0, 60.0])),
)
seeds = st.integers(0, 2**64 - 1)


@st.composite
def windows(draw: st.DrawFn) -> Window:
    """Pages, some of which appear later, with changes after their appearance."""
    pages = draw(st.integers(1, 12))
    times = st.integers(1_000, 1_059).map(float)
    late = sorted(draw(st.lists(times, max_size=pages - 1)))
    appears = [-np.inf] * (pages - len(late)) + late
    changes = [sorted(one for one in draw(st.lists(times, max_size=6)) if one > since) for since in appears]
    offsets = np.cumsum([0, *map(len, changes)])
    urls = PackedUrls.pack([f"https://{page % 3}.example/{page}" for page in range(pages)])
    flat = np.array([when for page in changes for when in page], np.float64)
    return Window(urls, flat, offsets, np.array(appears), None, START_S, CYCLE_S, CYCLES)


def changes_of(window: Window) -> list[list[float]]:
    return [part.tolist() for part in np.split(window.times_s, window.offsets[1:-1])]


@given(windows(), sources, seeds)
def test_a_simulated_source_is_its_twin(window: Window, source: SimulatedSource, seed: int) -> None:
    found = simulate_signals(window, source, seed)
    expected = simulated_signals.simulate(
        list(window.urls),
        changes_of(window),
        window.appears_s.tolist(),
        (START_S, CYCLE_S, CYCLES),
        (
            source.kind,
            source.share,
            source.recall,
            source.precision,
            source.late_s,
            source.start_s,
            source.flood_s,
        ),
        seed,
    )
    assert list(zip(found.pages.tolist(), found.true.tolist(), strict=True)) == [one[1:] for one in expected]
    assert found.at.tolist() == pytest.approx([one[0] for one in expected], abs=1e-6)
    figures = found.figures
    assert figures.precision == (sum(one[2] for one in expected) / len(expected) if expected else None)


class Listener:
    """A policy that visits all pages, and keeps what it is heard and when."""

    def __init__(self) -> None:
        self.heard: list[tuple[float, str, str]] = []
        self.cycles: list[int] = []
        self.known = 0

    def discover(self, urls: PackedUrls, now: float) -> None:
        assert now % CYCLE_S == 0
        self.known += len(urls)

    def rank(self, query: PolicyQuery) -> Rows:
        return np.arange(query.k)

    def observe(self, outcomes: OutcomeBatch) -> None:
        assert len(outcomes)
        self.cycles.append(len(self.heard))

    def notice(self, signals: SignalBatch) -> None:
        assert len(signals)
        assert signals.problems() == []
        self.heard += [(one.at, one.url, one.source) for one in signals]


@given(windows(), st.lists(sources, max_size=3, unique_by=lambda one: one.kind), st.integers(0, 3), seeds)
def test_each_signal_is_told_once_before_the_visits_that_follow_it(
    window: Window, several: list[SimulatedSource], warmup: int, seed: int
) -> None:
    stream = join_signals(window, several, seed)
    listener = Listener()
    schedule = Schedule(0.5, warmup, "since_visit")
    if not window.known(0):
        return
    simulate(window, SignalledPolicy(listener, stream), schedule, np.zeros(window.pages, np.int64))
    times = [when for when, _, _ in listener.heard]
    assert times == sorted(times)
    assert listener.heard == [(one.at, one.url, one.source) for one in stream.batch]
    edges = [window.edge(cycle + 1) for cycle in range(CYCLES)]
    assert listener.cycles == [sum(when < edge for when in times) for edge in edges]
    row = {url: page for page, url in enumerate(window.urls)}
    for when, url, _ in listener.heard:
        assert row[url] < window.known(int((when - START_S) // CYCLE_S))


@given(windows(), sources, sources, seeds)
def test_a_source_says_the_same_whatever_other_sources_there_are(
    window: Window, one: SimulatedSource, other: SimulatedSource, seed: int
) -> None:
    if one.kind == other.kind:
        return
    alone, both = (
        [(signal.at, signal.url) for signal in join_signals(window, several, seed).batch if signal.source == one.kind]
        for several in ([one], [other, one])
    )
    assert alone == both


def test_recorded_signals_may_have_hundreds_of_sources() -> None:
    urls = PackedUrls.pack(["https://a.example/"])
    window = Window(urls, np.empty(0), np.zeros(2, np.int64), np.array([-np.inf]), None, START_S, CYCLE_S, CYCLES)
    kinds = [f"kind-{number}" for number in range(300)]
    recorded = SignalBatch(list(urls) * 300, START_S + np.arange(300) / 10, kinds)
    assert [one.source for one in join_signals(window, [], 0, [recorded]).batch] == kinds
