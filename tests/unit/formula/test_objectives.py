"""Objectives: what their formulas are worth, and that no unit decides the order of pages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.integrate import quad

from streamsched.errors import SettingsError
from streamsched.formula.formula import Formula
from streamsched.formula.objectives import OBJECTIVES, find_objective

Page = Mapping[str, float]
pages = st.fixed_dictionaries(
    {
        "rate": st.floats(1e-3, 10.0),
        "t": st.floats(0.01, 100.0),
        "gain": st.floats(0.01, 1.0),
        "surge": st.floats(0.0, 0.99),
        "signalled": st.floats(0.0, 0.99),
        "worth": st.floats(0.1, 10.0),
        "significance": st.floats(0.0, 1.0),
    }
)
dials = st.integers(0, 20).map(lambda twentieths: twentieths / 20)


def value(name: str, page: Page) -> float:
    """The score of a page by an objective."""
    formula = find_objective(name)
    assert formula is not None
    program = Formula.parse(formula).compile()
    out = np.empty(1)
    program.run({name: np.array([page[name]]) for name in program.terminals}, out, program.arena(1))
    return float(out[0])


@given(pages)
def test_changes_is_the_expected_gain_by_weight_and_cost(page: Page) -> None:
    assert value("changes", page) == pytest.approx(page["gain"] * page["worth"])


@given(pages)
def test_freshness_is_the_currency_that_a_visit_buys(page: Page) -> None:
    """Copies without a surge or a signal were current until their first change, new ones of those with one will be."""
    rate, elapsed = page["rate"], page["t"]
    moved = 1.0 - (1.0 - page["surge"]) * (1.0 - page["signalled"])
    by_rate, _ = quad(lambda age: age * rate * math.exp(-rate * age), 0.0, elapsed, limit=200, epsabs=1e-12)
    current, _ = quad(lambda age: math.exp(-rate * age), 0.0, elapsed, limit=200, epsabs=1e-12)
    expected = (1.0 - moved) * by_rate + moved * current
    assert value("freshness", page) == pytest.approx(expected * page["worth"], rel=1e-6, abs=1e-9)


@given(pages, dials)
def test_balanced_is_the_geometric_mean(page: Page, dial: float) -> None:
    ends = value("changes", page), value("freshness", page)
    assert value(f"balanced({dial})", page) == pytest.approx(ends[0] ** (1.0 - dial) * ends[1] ** dial, rel=1e-6)


@given(pages, st.sampled_from(["changes", "freshness", "balanced", "balanced(0.25)"]))
def test_any_objective_is_weighed_by_significance(page: Page, name: str) -> None:
    assert value(f"{name} * significance", page) == pytest.approx(value(name, page) * page["significance"])
    assert find_objective(f" {name}*significance ") == find_objective(f"{name} * significance")


@given(st.lists(pages, min_size=2, max_size=8), dials, *[st.floats(0.01, 100.0)] * 2)
def test_no_unit_decides(listed: list[Page], dial: float, time: float, weight: float) -> None:
    """Whatever the cycle, the scale of importance and the unit of cost, scores keep their ratios."""
    scales = {"t": time, "rate": 1.0 / time, "worth": weight}
    others = [{name: number * scales.get(name, 1.0) for name, number in page.items()} for page in listed]
    name = f"balanced({dial})"
    before, after = (np.array([value(name, page) for page in some]) for some in (listed, others))
    assume(np.all(before > 1e-6))
    np.testing.assert_allclose(after / after[0], before / before[0], rtol=1e-6)


@given(pages, pages)
def test_two_pages_change_places_once_at_most(one: Page, other: Page) -> None:
    names = [f"balanced({twentieths / 20})" for twentieths in range(21)]
    ratios = np.array([value(name, one) / value(name, other) for name in names])
    ahead = [bool(ratio > 1.0) for ratio in ratios if abs(ratio - 1.0) > 1e-6]
    assert sum(a != b for a, b in pairwise(ahead)) <= 1


def test_the_dial_ends_at_the_other_objectives() -> None:
    assert find_objective("balanced(0)") == OBJECTIVES["changes"] == "worth * gain"
    assert find_objective("balanced(1.0)") == OBJECTIVES["freshness"]
    assert find_objective(" balanced ( 0.5 ) ") == find_objective("balanced") == OBJECTIVES["balanced"]
    assert all(Formula.parse(text).text == text for text in OBJECTIVES.values())


@pytest.mark.parametrize("name", ["balanced(2)", "balanced(-0.1)", "balanced(nan)", "balanced()", "balanced(half)"])
def test_a_dial_is_a_number_from_0_to_1(name: str) -> None:
    with pytest.raises(SettingsError, match="from 0, changes, to 1, freshness") as caught:
        find_objective(name)
    assert (caught.value.setting, caught.value.found) == ("objective", name)


@pytest.mark.parametrize(
    "name", ["t", "rate * t", "Changes", "balance", "", "t * significance", "significance * changes", "* significance"]
)
def test_other_texts_name_no_objective(name: str) -> None:
    assert find_objective(name) is None
