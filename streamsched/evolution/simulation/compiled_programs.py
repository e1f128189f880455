"""Compilation of programs for the simulated crawl: from genomes, thousands per second, and from formulas."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from operator import or_
from typing import Final, NamedTuple

import numpy as np

from streamsched.evolution.simulation.arena import READS, CompiledProgram
from streamsched.evolution.symbols import SymbolSet
from streamsched.formula.evaluation.machine import OPERATION_CODES
from streamsched.formula.formula import Formula
from streamsched.formula.syntax.nodes import Binary, Constant, Node, Terminal, Unary, fold
from streamsched.formula.terminal_table import TERMINAL_CODES, TERMINALS
from streamsched.numerics.arrays import Floats

# By terminal: the page state, besides the last visit, that its value depends on.
_READS: Final = {one.name: reduce(or_, (READS[part] for part in one.reads), 0) for one in TERMINALS.values()}


class SizedProgram(NamedTuple):
    """A compiled program and the number of slots it needs."""

    program: CompiledProgram
    slots: int


def compile_program(program: bytes | Formula, symbol_set: SymbolSet | None) -> SizedProgram:
    """Compile `program`, a genome over `symbol_set` or a formula, for the simulated crawl. O(size)."""
    if isinstance(program, Formula):
        return _compile_formula(program)
    if symbol_set is None:
        raise ValueError("symbol_set: expected the symbol set of the genomes, found None")
    symbols = _number_symbols(symbol_set)
    stack: list[int] = []
    free: list[int] = []
    slots_used = symbols.leaves
    steps: list[tuple[int, int, int, int]] = []
    codes = symbols.codes
    arity = symbol_set.arity
    leaves = symbols.leaves
    for symbol in reversed(program):  # reversed prefix order: operands precede their operation
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
            result = slots_used
            slots_used += 1
        steps.append((codes[symbol], left, right, result))
        stack.append(result)
    read = set(program)
    terminals = np.array([code if i in read else -1 for i, code in enumerate(symbols.terminals)], np.int32)
    reads = 0
    for i, bits in enumerate(symbols.reads):
        if i in read:
            reads |= bits
    step_array = np.array(steps, np.int32).reshape(-1, 4)
    return SizedProgram(CompiledProgram(step_array, terminals, symbols.constants, stack.pop(), reads), slots_used)


class _NumberedSymbols(NamedTuple):
    """A symbol set with the codes of the simulated crawl."""

    leaves: int
    terminals: tuple[int, ...]  # their codes
    reads: tuple[int, ...]  # what each terminal reads
    constants: Floats
    codes: tuple[int, ...]  # operation by symbol, 0 for leaves


@lru_cache(maxsize=16)
def _number_symbols(symbol_set: SymbolSet) -> _NumberedSymbols:
    names = symbol_set.terminals
    constants = np.array(symbol_set.constants, np.float64)
    leaves = len(names) + constants.size
    codes = tuple(0 if i < leaves else OPERATION_CODES[str(symbol)] for i, symbol in enumerate(symbol_set.symbols))
    reads = tuple(_READS[name] for name in names)
    return _NumberedSymbols(leaves, tuple(TERMINAL_CODES[name] for name in names), reads, constants, codes)


def _compile_formula(formula: Formula) -> SizedProgram:
    """Compile a formula; leaves are numbered in order of appearance."""
    leaves: dict[tuple[str, str], int] = {}
    names = list(formula.terminals)
    numbers: dict[str, float] = {}

    def collect(node: Node, _operands: Sequence[None]) -> None:
        if isinstance(node, Constant):
            numbers.setdefault(repr(node.value), node.value)

    fold(formula.root, collect)
    for i, name in enumerate(names):
        leaves["terminal", name] = i
    for i, digits in enumerate(numbers):
        leaves["constant", digits] = len(names) + i
    count = slots_used = len(leaves)
    free: list[int] = []
    steps: list[tuple[int, int, int, int]] = []

    def step(node: Node, operands: tuple[int, ...]) -> int:
        nonlocal slots_used
        if isinstance(node, Terminal):
            return leaves["terminal", node.name]
        if isinstance(node, Constant):
            return leaves["constant", repr(node.value)]
        assert isinstance(node, Unary | Binary)
        free.extend(slot for slot in operands if slot >= count)
        if free:
            result = free.pop()
        else:
            result = slots_used
            slots_used += 1
        steps.append((OPERATION_CODES[node.op], operands[0], operands[-1], result))
        return result

    last = fold(formula.root, step)
    program = CompiledProgram(
        np.array(steps, np.int32).reshape(-1, 4),
        np.array([TERMINAL_CODES[name] for name in names], np.int32),
        np.array(list(numbers.values()), np.float64),
        last,
        reduce(or_, (_READS[name] for name in names), 0),
    )
    return SizedProgram(program, slots_used)
