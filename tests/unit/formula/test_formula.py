"""`Formula` as a value, and evaluation of whole columns."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np
import pytest

import streamsched.formula
from streamsched.formula import BLOCK, TERMINALS, Binary, Constant, Formula, Terminal


def test_public_names() -> None:
    assert set(streamsched.formula.__all__) == {
        *("BLOCK", "MAX_DEPTH", "MAX_LENGTH", "MAX_SIZE", "TERMINALS", "Arena", "Binary", "BinaryOp"),
        *("BoundProgram", "Constant", "Formula", "Node", "Program", "Terminal", "Unary", "UnaryOp"),
    }


def test_terminals_of_the_specification_have_meanings() -> None:
    published = "n X t CG NAD SAD AAD GAD"
    ours = "rate posterior importance cost tau rhythm due surge confidence worth gain signalled significance crawl_rate"
    assert list(TERMINALS) == [*published.split(), *ours.split()]
    assert all(TERMINALS.values())
    assert Formula.parse("+".join(TERMINALS)).terminals == tuple(sorted(TERMINALS))


def test_equality_and_hash_are_by_structure() -> None:
    built = Formula(Binary("*", Terminal("t"), Constant(2)))
    assert built == Formula.parse(" (t)*2.0 ")
    assert {built: 1}[Formula.parse("t * 2e0")] == 1
    assert built != Formula.parse("2 * t")
    assert Formula.parse("X + n + t") != Formula.parse("X + (n + t)")


def test_formulas_are_frozen_and_copy() -> None:
    formula = Formula.parse("X / n")
    with pytest.raises(dataclasses.FrozenInstanceError):
        formula.root = Constant(1)  # type: ignore[misc]
    assert copy.deepcopy(formula) == formula


def test_formulas_tell_their_measure() -> None:
    formula = Formula.parse("t - X * X")
    assert (formula.terminals, formula.size, formula.depth) == (("X", "t"), 5, 3)
    assert repr(formula) == "Formula.parse('t - X * X')"


def test_evaluation_spans_blocks() -> None:
    rows = 2 * BLOCK + 5
    columns = {"X": np.arange(rows, dtype=np.float64), "n": np.full(rows, 4.0)}
    columns["n"][::7] = 0
    expected = np.where(columns["n"] == 0, 0.0, columns["X"] / 4)
    np.testing.assert_array_equal(Formula.parse("X / n").evaluate(columns), expected)


def test_a_number_gives_as_many_as_the_columns_are_long() -> None:
    assert Formula.parse("1").evaluate({"X": np.zeros(3)}).tolist() == [1.0, 1.0, 1.0]
    assert Formula.parse("1").evaluate({"X": np.zeros(0)}).tolist() == []
    with pytest.raises(ValueError, match="expected one length, found no column"):
        Formula.parse("1").evaluate({})


def test_columns_that_do_not_fit_are_refused() -> None:
    formula = Formula.parse("X / n")
    with pytest.raises(KeyError, match="n"):
        formula.evaluate({"X": np.zeros(3)})
    with pytest.raises(ValueError, match=r"expected one length, found \[1, 3\]"):
        formula.evaluate({"X": np.zeros(3), "n": np.zeros(1)})
    whole_numbers: Any = np.zeros(3, np.int64)
    with pytest.raises(ValueError, match=r"n: expected float64\[3\], found int64\[3\]"):
        formula.evaluate({"X": np.zeros(3), "n": whole_numbers})
    assert formula.evaluate({"X": np.zeros(3), "n": np.ones(3), "t": np.zeros(9)}).tolist() == [0.0, 0.0, 0.0]
