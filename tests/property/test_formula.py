"""Formulas against their slow twin: printing and parsing are inverse, programs compute what a walk of the tree does."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamsched.errors import FormulaError
from streamsched.formula import TERMINALS, Binary, BinaryOp, Constant, Formula, Node, Terminal, Unary, UnaryOp
from streamsched.formula.evaluation.protected import apply
from streamsched.formula.evaluation.simplify import claims_of
from streamsched.formula.syntax.parser import tokenize
from streamsched.numerics.arrays import Floats
from tests.reference import estimators
from tests.support.cases import examples

NAMES: tuple[str, ...] = ("X", "n", "t")
UNARY: tuple[UnaryOp, ...] = ("neg", "log", "exp")
BINARY: tuple[BinaryOp, ...] = ("+", "-", "*", "/", "pow")
EXACT: tuple[BinaryOp, ...] = ("+", "-", "*", "/")
HUGE = 1.7976931348623157e308

telling = st.sampled_from([0.0, 1.0, -1.0, 2.0, 0.5, 80.0, -3.0, 1000.0, 5e-324, 1e-300, -1e300, HUGE, -HUGE])
constants = st.builds(Constant, telling | st.floats(allow_nan=False, allow_infinity=False))
leaves: st.SearchStrategy[Node] = st.builds(Terminal, st.sampled_from(NAMES)) | constants


def trees(unary: tuple[UnaryOp, ...] = UNARY, binary: tuple[BinaryOp, ...] = BINARY) -> st.SearchStrategy[Node]:
    """Trees of up to some fifty nodes, equal subtrees often among them."""

    def grow(below: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        signed = st.builds(Unary, st.sampled_from(unary), below)
        joined = st.builds(Binary, st.sampled_from(binary), below, below)
        twins = st.builds(lambda op, node: Binary(op, node, node), st.sampled_from(binary), below)
        return signed | joined | twins

    return st.recursive(leaves, grow, max_leaves=12)


anything = st.sampled_from([0.0, -0.0, 1.0, -1.0, 80.0, -81.0, math.inf, -math.inf, math.nan, HUGE]) | st.floats()
held = st.sampled_from([0.0, 1.0, 2.0, 5e-324, 1e-200, 1e200, HUGE]) | st.floats(0, allow_infinity=False)


@st.composite
def tables(draw: st.DrawFn, values: st.SearchStrategy[float], most: int = 12) -> dict[str, Floats]:
    rows = draw(st.lists(st.tuples(*[values] * len(NAMES)), min_size=1, max_size=most))
    return {name: np.array(column) for name, column in zip(NAMES, zip(*rows, strict=True), strict=True)}


def same(found: Floats, expected: Floats) -> bool:
    """True where all values are equal, NaN where NaN; 0 and -0 are equal."""
    return bool(np.array_equal(found, expected, equal_nan=True))


def near(found: float, expected: float) -> bool:
    if not math.isfinite(expected):
        return found == expected or (math.isnan(found) and math.isnan(expected))
    return math.isclose(found, expected, rel_tol=1e-12, abs_tol=1e-300)


@examples(ordinary=75, whole=250)
@given(trees())
@example(Unary("neg", Constant(3)))
@example(Unary("neg", Constant(-3)))
@example(Unary("neg", Unary("neg", Constant(0))))
@example(Binary("-", Terminal("X"), Binary("-", Constant(-0.0), Constant(-5e-324))))
@example(Binary("/", Unary("neg", Binary("/", Terminal("X"), Terminal("n"))), Constant(1e22)))
def test_parsing_inverts_printing(tree: Node) -> None:
    formula = Formula(tree)
    parsed = Formula.parse(str(formula))
    assert parsed.root == tree
    assert parsed == formula
    assert hash(parsed) == hash(formula)
    assert str(parsed) == str(formula)


@examples(ordinary=22, whole=75)
@given(trees(), trees())
def test_formulas_are_equal_where_their_trees_are(left: Node, right: Node) -> None:
    assert (Formula(left) == Formula(right)) == (left == right)


@examples(ordinary=22, whole=75)
@given(trees(), st.data())
def test_no_bracket_can_go(tree: Node, data: st.DataObject) -> None:
    """Without any one pair of brackets that is not a function's, the text means another tree or none."""
    text = str(Formula(tree))
    opened = [i for i, letter in enumerate(text) if letter == "(" and (i == 0 or not text[i - 1].isalpha())]
    if not opened:
        return
    start = data.draw(st.sampled_from(opened))
    depth, stop = 1, start
    while depth:
        stop += 1
        depth += (text[stop] == "(") - (text[stop] == ")")
    bare = text[:start] + text[start + 1 : stop] + text[stop + 1 :]
    assert Formula.parse(bare).root != tree


