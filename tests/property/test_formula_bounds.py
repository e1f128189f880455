"""Bounds of formulas: no value in an interval exceeds them, at a point they are the value, twins find the same."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from streamsched.formula import Binary, BinaryOp, Constant, Formula, Node, Terminal, Unary, UnaryOp
from streamsched.formula.bounds.compiler import compile_bound
from streamsched.numerics.arrays import Floats
from tests.property.test_formula import BINARY, EXACT, HUGE, NAMES, UNARY, held, tables, trees
from tests.reference import estimators
from tests.support.cases import examples

Columns = Mapping[str, Floats]
Ranges = dict[str, tuple[float, float]]

X, T = Terminal("X"), Terminal("t")
ANYWHERE: Ranges = dict.fromkeys(NAMES, (-math.inf, math.inf))

numbers = st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0, -3.0, 80.0, 1e-300, 5e-324, -5e-324, HUGE, -HUGE, 1.0 - 2e-16])
signed = numbers | st.floats(-100, 100) | st.floats(allow_nan=False) | st.sampled_from([math.inf, -math.inf])
movers = st.sets(st.sampled_from(NAMES))


def row(x: float, n: float, t: float) -> dict[str, Floats]:
    return {"X": np.array([x]), "n": np.array([n]), "t": np.array([t])}


def intervals(one: Columns, other: Columns, moving: set[str]) -> tuple[Columns, Columns]:
    """The lower and the higher ends of intervals; equal for what stands still."""
    rows = min(column.size for column in [*one.values(), *other.values()])
    ends = {name: np.sort([one[name][:rows], other[name][:rows]], axis=0) for name in one}
    lows = {name: low for name, (low, _) in ends.items()}
    return lows, {name: high if name in moving else lows[name] for name, (_, high) in ends.items()}


def places(lows: Columns, highs: Columns, name: str, way: int) -> list[Floats]:
    """Where a terminal is in its intervals, at nine times: ends, by shares from both, and the middle by size."""
    low, high = lows[name], highs[name]
    with np.errstate(invalid="ignore", over="ignore"):  # between infinities there is no place: clipped to an end
        found = [low * (1.0 - share) + high * share for share in (1e-12, 0.01, 0.3, 0.5, 0.9)]
        found += [np.sqrt(np.abs(low)) * np.sqrt(np.abs(high)), np.nextafter(high, -math.inf), low, high]
    return [np.clip(np.nan_to_num(place), low, high) for place in found[::way]]


def walk(tree: Node, lows: Columns, highs: Columns) -> Floats:
    """The values of a tree at places in the intervals, float64[places, rows]: terminals go the same way and against."""
    columns = {
        name: np.concatenate(
            [place for against in ("", *NAMES) for place in places(lows, highs, name, -1 if name == against else 1)]
        )
        for name in NAMES
    }
    return Formula(tree).evaluate(columns).reshape(-1, lows["X"].size)


def bound(tree: Node, lows: Columns, highs: Columns, moving: set[str], ranges: Ranges) -> Floats:
    return compile_bound(tree, moving, ranges).run(lows, highs, lows["X"].size)


def narrow(lows: Columns, highs: Columns) -> Ranges:
    """The ranges that columns of these bounds can have."""
    return {name: (float(lows[name].min()), float(highs[name].max())) for name in NAMES}


def exceed(values: Floats, bounds: Floats) -> bool:
    """True where a value is more than its bound; more than a bound of NaN is any."""
    return bool((~np.isnan(values) & ~(values <= bounds)).any())


@examples(ordinary=60, whole=200)
@given(trees(), tables(held), tables(held), movers, st.booleans())
@example(Binary("/", X, Binary("-", T, Constant(1))), row(1, 1, 0.5), row(1, 1, 2), {"t"}, False)
@example(Binary("*", Unary("log", T), Unary("log", T)), row(1, 1, 0), row(1, 1, 2), {"t"}, False)
@example(Binary("*", Binary("*", X, X), T), row(1e200, 1, 0), row(1e200, 1, 2), {"t"}, False)
def test_no_value_exceeds_the_bound(tree: Node, one: Columns, other: Columns, moving: set[str], known: bool) -> None:
    lows, highs = intervals(one, other, moving)
    bounds = bound(tree, lows, highs, moving, narrow(lows, highs) if known else {})
    assert not exceed(walk(tree, lows, highs), bounds)


def operation(op: UnaryOp | BinaryOp) -> Node:
    return Unary(op, X) if op == "neg" or op == "log" or op == "exp" else Binary(op, X, T)  # noqa: PLR1714 - narrows


operations = st.sampled_from([operation(op) for op in (*UNARY, *BINARY)])
some_movers = st.sets(st.sampled_from(["X", "t"]), min_size=1)


@examples(ordinary=45, whole=150)
@given(operations, tables(signed), tables(signed), some_movers, st.booleans())
def test_both_ends_of_each_operation(tree: Node, one: Columns, other: Columns, moving: set[str], known: bool) -> None:
    """Over intervals of any sign, infinite too; the lower end is minus the upper end of the negated formula."""
    lows, highs = intervals(one, other, moving)
    ranges = narrow(lows, highs) if known else ANYWHERE
    values = walk(tree, lows, highs)
    assert not exceed(values, bound(tree, lows, highs, moving, ranges))
    assert not exceed(-values, bound(Unary("neg", tree), lows, highs, moving, ranges))


@examples(ordinary=45, whole=150)
@given(operations, tables(signed), tables(signed), some_movers, st.booleans())
def test_ends_are_no_wider_than_those_of_corners(
    tree: Node, one: Columns, other: Columns, moving: set[str], known: bool
) -> None:
    """But for quotients by what comes near 0, whose ends are infinite; of finite intervals."""
    lows, highs = intervals(one, other, moving)
    ranges = narrow(lows, highs) if known else ANYWHERE
    high = bound(tree, lows, highs, moving, ranges).tolist()
    low = (-bound(Unary("neg", tree), lows, highs, moving, ranges)).tolist()
    for place, found in enumerate(zip(low, high, strict=True)):
        box = {name: (float(lows[name][place]), float(highs[name][place])) for name in NAMES}
        if not all(math.isfinite(end) for ends in box.values() for end in ends):
            continue
        near_zero = isinstance(tree, Binary) and tree.op == "/" and box["t"][0] <= 0.0 <= box["t"][1]
        for end, expected in zip(found, estimators.formula_interval(tree, box), strict=True):
            assert near(end, expected) or (near_zero and math.isinf(end) and math.copysign(1.0, end * expected) > 0)


def near(found: float, expected: float) -> bool:
    if expected <= -744.0:  # the logarithm of the smallest number, of which the bound is a round one
        return math.isclose(found, expected, rel_tol=1e-3)
    return found == expected or math.isclose(found, expected, rel_tol=1e-14, abs_tol=1e-321)


@examples(ordinary=22, whole=75)
@given(trees(("neg",), EXACT), tables(held), movers)
def test_bounds_at_a_point_are_the_value(tree: Node, columns: Columns, moving: set[str]) -> None:
    values = Formula(tree).evaluate(columns)
    bounds = bound(tree, columns, columns, moving, {})
    np.testing.assert_array_equal(bounds[~np.isnan(values)], values[~np.isnan(values)])


@examples(ordinary=22, whole=75)
@given(trees(), tables(held))
def test_bounds_of_what_stands_still_are_its_bits(tree: Node, columns: Columns) -> None:
    assert bound(tree, columns, {}, set(), {}).tobytes() == Formula(tree).evaluate(columns).tobytes()


@examples(ordinary=22, whole=75)
@given(trees(("neg",), EXACT), tables(held), tables(held), movers, st.floats(0, 1), st.floats(0, 1))
def test_intervals_within_have_no_greater_bounds(
    tree: Node, one: Columns, other: Columns, moving: set[str], start: float, stop: float
) -> None:
    """Of exact operations: one last bit of a logarithm may decide everything above it."""
    lows, highs = intervals(one, other, moving)
    inner = [
        {name: np.clip(lows[name] + share * (highs[name] - lows[name]), lows[name], highs[name]) for name in NAMES}
        for share in sorted((start, stop))
    ]
    outer = bound(tree, lows, highs, moving, {})
    some = ~np.isnan(outer)  # else there is no value at all
    assert not exceed(bound(tree, inner[0], inner[1], moving, {})[some], outer[some])
