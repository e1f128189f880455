"""WebFountain's experiments: which plans are solved, how the budget is fitted, and what is said of the plans."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from streamsched.errors import SettingsError
from streamsched.optimal import CrawlPlan, paper_model
from streamsched.replay.optimisers import PlanSettings, WebExperiment, report_webfountain, run_webfountain
from streamsched.replay.optimisers.webfountain import OBSOLETE, SolvedPlan, _calibrate
from streamsched.replay.reporting.report import to_json
from tests.support.extras import needs_casadi
from tests.support.reports import find_tables

SMALL = PlanSettings(budget=54.0, buckets=12, periods=4)
KINDS = [(1, 1, 1), (1, 2, 1), (1, 3, 1), (2, 1, 1), (2, 3, 1), (1, 1, 2), (3, 1, 1), (3, 1, 2)]
BUCKETS = 10
FAST = "Strategy 1 crawls the fastest 5 % of the pages in many periods"
# Crawls of each bucket, fastest first, as the paper has them.
AS_PRINTED = {1: [9.0, 5.0, 3.0, 2.0, 1.0, 1.0, 0, 0, 0, 0], 2: [1.0] * 10, 3: [4.0, 2.0, *[1.0] * 8]}


def made_plan(version: int, strategy: int, periods: int, crawls: list[float], course: list[float]) -> SolvedPlan:
    shares = np.tile(np.array(crawls) / periods, (periods, 1))
    obsolete = np.repeat(np.array(course)[:, np.newaxis], BUCKETS, axis=1) / BUCKETS
    pages = np.full((periods, BUCKETS), 52.2)
    plan = CrawlPlan(shares, np.zeros(periods), shares, obsolete, pages, np.zeros(periods), 330.0)
    return SolvedPlan(version, strategy, periods, np.full(BUCKETS, 0.1), plan)


def made(**changed: Any) -> WebExperiment:
    """Plans as the paper describes them, but those of strategies `s1`, `s2` and `s3` with other crawls."""
    rising = np.minimum(np.arange(28) + 1.0, 10.0)
    levels, ends = {1: 1.0, 2: 3.0, 3: 2.0}, {1: 10.0, 2: 5.0, 3: 6.0}
    plans = []
    for version, strategy, cycles in KINDS:
        course = rising[: 14 * cycles] * levels[strategy]
        course[-1] = ends[strategy]
        course *= {1: 1.0, 2: 1.2, 3: 0.5}[version]
        crawls = changed.get(f"s{strategy}", AS_PRINTED[strategy])
        plans.append(made_plan(version, strategy, 14 * cycles, crawls, course.tolist()))
    return WebExperiment(PlanSettings(budget=54.0, buckets=BUCKETS), 54.0, tuple(plans))


def verdicts(result: WebExperiment) -> dict[str, bool]:
    return {claim.statement: claim.holds for claim in report_webfountain(result).content["claims"]}


def test_plans_as_the_paper_describes_them_hold_its_claims() -> None:
    found = verdicts(made())
    assert found.pop("Tables 3 and 4 come out") is False
    assert all(found.values()), found


@pytest.mark.parametrize(
    ("changed", "claim"),
    [
        ({"s2": [2.0, *[1.0] * 9]}, "Strategy 2 crawls each page once"),
        ({"s1": [9.0, *[1.0] * 9]}, "Strategy 1 never crawls the slowest pages"),
        ({"s1": [2.0, 5.0, 3.0, 2.0, 1.0, 1.0, 0, 0, 0, 0]}, FAST),
        ({"s3": [4.0, 2.0, *[1.0] * 7, 0.0]}, "Strategy 3 crawls all pages once or more"),
        ({"s3": [4.0, 2.0, 2.0, 2.0, *[1.0] * 6]}, "Strategy 3 crawls the fastest pages more than once"),
    ],
)  # fmt: skip
def test_other_crawls_do_not(changed: dict[str, list[float]], claim: str) -> None:
    found = verdicts(made(**changed))
    assert found[claim] is False


@pytest.mark.parametrize(
    ("tripled", "claim"),
    [
        ("strategy 1", "Fewer obsolete pages with strategy 1 than with 3, before the last period"),
        ("strategy 3", "Fewer obsolete pages with strategy 3 than with 2, before the last period"),
        ("version 1", "Version 2 ends with more obsolete pages, strategies 1 and 3"),
        ("version 3", "Half the change rates have half the obsolete pages"),
    ],
)
def test_other_courses_do_not(tripled: str, claim: str) -> None:
    result, plans = made(), []
    for one in result.plans:
        times = 3.0 if tripled in (f"strategy {one.strategy}", f"version {one.version}") else 1.0
        plans.append(replace(one, plan=replace(one.plan, obsolete=times * one.plan.obsolete)))
    assert verdicts(replace(result, plans=tuple(plans)))[claim] is False


def test_tables_show_the_papers_figures_and_how_far_ours_are() -> None:
    report = report_webfountain(made())
    first, second = (table.rows for table in find_tables(report)[:2])
    assert [row[0].text for row in second][1] == "strategy 1, version 2"
    assert [cell.text + cell.note for cell in first[0]] == [
        "strategy 1", "33.000(32.592)", "+1.3 %", "52.200(52.24)", "-0.1 %", "1.000(3.086)", "-67.6 %",
    ]  # fmt: skip
    assert report.scope.endswith("54.00 million pages a period, as given.")


@pytest.mark.parametrize("jump", [0.0, 0.3])
def test_the_budget_is_fitted_to_the_obsolete_pages_in_print(jump: float) -> None:
    tried: list[float] = []

    def obsolete(budget: float) -> float:
        tried.append(budget)
        return 33.0 - 0.55 * (budget - 50.0) + jump * (len(tried) % 2)

    found = _calibrate(obsolete)
    assert abs(33.0 - 0.55 * (found - 50.0) - OBSOLETE) <= 0.01 * OBSOLETE
    assert len(tried) <= 8


def test_a_budget_that_changes_nothing_ends_the_fitting() -> None:
    assert _calibrate(lambda budget: 40.0) in (50.0, 58.0)


@needs_casadi
def test_every_plan_is_solved_for_its_version_and_strategy() -> None:
    result = run_webfountain(SMALL)
    assert [(one.version, one.strategy, one.periods // 4) for one in result.plans] == KINDS
    assert np.log1p(-result.find(3, 1).change_share) == pytest.approx(np.log1p(-result.find(1, 1).change_share) / 2)
    assert result.find(2, 1).plan.pages[0, 0] / result.find(2, 1).plan.pages[0, 6] == pytest.approx(3.0)
    assert to_json(report_webfountain(run_webfountain(SMALL))) == to_json(report_webfountain(result))


@needs_casadi
def test_the_fitted_budget_is_used_and_progress_ends_at_its_total() -> None:
    calls: list[tuple[int, int, str]] = []
    result = run_webfountain(replace(SMALL, budget=None, periods=14, buckets=15), lambda *call: calls.append(call))
    assert 50.0 <= result.budget <= 58.0
    assert abs(result.find(1, 1).obsolete[-1] / OBSOLETE - 1.0) < 0.05
    assert calls[-1] == (8, 8, "version 3, strategy 1")
    assert "fitted to strategy 1’s obsolete pages" in report_webfountain(result).scope


def test_other_numbers_of_buckets_divide_the_same_pages() -> None:
    for version, total in ((1, 510.0), (2, 512.0)):
        for buckets in (255, 256, 40, 4):
            pages = paper_model(54.0, version=version, buckets=buckets).pages
            assert pages.size == buckets
            assert pages.sum() == pytest.approx(total, rel=0.05)
    assert paper_model(54.0, buckets=255).pages.tolist() == [2.0] * 255
    with pytest.raises(SettingsError, match="buckets"):
        paper_model(54.0, buckets=257)
