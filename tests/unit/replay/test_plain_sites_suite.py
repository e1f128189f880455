"""The suite of simulated sites: what is drawn, the policies that know the rates, its report and its options."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

from streamsched.errors import SettingsError
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.optimal import binary_crawl
from streamsched.outcomes import OutcomeBatch
from streamsched.replay.plain_sites import (
    CELLS,
    RIVALS,
    SITES,
    KnownPrior,
    KnownRates,
    PlainSite,
    SuiteSettings,
    draw_site,
    run_suite,
)
from streamsched.replay.reporting.plain_sites_report import RATIOS, report_plain_sites
from streamsched.replay.reporting.report import to_json
from streamsched.replay.simulation.simulator import DAY_S, PolicyQuery, Schedule, simulate

KINDS = {kind.name: kind for kind in SITES}
TINY = SuiteSettings(pages=100, days=4, learned=2, seeds=(0, 1))


@pytest.mark.parametrize("kind", SITES, ids=lambda kind: kind.name)
def test_pages_change_as_often_as_their_rates_say(kind: PlainSite) -> None:
    site = draw_site(kind, 0.4, 4_000, 100, np.random.default_rng(1))
    days = 100.0 - np.maximum(site.window.appears_s - site.window.start_s, 0.0) / DAY_S
    assert site.rates.mean() == pytest.approx(0.4)
    assert site.window.changes().sum() == pytest.approx((site.rates * days).sum(), rel=0.1)


@pytest.mark.parametrize("name", ["equal", "periodic", "bursty"])
def test_pages_that_change_seldom_do_so_in_bursts_too(name: str) -> None:
    site = draw_site(KINDS[name], 0.003, 10_000, 100, np.random.default_rng(1))
    assert site.window.changes().sum() == pytest.approx(3_000, rel=0.08)


def test_kinds_differ_in_when_pages_change() -> None:
    spread = {}
    for name in ("equal", "periodic", "bursty", "edited"):
        window = draw_site(KINDS[name], 0.4, 2_000, 100, np.random.default_rng(1)).window
        counts = window.before(window.edge(50)) - window.before(window.edge(40))
        spread[name] = counts.var() / counts.mean()
    assert spread["equal"] == pytest.approx(1.0, abs=0.15)
    assert spread["bursty"] > 2.0
    dead = draw_site(KINDS["dead"], 0.4, 2_000, 100, np.random.default_rng(1)).window
    assert np.count_nonzero(dead.changes() == 0) == pytest.approx(1_000, abs=150)
    growing = draw_site(KINDS["growing"], 0.4, 2_000, 100, np.random.default_rng(1)).window
    assert growing.known(0) == 1_600
    assert growing.known(99) == pytest.approx(1_998, abs=8)


def test_sections_are_edited_at_once() -> None:
    """Pages of one section and host have most of their changes at the time of another page's change."""
    window = draw_site(KINDS["edited"], 0.05, 2_000, 200, np.random.default_rng(1)).window
    _, counts = np.unique(window.times_s, return_counts=True)
    assert counts[counts > 10].sum() / window.times_s.size == pytest.approx(0.5, abs=0.15)


rates = st.floats(-3, 1).map(lambda power: 10.0**power)


@given(rates, st.floats(0.1, 100.0))
def test_a_visit_is_worth_the_currency_that_waiting_loses(rate: float, days: float) -> None:
    expected, _ = integrate.quad(lambda s: rate * s * np.exp(-rate * s), 0.0, days)
    assert KnownRates(np.array([rate]), 0)._score(np.array([days]))[0] == pytest.approx(expected, rel=1e-6, abs=1e-9)


@given(st.lists(rates, min_size=1, max_size=4), st.lists(st.tuples(st.floats(0.1, 9.0), st.booleans()), max_size=6))
def test_known_prior_is_the_mean_over_what_the_visits_leave_likely(
    levels: list[float], visits: list[tuple[float, bool]]
) -> None:
    policy = KnownPrior(np.array(levels), 0)
    policy.discover(PackedUrls.pack([f"https://a.example/{i}" for i in range(len(levels))]), 0.0)
    now, first = 0.0, 1.0
    for elapsed, changed in [(first, False), *visits]:
        now += elapsed
        policy._asked = np.array([0])
        policy.observe(OutcomeBatch(["https://a.example/0"], [now * DAY_S], changed=[changed]))
    known = np.quantile(levels, (np.arange(64) + 0.5) / 64)
    likely = [np.prod([-np.expm1(-r * t) if changed else np.exp(-r * t) for t, changed in visits]) for r in known]
    expected = np.average(-np.expm1(-known * 2.0), weights=likely)
    assert policy._score(np.full(len(levels), 2.0))[0] == pytest.approx(expected, rel=1e-6)


def test_known_rates_keep_as_many_copies_current_as_the_optimum() -> None:
    window, known = draw_site(KINDS["log-normal"], 0.1, 1_000, 120, np.random.default_rng(3))
    schedule = Schedule(0.05, 2, "since_visit", 40)
    trace = simulate(window, KnownRates(known, 0), schedule, np.zeros(1_000, np.int64))
    visits = binary_crawl(np.ones(1_000), known, budget=50.0).visit_rate
    with np.errstate(divide="ignore"):
        ratio = known / visits
    optimum = np.mean(np.where(visits > 0, -np.expm1(-ratio) / ratio, 0.0))
    assert trace.freshness.mean() == pytest.approx(optimum, rel=0.02)


def test_pages_without_a_visit_come_first() -> None:
    policy = KnownRates(np.array([0.5, 0.5, 1e-9]), 0)
    policy.discover(PackedUrls.pack([f"https://a.example/{i}" for i in range(2)]), 0.0)
    policy.observe(OutcomeBatch([f"https://a.example/{i}" for i in range(2)], [DAY_S, DAY_S], changed=[False, False]))
    policy.discover(PackedUrls.pack(["https://a.example/2"]), 2 * DAY_S)
    query = PolicyQuery(1, 3, 2, 3 * DAY_S, np.zeros(3, np.bool_))
    assert policy.rank(query).tolist() == [2]


def test_suite_reports_each_site_and_the_weakest_and_is_the_same_with_several_processes() -> None:
    progress: list[tuple[int, int]] = []
    result = run_suite(TINY, lambda done, total, _: progress.append((done, total)))
    assert progress[-1] == (2 * len(CELLS), 2 * len(CELLS))
    assert run_suite(replace(TINY, workers=2)).sites == result.sites
    assert [site.cell for site in result.sites] == list(CELLS)
    content = json.loads(to_json(report_plain_sites(result)))
    assert len(content["sites"]) == len(CELLS)
    for row, site in zip(content["sites"], result.sites, strict=True):
        best = max(row["change_rate"][rival] for rival in RIVALS)
        assert row["found"] == (pytest.approx(row["change_rate"]["default"] / best) if best else 1.0)
        assert row["against_known"] == pytest.approx(site.freshness["freshness"] / site.freshness["known rates"])
    for ratio in RATIOS.values():
        assert ratio(result.weakest(ratio)) == min(map(ratio, result.sites))


@pytest.mark.parametrize(
    "wrong", [{"pages": 99}, {"days": 60}, {"learned": 1}, {"seeds": (-1,)}, {"seeds": ()}, {"workers": 0}], ids=str
)
def test_settings_out_of_range_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        SuiteSettings(**wrong)  # type: ignore[arg-type]
