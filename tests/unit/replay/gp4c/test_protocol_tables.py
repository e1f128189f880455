"""The paper's tables in a terminal, against figures worked out by hand."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from streamsched.replay.gp4c import ProtocolResult
from streamsched.replay.gp4c.protocol_summary import print_protocol
from streamsched.replay.gp4c.protocol_tables import contest_table, formula_table, method_table, sweep_table
from streamsched.replay.reporting.tables import Table
from streamsched.replay.reporting.terminal import to_rich
from tests.support.gp4c_logs import flat, made_result

SWAY = np.array([-0.01, 0.0, 0.01, 0.005, -0.005])


@pytest.fixture
def result() -> ProtocolResult:
    """GP4C_All wins its first two cycles of three against all that is like NAD, and loses the third."""
    better = np.stack([0.6 + SWAY, 0.55 + SWAY, 0.4 + SWAY], axis=1)
    return made_result(nad=flat(0.5), GP4C_All=better, rand=flat(0.1, 0.2, 0.3, 0.4, 0.5))


def show(table: Table, width: int = 140) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(to_rich(table))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def row(text: str, *starts: str) -> str:
    """The one line whose first words are these."""
    (found,) = (line for line in text.splitlines() if line.split()[: len(starts)] == list(starts))
    return found


def test_table_2_has_means_and_intervals_across_the_folds(result: ProtocolResult) -> None:
    text = show(method_table(result))
    assert row(text, "Rand").split() == ["Rand", "0.300", "±0.196", "0.300", "±0.196"]
    assert row(text, "NAD").split() == ["NAD", "0.500", "±0.000", "0.500", "±0.000"]
    assert row(text, "GP4C_All").split() == ["GP4C_All", "0.517", "±0.010", "0.517", "±0.010"]
    assert [line.split()[0] for line in text.splitlines() if "±0" in line][-2:] == ["GP4C_Basic", "GP4C_All"]


def test_table_3_has_victories_and_losses_with_mean_differences(result: ProtocolResult) -> None:
    text = show(contest_table(result))
    won = row(text, "GP4C_All", "NDCG", "NAD")
    assert " ".join(won.split()[3:]) == "2 (+15.0 %) 1 (-20.0 %) +3.3 % (+1.4 to +5.3)"
    tied = row(text, "GP4C_Basic", "NDCG", "NAD")
    assert " ".join(tied.split()[3:]) == "0 0 +0.0 % (+0.0 to +0.0)"
    assert "Rand" not in text  # as in the paper


def test_table_4_has_a_formula_a_fold_whole(result: ProtocolResult) -> None:
    text = show(formula_table(result))
    assert " ".join(row(text, "GP4C_All", "ChangeRate", "1").split()[2:]) == "1 0.500 0.400 0.300 t * X + 0"
    assert "t * X + 4 < &" in text
    long = "t * " * 60 + "X"
    choices = {
        how: tuple(replace(one, formula=long) for one in ones) for how, ones in result.evolved[0].choices.items()
    }
    table = formula_table(replace(result, evolved=(replace(result.evolved[0], choices=choices),)))
    assert "".join(show(table, 80).split()).count("t*") == 5 * 60
    assert "…" not in show(table, 80)


def test_figure_5_is_told_in_numbers(result: ProtocolResult) -> None:
    text = show(sweep_table(result))
    assert "1 %" in text
    assert "5 %" in text
    assert row(text, "GP4C_All", "NDCG", "ChangeRate").count("0.250 ±0.000") == 5


def test_all_is_printed_whole_where_there_is_no_terminal(
    result: ProtocolResult, capsys: pytest.CaptureFixture[str]
) -> None:
    print_protocol(result)
    out = capsys.readouterr().out
    assert [out.index(head) for head in ("Table 2.", "Table 3.", "Table 4.", "Figure 5.")] == sorted(
        out.index(head) for head in ("Table 2.", "Table 3.", "Table 4.", "Figure 5.")
    )
    assert " ".join(row(out, "GP4C_All", "NAD", "NDCG").split()[3:]) == "+3.3 % (+1.4 to +5.3) better +1.8 % confirmed"
    assert all(line == line.rstrip() for line in out.splitlines())
    assert "…" not in out
    assert "Of 3 cycles" in out
