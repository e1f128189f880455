"""The table and the progress bar, as a terminal shows them."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from streamsched.cli.progress import show_progress
from streamsched.replay import ReplayResult, ReplaySettings, print_report, report_replay, run_replay
from streamsched.replay.reporting.replay_tables import policy_table
from streamsched.replay.reporting.terminal import to_rich
from tests.support.paths import LOGS

LOG = LOGS / "openwrt.tsv.gz"
START_S = 1_755_820_800.0
FORMULA = "(1 - exp(-rate * t)) * importance"


@pytest.fixture(scope="module")
def result() -> ReplayResult:
    policies = ("posterior", "nad", FORMULA)
    return run_replay(ReplaySettings(str(LOG), policies=policies, start_s=START_S, end_s=START_S + 150 * 86400))


def show(result: ReplayResult, width: int) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(to_rich(policy_table(result), padding=0))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_fits_eighty_columns_with_every_figure_whole(result: ReplayResult) -> None:
    text = show(result, 80)
    assert max(map(len, text.splitlines())) <= 80
    for policy in result.policies[:2]:
        row = next(line for line in text.splitlines() if line.startswith(policy.name))
        for metric, digits in (("change_rate", 3), ("freshness", 3), ("delay_mean", 1)):
            figure = policy.figures[metric]
            assert f"{figure.value:.{digits}f} ±{figure.half_width:.{digits}f}" in row
    assert "…" not in text


def test_rows_come_in_the_order_asked_and_a_formula_is_shown_whole(result: ReplayResult) -> None:
    text = show(result, 160)
    places = [text.index(f"\n{policy.name}") for policy in result.policies]
    assert places == sorted(places)


def test_progress_is_for_terminals_only() -> None:
    quiet = Console(file=io.StringIO())
    with show_progress("Replaying", console=quiet) as progress:
        assert progress is None
    screen = Console(file=io.StringIO(), force_terminal=True, width=80)
    with show_progress("Replaying", console=screen) as progress:
        assert progress is not None
        progress(30, 60, "[odd] name")
    assert isinstance(screen.file, io.StringIO)
    assert "[odd] name" in screen.file.getvalue()
    assert "50%" in screen.file.getvalue()


def test_several_seeds_have_columns_of_their_own_and_a_short_window_says_that_it_has_no_interval() -> None:
    settings = ReplaySettings(
        str(LOG), policies=("rand", "age"), start_s=START_S, end_s=START_S + 20 * 86400, seeds=(0, 1)
    )
    result = run_replay(settings)
    text = show(result, 160)
    row = next(line for line in text.splitlines() if line.startswith("rand"))
    assert row.count("±") == 5
    assert text.count("seeds") >= 5
    assert "no confidence interval" in policy_table(result).caption


def test_differences_and_calibration_follow_the_figures(
    result: ReplayResult, capsys: pytest.CaptureFixture[str]
) -> None:
    print_report(report_replay(result))
    text = capsys.readouterr().out
    assert [text.count(f"\n{name} ") for name in ("posterior", "nad")] == [1, 2]
    assert "Differences from posterior" in text
    assert "Predicted" not in text
    settings = replace(result.settings, policies=("posterior", "age"), calibration=True)
    print_report(report_replay(run_replay(settings)))
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split()[:2] == ["posterior", "all"] for line in lines)
    assert "No calibration for age" in " ".join(lines)
