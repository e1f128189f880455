"""Properties of a subtree's value that hold for all columns of finite, non-negative terminals."""

from __future__ import annotations

from typing import NamedTuple

from streamsched.formula.syntax.nodes import Binary, Constant, Node, Terminal, Unary, fold

__all__ = ["Claims", "claims_of"]


class Claims(NamedTuple):
    """True if it holds of every value; False if unknown."""

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
