"""The value of a visit after noisy signals: as integrals over its definition give it, its limits, and what moves it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamsched.optimal import NoisyPages, crawl_value
from tests.reference import optimal as reference
from tests.support.cases import examples

rates = st.floats(0.01, 5.0)
recalls = st.floats(0.0, 0.98)
waits = st.floats(0.0, 8.0)
counts = st.integers(0, 6)


def value(rate: float, recall: float, noise: float, waited: float, signals: int, **given: int) -> float:
    pages = NoisyPages(*(np.array([one]) for one in (1.0, rate, recall, noise)))
    return float(crawl_value(pages, [waited], [signals], **given)[0])


@examples(ordinary=9, whole=30)
@given(rates, recalls, rates, waits, counts)
def test_value_is_the_integral_of_its_definition(
    rate: float, recall: float, noise: float, waited: float, signals: int
) -> None:
    expected = reference.crawl_value(rate, recall, noise, waited, signals)
    assert value(rate, recall, noise, waited, signals) == pytest.approx(expected, rel=1e-6, abs=1e-9)


@given(rates, st.floats(0.0, 1.0), st.just(0.0) | rates, waits, counts, st.floats(0.0, 3.0))
@example(4.0, 1e-310, 0.0, 1.0, 0, 1.0)
def test_value_rises_with_time_and_signals_to_what_a_change_makes_it(
    rate: float, recall: float, noise: float, waited: float, signals: int, longer: float
) -> None:
    now = value(rate, recall, noise, waited, signals)
    assert now <= value(rate, recall, noise, waited + longer, signals) + 1e-9
    assert now <= value(rate, recall, noise, waited, signals + 1) + 1e-9
    assert 0.0 <= now <= 1.0 / rate + 1e-9


@given(rates, st.floats(0.0, 1.0), st.just(0.0) | rates, waits, counts)
def test_fewer_terms_are_never_worth_more(
    rate: float, recall: float, noise: float, waited: float, signals: int
) -> None:
    found = [value(rate, recall, noise, waited, signals, terms=terms) for terms in (1, 2, 1024)]
    assert found == pytest.approx(sorted(found), abs=1e-12)


@given(rates, st.floats(0.01, 1.0), waits)
def test_limits_are_the_values_of_greedy_and_of_greedy_with_sure_signals(
    rate: float, recall: float, waited: float
) -> None:
    fresh = np.exp(-rate * waited)
    greedy = (1.0 - fresh * (1.0 + rate * waited)) / rate
    assert value(rate, 0.0, 0.7, waited, 3) == pytest.approx(greedy, abs=1e-12)
    told = rate * recall
    silent = (1.0 - fresh) / rate - np.exp(-(rate - told) * waited) * (1.0 - np.exp(-told * waited)) / told
    assert value(rate, recall, 0.0, waited, 0) == pytest.approx(silent, abs=1e-9)
    assert value(rate, recall, 0.0, waited, 1) == pytest.approx(1.0 / rate)
