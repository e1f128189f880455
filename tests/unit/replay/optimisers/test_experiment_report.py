"""Reports of experiments: a page that needs nothing else, JSON without infinities, tables in the terminal, figures."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

from streamsched.replay.confidence_intervals import band_over_runs, over_seeds
from streamsched.replay.optimisers import (
    CrawlSettings,
    ExperimentReport,
    SyncPlan,
    print_report,
    render_report,
    report_lambdacrawl,
    report_mirrorsync,
    run_lambdacrawl,
    run_mirrorsync,
    to_json,
)
from streamsched.replay.optimisers.experiment_figures import Axis, Bar, Curve, draw_bars, draw_curves
from streamsched.replay.optimisers.experiment_report import Claim
from streamsched.replay.reporting.palette import LineStyle
from tests.support.html_reader import check_colours, check_self_contained, read_html

SOLID = LineStyle("blue")


@pytest.fixture(scope="module")
def crawls() -> ExperimentReport:
    return report_lambdacrawl(run_lambdacrawl(CrawlSettings(pages=100, runs=2, epochs=3)))


@pytest.fixture(scope="module")
def syncs() -> ExperimentReport:
    return report_mirrorsync(run_mirrorsync(SyncPlan(runs=2, arms=5, rounds=4)))


def test_pages_hold_every_figure_and_table_and_need_nothing_else(
    crawls: ExperimentReport, syncs: ExperimentReport
) -> None:
    for report, figures, tables in ((crawls, 5, 4), (syncs, 4, 5)):
        page = render_report(report)
        check_self_contained(page)
        check_colours(page)
        reader = read_html(page)
        assert (reader.seen.count("figure"), len(reader.tables)) == (figures, tables)
        assert report.lead in reader.text
        assert render_report(report) == page


def test_text_is_escaped(crawls: ExperimentReport) -> None:
    claims = [Claim("<script>", "&", "<b>", False), Claim("x", "y", "z", True)]
    page = render_report(replace(crawls, claims=claims))
    assert "&lt;script&gt;" in page
    assert "<b>" not in page
    assert "1 of 2 claims hold here." in page


def test_infinite_costs_are_null_in_json(crawls: ExperimentReport) -> None:
    content: Any = json.loads(to_json(crawls))
    costs = {(one["policy"], one["signals"]): one["harmonic"] for one in content["experiment_1"]}
    assert costs["binary, floor 0", False] is None
    assert costs["uniform", False] > 0.0
    assert {claim["statement"] for claim in content["claims"]} == {claim.statement for claim in crawls.claims}


def test_the_terminal_shows_every_table(crawls: ExperimentReport, capsys: pytest.CaptureFixture[str]) -> None:
    print_report(crawls)
    shown = capsys.readouterr().out
    for section in crawls.sections:
        assert section.title in shown
    for claim in crawls.claims:
        assert claim.statement in shown


def test_bands_are_the_intervals_of_each_point(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(Axes, "fill_between", lambda *given, **_: drawn.extend(given[1:4]))
    runs = np.array([[1.0, 5.0], [2.0, 5.5], [3.0, 9.0]])
    mean, half_width = band_over_runs(runs)
    for point in range(2):
        estimate = over_seeds(runs[:, point].tolist())
        assert (mean[point], half_width[point]) == pytest.approx((estimate.value, estimate.half_width))
    x = np.array([0.0, 1.0])
    draw_curves("a", "A", Axis("x", "y"), [Curve("one", SOLID, x, mean, half_width), Curve("", SOLID, x, mean)])
    assert [one.tolist() for one in drawn] == [x.tolist(), (mean - half_width).tolist(), (mean + half_width).tolist()]


def test_a_single_run_has_no_band_and_a_curve_without_label_no_legend() -> None:
    mean, half_width = band_over_runs(np.array([[1.0, 2.0]]))
    assert mean.tolist() == [1.0, 2.0]
    assert np.isnan(half_width).all()
    drawn = draw_curves(
        "a", "A", Axis("x", "y"), [Curve("one", SOLID, mean, mean, half_width), Curve("", SOLID, mean, mean)]
    )
    assert "fill-opacity: 0.2" not in drawn
    assert "y by x: one." in drawn


def test_an_infinite_bar_is_longer_than_the_others_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[float] = []
    original = Axes.barh

    def note(axes: Axes, place: float, length: float, **more: Any) -> Any:
        lengths.append(length)
        return original(axes, place, length, **more)

    monkeypatch.setattr(Axes, "barh", note)
    drawn = draw_bars("a", "A", Axis("cost", ""), [Bar("one", 2.0, "sky"), Bar("two", np.inf, "sky")])
    assert lengths[0] == 2.0
    assert np.isfinite(lengths[1])
    assert lengths[1] > 2.0
    assert ">infinite<" in drawn
