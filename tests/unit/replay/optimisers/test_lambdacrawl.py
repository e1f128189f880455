"""LambdaCrawl's experiments: the authors' costs, pages of Microsoft's files, learning, the report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamsched.connectors import write_sample
from streamsched.errors import SourceError
from streamsched.optimal import binary_crawl, harmonic_cost, learn_rates
from streamsched.replay.optimisers import CrawlExperiment, CrawlSettings, report_lambdacrawl, run_lambdacrawl
from streamsched.replay.optimisers.lambdacrawl import generate_pages, read_pages, sample_pages
from streamsched.replay.reporting.report import to_json
from tests.support.crawl_outcomes import put
from tests.support.reports import find_tables

SMALL = CrawlSettings(pages=500, runs=3, epochs=4)


@pytest.fixture(scope="module")
def result() -> CrawlExperiment:
    return run_lambdacrawl(SMALL)


def lay(folder: Path, history: bytes, importances: bytes, rates: bytes) -> str:
    for name, content in (("urlid_imp.txt", importances), ("urlid_chrate_compl_obs_hist.txt", rates)):
        put(folder / name, content)
    return str(put(folder / "urlid_offset_history.txt", history))


def test_costs_of_the_authors_pages_are_theirs() -> None:
    report = report_lambdacrawl(run_lambdacrawl(CrawlSettings(runs=1, epochs=1)))
    claims = {claim.statement: claim.holds for claim in report.content["claims"]}
    assert claims["Costs of experiment 1 are those of the authors’ code"]
    shown = [[cell.text + cell.note for cell in row] for row in find_tables(report)[0].rows]
    assert ["LambdaCrawl", "used", "269.0462(269.0481)", "189.6604(189.6505)"] in shown
    assert ["binary, floor 0", "ignored", "infinite(infinite)", "188.6041(188.6041)"] in shown


@pytest.mark.parametrize(("pages", "seed"), [(100_000, 1), (100_001, 0)])
def test_the_authors_costs_stand_beside_their_pages_only(result: CrawlExperiment, pages: int, seed: int) -> None:
    report = report_lambdacrawl(replace(result, settings=replace(SMALL, pages=pages, seed=seed), pages=pages))
    assert not any(cell.note for row in find_tables(report)[0].rows for cell in row)
    assert not any("authors" in claim.statement for claim in report.content["claims"])


def test_each_policy_costs_what_its_visits_do(result: CrawlExperiment) -> None:
    pages = generate_pages(500, 0)
    found = {(one.policy, one.signals): one for one in result.every_page}
    uniform = np.full(500, 0.2)
    assert found["uniform", False].harmonic == harmonic_cost(pages.importance, pages.change_rate, uniform)
    assert found["LambdaCrawl", False].harmonic == min(one.harmonic for one in result.every_page if not one.signals)
    assert found["binary, floor 0", False].binary == min(one.binary for one in result.every_page if not one.signals)
    assert found["LambdaCrawl", True].harmonic < found["LambdaCrawl", False].harmonic
    assert len(result.every_page) == len(result.announced) == 8
    assert (result.pages, result.complete) == (500, 20)


def test_each_learner_learns_for_itself(result: CrawlExperiment) -> None:
    """The authors' code stores the costs of one as those of all."""
    assert [one.policy for one in result.learning] == ["LambdaCrawl", "approximation", "binary, floor 0.4"]
    assert all(one.costs.shape == (3, 4) for one in result.learning)
    costs = {one.policy: one.costs[0, -1] for one in result.learning}
    assert len(set(costs.values())) == 3
    exact = result.learning[0]
    assert np.all(exact.known < exact.costs.min(axis=1))
    pages = generate_pages(500, (0, 1))
    crawl = binary_crawl(pages.importance, pages.change_rate, budget=100, floor=0.4)
    known = harmonic_cost(pages.importance, pages.change_rate, crawl.visit_rate)
    assert result.learning[2].known[0] == known


def test_a_seed_repeats_everything_and_another_changes_it(result: CrawlExperiment) -> None:
    figures = to_json(report_lambdacrawl(result))
    assert to_json(report_lambdacrawl(run_lambdacrawl(SMALL))) == figures
    assert to_json(report_lambdacrawl(run_lambdacrawl(replace(SMALL, seed=1)))) != figures


