"""A formula compiled for evaluation over columns: each distinct subexpression once, in reused slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import numpy as np

from streamsched.formula.evaluation.machine import OPERATION_CODES, Steps, make_slots, run_steps
from streamsched.formula.evaluation.protected import apply
from streamsched.formula.syntax.nodes import Constant, Node, Terminal, fold
from streamsched.numerics.arrays import Floats

_Value = TypeVar("_Value", bound=Hashable)

BLOCK: Final = 16_384  # rows: 128 KiB a column, so that the few columns of a ranking stay in a second-level cache


class Arena:
    """Slots for evaluation by one thread over blocks of up to `block` rows: float64[slots, block].

    Any program that needs at most `slots` slots may run in it, one at a time. ``slots``: the memory itself; the first
    slots are the columns of the program's terminals, in order.
    """

    __slots__ = ("_holds", "block", "slots")

    def __init__(self, block: int, slots: int) -> None:
        if block < 1:
            raise ValueError(f"block: expected 1 row or more, found {block}")
        self.block = block
        self.slots: Floats = make_slots(slots, block)
        self._holds: Program | None = None

    def prepare(self, program: Program) -> None:
        """Write the constants of `program` to their slots. O(constants), O(1) if they are there.

        Raises ValueError if the program needs more slots than the arena has.
        """
        if self._holds is program:
            return
        if len(self.slots) < program.slots:
            raise ValueError(
                f"arena: expected at least {program.slots} slots, found {len(self.slots)}: use program.arena()"
            )
        first = len(program.terminals)
        self.slots[first : first + len(program.constants)] = np.array(program.constants)[:, None]
        self._holds = program


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A formula as steps for `evaluation.machine`. Immutable: threads may share it, each with its own arena.

    The first slots hold the terminals, in order, the next the constants, which keep their values; registers follow.
    """

    terminals: tuple[str, ...]  # the columns it reads, sorted
    constants: tuple[float, ...] = field(repr=False)
    registers: int  # slots for results
    steps: Steps = field(repr=False)  # int32[m, 4]
    result: int = field(repr=False)  # the slot where the value ends up

    @property
    def slots(self) -> int:
        """The number of slots that the program needs."""
        return len(self.terminals) + len(self.constants) + self.registers

    def arena(self, block: int = BLOCK) -> Arena:
        """Return slots to run this program in, 8 bytes a row and slot."""
        return Arena(block, self.slots)

    def run(self, columns: Mapping[str, Floats], out: Floats, arena: Arena) -> None:
        """Write the formula's value for each row to `out`: float64[m], of any length. O(m * steps).

        ``columns[name]``: float64[m] for each of `terminals`, not modified; `out` must not overlap any of them. A
        column that already is the terminal's own slot of the arena (see `Arena.slots`) is not copied. Values do not
        depend on how rows are split into blocks. Allocates no memory of the block's size and mostly releases the
        interpreter lock. Raises KeyError if a column is missing, and ValueError if a column or the arena does not fit.
        """
        arena.prepare(self)
        held = [_check(name, columns[name], out) for name in self.terminals]
        _check("out", out, out)
        for start in range(0, out.size, arena.block):
            rows = min(arena.block, out.size - start)
            for slot, column in zip(arena.slots, held, strict=False):
                if not np.may_share_memory(slot, column):
                    slot[:rows] = column[start : start + rows]
            if len(self.steps):  # a terminal alone needs none, and saves compiling the machine
                run_steps(self.steps, arena.slots, rows)
            out[start : start + rows] = arena.slots[self.result, :rows]


def _check(name: str, column: Floats, out: Floats) -> Floats:
    if column.dtype != np.float64 or column.shape != (out.size,):
        raise ValueError(f"{name}: expected float64[{out.size}], found {column.dtype}{list(column.shape)}")
    return column


def compile_tree(root: Node) -> Program:
    """Return the program of the tree at `root`. O(size).

    Equal subtrees become one value; a subtree of constants becomes the number that its operations give.

    >>> from streamsched.formula import Formula
    >>> program = compile_tree(Formula.parse("log(X) * log(X)").root)
    >>> program.terminals, len(program.steps)
    (('X',), 2)
    """
    values = Values()
    last = fold(root, values.add)
    keys = list(values.index)
    terminals = tuple(sorted(str(key[1]) for key in keys if key[0] == "column"))
    operations = {value: key for value, key in enumerate(keys) if key[0] in OPERATION_CODES}
    registers, count = assign_registers({value: key[1:] for value, key in operations.items()})

    slots = {values.index["column", name]: place for place, name in enumerate(terminals)}
    slots |= {value: len(slots) + place for place, value in enumerate(values.numbers)}
    slots |= {value: len(terminals) + len(values.numbers) + register for value, register in registers.items()}
    steps = [
        (OPERATION_CODES[op], slots[operands[0]], slots[operands[-1]], slots[value])
        for value, (op, *operands) in operations.items()
    ]
    table = np.array(steps, np.int32).reshape(-1, 4)
    return Program(terminals, tuple(values.numbers.values()), count, table, slots[last])


class Values:
    """The distinct values of a tree, numbered in the order of their computation.

    ``index``: the number of ("constant", digits), ("column", name) or (operation, value, ...); ``numbers``: the values
    of constants.
    """

    def __init__(self) -> None:
        self.index: dict[tuple[Any, ...], int] = {}
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


def assign_registers(
    operations: Mapping[_Value, Sequence[_Value]], apart: Collection[_Value] = ()
) -> tuple[dict[_Value, int], int]:
    """Return a register for the result of each operation, in this order, and the number of registers. O(operands).

    A register is reused after the last operation that reads it, even for the result of that operation unless that must
    be `apart` from its operands. The left operand's register is preferred, which suits the machine best.
    """
    reads = Counter(operand for operands in operations.values() for operand in operands)
    registers: dict[_Value, int] = {}
    free: list[int] = []
    count = 0
    for value, operands in operations.items():
        released: list[int] = []
        for operand in reversed(operands):
            reads[operand] -= 1
            if operand in registers and not reads[operand]:
                released.append(registers[operand])
        if value not in apart:
            free += released
        if not free:
            free.append(count)
            count += 1
        registers[value] = free.pop()
        if value in apart:
            free += released
    return registers, count
