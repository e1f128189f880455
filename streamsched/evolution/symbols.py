"""The symbols of genomes and their byte codes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, get_args

from streamsched.formula.syntax.nodes import Constant, Terminal
from streamsched.formula.terminal_table import TERMINALS, TerminalSet

CONSTANTS: Final = (0.001, 0.01, 0.1, 0.5, 1.0, 10.0, 100.0, 1000.0)  # section 4.2.1 of the paper
BINARY: Final = ("+", "-", "*", "/", "pow")
UNARY: Final = ("log", "exp")
MAX_LEAVES: Final = 256 - len(BINARY) - len(UNARY)  # terminals and constants: a symbol is one byte

_SETS: Final = get_args(TerminalSet)
TERMINAL_SETS: Final[dict[TerminalSet, tuple[str, ...]]] = {
    name: tuple(one.name for one in TERMINALS.values() if one.source in _SETS[: place + 1])
    for place, name in enumerate(_SETS)
}


@dataclass(frozen=True, slots=True)
class SymbolSet:
    """The symbols of genomes, numbered from 0: terminals, constants, then ``+ - * / pow`` and ``log exp``.

    ``symbols``: each symbol by number. ``arity``: number of operands by symbol number. ``leaves``: number of symbols
    without operands. Raises ValueError if there is no terminal, a name or number is repeated or not allowed in a
    formula, or there are more symbols than bytes.

    >>> symbol_set = SymbolSet(("X", "n"), (0.5,))
    >>> symbol_set.symbols
    ('X', 'n', 0.5, '+', '-', '*', '/', 'pow', 'log', 'exp')
    >>> list(symbol_set.arity), symbol_set.leaves
    ([0, 0, 0, 2, 2, 2, 2, 2, 1, 1], 3)
    """

    terminals: tuple[str, ...]
    constants: tuple[float, ...] = CONSTANTS
    symbols: tuple[str | float, ...] = field(init=False, repr=False, compare=False)
    arity: bytes = field(init=False, repr=False, compare=False)
    leaves: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = tuple(Terminal(name).name for name in self.terminals)
        numbers = tuple(Constant(number).value for number in self.constants)
        leaves = (*names, *numbers)
        if not names:
            raise ValueError("terminals: expected one or more, found none")
        if len(set(leaves)) != len(leaves):
            raise ValueError(f"expected each terminal and constant once, found {leaves}")
        if len(leaves) > MAX_LEAVES:
            raise ValueError(f"expected at most {MAX_LEAVES} terminals and constants, found {len(leaves)}")
        for name, value in {
            "constants": numbers,
            "symbols": (*leaves, *BINARY, *UNARY),
            "arity": bytes(len(leaves)) + b"\x02" * len(BINARY) + b"\x01" * len(UNARY),
            "leaves": len(leaves),
        }.items():
            object.__setattr__(self, name, value)