@examples(ordinary=38, whole=125)
@given(st.sampled_from([*UNARY, *BINARY]), st.lists(st.tuples(anything, anything), min_size=1, max_size=40))
@example("pow", [(math.nan, 0.0), (1.0, math.nan), (-1.0, math.nan), (0.0, math.nan), (-math.inf, 3.0)])
@example("/", [(math.nan, 0.0), (math.inf, 0.0), (0.0, -0.0), (1.0, math.nan)])
def test_operations_are_the_protected_ones(op: UnaryOp | BinaryOp, rows: list[tuple[float, float]]) -> None:
    x, t = Terminal("X"), Terminal("t")
    tree = Unary(op, x) if op == "neg" or op == "log" or op == "exp" else Binary(op, x, t)  # noqa: PLR1714 - narrows
    columns = {name: np.array(values) for name, values in zip("Xt", zip(*rows, strict=True), strict=True)}
    for found, row in zip(Formula(tree).evaluate(columns).tolist(), rows, strict=True):
        operands = row[:1] if isinstance(tree, Unary) else row
        assert near(found, estimators.protected(op, *operands))
        assert near(found, apply(op, *operands))


@examples(ordinary=22, whole=75)
@given(trees(("neg",), EXACT), tables(anything))
def test_programs_of_exact_operations_equal_the_walk(tree: Node, columns: dict[str, Floats]) -> None:
    rows = [dict(zip(NAMES, row, strict=True)) for row in zip(*(columns[name].tolist() for name in NAMES), strict=True)]
    assert same(Formula(tree).evaluate(columns), np.array([estimators.formula_value(tree, row) for row in rows]))


@examples(ordinary=22, whole=75)
@given(trees(), tables(anything))
def test_programs_compute_each_node_from_its_children(tree: Node, columns: dict[str, Floats]) -> None:
    """Node by node, since one last bit of a logarithm may decide everything above it."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, Constant | Terminal):
            continue
        children = [node.operand] if isinstance(node, Unary) else [node.left, node.right]
        pending += children
        operands = [Formula(child).evaluate(columns).tolist() for child in children]
        values = Formula(node).evaluate(columns).tolist()
        for found, *row in zip(values, *operands, strict=True):
            assert near(found, estimators.protected(node.op, *row))


@examples(ordinary=22, whole=75)
@given(trees(), tables(anything, most=100), st.lists(st.integers(1, 40), max_size=8))
def test_any_split_into_blocks_gives_the_same_bits(tree: Node, columns: dict[str, Floats], lengths: list[int]) -> None:
    formula = Formula(tree)
    program = formula.compile()
    whole = formula.evaluate(columns)
    before = {name: column.tobytes() for name, column in columns.items()}
    out = np.full(whole.size, 7.0)
    arena = program.arena(max(whole.size, *lengths, 1))
    start = 0
    for length in [*lengths, whole.size]:
        rows = slice(start, min(start + length, whole.size))
        program.run({name: column[rows] for name, column in columns.items()}, out[rows], arena)
        start = rows.stop
    assert same(out, whole)
    assert np.signbit(out[out == 0]).tolist() == np.signbit(whole[whole == 0]).tolist()
    assert {name: column.tobytes() for name, column in columns.items()} == before


@examples(ordinary=75, whole=250)
@given(trees(), tables(held))
def test_simplified_formulas_have_the_same_values(tree: Node, columns: dict[str, Floats]) -> None:
    formula = Formula(tree)
    simple = formula.simplify()
    assert same(simple.evaluate(columns), formula.evaluate(columns))
    assert simple.size <= formula.size
    assert simple.depth <= formula.depth
    assert simple.simplify() == simple


@examples(ordinary=38, whole=125)
@given(trees(), tables(held))
def test_claims_hold(tree: Node, columns: dict[str, Floats]) -> None:
    claims = claims_of(tree)
    values = Formula(tree).evaluate(columns)
    assert not claims.finite or np.isfinite(values).all()
    assert not claims.defined or not np.isnan(values).any()
    assert not claims.nonnegative or not (values < 0).any()


pieces = st.sampled_from(
    [*TERMINALS, *"+-*/(),. ", "log(", "exp(", "pow(", "1", "0.5", "1e3", "e", "1e999", "\n", "²", "\u2212"]
)


@examples(ordinary=75, whole=250)
@given(st.text(max_size=40) | st.lists(pieces, max_size=15).map("".join))
def test_any_text_parses_or_says_where_it_does_not(text: str) -> None:
    parsed = parse_or_refuse(text)
    if isinstance(parsed, Formula):
        assert Formula.parse(str(parsed)) == parsed
        return
    assert parsed.text == text
    assert 1 <= parsed.column <= len(text) + 1
    assert "found " in parsed.reason
    assert "expected " in parsed.reason or "did you mean " in parsed.reason
    assert str(parsed)


def parse_or_refuse(text: str) -> Formula | FormulaError:
    try:
        return Formula.parse(text)
    except FormulaError as error:
        return error


@examples(ordinary=30, whole=100)
@given(trees(), st.data())
def test_a_foreign_character_is_reported_where_it_stands(tree: Node, data: st.DataObject) -> None:
    text = str(Formula(tree))
    at = data.draw(st.sampled_from([token.column for token in tokenize(text)])) - 1
    with pytest.raises(FormulaError) as caught:
        Formula.parse(f"{text[:at]}?{text[at:]}")
    assert caught.value.column == at + 1
