"""Programs made ready for the simulated crawl: from genomes, thousands a second, and from formulas."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from operator import or_
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from streamsched.evolution.simulation.arena import (
    READS_CHANGES,
    READS_COST,
    READS_GROUP,
    READS_HISTORY,
    READS_IMPORTANCE,
    READS_LAST,
    READS_RATE,
    READS_RHYTHM,
    READS_VISITS,
    READS_WEIGHTED,
    ProgramRoutine,
)
from streamsched.formula.evaluation.machine import OPERATION_CODES
from streamsched.formula.formula import Formula
from streamsched.formula.syntax.nodes import Binary, Constant, Node, Terminal, Unary, fold
from streamsched.formula.terminals import TERMINAL_CODES

if TYPE_CHECKING:
    from streamsched.evolution.gp.symbols import SymbolSet
    from streamsched.numerics.arrays import Floats

__all__ = ["Prepared", "prepare"]

# What schedules of single pages are earned and learned by.
_BY_RHYTHM: Final = READS_RATE | READS_RHYTHM | READS_VISITS | READS_CHANGES
_READS: Final[dict[str, int]] = {  # of each terminal: what of a page's state, beside its last visit, can change it
    "n": READS_VISITS,
    "X": READS_CHANGES,
    "t": 0,
    "CG": READS_VISITS | READS_CHANGES,
    "NAD": READS_VISITS | READS_CHANGES,
    "SAD": READS_LAST,
    "AAD": READS_VISITS | READS_WEIGHTED,
    "GAD": READS_VISITS | READS_HISTORY,
    "rate": READS_RATE,
    "posterior": READS_RATE,
    "importance": READS_IMPORTANCE,
    "cost": READS_COST,
    "tau": _BY_RHYTHM,
    "rhythm": _BY_RHYTHM,
    "due": _BY_RHYTHM,
    "surge": READS_GROUP,
}


class Prepared(NamedTuple):
    """A routine and how many slots it needs."""

    routine: ProgramRoutine
    slots: int


def prepare(program: bytes | Formula, alphabet: SymbolSet | None) -> Prepared:
    """Return what the crawl needs to run `program`, a genome over `alphabet` or a formula. O(size)."""
    if isinstance(program, Formula):
        return _prepare_formula(program)
    if alphabet is None:
        raise ValueError("alphabet: expected the one that genomes are written in, found None")
    symbols = _symbols(alphabet)
    stack: list[int] = []
    free: list[int] = []
    registers = symbols.leaves
    steps: list[tuple[int, int, int, int]] = []
    codes = symbols.codes
    arity = alphabet.arity
    leaves = symbols.leaves
    for symbol in reversed(program):  # prefix order read backwards: operands come before what takes them
        if symbol < leaves:
            stack.append(symbol)
            continue
        left = stack.pop()
        if left >= leaves:
            free.append(left)
        right = left
        if arity[symbol] == 2:
            right = stack.pop()
            if right >= leaves:
                free.append(right)
        if free:
            result = free.pop()
        else:
            result = registers
            registers += 1
        steps.append((codes[symbol], left, right, result))
        stack.append(result)
    read = set(program)
    terminals = np.array([code if i in read else -1 for i, code in enumerate(symbols.terminals)], np.int32)
    reads = 0
    for i, reading in enumerate(symbols.reads):
        if i in read:
            reads |= reading
    routine = ProgramRoutine(np.array(steps, np.int32).reshape(-1, 4), terminals, symbols.constants, stack.pop(), reads)
    return Prepared(routine, registers)


class _Symbols(NamedTuple):
    """An alphabet as the crawl numbers it."""

    leaves: int
    terminals: tuple[int, ...]  # their codes
    reads: tuple[int, ...]  # what each terminal reads
    constants: Floats
    codes: tuple[int, ...]  # operation by symbol, 0 for leaves


@lru_cache(maxsize=16)
def _symbols(alphabet: SymbolSet) -> _Symbols:
    names = alphabet.terminals
    constants = np.array(alphabet.constants, np.float64)
    leaves = len(names) + constants.size
    codes = tuple(0 if i < leaves else OPERATION_CODES[str(symbol)] for i, symbol in enumerate(alphabet.symbols))
    reads = tuple(_READS[name] for name in names)
    return _Symbols(leaves, tuple(TERMINAL_CODES[name] for name in names), reads, constants, codes)


def _prepare_formula(formula: Formula) -> Prepared:
    """Return what the crawl needs to run a formula: leaves in the order in which they are met."""
    leaves: dict[tuple[str, str], int] = {}
    names = list(formula.terminals)
    numbers: dict[str, float] = {}

    def collect(node: Node, _below: Sequence[None]) -> None:
        if isinstance(node, Constant):
            numbers.setdefault(repr(node.value), node.value)

    fold(formula.root, collect)
    for i, name in enumerate(names):
        leaves["terminal", name] = i
    for i, digits in enumerate(numbers):
        leaves["constant", digits] = len(names) + i
    count = registers = len(leaves)
    free: list[int] = []
    steps: list[tuple[int, int, int, int]] = []

    def step(node: Node, below: tuple[int, ...]) -> int:
        nonlocal registers
        if isinstance(node, Terminal):
            return leaves["terminal", node.name]
        if isinstance(node, Constant):
            return leaves["constant", repr(node.value)]
        assert isinstance(node, Unary | Binary)
        free.extend(slot for slot in below if slot >= count)
        if free:
            result = free.pop()
        else:
            result = registers
            registers += 1
        steps.append((OPERATION_CODES[node.op], below[0], below[-1], result))
        return result

    last = fold(formula.root, step)
    routine = ProgramRoutine(
        np.array(steps, np.int32).reshape(-1, 4),
        np.array([TERMINAL_CODES[name] for name in names], np.int32),
        np.array(list(numbers.values()), np.float64),
        last,
        reduce(or_, (_READS[name] for name in names), 0),
    )
    return Prepared(routine, registers)
