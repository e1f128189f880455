"""What the errors say to a person."""

from __future__ import annotations

import pytest

from streamsched import errors
from streamsched.cli.exits import DEFECT, exit_code
from streamsched.errors import (
    DocumentError,
    FetchError,
    FormulaError,
    InvalidOutcome,
    SettingsError,
    SnapshotError,
    SourceError,
    StreamschedError,
    shorten,
)


def test_formula_error_points_at_its_column() -> None:
    assert str(FormulaError("t * Y", 5, "no such name")) == "column 5: no such name\n  t * Y\n      ^"


def test_formula_error_shows_the_neighbourhood_of_its_column_only() -> None:
    lines = str(FormulaError("1+" * 50_000 + "?", 100_001, "found '?'")).splitlines()
    assert [len(line) <= 102 for line in lines] == [True, True, True]
    assert lines[1][lines[2].index("^")] == "?"


def test_formula_error_stays_on_its_lines() -> None:
    assert str(FormulaError("t *\n\x1b[2J?", 9, "found '?'")).splitlines()[1] == "  t *  [2J?"


@pytest.mark.parametrize(
    "error",
    [
        InvalidOutcome(3, "url", "x" * 10_000, "str"),
        SettingsError("k", "y" * 10_000, "1"),
        SnapshotError("z" * 10_000, "cannot be read"),
        SourceError("z" * 10_000, "cannot be read", 7),
        DocumentError("z" * 10_000, "is empty", 7),
        FetchError("z" * 10_000, "time", "takes longer"),
    ],
)
def test_hostile_values_are_cut(error: Exception) -> None:
    assert len(str(error)) < 1_100
    assert "…" in str(error)


def test_no_error_but_a_defect_ends_a_command_as_a_defect() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, StreamschedError)]
    assert [kind for kind in kinds if exit_code(kind.__new__(kind)) == DEFECT] == [StreamschedError]


def test_short_values_are_whole() -> None:
    assert shorten("abc") == "'abc'"
