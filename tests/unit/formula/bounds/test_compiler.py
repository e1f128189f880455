"""Bounds of formulas: every operation by hand, what is computed at all, slots, refusals, and how bounds converge."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TypeAlias

import numpy as np
import pytest

from streamsched.formula import BoundProgram, Formula
from streamsched.formula.bounds import interval_machine
from streamsched.formula.evaluation import machine
from streamsched.formula.evaluation.machine import COPY, ROWS
from streamsched.numerics.arrays import Floats

INF, NAN = math.inf, math.nan
SIGNED = {"X": (-INF, INF), "t": (-INF, INF)}
STEPS = {code: op for op, code in machine.OPERATION_CODES.items()} | {
    code: name
    for name, code in vars(interval_machine).items()
    if name.isupper() and isinstance(code, int) and code > COPY
}


def compiled(text: str, moving: Collection[str] = ("t", "posterior")) -> BoundProgram:
    return Formula.parse(text).compile_bound(moving)


Given: TypeAlias = float | tuple[float, float]  # what stands still, or the ends of what moves


def bound(text: str, x: Given, t: Given, *, narrowed: bool = False) -> float:
    """The bound for one row; terminals may have any sign, unless their ends are given."""
    ends: dict[str, tuple[float, float]] = {
        "X": x if isinstance(x, tuple) else (x, x),
        "t": t if isinstance(t, tuple) else (t, t),
    }
    moving = [name for name, given in (("X", x), ("t", t)) if isinstance(given, tuple)]
    program = Formula.parse(text).compile_bound(moving, ends if narrowed else SIGNED)
    lows, highs = ({name: np.array([float(pair[end])]) for name, pair in ends.items()} for end in (0, 1))
    return float(program.run(lows, highs, 1)[0])


@pytest.mark.parametrize("narrowed", [False, True])
@pytest.mark.parametrize(
    ("text", "x", "t", "expected"),
    [
        ("-X", (-2, 3), 0, (-3, 2)),
        ("X + t", (-2, 3), (10, 20), (8, 23)),
        ("X + t", (-INF, 3), (0, INF), (-INF, INF)),
        ("X + t", (1, INF), -INF, (-INF, -INF)),
        ("X + t", (-INF, 1), INF, (INF, INF)),
        ("X - t", (-2, 3), (10, 20), (-22, -7)),
        ("X - t", (1, INF), INF, (-INF, -INF)),
        ("X - t", INF, (1, INF), (INF, INF)),
        ("X - t", -INF, (-INF, 1), (-INF, -INF)),
        ("X - X", (1, 3), 0, (-2, 2)),
        ("X * t", (2, 3), (5, 7), (10, 21)),
        ("X * t", (-2, 3), (-5, 7), (-15, 21)),
        ("X * t", (-3, -2), (-5, 7), (-21, 15)),
        ("X * t", (-3, -2), (-7, -5), (10, 21)),
        ("X * t", (-3, 2), -5, (-10, 15)),
        ("X * t", (-3, 2), INF, (-INF, INF)),
        ("X * t", (0, 2), INF, (0, INF)),
        ("X * t", 0, (1, INF), (0, 0)),
        ("X * t", 0, (-INF, INF), (0, 0)),
        ("X * t", (0, 0), (-INF, INF), (0, 0)),
        ("X * t", (1, 2), (-INF, 0), (-INF, 0)),
        ("X / t", (6, 12), (2, 3), (2, 6)),
        ("X / t", (-6, 12), (2, 3), (-3, 6)),
        ("X / t", (-6, 12), (-3, -2), (-6, 3)),
        ("X / t", (-12, -6), (2, 3), (-6, -2)),
        ("X / t", (-12, -6), (-3, -2), (2, 6)),
        ("X / t", (-6, 12), -2, (-6, 3)),
        ("X / t", (-6, 12), 0, (0, 0)),
        ("X / t", 6, (0, 0), (0, 0)),
        ("X / t", 6, (0, 2), (0, INF)),
        ("X / t", 6, (-2, 0), (-INF, 0)),
        ("X / t", 6, (-2, 2), (-INF, INF)),
        ("X / t", 0, (-2, 2), (0, 0)),
        ("X / t", (-6, 0), (0, 2), (-INF, 0)),
        ("X / t", (-6, 0), (-2, -0.0), (0, INF)),
        ("X / t", (1, INF), INF, (0, 0)),
        ("X / t", (1, INF), (2, INF), (0, INF)),
        ("log(X)", (-2, -1), 0, (0, 0)),
        ("log(X)", (-2, 0), 0, (0, 0)),
        ("log(X)", (-2, 0.5), 0, (-745, 0)),
        ("log(X)", (0, math.e), 0, (-745, 1)),
        ("log(X)", (math.exp(-2), math.exp(-1)), 0, (-2, -1)),
        ("log(X)", (1, INF), 0, (0, INF)),
        ("exp(X)", (-1, 2), 0, (math.exp(-1), math.exp(2))),
        ("exp(X)", (-INF, INF), 0, (math.exp(-80), math.exp(80))),
        ("pow(X, t)", (2, 3), 2, (4, 9)),
        ("pow(X, t)", (2, 4), -0.5, (0.5, math.sqrt(0.5))),
        ("pow(X, t)", 2, (-1, 3), (0.5, 8)),
        ("pow(X, t)", 0.5, (-1, 3), (0.125, 2)),
        ("pow(X, t)", (0.5, 4), (-1, 2), (0.25, 16)),
        ("pow(X, t)", (0.125, 4), (-1, 1), (0.125, 8)),
        ("pow(X, t)", (-3, -2), 2, (0, 0)),
        ("pow(X, t)", (-3, 2), 2, (0, 4)),
        ("pow(X, t)", (-3, 2), 0, (0, 1)),
        ("pow(X, t)", (-3, 0), 0, (0, 1)),
        ("pow(X, t)", (0, 2), 0, (1, 1)),
        ("pow(X, t)", 0, (0, 2), (0, 1)),
        ("pow(X, t)", (0, 0), (-1, 2), (0, 1)),
        ("pow(X, t)", (0, 0), (0, 0), (1, 1)),
        ("pow(X, t)", (0, 2), -1, (0, INF)),
        ("pow(X, t)", (2, INF), -1, (0, 0.5)),
        ("pow(X, t)", (2, INF), (-1, 0), (0, 1)),
        ("pow(X, t)", (0.5, INF), (-INF, INF), (0, INF)),
        ("pow(X, t)", 2, (-INF, INF), (2.0**-80, 2.0**80)),
    ],
)
def test_ends_by_hand(text: str, x: Given, t: Given, expected: tuple[float, float], narrowed: bool) -> None:
    found = -bound(f"-({text})", x, t, narrowed=narrowed), bound(text, x, t, narrowed=narrowed)
    assert found == pytest.approx(expected, rel=1e-14, abs=1e-321)


@pytest.mark.parametrize("text", ["X + t", "X - t", "X * t", "X / t", "log(X)", "exp(X)", "pow(X, t)", "pow(t, X)"])
@pytest.mark.parametrize("t", [NAN, (0.0, 1.0)])
def test_what_is_never_a_number_has_any_bound(text: str, t: Given) -> None:
    """NaN here as well, and nothing else goes wrong."""
    assert not bound(f"0 * t * ({text})", (NAN, NAN), t) > 0.0


@pytest.mark.parametrize(
    ("text", "lows", "highs", "steps"),
    [
        ("posterior", (), ("posterior",), []),
        ("t * X", ("X",), ("t",), ["*"]),
        ("rate * t", ("rate",), ("t",), ["*"]),
        ("posterior + 0.01 * t", (), ("posterior", "t"), ["*", "+"]),
        ("(1 - (1 + rate*t) / exp(rate*t)) / rate", ("rate", "t"), ("t",), ["*", "*", "+", "EXP_HIGH", "/", "-", "/"]),
        ("X / n - log(n)", ("X", "n"), (), ["/", "log", "-"]),
        ("X - t", ("X", "t"), (), ["-"]),
        ("X / (t + 1)", ("X", "t"), (), ["+", "/"]),
        ("-(-t)", (), ("t",), ["neg", "neg"]),
        ("log(1 + t)", (), ("t",), ["+", "LOG_HIGH"]),
        ("log(t)", ("t",), ("t",), ["LOG_HIGH"]),
        ("X / t", ("X", "t"), ("t",), ["QUOTIENT_HIGH"]),
        ("t / X", ("X",), ("t",), ["/"]),
        ("-X * t", ("X", "t"), (), ["neg", "*"]),
        ("(X - n) * t", ("X", "n", "t"), ("t",), ["-", "PRODUCT_OF_2_HIGH"]),
        ("(X - t) * (n - t)", ("X", "n", "t"), ("t",), ["-", "-", "-", "-", "PRODUCT_OF_4_HIGH"]),
        ("X * n * t", ("X", "n"), ("t",), ["*", "PRODUCT"]),
        ("(X * n + t) / exp(t)", ("X", "n", "t"), ("t",), ["*", "+", "EXP_LOW", "/"]),
        ("X * n + t - X * n", ("X", "n"), ("t",), ["*", "+", "DIFFERENCE_HIGH"]),
        ("pow(t, 2)", (), ("t",), ["POWER_HIGH"]),
        ("pow(1 + t, X - n)", ("X", "n", "t"), ("t",), ["-", "+", "+", "POWER_HIGH"]),
        ("pow(2, -t)", ("t",), (), ["neg", "POWER_HIGH"]),
        ("pow(t, X - t)", ("X", "t"), ("t",), ["-", "-", "POWER_OF_2_HIGH"]),
    ],
)
def test_only_ends_that_count_are_computed(
    text: str, lows: tuple[str, ...], highs: tuple[str, ...], steps: list[str]
) -> None:
    program = compiled(text)
    assert (program.lows, program.highs) == (lows, highs)
    assert sorted(STEPS[int(step[0])] for step in program.steps) == sorted(steps)


def test_steps_are_what_other_kernels_may_run() -> None:
    """Slots in order: terminals as low as they get, others as high, constants, registers."""
    program = compiled("(X - t) * exp(2 * t)")
    assert (program.lows, program.highs, program.constants) == (("X", "t"), ("t",), (2.0,))
    assert program.steps.dtype == np.int32
    assert program.steps.shape[1] == 2 + interval_machine.OPERANDS
    assert set(program.steps[:, 1]) <= set(range(4, program.slots))
    assert program.make_slots(5)[3].tolist() == [2.0] * len(program.make_slots(5)[3])
    assert program.result == program.steps[-1, 1]


def test_results_of_intervals_lie_apart_from_their_operands() -> None:
    for text in ("(X - t) * (n - t) * (t - rate) / (t - X)", "log(t) * log(n - t) - pow(t, X - t) / exp(log(t) * t)"):
        for operation, result, *operands in compiled(text).steps.tolist():
            assert operation <= COPY or result not in operands


def columns(rows: int, *names: str) -> tuple[dict[str, Floats], dict[str, Floats]]:
    random = np.random.default_rng(1)
    lows = {name: random.lognormal(0, 2, rows) for name in names}
    return lows, {name: low + random.lognormal(-2, 2, rows) for name, low in lows.items()}


@pytest.mark.parametrize("rows", [0, 1, 7, 64, ROWS - 1, ROWS + 1, 3 * ROWS + 5])
@pytest.mark.parametrize(
    "text",
    [
        "(X - t) * (n - t) / (t - rate)",
        "log(t - X) * exp(t - n) * X",
        "pow(t, X - t) - pow(t - X, 2) + pow(2, t - X)",
        "X * n * t - X * n * t",
        "-(X * n * t / (X * t) + pow(X - t, t) * (n - t))",
    ],
)
def test_a_lane_has_the_same_bound_in_any_number_of_rows(text: str, rows: int) -> None:
    program = compiled(text)
    lows, highs = columns(4 * ROWS, "X", "n", "rate", "t")
    whole = program.run(lows, highs, 4 * ROWS)
    some = program.run(
        {name: low[:rows] for name, low in lows.items()}, {name: high[:rows] for name, high in highs.items()}, rows
    )
    assert some.tobytes() == whole[:rows].tobytes()
    assert np.isfinite(whole).any()


@pytest.mark.parametrize(
    "text",
    [
        "(1 - (1 + rate*t) / exp(rate*t)) / rate",
        "t - t",
        "log(X + t) * (n - t)",
        "pow(X + t, n - t)",
        "pow(t, 0.5) / (1 + posterior)",
        "exp(posterior) - exp(t) * exp(-t)",
    ],
)
def test_bounds_converge_as_intervals_shrink(text: str) -> None:
    """Linearly, down to some 1e-15 of what is added up."""
    formula, program = Formula.parse(text), compiled(text)
    lows, _ = columns(200, "X", "n", "rate", "t", "posterior")
    lows = {name: np.clip(low, 0.1, 5.0) for name, low in lows.items()}
    values = formula.evaluate(lows)
    slack = 1e-12 * (1.0 + np.abs(values))
    gaps = []
    for width in (1e-2, 1e-4, 1e-6, 1e-8, 0.0):
        gap = program.run(lows, {name: low + width for name, low in lows.items()}, 200) - values
        assert (gap >= 0).all()
        gaps.append((gap, width))
    steepest = gaps[0][0] / gaps[0][1]
    for gap, width in gaps:
        assert (gap <= 1.5 * steepest * width + slack).all()


def test_ranges_tell_signs() -> None:
    formula = Formula.parse("(1 - posterior) * t")
    for ranges, product in (({"posterior": (0.0, 1.0)}, "*"), (None, "PRODUCT_OF_2_HIGH")):
        program = formula.compile_bound({"posterior", "t"}, ranges)
        assert [STEPS[int(step[0])] for step in program.steps] == ["-", product]


def test_no_terminal_needs_a_column() -> None:
    assert compiled("1 + 2").run({}, {}, 3).tolist() == [3.0, 3.0, 3.0]


def test_columns_that_do_not_fit_are_refused() -> None:
    program = compiled("t * X")
    with pytest.raises(KeyError, match="t"):
        program.run({"X": np.ones(2)}, {}, 2)
    with pytest.raises(ValueError, match=r"columns: expected 2 rows, found \[3\]"):
        program.run({"X": np.ones(2)}, {"t": np.ones(3)}, 2)
