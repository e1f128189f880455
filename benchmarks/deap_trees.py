"""The rival of evolution: DEAP's compiled trees, evaluated on whole NumPy columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from deap import gp

from streamsched.estimation.published_estimators import aad, cg, nad
from streamsched.evolution.gp.symbols import CONSTANTS, TERMINAL_SETS, SymbolSet
from streamsched.numerics.arrays import Bools, Floats, Ints, Rows

__all__ = ["ColumnCrawl", "compile_program", "make_tree"]

_COLUMNS: Final = (*TERMINAL_SETS["paper"], "weighted", "halved")  # the last two are sums from which AAD and GAD follow
_NAMES: Final = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide", "pow": "power"}


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
    """Return the protected functions, the terminals of the paper and the constants as a DEAP primitive set."""
    primitives = gp.PrimitiveSet("score", len(TERMINAL_SETS["paper"]))
    primitives.renameArguments(**{f"ARG{i}": name for i, name in enumerate(TERMINAL_SETS["paper"])})
    for name, (function, arity) in _OPERATIONS.items():
        primitives.addPrimitive(function, arity, name)
    for constant in CONSTANTS:
        primitives.addTerminal(constant)
    return primitives


_PRIMITIVES: Final = _make_primitives()


def make_tree(genome: bytes, symbol_set: SymbolSet) -> Any:
    """Return a genome over the terminals of the paper as a DEAP tree; both are in prefix order."""
    names = [_NAMES.get(str(symbol), str(symbol)) for symbol in symbol_set.symbols]
    return gp.PrimitiveTree([_PRIMITIVES.mapping[names[symbol]] for symbol in genome])


def compile_program(tree: Any) -> Callable[..., Any]:
    """Return the tree compiled by DEAP: a function of the columns of the paper's terminals, in order."""
    function: Callable[..., Any] = gp.compile(tree, _PRIMITIVES)
    return function


class ColumnCrawl:
    """A simulated crawl with a column for each terminal: each cycle scores every page and visits the best k.

    ``changed``: bool[cycles, pages], pages in tie order; ``offsets``: int64[cycles], the page at which the tie order
    begins in each cycle. Only visited pages are updated, and the warm-up is simulated once.
    """

    def __init__(self, changed: Bools, offsets: Ints, warmup: int, k: int, reading: str) -> None:
        self._changed, self._offsets = changed, offsets
        self._warmup, self._k, self._reading = warmup, k, reading
        self._discounts = 1.0 / np.maximum(1.0, np.log(np.arange(1, k + 1)))
        pages = changed.shape[1]
        self._columns = {name: np.zeros(pages) for name in _COLUMNS}
        everything = np.arange(pages)
        for cycle in range(1, warmup):
            _learn(self._columns, everything, changed[cycle])

    def fitness(self, function: Callable[..., Any], metric: str) -> float:
        """Return the mean ChangeRate or NDCG of ranking by `function`. O(cycles · pages · size)."""
        columns = {name: column.copy() for name, column in self._columns.items()}
        terminals = [columns[name] for name in TERMINAL_SETS["paper"]]
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
        """Return the k best: score descending, NaN last, equal scores in the tie order of the cycle."""
        scores = np.broadcast_to(np.where(np.isnan(scores), np.inf, np.negative(scores)), self._changed.shape[1])
        bar = np.partition(scores, self._k - 1)[self._k - 1]
        above, equal = np.flatnonzero(scores < bar), np.flatnonzero(scores == bar)
        rows = np.concatenate([above, self._rotate(equal, cycle)[: self._k - above.size]])
        if not in_order:
            return rows
        rows = self._rotate(np.sort(rows), cycle)
        return rows[np.argsort(scores[rows], kind="stable")]

    def _rotate(self, rows: Rows, cycle: int) -> Rows:
        """Return the ascending ``rows``, rotated to begin at the first that is not below the offset of the cycle."""
        return np.roll(rows, -int(np.searchsorted(rows, self._offsets[cycle])))


def _learn(columns: dict[str, Floats], rows: Rows, changed: Bools) -> None:
    """Update the terminals of visited pages."""
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
