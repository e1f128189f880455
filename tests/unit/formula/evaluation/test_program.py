"""Compiled programs: sharing, buffers, blocks, and what they refuse."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from streamsched.formula import BLOCK, Arena, Formula, Program
from streamsched.formula.evaluation.machine import OPERATION_CODES, ROWS
from streamsched.numerics.arrays import Floats

NAMES = ("X", "n", "t")


def compiled(text: str) -> Program:
    return Formula.parse(text).compile()


def columns_of(rows: int) -> dict[str, Floats]:
    random = np.random.default_rng(1)
    columns = {name: random.lognormal(0, 5, rows) for name in NAMES}
    columns["n"][random.random(rows) < 0.2] = 0
    return columns


def test_a_program_tells_the_columns_it_reads() -> None:
    assert compiled("t * X + t").terminals == ("X", "t")
    assert compiled("1").terminals == ()


@pytest.mark.parametrize(
    ("text", "steps", "registers"),
    [
        ("X", 0, 0),
        ("1 + 2 * 3", 0, 0),
        ("X + n", 1, 1),
        ("log(X) * log(X) + log(X)", 3, 2),
        ("(X + n) * (X + n)", 2, 1),
        ("X + log(2)", 1, 1),
        ("1 - exp(-X / n * t)", 5, 1),
        ("(X + n) * (n + t) - (X - n) * (n - t)", 7, 3),
    ],
)
def test_equal_subtrees_run_once_and_registers_are_reused(text: str, steps: int, registers: int) -> None:
    program = compiled(text)
    assert len(program.steps) == steps
    assert program.registers == registers
    assert program.slots == len(program.terminals) + len(program.constants) + registers


def test_steps_are_what_other_kernels_may_run() -> None:
    """Slots in order: terminals, constants, registers."""
    program = compiled("X / n - 2")
    assert (program.terminals, program.constants) == (("X", "n"), (2.0,))
    assert program.steps.dtype == np.int32
    assert program.steps.tolist() == [[OPERATION_CODES["/"], 0, 1, 3], [OPERATION_CODES["-"], 3, 2, 3]]
    assert program.result == 3


@pytest.mark.parametrize("text", ["7", "X", "-X", "1 - exp(-X/n*t)", "pow(n, X) / log(t)", "pow(X - t, 2) + pow(2, t)"])
@pytest.mark.parametrize("block", [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, ROWS - 1, ROWS + 1, 2 * ROWS])
def test_blocks_of_any_length_give_the_bits_of_the_whole(text: str, block: int) -> None:
    rows_in_all = 2 * ROWS + 100
    columns = columns_of(rows_in_all)
    formula = Formula.parse(text)
    program = formula.compile()
    whole, out, arena = np.empty(rows_in_all), np.empty(rows_in_all), program.arena()
    program.run(columns, whole, program.arena())
    for start in range(0, rows_in_all, block):
        rows = slice(start, start + block)
        program.run({name: column[rows] for name, column in columns.items()}, out[rows], arena)
    assert out.tobytes() == whole.tobytes() == formula.evaluate(columns).tobytes()


def test_one_row_has_the_bits_it_has_among_many() -> None:
    """Rows that fill no vector run on other instructions than the rest."""
    columns = columns_of(2000)
    columns["t"][:500] = 2.0
    program = compiled("pow(X, t) + pow(X + 0, t) + exp(-X) + log(X) + log(X + 0)")
    whole, one = np.empty(2000), np.empty(1)
    program.run(columns, whole, program.arena())
    arena = program.arena()
    for row in range(2000):
        program.run({name: column[row : row + 1] for name, column in columns.items()}, one, arena)
        assert one[0] == whole[row]


def test_strided_and_read_only_columns_serve() -> None:
    columns = columns_of(100)
    records = np.zeros((100, 3))
    for place, name in enumerate(NAMES):
        records[:, place] = columns[name]
    records.flags.writeable = False
    strided = {name: records[:, place] for place, name in enumerate(NAMES)}
    formula = Formula.parse("pow(X, 1.5) - log(n) * exp(-t)")
    np.testing.assert_array_equal(formula.evaluate(strided), formula.evaluate(columns))


def test_output_may_be_strided() -> None:
    columns = columns_of(700)
    table = np.full((700, 2), 7.0)
    program = compiled("X * n")
    program.run(columns, table[:, 1], program.arena())
    np.testing.assert_array_equal(table, np.stack([np.full(700, 7.0), columns["X"] * columns["n"]], axis=1))


def test_columns_may_lie_in_their_slots() -> None:
    program, columns, out = compiled("X / n"), columns_of(20), np.empty(20)
    arena = program.arena(32)
    held = {name: arena.slots[place, :20] for place, name in enumerate(program.terminals)}
    for name, column in held.items():
        column[:] = columns[name]
    program.run(held, out, arena)
    np.testing.assert_array_equal(out, Formula.parse("X / n").evaluate(columns))


def test_columns_are_not_written_to() -> None:
    columns = columns_of(50)
    before = {name: column.copy() for name, column in columns.items()}
    for text in ("-X", "X / n", "log(n)", "exp(t)", "pow(n, X)", "pow(X, -n)", "pow(2, X)", "--X + -(n / t)"):
        Formula.parse(text).evaluate(columns)
    for name, column in columns.items():
        np.testing.assert_array_equal(column, before[name])


def test_an_arena_serves_every_program_that_fits_and_no_other() -> None:
    small, large = compiled("-X + -n"), compiled("(X + n) * (n + t) - (X - n) * (n - t)")
    columns, out = columns_of(10), np.empty(10)
    other = compiled("X * 3 - 4")
    arena = Arena(4, 6)  # fewer rows at a time than there are
    for program in (large, small, other, large):
        program.run(columns, out, arena)
    np.testing.assert_array_equal(out, large_value(columns))
    for program in (other, small, other):  # constants go where others had their registers
        program.run(columns, out, arena)
    np.testing.assert_array_equal(out, columns["X"] * 3 - 4)
    with pytest.raises(ValueError, match="expected at least 6 slots, found 4"):
        large.run(columns, out, small.arena())
    with pytest.raises(ValueError, match="block: expected 1 row or more, found 0"):
        small.arena(0)


def large_value(columns: dict[str, Floats]) -> Floats:
    x, n, t = (columns[name] for name in NAMES)
    result: Floats = (x + n) * (n + t) - (x - n) * (n - t)
    return result


def test_what_does_not_fit_the_output_is_refused() -> None:
    program = compiled("X * n")
    arena = program.arena()
    fitting = np.ones(4)
    with pytest.raises(KeyError, match="n"):
        program.run({"X": fitting}, np.empty(4), arena)
    unfit: list[Any] = [np.ones(3), np.ones(1), np.ones((4, 1)), np.ones(4, np.float32), np.ones(4, np.uint8)]
    for wrong in unfit:
        with pytest.raises(ValueError, match=r"n: expected float64\[4\], found "):
            program.run({"X": fitting, "n": wrong}, np.empty(4), arena)
    with pytest.raises(ValueError, match=r"out: expected float64\[4\], found float32\[4\]"):
        program.run({"X": fitting, "n": fitting}, unfit[3], arena)


def test_numbers_fill_the_output() -> None:
    out = np.zeros(5)
    program = compiled("3 - 2 * log(0)")
    program.run({}, out, program.arena())
    assert out.tolist() == [3.0] * 5


def test_no_rows_are_no_trouble() -> None:
    program = compiled("X / n + pow(X, n)")
    out = np.empty(0)
    program.run({"X": np.empty(0), "n": np.empty(0)}, out, program.arena())
    assert out.size == 0


def test_numbers_that_overflow_keep_their_value() -> None:
    """What folding cannot write as a constant is still what the tree says."""
    columns = {"X": np.array([0.0, 1.0])}
    np.testing.assert_array_equal(Formula.parse("X + 1e308 * 10").evaluate(columns), [np.inf, np.inf])
    np.testing.assert_array_equal(Formula.parse("X * (1e308 * 10)").evaluate(columns), [np.nan, np.inf])
    np.testing.assert_array_equal(Formula.parse("pow(X, 1e308 * 10 * 0)").evaluate(columns), [np.nan, np.nan])


def test_steady_state_allocates_nothing_of_the_blocks_size() -> None:
    program = compiled("1 - pow(n / (n + t), X + 1) + exp(log(X) - t / n)")
    columns, out = columns_of(BLOCK), np.empty(BLOCK)
    arena = program.arena()
    program.run(columns, out, arena)
    tracemalloc.start()
    program.run(columns, out, arena)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < BLOCK  # bytes: an eighth of a column, and less than a mask
