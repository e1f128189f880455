"""Terminals: each is the estimate of its name, finite, whatever the page and the time."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched.estimation.forgetting import FIRST_HALF_LIFE_DAYS
from streamsched.estimation.gamma_posterior import probabilities_changed
from streamsched.estimation.published_estimators import aad, cg, gad, nad, sad
from streamsched.estimation.seasonality.seasonal_terminals import DUE, RHYTHM, TAU
from streamsched.formula import TERMINALS
from streamsched.formula.terminal_table import OWN, PROVIDED, SEASONAL, TERMINAL_CODES, find_readers
from streamsched.formula.terminals import NO_CONTEXT, TerminalColumns, context_of
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import Outcome, OutcomeBatch
from streamsched.records.page_schema import LONGEST_INTERVAL, PAGE, TRACE
from streamsched.state.page_table import PageTable
from tests.reference import estimators, forgetting

DAY = 86_400.0
URL = "https://a.example/1"


def columns(table: PageTable, now: float, wanted: tuple[str, ...] = tuple(PROVIDED)) -> dict[str, list[float]]:
    shard = table.arrays
    fill = TerminalColumns(wanted, 10).fill
    rows = slice(0, len(table))
    context = context_of(shard, rows)
    found = fill(shard.pages.records[rows], shard.pages.traces[rows], context, now, DAY)
    return {name: column.tolist() for name, column in found.items()}


def visited(*changed: bool) -> PageTable:
    """A page visited on day 0 and on each day after that."""
    table = PageTable(DAY)
    table.arrays.corpus["shape_information"] = 1e300  # visits do not move the prior
    flags = [None, *changed]
    table.observe(
        OutcomeBatch.from_outcomes(Outcome(URL, i * DAY, changed=flag) for i, flag in enumerate(flags)), surges=False
    )
    return table


def test_every_terminal_has_a_meaning() -> None:
    assert all(one.text for one in TERMINALS.values())


def test_values_of_a_page() -> None:
    flags = [True, False, True, True]
    prior, evidence = (0.5, 5.0), (0.0, 0.0)  # 0.1 changes a day, as one begins
    for flag in flags:
        evidence = forgetting.fade(evidence, 1.0, FIRST_HALF_LIFE_DAYS)
        counted = forgetting.count(1.0, 1.0, FIRST_HALF_LIFE_DAYS)
        evidence = forgetting.learn(prior, evidence, counted, flag, 1.0)
    shape, exposure = prior[0] + evidence[0], prior[1] + evidence[1]
    result = {name: value for name, (value,) in columns(visited(*flags), 6 * DAY).items()}
    for name in SEASONAL:
        result.pop(name)
    assert result.pop("posterior") == pytest.approx(estimators.probability_changed(shape, exposure, 2.0))
    assert result.pop("rate") == pytest.approx(shape / exposure)
    assert (result.pop("surge"), result.pop("signalled"), result.pop("crawl_rate")) == (0.0, 0.0, 0.0)
    assert result == pytest.approx(
        {
            "n": 4.0,
            "X": 3.0,
            "t": 2.0,
            "CG": np.log(4.5 / 1.5),
            "NAD": 0.75,
            "SAD": 1.0,
            "AAD": 2 * (1 + 3 + 4) / 20,
            "GAD": (1 + 4 + 8) / 15,
            "importance": 1.0,
            "cost": 1.0,
            "confidence": shape,
            "worth": 1.0,
            "significance": 1.0,
        }
    )


def test_page_never_visited_has_its_prior_since_it_is_known() -> None:
    table = PageTable(DAY)
    table.discover(PackedUrls.pack([URL]), DAY)
    result = {name: value for name, (value,) in columns(table, 4 * DAY).items()}
    assert result.pop("posterior") == pytest.approx(1 - (5 / 8) ** 0.5)
    assert result.pop("due") == pytest.approx(1 - (5 / 8) ** 0.5)  # no hour is known to be busier than another
    assert result.pop("tau") == pytest.approx(3.0)
    assert result.pop("rhythm") == 1.0
    assert result.pop("gain") == pytest.approx(1 - (5 / 8) ** 0.5 * (1 + 0.5 * 3 / 8))  # P - t * P'
    zeros = dict.fromkeys(("n", "X", "CG", "NAD", "SAD", "AAD", "GAD", "surge", "signalled", "crawl_rate"), 0.0)
    assert result == zeros | {
        "t": 3.0,
        "importance": 1.0,
        "cost": 1.0,
        "rate": pytest.approx(0.1),
        "confidence": 0.5,
        "worth": 1.0,
        "significance": 1.0,
    }


@pytest.mark.parametrize("now", [-1e308, 0.0, 4 * DAY])
def test_time_before_the_last_visit_is_none(now: float) -> None:
    result = columns(visited(True, True, True, True), now)
    assert (result["t"], result["posterior"]) == ([0.0], [0.0])
    assert (result["tau"], result["due"]) == ([0.0], [0.0])


def test_no_terminal_is_ever_infinite() -> None:
    table = visited()
    table.arrays.pages.records["last_visit_s"][0] = -1e308
    result = columns(table, 1e308)
    assert result["t"] == [LONGEST_INTERVAL]
    assert result["posterior"] == [pytest.approx(1 - (5 / LONGEST_INTERVAL) ** 0.5, rel=1e-12)]
    assert all(np.isfinite(value) for (value,) in result.values())


def test_only_what_is_wanted_is_filled() -> None:
    table = visited(True, False)
    assert columns(table, 5 * DAY, ("t", "X")) == {"t": [3.0], "X": [1.0]}
    assert columns(table, 5 * DAY, ()) == {}


def test_no_pages_no_rows() -> None:
    assert columns(PageTable(DAY), 0.0)["posterior"] == []


@pytest.mark.parametrize("name", ["CG", "NAD", "SAD", "AAD", "GAD", "posterior", "rate"])
def test_kernels_agree_with_the_public_functions(name: str) -> None:
    """Within a few units in the last place, for pages of many kinds."""
    rng = np.random.default_rng(0)
    pages, traces = np.zeros(2000, PAGE), np.zeros(2000, TRACE)
    n = rng.integers(0, 200, 2000)
    n[:100] = 0
    changes = rng.integers(0, n + 1)
    history = rng.integers(0, 2**63, 2000, np.uint64) & ((np.uint64(1) << np.minimum(n, 63).astype(np.uint64)) - 1)
    pages["visits"], pages["changes"] = n, changes
    pages["prior_shape"], pages["prior_exposure"] = 0.3, rng.choice(np.array([2.0, 30.1]), 2000)
    pages["own_shape"], pages["own_exposure"] = changes * rng.random(2000), n * rng.lognormal(0, 2, 2000)
    pages["last_visit_s"] = rng.uniform(0, 101 * DAY, 2000)
    traces["history"], traces["weighted_changes"] = history, changes * rng.random(2000) * n
    shape = pages["prior_shape"].astype(np.float64) + pages["own_shape"]
    exposure = pages["prior_exposure"].astype(np.float64) + pages["own_exposure"]
    elapsed = np.maximum((100 * DAY - pages["last_visit_s"]) / DAY, 0.0)
    expected = {
        "CG": cg(n, changes),
        "NAD": nad(n, changes),
        "SAD": sad(n, history),
        "AAD": aad(n, traces["weighted_changes"]),
        "GAD": gad(n, history),
        "posterior": probabilities_changed(shape, exposure, elapsed, np.empty(2000)),
        "rate": shape / exposure,
    }[name]
    found = TerminalColumns([name], 2000).fill(pages, traces, NO_CONTEXT, 100 * DAY, DAY)[name]
    np.testing.assert_array_max_ulp(found, expected, 4)


def test_kernels_of_seasonal_terminals_know_their_codes() -> None:
    assert tuple(TERMINAL_CODES[name] for name in ("tau", "rhythm", "due")) == (TAU, RHYTHM, DUE)


def test_own_values_are_fields_of_their_records_and_parts_of_their_own() -> None:
    records = {"pages": PAGE, "traces": TRACE}
    assert all(name in (records[own.records].names or ()) for name, own in OWN.items())
    assert all(name in find_readers(name) for name in OWN)  # type: ignore[arg-type]  # names of parts
