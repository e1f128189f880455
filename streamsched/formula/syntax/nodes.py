"""The expression tree: four kinds of immutable nodes, and `fold` to walk them.

Trees are built from nodes directly, ``Binary("/", Terminal("X"), Terminal("n"))``, and become a `Formula` by
``Formula(root)``. Subtrees may be shared. Comparing or hashing bare nodes recurses once per level, as dataclasses do,
which is safe for the 100 levels of a formula; everything else in this package walks by `fold` and does not recurse.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, TypeVar, get_args

UnaryOp: TypeAlias = Literal["neg", "log", "exp"]
BinaryOp: TypeAlias = Literal["+", "-", "*", "/", "pow"]

FUNCTIONS: Final[dict[str, int]] = {"log": 1, "exp": 1, "pow": 2}  # name to number of arguments
BINDING: Final[dict[str, int]] = {"+": 1, "-": 1, "*": 2, "/": 2}  # the larger, the tighter; all group to the left
NEGATION_BINDING: Final = 3

MAX_DEPTH: Final = 100  # levels of a formula's tree: recursion over one stays far from Python's limit of 1000
MAX_SIZE: Final = 4096  # nodes of a formula's tree: four times the full tree of depth 10 that GP4C allows
MAX_NAME: Final = 40  # characters of a terminal's name

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Constant:
    """A finite number; -0.0 becomes 0.0, since no operation of a formula distinguishes them.

    Raises ValueError if `value` is not finite.
    """

    value: float

    def __post_init__(self) -> None:
        value = float(self.value) + 0.0
        if not math.isfinite(value):
            raise ValueError(f"expected a finite constant, found {value}")
        object.__setattr__(self, "value", value)


@dataclass(frozen=True, slots=True)
class Terminal:
    """A column by name: ASCII letters, digits and underscores, not beginning with a digit, not the name of a function.

    Raises ValueError if `name` is anything else or longer than 40 characters.
    """

    name: str

    def __post_init__(self) -> None:
        if len(self.name) > MAX_NAME or not _NAME.fullmatch(self.name) or self.name in FUNCTIONS:
            raise ValueError(f"expected a terminal's name of at most {MAX_NAME} characters, found {self.name[:80]!r}")


@dataclass(frozen=True, slots=True)
class Unary:
    """``-operand``, ``log(operand)`` or ``exp(operand)``; raises ValueError for another `op`."""

    op: UnaryOp
    operand: Node

    def __post_init__(self) -> None:
        if self.op not in get_args(UnaryOp):
            raise ValueError(f"expected one of {', '.join(get_args(UnaryOp))}, found {self.op!r}")


@dataclass(frozen=True, slots=True)
class Binary:
    """``left op right`` or ``pow(left, right)``; raises ValueError for another `op`."""

    op: BinaryOp
    left: Node
    right: Node

    def __post_init__(self) -> None:
        if self.op not in get_args(BinaryOp):
            raise ValueError(f"expected one of {' '.join(get_args(BinaryOp))}, found {self.op!r}")


Node: TypeAlias = Constant | Terminal | Unary | Binary


def fold(root: Node, combine: Callable[[Node, tuple[Result, ...]], Result]) -> Result:
    """Return `combine` of `root` and of the results of its children, computed likewise, without recursion. O(size).

    >>> fold(Unary("log", Binary("+", Terminal("X"), Constant(1))), lambda node, below: 1 + sum(below))
    4
    """
    results: list[Result] = []
    for node in reversed(list(_parents_first(root))):
        if isinstance(node, Binary):
            right, left = results.pop(), results.pop()
            results.append(combine(node, (left, right)))
        elif isinstance(node, Unary):
            results.append(combine(node, (results.pop(),)))
        else:
            results.append(combine(node, ()))
    return results.pop()


def measure(root: Node) -> tuple[int, int]:
    """Return the number of nodes and of levels of the tree at `root`; shared subtrees count each time. O(size).

    Raises ValueError for more than 4096 nodes or 100 levels.
    """
    size = 0
    for size, _ in enumerate(_parents_first(root), start=1):
        if size > MAX_SIZE:
            raise ValueError(f"expected a formula of at most {MAX_SIZE} nodes, found more")
    depth = fold(root, lambda _, below: 1 + max(below, default=0))
    if depth > MAX_DEPTH:
        raise ValueError(f"expected a formula of at most {MAX_DEPTH} levels, found {depth}")
    return size, depth


def _parents_first(root: Node) -> Iterator[Node]:
    """Yield every node before its children, the right child's subtree before the left's."""
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, Binary):
            pending += (node.left, node.right)
        elif isinstance(node, Unary):
            pending.append(node.operand)
