"""A formula compiled for evaluation over blocks of rows: each distinct subexpression once, in reused buffers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from streamsched.arrays import Floats
from streamsched.formula.nodes import Constant, Node, Terminal, fold
from streamsched.formula.protected import OPERATIONS, Operand, Operation, Scratch, apply

__all__ = ["BLOCK", "Arena", "Program", "compile_tree"]

BLOCK: Final = 16_384  # rows: 128 KiB a column, so that a formula's few columns stay in a core's second-level cache
_STAGGER: Final = 16  # float64s between buffers: keeps equal rows of them off the same cache sets


class Arena:
    """Buffers for one thread's evaluation over blocks of up to `block` rows: float64[registers, block] and scratch.

    Any program that needs no more `registers` may run in it, one after the other.
    """

    __slots__ = ("_buffers", "_scratch", "block", "registers")

    def __init__(self, block: int, registers: int) -> None:
        if block < 1:
            raise ValueError(f"block: expected 1 row or more, found {block}")
        self.block = block
        self.registers = registers
        store = np.empty((registers, block + _STAGGER))
        self._buffers: list[Floats] = [row[:block] for row in store]
        self._scratch = Scratch(block)

    def head(self, length: int, registers: int) -> tuple[list[Floats], Scratch]:
        """Return `registers` buffers and the scratch, cut to `length` rows. O(registers)."""
        if length > self.block or registers > self.registers:
            found = f"{self.block} rows and {self.registers} registers"
            raise ValueError(f"arena: expected at least {length} rows and {registers} registers, found {found}")
        if length == self.block:
            return self._buffers[:registers], self._scratch
        return [buffer[:length] for buffer in self._buffers[:registers]], self._scratch.head(length)


class Step(NamedTuple):
    """One operation: where its operands and its result lie among registers, columns, constants and output."""

    operation: Operation
    operands: tuple[int, ...]
    result: int


@dataclass(frozen=True, slots=True)
class Program:
    """A formula in postfix order. Immutable, so threads may share it; each needs an arena of its own."""

    terminals: tuple[str, ...]  # the columns it reads, sorted
    registers: int  # buffers it needs
    constants: tuple[float, ...] = field(repr=False)
    steps: tuple[Step, ...] = field(repr=False)

    def arena(self, block: int = BLOCK) -> Arena:
        """Return buffers to run this program over blocks of up to `block` rows: 8 bytes * (registers + 1) a row."""
        return Arena(block, self.registers)

    def run(self, columns: Mapping[str, Floats], out: Floats, arena: Arena) -> None:
        """Write the formula's value for each row to `out`: float64[m], m <= the arena's block. O(m * steps).

        ``columns[name]``: float64[m] for each of `terminals`, only read; `out` must not overlap any of them. The
        values do not depend on how rows are split into blocks. Allocates nothing of the block's size; most of it runs
        without the interpreter lock. Raises KeyError where a column is missing, ValueError where a column or the
        arena does not fit `out`.
        """
        buffers, scratch = arena.head(out.size, self.registers)
        slots: list[Operand] = [*buffers, *(_check(name, columns[name], out) for name in self.terminals)]
        slots += self.constants
        slots.append(_check("out", out, out))
        with np.errstate(all="ignore"):
            for operation, operands, result in self.steps:
                operation(*[slots[operand] for operand in operands], slots[result], scratch)


def _check(name: str, column: Floats, out: Floats) -> Floats:
    if column.dtype != np.float64 or column.shape != (out.size,):
        raise ValueError(f"{name}: expected float64[{out.size}], found {column.dtype}{list(column.shape)}")
    return column


def _copy(operand: Operand, out: Floats, _scratch: Scratch) -> None:
    np.copyto(out, operand)


def compile_tree(root: Node) -> Program:
    """Return the program of the tree at `root`. O(size).

    Equal subtrees become one value; a subtree of constants becomes the number that its operations give.

    >>> from streamsched.formula import Formula
    >>> program = compile_tree(Formula.parse("log(X) * log(X)").root)
    >>> program.terminals, len(program.steps)
    (('X',), 2)
    """
    values = _Values()
    last = fold(root, values.add)
    keys = list(values.index)
    terminals = tuple(sorted(str(key[1]) for key in keys if key[0] == "column"))
    operations = {value: key for value, key in enumerate(keys) if key[0] in OPERATIONS}
    registers, count = _assign_registers({value: key[1:] for value, key in operations.items()}, last)

    slots = dict(registers)
    slots |= {values.index["column", name]: count + place for place, name in enumerate(terminals)}
    slots |= {value: count + len(terminals) + place for place, value in enumerate(values.numbers)}
    output = count + len(terminals) + len(values.numbers)
    steps = tuple(
        Step(OPERATIONS[op], tuple(slots[operand] for operand in operands), slots.get(value, output))
        for value, (op, *operands) in operations.items()
    )
    return Program(terminals, count, tuple(values.numbers.values()), steps or (Step(_copy, (slots[last],), output),))


class _Values:
    """The distinct values of a tree, numbered in the order to compute them."""

    def __init__(self) -> None:
        self.index: dict[tuple[Any, ...], int] = {}  # ("constant", digits), ("column", name) or (op, *operands)
        self.numbers: dict[int, float] = {}

    def add(self, node: Node, below: tuple[int, ...]) -> int:
        """Return the number of the value of `node`, whose children have the values `below`."""
        if isinstance(node, Constant):
            return self._add_number(node.value)
        if isinstance(node, Terminal):
            return self._add("column", node.name)
        if all(value in self.numbers for value in below):
            return self._add_number(apply(node.op, *(self.numbers[value] for value in below)))
        return self._add(node.op, *below)

    def _add_number(self, number: float) -> int:
        value = self._add("constant", repr(number))
        self.numbers[value] = number
        return value

    def _add(self, *key: str | int) -> int:
        return self.index.setdefault(key, len(self.index))


def _assign_registers(operations: dict[int, tuple[int, ...]], last: int) -> tuple[dict[int, int], int]:
    """Return a register for the result of each operation but the last, and how many there are.

    A register is free again, for that very result too, once the last operation that reads it has read it.
    """
    reads = Counter(operand for operands in operations.values() for operand in operands)
    registers: dict[int, int] = {}
    free: list[int] = []
    count = 0
    for value, operands in operations.items():
        for operand in operands:
            reads[operand] -= 1
            if operand in registers and not reads[operand]:
                free.append(registers[operand])
        if value != last:
            if not free:
                free.append(count)
                count += 1
            registers[value] = free.pop()
    return registers, count
