"""A score function as a value: parsed, printed, compared, simplified and evaluated."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import get_args

import numpy as np

from streamsched.errors import shorten
from streamsched.formula.bounds.compiler import BoundProgram, compile_bound
from streamsched.formula.evaluation.program import BLOCK, Program, compile_tree
from streamsched.formula.evaluation.simplify import simplify_tree
from streamsched.formula.syntax.nodes import Node, Terminal, fold, measure
from streamsched.formula.syntax.parser import parse_tree
from streamsched.formula.syntax.printer import print_tree
from streamsched.formula.terminal_table import TERMINALS
from streamsched.numerics.argument_checks import read_items
from streamsched.numerics.arrays import Floats


@dataclass(frozen=True, slots=True, repr=False)
class Formula:
    """An expression over terminals that ranks pages; equal and hashed by structure.

    ``root``: the tree, ``text``: its printed form, ``terminals``: the names it reads, sorted, ``size``: its nodes,
    ``depth``: its levels. O(size * depth) to construct from a tree. Raises ValueError if the tree has more than 4096
    nodes or 100 levels.

    >>> formula = Formula.parse("1-exp(-(X/n)*t)")
    >>> print(formula)
    1 - exp(-(X / n) * t)
    >>> formula.terminals, formula.size, formula.depth
    (('X', 'n', 't'), 9, 6)
    """

    root: Node = field(compare=False)
    text: str = field(init=False)  # identifies the tree: different trees print differently
    terminals: tuple[str, ...] = field(init=False, compare=False)
    size: int = field(init=False, compare=False)
    depth: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.root, get_args(Node)):
            raise TypeError(f"root: expected a tree of nodes, found {shorten(self.root)}: Formula.parse reads text")
        size, depth = measure(self.root)
        names = fold(self.root, _names)
        for name, value in {
            "text": print_tree(self.root),
            "terminals": tuple(sorted(names)),
            "size": size,
            "depth": depth,
        }.items():
            object.__setattr__(self, name, value)

    @classmethod
    def parse(cls, text: str, terminals: Collection[str] | None = None) -> Formula:
        """Return the formula of `text`; names may be any of `terminals`, by default all of TERMINALS.

        See `syntax.parser` for the grammar and its limits. ``Formula.parse(str(f)) == f`` for every formula over those
        terminals. O(length). Raises FormulaError at the column that does not fit.

        >>> Formula.parse("X / m")
        Traceback (most recent call last):
        streamsched.errors.FormulaError: column 5: found unknown name 'm', expected one of n, X, t, ...
        """
        if not isinstance(text, str):
            raise TypeError(f"text: expected a formula as str, found {shorten(text)}")
        names = TERMINALS if terminals is None else _read_names("terminals", terminals)
        return cls(parse_tree(text, names))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Formula.parse({self.text!r})"

    def simplify(self) -> Formula:
        """Return a formula of the same value to the last bit, no larger, for terminals finite and not negative.

        See `streamsched.formula.evaluation.simplify` for the rules. O(size * depth).

        >>> print(Formula.parse("1*X - -(n + 2*0)").simplify())
        X + n
        """
        return Formula(simplify_tree(self.root))

    def compile(self) -> Program:
        """Return the program that evaluates this formula over blocks. O(size)."""
        return compile_tree(self.root)

    def compile_bound(
        self, moving: Collection[str], ranges: Mapping[str, tuple[float, float]] | None = None
    ) -> BoundProgram:
        """Return the program of an upper bound of this formula while the terminals `moving` vary. O(size).

        ``ranges`` as in `streamsched.formula.bounds.compiler.compile_bound`.

        >>> program = Formula.parse("X * exp(-t)").compile_bound({"t"})
        >>> program.run({"X": np.array([3.0]), "t": np.array([0.0])}, {}, rows=1)  # t may only grow
        array([3.])
        """
        return compile_bound(self.root, _read_names("moving", moving), {} if ranges is None else ranges)

    def evaluate(self, columns: Mapping[str, Floats]) -> Floats:
        """Return the formula's value for each of n rows, float64[n]. O(n * size).

        ``columns[name]``: float64[n] for each of `terminals`; a formula without terminals takes n from any columns
        given. Operations are protected, see `evaluation.protected`. Raises KeyError if a column is missing, and
        ValueError if columns differ in length or there are none.

        >>> Formula.parse("X / n").evaluate({"X": np.array([1.0, 0.0]), "n": np.array([4.0, 0.0])})
        array([0.25, 0.  ])
        """
        program = self.compile()
        for name in self.terminals or columns:
            if type(columns[name]) is not np.ndarray:
                raise TypeError(f"columns: expected {name} as float64[n], found {shorten(columns[name])}")
        lengths = sorted({columns[name].size for name in self.terminals or columns})
        if len(lengths) != 1:
            raise ValueError(
                f"columns: expected one length, found {lengths or 'no column'}: pass a column for each terminal"
            )
        out = np.empty(lengths[0])
        program.run(columns, out, program.arena(min(BLOCK, max(1, out.size))))
        return out


def _read_names(argument: str, names: Collection[str]) -> Collection[str]:
    """Return `names` as a list; raises TypeError naming `argument` if they are not str."""
    items = list(names) if isinstance(names, Mapping) else read_items(argument, names, "names of terminals")
    if not all(isinstance(name, str) for name in items):
        raise TypeError(f"{argument}: expected names of terminals, found {shorten(names)}")
    return items


def _names(node: Node, below: tuple[frozenset[str], ...]) -> frozenset[str]:
    return frozenset((node.name,)) if isinstance(node, Terminal) else frozenset().union(*below)
