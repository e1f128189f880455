"""What a replay hands on: JSON that scripts can rely on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from streamsched.replay import METRICS, Estimate, ReplayResult, ReplaySettings, report_replay, run_replay, to_json
from streamsched.replay.replay_results import COMPARED
from tests.support.paths import LOGS

LOG = "\n".join(
    [f"86400\tA\thttps://site.example/{page}" for page in range(20)]
    + [
        f"{(day + 1) * 86400 + 600 * page}\tM\thttps://site.example/{page}"
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
    report = json.loads(to_json(report_replay(result)))
    assert (report["log"], report["pages"], report["cycles"], report["budget"]) == (result.settings.log, 20, 39, 0.2)
    assert list(report["policies"]) == ["oracle", "rand", "X / n"]
    for policy in report["policies"].values():
        assert isinstance(policy["visits"], int)
        for metric in METRICS:
            assert isinstance(policy["figures"][metric]["value"], float), metric
    assert report["policies"]["rand"]["visits"] == 4 * 37


def test_more_is_told_on_the_side(result: ReplayResult) -> None:
    report = json.loads(to_json(report_replay(result)))
    assert (report["from"], report["to"], report["warmup"], report["seeds"]) == ("1970-01-02", "1970-02-10", 2, [0])
    assert (report["rejected"], report["changed"], report["delay_unit"]) == (1, "since_visit", "days")
    rand = report["policies"]["rand"]
    assert report["batches"] == 1
    assert {figure["low"] for figure in rand["figures"].values()} == {None}
    assert rand["detections"] == round(rand["figures"]["change_rate"]["value"] * rand["visits"])
    assert report["policies"]["X / n"]["formula"] == "X / n"
    assert report["policies"]["oracle"]["formula"] is None
    assert rand["stale_pages"] <= rand["undetected"]


def test_figures_follow_from_the_traces(result: ReplayResult) -> None:
    counted = result.measured.counted
    assert counted.tolist() == np.all([policy.traces[0].counted for policy in result.policies], 0).tolist()
    for policy in result.policies:
        (trace,) = policy.traces
        assert policy.figures["change_rate"].value == pytest.approx(policy.detections / policy.visits)
        assert policy.figures["ndcg"].value == pytest.approx(trace.ndcg[counted].mean())
        assert policy.figures["freshness"].value == pytest.approx(trace.freshness.mean())
        assert policy.figures["stale"].value == pytest.approx(1 - trace.freshness.mean())
        assert policy.figures["delay_mean"].value == pytest.approx(trace.delays_days.mean())
        assert trace.decile_visits.sum() == policy.visits


def test_change_rate_counts_cycles_without_a_changed_page_and_ndcg_those_shared_by_all(tmp_path: Path) -> None:
    """One page changes on day 3; the oracle finds it at once, the order of age later."""
    pages = [f"86400\tA\thttps://site.example/{page}" for page in range(4)]
    path = tmp_path / "log.tsv"
    path.write_text("\n".join([*pages, f"{4.5 * 86400}\tM\thttps://site.example/0", f"{10 * 86400}\tA\thttps://b/"]))
    settings = ReplaySettings(str(path), policies=("oracle", "age"), budget=0.25, warmup=1, seeds=(0, 1, 2))
    result = run_replay(settings)
    cycles = result.measured.counted.size
    assert cycles == 8
    assert np.flatnonzero(result.measured.counted).tolist() == [2]
    for policy in result.policies:
        assert policy.figures["change_rate"].value == pytest.approx(1 / cycles)
    assert result.policies[0].figures["ndcg"].value == 1.0
    first = [trace.ndcg[2] for trace in result.policies[1].traces]
    assert result.policies[1].figures["ndcg"].value == pytest.approx(np.mean(first))


def test_the_differences_are_from_age_else_the_first_or_the_one_asked_for(result: ReplayResult) -> None:
    assert result.settings.compared_with == "oracle"
    log = result.settings.log
    assert ReplaySettings(log, policies=("nad", "age")).compared_with == "age"
    assert ReplaySettings(log, policies=("nad", "age"), against="nad").compared_with == "nad"
    assert ReplaySettings(log, policies=("nad",)).compared_with is None
    oracle, rand, formula = json.loads(to_json(report_replay(result)))["policies"].values()
    assert oracle["against"] is None
    for policy in (rand, formula):
        assert set(policy["against"]) == set(COMPARED)
        for metric, found in policy["against"].items():
            ours, theirs = (one["figures"][metric]["value"] for one in (policy, oracle))
            assert found["difference"]["value"] == pytest.approx(ours - theirs)
            assert found["relative"]["value"] == pytest.approx(ours / theirs - 1)
            assert {found[kind]["low"] for kind in ("difference", "relative", "seeds")} == {None}


def test_a_policy_without_a_difference_is_as_good_in_every_batch() -> None:
    settings = ReplaySettings(
        str(LOGS / "scoop-extras.tsv.gz"),
        policies=("t", "2 * t", "rand"),
        start_s=1_755_820_800.0,
        end_s=1_755_820_800.0 + 142 * 86400,
        seeds=(3, 4),
    )
    _, same, rand = run_replay(settings).policies
    assert same.against is not None
    assert rand.against is not None
    for metric in COMPARED:
        assert same.against[metric].difference == same.against[metric].relative == Estimate(0.0, 0.0, 0.0)
        assert rand.against[metric].relative.half_width
        assert rand.against[metric].seeds.value == pytest.approx(rand.against[metric].relative.value, rel=0.05)
    change_rate = rand.figures["change_rate"]
    assert change_rate.half_width is not None
    assert rand.seeds["change_rate"].value == pytest.approx(change_rate.value)
    assert rand.seeds["change_rate"].half_width != change_rate.half_width
