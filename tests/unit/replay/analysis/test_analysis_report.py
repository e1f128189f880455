"""The report and the pictures: whole, self-contained, readable by anyone, and silent on what a log cannot show."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from streamsched.connectors import write_sample
from streamsched.errors import ReplayError, SourceError
from streamsched.replay import render_report, to_json
from streamsched.replay.analysis import Analysis, AnalysisSettings, report_analysis, run_analysis
from streamsched.replay.analysis.analysis_figures import FIGURES, draw_pictures, drawings, write_pictures
from streamsched.replay.analysis.analysis_findings import find_limits
from streamsched.replay.analysis.analysis_report import find_all
from streamsched.replay.palette import RAMP
from streamsched.replay.reporting.sentences import Finding, describe
from tests.support.command_line import DAY, write
from tests.support.html_reader import read_html

START = 1_735_689_600  # 2025-01-01, a Wednesday


def make_log(path: Path, grid_s: int = 1, days: int = 90) -> Path:
    """Daily, hourly and random pages of two regions and the rest, their times on a grid."""
    rng = np.random.default_rng(4)
    lines = []
    for page in range(90):
        url = f"https://h.{('jp', 'fr', 'com')[page % 3]}/{page}"
        if page < 20:
            times = np.arange(days) * DAY + page * 3000 + rng.uniform(0, 300, days)
        elif page < 25:
            times = np.arange(days * 24) * 3600 + rng.uniform(0, 60, days * 24) + 100 * page
        else:
            times = np.sort(rng.uniform(0, days * DAY, rng.poisson(3 * (page % 17))))
        epochs = [START, *dict.fromkeys((START + times[times < days * DAY]).astype(int) // grid_s * grid_s)]
        lines += [(epoch, "M" if at else "A", url) for at, epoch in enumerate(epochs)]
    return write(path, [f"{epoch}\t{op}\t{url}" for epoch, op, url in sorted(lines)])


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    return run_analysis(AnalysisSettings(str(make_log(tmp_path_factory.mktemp("logs") / "<script>&.tsv"))))


@pytest.fixture(scope="module")
def page(result: Analysis) -> str:
    return render_report(report_analysis(result))


@pytest.fixture(scope="module")
def coarse(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    return run_analysis(AnalysisSettings(str(make_log(tmp_path_factory.mktemp("logs") / "days.tsv", 86_400))))


def by_code(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.code: finding for finding in findings}


def test_every_figure_has_a_title_a_description_and_its_numbers(page: str) -> None:
    reader = read_html(page)
    assert reader.seen.count("figure") == reader.seen.count("svg") == reader.seen.count("details") == len(FIGURES)
    for name in FIGURES:
        assert f'role="img" aria-labelledby="{name}-title {name}-text"' in page
        assert re.search(
            rf'<title id="{name}-title">[^<]{{10,}}</title><desc id="{name}-text">[^<]{{60,}}</desc>', page
        )
    for numbers in re.findall(r"<details>.*?</details>", page, re.DOTALL):
        assert numbers.count("<tr>") >= 5
        assert '<th scope="col"' in numbers
        assert '<th scope="row"' in numbers
    assert reader.attributes.count(("lang", "en")) == 1


def test_the_ramp_gets_darker_step_by_step() -> None:
    shades = [0.2126 * int(tone[1:3], 16) + 0.7152 * int(tone[3:5], 16) + 0.0722 * int(tone[5:], 16) for tone in RAMP]
    assert all(lighter - darker > 10 for lighter, darker in pairwise(shades))


def test_pictures_are_images_with_something_in_them(result: Analysis, tmp_path: Path) -> None:
    assert draw_pictures(result) == draw_pictures(result)
    files = write_pictures(result, tmp_path / "new" / "pictures")
    assert [file.name for file in files] == [f"{name}.png" for name in FIGURES]
    for file in files:
        image = matplotlib.image.imread(io.BytesIO(file.read_bytes()), format="png")
        assert image.shape[0] > 500
        assert image.shape[1] > 700
        flat = np.rint(255 * image[::2, ::2, :3]).astype(np.int64) @ np.array([1 << 16, 1 << 8, 1])
        colours, counts = np.unique(flat, return_counts=True)
        assert len(colours) > 20
        assert 0.01 < 1 - counts.max() / flat.size < 0.8  # neither blank nor full
        assert colours[counts.argmax()] == 0xFFFFFF


def test_a_place_for_pictures_that_cannot_be_written_is_named(result: Analysis, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SourceError, match=r"file.*cannot be written"):
        write_pictures(result, tmp_path / "file" / "pictures")


def test_what_was_put_into_the_log_is_found(result: Analysis) -> None:
    assert (result.page_types.counts["daily"], result.page_types.counts["hourly"]) == (20, 5)
    assert result.near is not None
    assert result.near.peak[0] > 5 * result.near.peak[1]
    assert {part.region for part in result.week.regions} == {"CJK", "FIGS", "other"} if result.week else False
    found = by_code(find_all(result))
    counts = found["page_types"].values["other_types"]
    assert (counts["hourly"], counts["daily"], counts["weekly"]) == (5, 20, 0)
    assert found["near_interval"].values["share"] == result.near.peak[0]
    assert {"busiest_hour", "time_zone"} <= found.keys()
    assert find_limits(result) == []
    content = json.loads(to_json(report_analysis(result)))
    assert [finding["code"] for finding in content["findings"]] == [finding.code for finding in find_all(result)]
    assert content["limits"] == []


def test_times_of_whole_days_show_no_hours(coarse: Analysis) -> None:
    assert coarse.resolution_s == 86_400.0
    assert list(drawings(coarse)) == ["intervals", "near", "week", "rates"]
    assert coarse.near is not None
    assert coarse.near.near_s >= 7 * DAY
    assert coarse.week_detail == "days"
    limits = by_code(find_limits(coarse))
    assert list(limits)[:3] == ["coarse_times", "near_hidden_by_steps", "no_hours"]
    assert limits["coarse_times"].values == {"resolution_s": DAY}
    assert limits["near_hidden_by_steps"].values["shown_s"] == coarse.near.near_s
    assert limits["untestable_periods"].values == {"periods": ["hourly"]}
    assert json.loads(to_json(report_analysis(coarse)))["limits"][0] == {
        "code": "coarse_times",
        "values": {"resolution_s": DAY},
    }
    html = render_report(report_analysis(coarse))
    read_html(html)
    assert describe(limits["near_hidden_by_steps"]) in html
    assert 'role="note"' in html
    assert "busiest_hour" not in by_code(find_all(coarse))
    asked = run_analysis(replace(coarse.settings, near_s=86_400.0))
    assert json.loads(to_json(report_analysis(asked)))["near"] is None
    assert "near" not in drawings(asked)
    assert "This log cannot show them: see above." in render_report(report_analysis(asked))
    hidden = by_code(find_limits(asked))["near_hidden_by_steps"]
    assert hidden.values["alternative"]["near_s"] == 7 * DAY
    assert "--near 7d" in describe(hidden)


def test_days_are_not_moved_by_a_regions_clock(coarse: Analysis) -> None:
    local = run_analysis(replace(coarse.settings, local=True, zone="UTC"))
    assert (
        json.loads(to_json(report_analysis(local)))["week"]["regions"]
        == json.loads(to_json(report_analysis(coarse)))["week"]["regions"]
    )


def test_a_collection_of_unknown_date_has_no_week(tmp_path: Path) -> None:
    result = run_analysis(AnalysisSettings(str(write_sample(tmp_path, pages=60, days=40))))
    assert "week" not in drawings(result)
    assert "unknown_date" in by_code(find_limits(result))
    assert json.loads(to_json(report_analysis(result)))["week"] is None
    assert not result.exact
    read_html(render_report(report_analysis(result)))


@pytest.mark.parametrize(
    "lines",
    [
        [f"{START}\tA\tpage1", f"{START + 90_000}\tM\tpage1"],  # one page without a host
        [f"{START}\tA\tpage1", f"{START + 90_000}\tA\tpage2"],  # no change at all
        [f"{START}\tA\tpage1", f"{START + 90_000}\tD\tpage1", f"{START + 990_000}\tA\tpage1"],
        [f"{START}\tA\tpage1", *(f"{START + 3600 * hour}\tM\tpage1" for hour in range(1, 40))],
    ],
)
def test_logs_with_hardly_anything_in_them_are_told_as_that(tmp_path: Path, lines: list[str]) -> None:
    result = run_analysis(AnalysisSettings(str(write(tmp_path / "log.tsv", lines))))
    read_html(render_report(report_analysis(result)))
    assert json.loads(to_json(report_analysis(result)))["pages"] == 1
    assert all(describe(finding) for finding in [*find_all(result), *find_limits(result)])
    for picture in draw_pictures(result).values():
        assert picture.startswith(b"\x89PNG")


def test_a_log_in_which_no_page_was_seen_twice_is_refused(tmp_path: Path) -> None:
    log = write(tmp_path / "log.tsv", [f"{START}\tA\tpage1"])
    with pytest.raises(ReplayError, match="no page was visited twice"):
        run_analysis(AnalysisSettings(str(log)))
