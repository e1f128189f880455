"""Policies in Python, given to `replay_log`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from streamsched import ReplayError
from streamsched.outcomes import OutcomeBatch
from streamsched.replay import (
    ChangeLog,
    PolicyQuery,
    ReplayResult,
    ReplaySettings,
    Setup,
    read_truth,
    render_report,
    replay_log,
    report_replay,
    to_json,
)
from tests.support.paths import LOGS, ROOT

LOG = LOGS / "scoop-extras.tsv.gz"
SETTINGS = ReplaySettings(str(LOG), policies=("age",), start_s=1_755_820_800.0, end_s=1_758_412_800.0, seeds=(0, 1))


class Oldest:
    """Visits the oldest copies first; ties by row."""

    def __init__(self, setup: Setup) -> None:
        assert setup.cycle_s == 86_400.0
        self.visited_s = np.empty(0)
        self.rows: dict[str, int] = {}

    def discover(self, urls: Any, now: float) -> None:
        self.rows |= {url: len(self.rows) + i for i, url in enumerate(urls)}
        self.visited_s = np.append(self.visited_s, np.full(len(urls), now))

    def rank(self, query: PolicyQuery) -> Any:
        return np.argsort(self.visited_s, kind="stable")[: query.k]

    def observe(self, outcomes: OutcomeBatch) -> None:
        self.visited_s[[self.rows[url] for url in outcomes.urls]] = outcomes.fetched_at


@pytest.fixture(scope="module")
def log() -> ChangeLog:
    return read_truth(str(LOG))


def figures(result: ReplayResult, name: str) -> dict[str, float | None]:
    (policy,) = (one for one in result.policies if one.name == name)
    return {metric: estimate.value for metric, estimate in policy.figures.items()}


def test_own_policy_stands_beside_the_named_ones(log: ChangeLog) -> None:
    result = replay_log(log, SETTINGS, policies={"mine": Oldest})
    assert [policy.name for policy in result.policies] == ["age", "mine"]
    assert result.settings.compared_with == "age"
    mine, age = figures(result, "mine"), figures(result, "age")
    assert mine["change_rate"] == pytest.approx(age["change_rate"], rel=0.1)  # but for ties
    assert {trace.visits.sum() for policy in result.policies for trace in policy.traces} == {28 * 109}
    report = report_replay(result)
    assert "mine" in render_report(report)
    assert "mine" in str(to_json(report))


def test_example_of_the_docs(monkeypatch: pytest.MonkeyPatch) -> None:
    section = (ROOT / "docs" / "replay.md").read_text().partition("## A policy of your own")[2]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)[:1]
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102  the example as a reader runs it
    assert [policy.name for policy in names["result"].policies] == ["age", "nad", "mine"]


def ranking(rank: Callable[[PolicyQuery], Any]) -> type[Oldest]:
    return type("Wrong", (Oldest,), {"rank": lambda self, query: rank(query)})


WRONG: dict[str, Callable[[PolicyQuery], Any]] = {
    "twice": lambda query: np.zeros(2, np.int64),
    "negative": lambda query: [-1],
    "unknown": lambda query: [query.known],
    "too many": lambda query: np.arange(query.k + 1),
    "two dimensions": lambda query: np.zeros((1, 1), np.int64),
    "fractions": lambda query: [0.5],
    "nothing": lambda query: None,
    "none": lambda query: [],
}


@pytest.mark.parametrize("rank", WRONG.values(), ids=WRONG)
def test_rows_that_break_the_contract_are_named(log: ChangeLog, rank: Callable[[PolicyQuery], Any]) -> None:
    with pytest.raises(ReplayError, match="policy 'mine', cycle 2: expected 1 to 109 different rows"):
        replay_log(log, SETTINGS, policies={"mine": ranking(rank)})


def test_policy_may_visit_fewer_pages(log: ChangeLog) -> None:
    result = replay_log(log, SETTINGS, policies={"one": ranking(lambda query: [3])})
    assert [int(policy.traces[0].visits.sum()) for policy in result.policies] == [28 * 109, 28]


@pytest.mark.parametrize("name", ["age", "default", ""])
def test_name_of_another_policy_is_refused(log: ChangeLog, name: str) -> None:
    with pytest.raises(ReplayError, match="policies"):
        replay_log(log, SETTINGS, policies={name: Oldest})
