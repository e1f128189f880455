"""Every online estimator, found by looking, keeps river's contract and ours."""

from __future__ import annotations

import inspect
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from river import base, feature_extraction, stats
from river.checks import check_estimator

from streamsched.errors import SettingsError
from streamsched.estimation import river_estimators
from streamsched.estimation.river_estimators import OnlineEstimator
from tests.support.cases import how_many


def concrete(of: type[OnlineEstimator]) -> list[type[OnlineEstimator]]:
    """Return all classes below `of` that can be made, in order of definition."""
    found = [] if inspect.isabstract(of) else [of]
    return found + [below for child in of.__subclasses__() for below in concrete(child)]


ESTIMATORS = concrete(OnlineEstimator)  # type: ignore[type-abstract]
every = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda cls: cls.__name__)

HISTORY = [(False, 1.0), (True, 2.0), (True, 0.5), (False, 4.0), (True, 1.0)]


def learned(estimator: type[OnlineEstimator], **parameters: Any) -> OnlineEstimator:
    page = estimator(**parameters)
    for changed, interval in HISTORY:
        page.learn_one({"interval": interval}, changed)
    return page


def test_the_search_finds_them_all() -> None:
    names = {"CG", "NAD", "SAD", "AAD", "GAD", "NaiveInterval", "ModifiedInterval", "GammaPosterior"}
    assert {estimator.__name__ for estimator in ESTIMATORS} == names


@pytest.mark.longer
@pytest.mark.parametrize("estimator", ESTIMATORS[:: how_many(3, 1)], ids=lambda cls: cls.__name__)
def test_passes_rivers_own_checks(estimator: type[OnlineEstimator]) -> None:
    model = estimator()
    assert not model._unit_test_skips()
    check_estimator(model)


@every
def test_both_faces_learn_alike(estimator: type[OnlineEstimator]) -> None:
    page = estimator()
    for changed, interval in HISTORY:
        page.update(float(changed), interval)
    assert page.get() == learned(estimator).get()
    assert isinstance(page, base.Classifier)
    assert isinstance(page, stats.base.Univariate)


@every
def test_probability_rises_from_zero_towards_one(estimator: type[OnlineEstimator]) -> None:
    page = learned(estimator)
    found = [page.predict_proba_one({"interval": elapsed})[True] for elapsed in (0.0, 1e-9, 0.1, 1.0, 10.0, 1e300)]
    assert found[0] == 0.0
    assert found == sorted(found)
    assert found[-1] == 1.0
    assert page.probability(-1.0) == 0.0


@every
def test_probability_of_a_short_time_is_the_rate(estimator: type[OnlineEstimator]) -> None:
    page = learned(estimator)
    assert page.probability(1e-9) == pytest.approx(1e-9 * page.rate, rel=1e-6)


@every
@pytest.mark.parametrize(
    "value", [None, "2.0", math.nan, math.inf, -1.0, 10**400, [2.0], b"2", 2 + 0j], ids=lambda value: repr(value)[:8]
)
def test_unusable_interval_is_the_default_one(estimator: type[OnlineEstimator], value: object) -> None:
    plain, odd = estimator(interval=3.0), estimator(interval=3.0)
    for changed, _ in HISTORY:
        plain.learn_one({}, changed)
        odd.learn_one({"interval": value}, changed)
    assert odd.get() == plain.get()
    assert odd.predict_proba_one({"interval": value}) == plain.predict_proba_one({"interval": 3.0})


@every
def test_interval_may_be_any_kind_of_number_under_any_key(estimator: type[OnlineEstimator]) -> None:
    page, other = estimator(key="days"), estimator()
    for number in (2, np.float32(2.0), np.int64(2), 2.0):
        page.learn_one({"days": number, "interval": 77.0}, np.bool_(True))  # type: ignore[arg-type]
        other.learn_one({"interval": 2.0}, True)
    assert page.get() == other.get()


@every
def test_empty_is_a_count_and_not_a_number_by_convention(estimator: type[OnlineEstimator]) -> None:
    page = estimator()
    expected = 0.1 if estimator is river_estimators.GammaPosterior else 0.0
    assert page.get() == page.rate == expected
    assert 0.0 <= page.predict_proba_one({})[True] < 0.5


@every
def test_changes_without_time_passing_are_borne(estimator: type[OnlineEstimator]) -> None:
    page = estimator()
    for _ in range(10):
        page.update(1, 0.0)
    assert not math.isnan(page.get())
    assert page.probability(0.0) == 0.0
    assert page.probability(1.0) > 0.5


@every
def test_clone_starts_anew_with_the_same_parameters(estimator: type[OnlineEstimator]) -> None:
    page = learned(estimator, interval=2.0)
    fresh = page.clone()
    assert fresh.get() == estimator().get()
    assert fresh.interval == 2.0
    assert page.clone(include_attributes=True).get() == page.get()


@every
@pytest.mark.parametrize("found", [0.0, -1.0, math.nan, math.inf, "1"])
def test_parameter_that_cannot_work_is_refused(estimator: type[OnlineEstimator], found: object) -> None:
    names = [name for name in inspect.signature(estimator).parameters if name != "key"]
    for name in names:
        with pytest.raises(SettingsError, match=f"{name}: expected a positive finite number"):
            estimator(**{name: found})  # type: ignore[arg-type]


@every
def test_river_keeps_one_for_each_page(estimator: type[OnlineEstimator]) -> None:
    statistic: Any = estimator()  # a Univariate by registration, which type checkers do not see
    pages: Any = feature_extraction.Agg(on="changed", by="url", how=statistic)
    for url, changed in (("a", 1), ("b", 0), ("a", 1)):
        pages.learn_one({"url": url, "changed": changed})
    alone = estimator()
    alone.update(1)
    alone.update(1)
    assert pages.transform_one({"url": "a"}) == {f"changed_{estimator.__name__.lower()}_by_url": alone.get()}


def test_importing_streamsched_does_not_import_river() -> None:
    code = "import sys, streamsched; sys.exit(any(name.split('.')[0] == 'river' for name in sys.modules))"
    subprocess.run([sys.executable, "-c", code], check=True)
