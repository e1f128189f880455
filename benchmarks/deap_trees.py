"""What people write today to evolve score functions: DEAP's compiled trees over whole NumPy columns, page by page."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from deap import gp

from streamsched.arrays import Bools, Floats, Ints, Rows
from streamsched.estimators import aad, cg, nad
from streamsched.formula import Binary, Constant, Formula, Node, Terminal, Unary

__all__ = ["PAPER", "ColumnCrawl", "breed_programs", "compile_program", "to_formula"]

PAPER: Final = ("n", "X", "t", "CG", "NAD", "SAD", "AAD", "GAD")
_CONSTANTS: Final = (0.001, 0.01, 0.1, 0.5, 1.0, 10.0, 100.0, 1000.0)
_FIRST_DEPTHS: Final = (1, 6)  # levels below the root, ramped
_DEEPEST: Final = 9  # the paper's limit for what crossover makes
_ROUNDS: Final = 8  # of crossover: what some generations without selection leave


def _divide(left: Any, right: Any) -> Any:
    return np.where(np.equal(right, 0.0), 0.0, np.divide(left, right))


def _log(operand: Any) -> Any:
    return np.where(np.less_equal(operand, 0.0), 0.0, np.log(operand))


def _exp(operand: Any) -> Any:
    return np.exp(np.clip(operand, -80.0, 80.0))


def _power(base: Any, exponent: Any) -> Any:
    exponent = np.clip(exponent, -80.0, 80.0)
    outside = np.less(base, 0.0) | (np.equal(base, 0.0) & np.less(exponent, 0.0))
    return np.where(outside, 0.0, np.power(base, exponent))


_OPERATIONS: Final[dict[str, tuple[Callable[..., Any], int]]] = {
    "add": (np.add, 2),
    "subtract": (np.subtract, 2),
    "multiply": (np.multiply, 2),
    "divide": (_divide, 2),
    "power": (_power, 2),
    "log": (_log, 1),
    "exp": (_exp, 1),
}


def _make_primitives() -> Any:
    """Return SPEC 5's protected functions, the paper's terminals and its constants as a DEAP primitive set."""
    primitives = gp.PrimitiveSet("score", len(PAPER))
    primitives.renameArguments(**{f"ARG{i}": name for i, name in enumerate(PAPER)})
    for name, (function, arity) in _OPERATIONS.items():
        primitives.addPrimitive(function, arity, name)
    for constant in _CONSTANTS:
        primitives.addTerminal(constant)
    return primitives


_PRIMITIVES: Final = _make_primitives()


def breed_programs(count: int, seed: int) -> list[Any]:
    """Return `count` trees that differ: half ramped half-and-half, half bred from more of these by crossover."""
    random.seed(seed)  # DEAP draws from the module's own generator
    first = _distinct(
        count - count // 2, set(), lambda: gp.PrimitiveTree(gp.genHalfAndHalf(_PRIMITIVES, *_FIRST_DEPTHS))
    )
    pool = [gp.PrimitiveTree(gp.genHalfAndHalf(_PRIMITIVES, *_FIRST_DEPTHS)) for _ in range(4 * count)]
    for _ in range(_ROUNDS):
        random.shuffle(pool)
        for i in range(0, len(pool) - 1, 2):
            pair = gp.cxOnePoint(*(gp.PrimitiveTree(tree) for tree in pool[i : i + 2]))
            pool[i : i + 2] = [
                child if child.height <= _DEEPEST else old for child, old in zip(pair, pool[i : i + 2], strict=True)
            ]
    return first + _distinct(count // 2, {str(tree) for tree in first}, lambda: random.choice(pool))


def _distinct(count: int, taken: set[str], draw: Callable[[], Any]) -> list[Any]:
    """Return `count` draws that print like none before and read at least one column."""
    found: list[Any] = []
    while len(found) < count:
        tree = draw()
        if str(tree) not in taken and any(name in PAPER for name in map(str, _names(tree))):
            taken.add(str(tree))
            found.append(tree)
    return found


def _names(tree: Any) -> list[str]:
    return [node.value for node in tree if isinstance(node, gp.Terminal) and isinstance(node.value, str)]


def compile_program(tree: Any) -> Callable[..., Any]:
    """Return the tree as DEAP compiles it: a function of the columns of PAPER, in order."""
    function: Callable[..., Any] = gp.compile(tree, _PRIMITIVES)
    return function


def to_formula(tree: Any) -> Formula:
    """Return the tree as our formula."""
    signs: dict[str, Any] = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "power": "pow"}
    below: list[Node] = []
    for node in reversed(tree):
        if isinstance(node, gp.Terminal):
            below.append(Terminal(node.value) if isinstance(node.value, str) else Constant(node.value))
        elif node.arity == 1:
            below.append(Unary("log" if node.name == "log" else "exp", below.pop()))
        else:
            below.append(Binary(signs[node.name], below.pop(), below.pop()))
    return Formula(below.pop())


class ColumnCrawl:
    """A trial crawl with a column of all pages for each terminal: a cycle scores every page and picks the best k.

    ``changed``: bool[cycles, pages], pages in the order of ties; ``offsets``: int64[cycles], at which page that order
    begins in each cycle. What a visit changes is renewed for visited pages only, and the warm-up is crawled once.
    """

    def __init__(self, changed: Bools, offsets: Ints, warmup: int, k: int, reading: str) -> None:
        self._changed, self._offsets = changed, offsets
        self._warmup, self._k, self._reading = warmup, k, reading
        self._discounts = 1.0 / np.maximum(1.0, np.log(np.arange(1, k + 1)))
        pages = changed.shape[1]
        self._columns = {name: np.zeros(pages) for name in (*PAPER, "weighted", "halved")}
        everything = np.arange(pages)
        for cycle in range(1, warmup):
            _learn(self._columns, everything, changed[cycle])

    def fitness(self, function: Callable[..., Any], metric: str) -> float:
        """Return the mean ChangeRate or NDCG of ranking by `function` of the columns of PAPER. O(cycles pages size)."""
        columns = {name: column.copy() for name, column in self._columns.items()}
        terminals = [columns[name] for name in PAPER]
        unseen = np.zeros(self._changed.shape[1], np.bool_)
        values = []
        with np.errstate(all="ignore"):
            for cycle in range(self._warmup, self._changed.shape[0]):
                columns["t"] += 1.0
                unseen |= self._changed[cycle]
                reports = unseen if self._reading == "since_visit" else self._changed[cycle]
                rows = self._best(function(*terminals), cycle, metric == "ndcg")
                if reports.any():
                    values.append(self._measure(reports, rows, metric))
                _learn(columns, rows, reports[rows])
                columns["t"][rows] = 0.0
                unseen[rows] = False
        return sum(values) / len(values)

    def _measure(self, reports: Bools, rows: Rows, metric: str) -> float:
        if metric == "change_rate":
            return int(np.count_nonzero(reports[rows])) / rows.size
        ideal = self._discounts[: min(rows.size, int(np.count_nonzero(reports)))]
        return float(self._discounts[reports[rows]].sum() / ideal.sum())

    def _best(self, scores: Any, cycle: int, in_order: bool) -> Rows:
        """Return the k best: score descending, NaN last, equal scores in the cycle's order of ties."""
        scores = np.broadcast_to(np.where(np.isnan(scores), np.inf, np.negative(scores)), self._changed.shape[1])
        bar = np.partition(scores, self._k - 1)[self._k - 1]
        above, level = np.flatnonzero(scores < bar), np.flatnonzero(scores == bar)
        rows = np.concatenate([above, self._turn(level, cycle)[: self._k - above.size]])
        if not in_order:
            return rows
        rows = self._turn(np.sort(rows), cycle)
        return rows[np.argsort(scores[rows], kind="stable")]

    def _turn(self, rows: Rows, cycle: int) -> Rows:
        """Return ``rows``, ascending, beginning with the first from this cycle's offset on."""
        return np.roll(rows, -int(np.searchsorted(rows, self._offsets[cycle])))


def _learn(columns: dict[str, Floats], rows: Rows, changed: Bools) -> None:
    """Renew the terminals of visited pages."""
    columns["n"][rows] += 1.0
    columns["X"][rows] += changed
    n, X = columns["n"][rows], columns["X"][rows]
    columns["weighted"][rows] += n * changed
    columns["halved"][rows] = columns["halved"][rows] / 2.0 + changed
    columns["CG"][rows] = cg(n, X)
    columns["NAD"][rows] = nad(n, X)
    columns["SAD"][rows] = changed
    columns["AAD"][rows] = aad(n, columns["weighted"][rows])
    columns["GAD"][rows] = columns["halved"][rows] / (2.0 - np.exp2(1.0 - n))
