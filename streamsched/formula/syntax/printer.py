"""Prints a tree as text, with only the brackets that the parser needs."""

from __future__ import annotations

from typing import Final

from streamsched.formula.syntax.nodes import BINDING, NEGATION_BINDING, Binary, Constant, Node, Terminal, Unary, fold

_ATOM: Final = 4  # binds tighter than any operator


def print_tree(root: Node) -> str:
    """Return the text of the tree at `root`; different trees have different texts. O(size * depth) at worst.

    >>> print_tree(Binary("*", Binary("-", Constant(1), Terminal("X")), Unary("neg", Constant(2))))
    '(1 - X) * -(2)'
    """
    return fold(root, _print_node)[0]


def print_number(value: float) -> str:
    """Return the shortest digits that read back as `value`, a finite float.

    >>> print_number(1000.0), print_number(1e-05), print_number(1e+22)
    ('1000', '1e-5', '1e22')
    """
    digits, _, exponent = repr(value).partition("e")
    return f"{digits.removesuffix('.0')}e{int(exponent)}" if exponent else digits.removesuffix(".0")


def _print_node(node: Node, below: tuple[tuple[str, int], ...]) -> tuple[str, int]:
    """Return the text of `node` and how tightly it binds, from those of its children."""
    if isinstance(node, Constant):
        return print_number(node.value), _ATOM
    if isinstance(node, Terminal):
        return node.name, _ATOM
    if isinstance(node, Unary) and node.op == "neg":
        # The parser would take the minus into the number.
        number = isinstance(node.operand, Constant) and node.operand.value >= 0
        return f"-{_bracket(below[0], _ATOM + 1 if number else NEGATION_BINDING)}", NEGATION_BINDING
    if isinstance(node, Binary) and node.op in BINDING:
        binding = BINDING[node.op]
        return f"{_bracket(below[0], binding)} {node.op} {_bracket(below[1], binding + 1)}", binding
    return f"{node.op}({', '.join(text for text, _ in below)})", _ATOM


def _bracket(printed: tuple[str, int], binding: int) -> str:
    text, own = printed
    return text if own >= binding else f"({text})"