def test_progress_ends_at_its_total() -> None:
    calls: list[tuple[int, int, str]] = []
    run_lambdacrawl(replace(SMALL, runs=2), lambda *call: calls.append(call))
    assert [done for done, _, _ in calls] == [1, 2, 3, 4, 5, 6]
    assert calls[-1] == (6, 6, "experiment 3, run 2, binary, floor 0.4")


def test_samples_keep_the_share_of_complete_observations() -> None:
    pages = generate_pages(1000, 0)
    sampled = sample_pages(pages, 250, 3)
    assert (sampled.complete.size, int(sampled.complete.sum())) == (250, 10)
    assert set(sampled.importance) <= set(pages.importance)
    assert sample_pages(pages, 5000, 3).complete.size == 1000


def test_pages_of_files_have_published_or_learned_rates(tmp_path: Path) -> None:
    history = b"5\t0.5\t[[1.0, 0], [0.25, 1]]\n7\t2.0\t[]\nbroken\n8\t1.0\t[[2.0, 1]]\n9\t1.0\t[[1.0, 1]]\n"
    path = lay(tmp_path, history, b"5\t3\n7\t4\n9\t12\nx\t1\n", b"9\t0.75\n")
    found = read_pages(path)
    assert found.pages.importance.tolist() == [3.0, 4.0, 12.0]
    assert found.pages.complete.tolist() == [False, False, True]
    learned = learn_rates([1.0, 1.25], [False, True], [0, 2, 2]).tolist()
    assert found.pages.change_rate.tolist() == [*learned, 0.75]
    assert (found.unknown, found.rejected) == (1, 2)
    assert [one.offset for one in found.rejections] == [4, 3]


def test_files_without_complete_observations_leave_experiment_2_out(tmp_path: Path) -> None:
    path = lay(tmp_path, b"1\t0\t[[1.0, 1], [1.0, 0]]\n2\t0\t[[3.0, 1]]\n", b"1\t5\n2\t1\n", b"")
    result = run_lambdacrawl(CrawlSettings(data=path, runs=1, epochs=2))
    report = report_lambdacrawl(result)
    assert result.announced == ()
    assert [section.title[:12] for section in report.sections] == ["", "Experiment 1", "Experiment 3"]
    assert "2 pages of Microsoft’s files" in report.scope


def test_samples_of_files_differ_from_run_to_run(tmp_path: Path) -> None:
    path = str(write_sample(tmp_path, pages=200, days=20))
    result = run_lambdacrawl(CrawlSettings(data=path, pages=100, runs=2, epochs=1))
    assert (result.pages, result.complete) == (200, 8)
    assert result.learning[0].known[0] != result.learning[0].known[1]


@pytest.mark.parametrize("name", ["urlid_imp.txt", "urlid_chrate_compl_obs_hist.txt"])
def test_a_missing_companion_is_named(tmp_path: Path, name: str) -> None:
    path = lay(tmp_path, b"1\t0\t[]\n", b"1\t5\n", b"")
    (tmp_path / name).unlink()
    with pytest.raises(SourceError, match=name):
        read_pages(path)


@pytest.mark.parametrize("history", [b"", b"1\t0\t[]\n", b"broken\n"])
def test_files_without_pages_are_refused(tmp_path: Path, history: bytes) -> None:
    with pytest.raises(SourceError, match="one page or more with an importance"):
        read_pages(lay(tmp_path, history, b"2\t5\n", b""))


def test_infinite_costs_are_null_in_json() -> None:
    report = report_lambdacrawl(run_lambdacrawl(CrawlSettings(pages=100, runs=2, epochs=3)))
    content: Any = json.loads(to_json(report))
    costs = {(one["policy"], one["signals"]): one["harmonic"] for one in content["experiment_1"]}
    assert costs["binary, floor 0", False] is None
    assert costs["uniform", False] > 0.0
    assert [claim["statement"] for claim in content["claims"]] == [one.statement for one in report.content["claims"]]
    holds = sum(claim.holds for claim in report.content["claims"])
    assert report.lead == f"{holds} of {len(content['claims'])} claims hold here."
