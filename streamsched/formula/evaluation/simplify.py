"""Rewrites a tree to a smaller one with the same value, to the last bit, for all columns that terminals can hold.

Terminals hold finite numbers >= 0. "The same" is IEEE equality, or NaN for both; only the sign of a zero may differ,
which no operation distinguishes. Below c is a constant, x and y any subtree:

- an operation on constants becomes its value by the operation itself, unless that is infinite or NaN;
- x + 0, 0 + x, x - 0, x * 1, 1 * x, x / 1 become x; 0 - x, x * -1, -1 * x, x / -1 become -x;
- --x becomes x; x + -y and x + -c become x - y and x - c; x - -y becomes x + y, x - -c becomes x + c;
  -x + y and -c + y become y - x and y - c; -(x - y) becomes y - x;
- in products and quotients two signs cancel, and a sign moves into a constant factor: -x * c becomes x * -c;
- x - x and 0 * x, x * 0 become 0 if x is always finite; 0 / x and x / 0 if x is never NaN;
- log(-x) becomes 0 if x is never negative or NaN;
- pow(1, x) becomes 1 and pow(c, x) with c < 0 becomes 0 if x is never NaN; pow(x, 0) becomes 1 if x is also never
  negative.

Not rewritten, since values would change: x / x (0 / 0 is 0), exp(log(x)), pow(x, 1) (0 for negative x; not surely x
to the last bit), pow(x, 2), and any regrouping of sums or products.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from streamsched.formula.evaluation.protected import apply
from streamsched.formula.syntax.nodes import Binary, BinaryOp, Constant, Node, Terminal, Unary, UnaryOp, fold

_ZERO: Final = Constant(0.0)
_ONE: Final = Constant(1.0)
_MINUS_ONE: Final = Constant(-1.0)


def simplify_tree(root: Node) -> Node:
    """Return the tree at `root` after all rewriting; never more nodes nor levels. O(size * depth).

    >>> simplify_tree(Binary("+", Unary("neg", Constant(1)), Constant(3)))
    Constant(value=2.0)
    """
    return fold(root, _rebuild)


def find_nan(root: Node) -> Node | None:
    """Return the first part of a tree that has no terminal and whose value is NaN; None if there is none. O(size).

    >>> infinite = Binary("*", Constant(1e308), Constant(10.0))
    >>> find_nan(infinite) is None, find_nan(Binary("-", infinite, infinite)) is None
    (True, False)
    """
    return fold(root, _value_or_nan).nan


class _Value(NamedTuple):
    """The value of a part, None if it has terminals; the first NaN in it."""

    value: float | None
    nan: Node | None


def _value_or_nan(node: Node, below: tuple[_Value, ...]) -> _Value:
    found = next((part.nan for part in below if part.nan is not None), None)
    if isinstance(node, Constant):
        return _Value(node.value, None)
    operands = [part.value for part in below if part.value is not None]
    if found is not None or not below or len(operands) < len(below):
        return _Value(None, found)
    assert isinstance(node, Unary | Binary)
    value = apply(node.op, *operands)
    return _Value(value, node if math.isnan(value) else None)


def _rebuild(node: Node, below: tuple[Node, ...]) -> Node:
    """Return `node` over its simplified children, rewritten until no rule applies."""
    rewritten: Node | None = node
    if isinstance(node, Unary):
        rewritten = Unary(node.op, below[0])
    elif isinstance(node, Binary):
        rewritten = Binary(node.op, *below)
    while rewritten is not None:
        node = rewritten
        rewritten = _rewrite(node)
    return node


def _rewrite(node: Node) -> Node | None:
    """Return `node` after the first rule that applies; its children are simplified already."""
    if isinstance(node, Unary):
        return _fold_constants(node.op, node.operand) or _rewrite_unary(node)
    if isinstance(node, Binary):
        return _fold_constants(node.op, node.left, node.right) or _RULES[node.op](node.left, node.right)
    return None


def _fold_constants(op: UnaryOp | BinaryOp, *operands: Node) -> Node | None:
    values = [operand.value for operand in operands if isinstance(operand, Constant)]
    if len(values) < len(operands):
        return None
    result = apply(op, *values)
    return Constant(result) if math.isfinite(result) else None


def _rewrite_unary(node: Unary) -> Node | None:
    inner = node.operand
    if node.op == "neg" and isinstance(inner, Unary) and inner.op == "neg":
        return inner.operand
    if node.op == "neg" and isinstance(inner, Binary) and inner.op == "-":
        return Binary("-", inner.right, inner.left)
    if node.op == "log" and isinstance(inner, Unary) and inner.op == "neg":
        claims = claims_of(inner.operand)
        return _ZERO if claims.defined and claims.nonnegative else None
    return None


def _rewrite_sum(left: Node, right: Node) -> Node | None:
    if right == _ZERO:
        return left
    if left == _ZERO:
        return right
    if (opposite := _opposite(right)) is not None:
        return Binary("-", left, opposite)
    if (opposite := _opposite(left)) is not None:
        return Binary("-", right, opposite)
    return None


def _rewrite_difference(left: Node, right: Node) -> Node | None:
    if right == _ZERO:
        return left
    if left == _ZERO:
        return Unary("neg", right)
    if (opposite := _opposite(right)) is not None:
        return Binary("+", left, opposite)
    return _ZERO if left == right and claims_of(left).finite else None


def _rewrite_product(left: Node, right: Node) -> Node | None:
    for one, other in ((left, right), (right, left)):
        if one == _ONE:
            return other
        if one == _MINUS_ONE:
            return Unary("neg", other)
        if one == _ZERO and claims_of(other).finite:
            return _ZERO
    return _cancel_signs("*", left, right)


def _rewrite_quotient(left: Node, right: Node) -> Node | None:
    if right == _ONE:
        return left
    if right == _MINUS_ONE:
        return Unary("neg", left)
    if _ZERO in (left, right):
        return _ZERO if claims_of(left).defined and claims_of(right).defined else None
    return _cancel_signs("/", left, right)


def _rewrite_power(base: Node, exponent: Node) -> Node | None:
    if exponent == _ZERO:
        claims = claims_of(base)
        return _ONE if claims.defined and claims.nonnegative else None
    if isinstance(base, Constant) and (base == _ONE or base.value < 0) and claims_of(exponent).defined:
        return _ONE if base == _ONE else _ZERO
    return None


def _cancel_signs(op: BinaryOp, left: Node, right: Node) -> Node | None:
    """Return the product or quotient without the signs of two operands, or with one moved into a constant."""
    first, second = _flip(left), _flip(right)
    if first is None or second is None or (isinstance(left, Constant) and isinstance(right, Constant)):
        return None
    return Binary(op, first, second)


def _flip(node: Node) -> Node | None:
    """Return -`node` if that needs no negation node: for a negation or a constant."""
    if isinstance(node, Constant):
        return Constant(-node.value)
    return node.operand if isinstance(node, Unary) and node.op == "neg" else None


def _opposite(node: Node) -> Node | None:
    """Return y if `node` is -y and y is simpler: for a negation or a constant below 0."""
    return _flip(node) if not isinstance(node, Constant) or node.value < 0 else None


_RULES: Final = {
    "+": _rewrite_sum,
    "-": _rewrite_difference,
    "*": _rewrite_product,
    "/": _rewrite_quotient,
    "pow": _rewrite_power,
}


class Claims(NamedTuple):
    """Properties of a subtree: True if one holds of every value for all columns of terminals; False if unknown."""

    finite: bool  # neither NaN nor infinite
    defined: bool  # not NaN
    nonnegative: bool  # NaN or >= 0


def claims_of(root: Node) -> Claims:
    """Return the properties that hold of every value of the tree at `root`. O(size).

    >>> claims_of(Binary("*", Terminal("X"), Terminal("n")))  # may overflow
    Claims(finite=False, defined=True, nonnegative=True)
    """
    return fold(root, _combine)


def _combine(node: Node, below: tuple[Claims, ...]) -> Claims:
    if isinstance(node, Constant):
        return Claims(finite=True, defined=True, nonnegative=node.value >= 0)
    if isinstance(node, Terminal):
        return Claims(finite=True, defined=True, nonnegative=True)
    if isinstance(node, Unary):
        return _combine_unary(node, below[0])
    return _combine_binary(node, *below)


def _combine_unary(node: Unary, operand: Claims) -> Claims:
    if node.op == "exp":
        return Claims(operand.defined, operand.defined, nonnegative=True)
    return Claims(operand.finite, operand.defined, nonnegative=False)


def _combine_binary(node: Binary, left: Claims, right: Claims) -> Claims:
    """Products, quotients, powers and sums of finite numbers may overflow; infinities may meet and give NaN."""
    nonnegative = left.nonnegative and right.nonnegative
    both_finite = left.finite and right.finite
    defined = left.defined and right.defined
    one_finite = left.finite or right.finite
    if node.op == "pow":
        return Claims(finite=False, defined=defined, nonnegative=True)
    if node.op == "*":
        return Claims(False, both_finite, nonnegative)
    if node.op == "/":
        return Claims(False, defined and one_finite, nonnegative)
    if node.op == "+":
        return Claims(False, defined and (one_finite or nonnegative), nonnegative)
    return Claims(both_finite and nonnegative, defined and one_finite, nonnegative=False)
