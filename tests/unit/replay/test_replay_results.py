"""What a replay hands on: JSON that scripts can rely on."""

from __future__ import annotations

import json

import pytest

from streamsched.replay import METRICS, ReplayResult, ReplaySettings, run_replay, to_json

LOG = "\n".join(
    [f"0\tA\thttps://site.example/{page}" for page in range(20)]
    + [
        f"{day * 86400 + 600 * page}\tM\thttps://site.example/{page}"
        for day in range(40)
        for page in range(day % 5, 12)
    ]
    + ["oops"]
)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> ReplayResult:
    path = tmp_path_factory.mktemp("log") / "site.tsv"
    path.write_text(LOG)
    return run_replay(ReplaySettings(str(path), policies=("oracle", "rand", "X / n"), budget=0.2))


def test_the_promised_keys_are_there_and_plain_numbers(result: ReplayResult) -> None:
    report = json.loads(to_json(result))
    assert (report["log"], report["pages"], report["cycles"], report["budget"]) == (result.settings.log, 20, 39, 0.2)
    assert list(report["policies"]) == ["oracle", "rand", "X / n"]
    for figures in report["policies"].values():
        for key in (*METRICS, "visits"):
            assert isinstance(figures[key], float | int), key
    assert report["policies"]["rand"]["visits"] == 4 * 37


def test_more_is_told_on_the_side(result: ReplayResult) -> None:
    report = json.loads(to_json(result))
    assert (report["from"], report["to"], report["warmup"], report["seeds"]) == ("1970-01-01", "1970-02-09", 2, [0])
    assert (report["rejected"], report["changed"], report["delay_unit"]) == (1, "since_visit", "days")
    rand = report["policies"]["rand"]
    low, high = rand["ci95"]["change_rate"]
    assert low < rand["change_rate"] < high
    assert rand["detections"] == round(rand["change_rate"] * rand["visits"])
    assert report["policies"]["X / n"]["formula"] == "X / n"
    assert report["policies"]["oracle"]["formula"] is None
    assert rand["stale_pages"] <= rand["undetected"]


def test_figures_follow_from_the_traces(result: ReplayResult) -> None:
    for policy in result.policies:
        (trace,) = policy.traces
        assert policy.figures["ndcg"].value == pytest.approx(trace.ndcg[trace.counted].mean())
        assert policy.figures["freshness"].value == pytest.approx(trace.freshness.mean())
        assert policy.figures["delay_mean"].value == pytest.approx(trace.delays_days.mean())
        assert trace.decile_visits.sum() == policy.visits
