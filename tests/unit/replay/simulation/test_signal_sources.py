"""How simulated sources are written, named and refused."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched import SettingsError
from streamsched.replay import SimulatedSource, Window, read_truth
from streamsched.replay.simulation.signal_sources import SourceFigures, name_sources, parse_source, simulate_signals
from tests.support.paths import LOGS


def test_every_setting_can_be_written() -> None:
    text = "kind=feed,share=.5,recall=.7,precision=.3,late=6h,start=30d"
    assert parse_source(text) == SimulatedSource("feed", 0.5, 0.7, 0.3, 21_600.0, 2_592_000.0)
    assert parse_source("share=.5,flood=1d") == SimulatedSource(share=0.5, flood_s=86_400.0)
    assert parse_source("late=0").late_s == 0.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("share=.5,size=2", "known are share, recall, precision"),
        ("share", "settings such as"),
        ("share=", "settings such as"),
        ("share=half", "share: a number such as .5"),
        ("share=1.5", "share: more than 0, at most 1"),
        ("precision=0", "precision: more than 0, at most 1"),
        ("recall=nan", "recall: more than 0, at most 1"),
        ("late=soon", "late: a duration such as 6h"),
        ("flood=0", "flood: a duration such as 6h"),
        ("flood=1d,recall=.5", "flood: no recall, precision or lateness beside it"),
        ("share=.5,share=.6", "share once"),
        ("kind=" + "x" * 65, "kind: at most 64 bytes"),
    ],
)
def test_what_is_wrong_is_named(text: str, expected: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_source(text)
    assert expected in caught.value.expected
    assert caught.value.found == text


@pytest.mark.parametrize("seconds", [-1.0, float("inf"), float("nan")])
def test_a_delay_is_finite(seconds: float) -> None:
    with pytest.raises(SettingsError, match="late_s"):
        SimulatedSource(late_s=seconds)


def test_sources_without_names_are_numbered_by_their_place() -> None:
    named = name_sources([SimulatedSource(), SimulatedSource(kind="feed"), SimulatedSource(share=0.5)])
    assert [one.kind for one in named] == ["source-1", "feed", "source-3"]
    assert named[2].share == 0.5


DAY_S = 86_400.0
LAST_YEAR_S = 1_755_820_800.0  # 2025-08-22


@pytest.fixture(scope="module")
def year() -> Window:
    return read_truth(LOGS / "scoop-extras.tsv.gz").window(LAST_YEAR_S, DAY_S, 365)


@pytest.mark.parametrize("precision", [1.0, 0.7, 0.1])
def test_share_recall_precision_and_lateness_come_out_as_asked(year: Window, precision: float) -> None:
    found = simulate_signals(year, SimulatedSource("feed", 0.5, 0.7, precision, 6 * 3_600.0), 3)
    assert found.covered / year.pages == pytest.approx(0.5, abs=0.04)
    assert np.unique(found.pages).size <= found.covered
    assert found.figures.recall == pytest.approx(0.7, abs=0.02)
    assert found.figures.precision == pytest.approx(precision, abs=0.01)
    assert found.figures.lateness_s == pytest.approx(6 * 3_600.0, rel=0.05)


def test_false_signals_come_evenly_to_all_covered_pages(year: Window) -> None:
    found = simulate_signals(year, SimulatedSource("feed", 0.5, 0.7, 0.1, 0.0), 0)
    noise = ~found.true
    counts = np.bincount(found.pages[noise], minlength=year.pages)
    counts = counts[counts > 0]
    assert counts.size == found.covered
    assert counts.var() == pytest.approx(counts.mean(), rel=0.2)  # Poisson
    weeks = np.histogram(found.at[noise], 52, (year.start_s, year.edge(364)))[0]
    assert weeks.max() < 1.2 * weeks.min()


def test_a_prompt_source_that_misses_and_invents_nothing_is_the_log_itself(year: Window) -> None:
    found = simulate_signals(year, SimulatedSource("feed"), 0)
    assert np.sort(found.at).tolist() == np.sort(year.times_s).tolist()
    assert found.figures == SourceFigures(1.0, 1.0, 0.0)


def test_a_flood_is_of_all_pages_each_time_and_announces_nothing(year: Window) -> None:
    found = simulate_signals(year, SimulatedSource("flood", 0.5, start_s=30 * DAY_S, flood_s=DAY_S), 0)
    assert found.at.size == 335 * found.covered
    assert found.at.min() == year.start_s + 30 * DAY_S
    assert found.figures == SourceFigures(0.0, None, None)


def test_a_source_that_starts_later_says_nothing_before(year: Window) -> None:
    found = simulate_signals(year, SimulatedSource("feed", 1.0, 0.7, 0.5, 3_600.0, start_s=100 * DAY_S), 0)
    assert found.at.min() >= year.start_s + 100 * DAY_S
    assert found.figures.recall == pytest.approx(0.7, abs=0.02)


def test_seeds_repeat_and_differ_and_so_do_names(year: Window) -> None:
    def draw(kind: str, seed: int) -> bytes:
        return simulate_signals(year, SimulatedSource(kind, 0.5, 0.7, 0.7, 3_600.0), seed).at.tobytes()

    assert draw("feed", 1) == draw("feed", 1)
    assert len({draw("feed", 1), draw("feed", 2), draw("sitemap", 1)}) == 3


def test_what_is_said_after_the_end_is_never_heard(year: Window) -> None:
    found = simulate_signals(year, SimulatedSource("feed", late_s=30 * DAY_S), 0)
    assert found.at.max() < year.edge(365)
    assert found.figures.recall == pytest.approx(1 - 30 / 365, abs=0.03)


@pytest.mark.parametrize("source", [SimulatedSource(flood_s=1.0), SimulatedSource(precision=1e-9)])
def test_more_signals_than_fit_into_memory_are_refused(year: Window, source: SimulatedSource) -> None:
    with pytest.raises(SettingsError, match="at most 50,000,000 signals"):
        simulate_signals(year, source, 0)
