"""Genomes: formulas as byte strings in prefix order, one symbol per byte.

A genome is one complete tree: ``t * exp(X)`` is the bytes of ``* t exp X``. A subtree is a slice, replacing a subtree
is concatenating slices, and no node objects are created while a population evolves.

**Randomness** comes from ``random.Random``, and only from its method ``random()``: the one method whose sequence, for
an integer seed, Python guarantees across versions. A number below n is ``int(random() * n)``, which is below n for all
n up to 2**53 and, for the n that occur here, uniform to one part in 2**40.
"""

from __future__ import annotations

from random import Random
from typing import Final, cast

from streamsched.evolution.symbols import UNARY, SymbolSet
from streamsched.formula.formula import Formula
from streamsched.formula.syntax.nodes import Binary, BinaryOp, Constant, Node, Terminal, Unary, UnaryOp

_MAX_REDRAWS: Final = 20  # of a duplicate initial tree: small trees over few terminals soon repeat


def subtree_end(genome: bytes, start: int, symbol_set: SymbolSet) -> int:
    """Return the index after the subtree that begins at `start`. O(size of the subtree).

    >>> symbol_set = SymbolSet(("X", "t"), ())
    >>> subtree_end(from_formula(Formula.parse("exp(X) * t"), symbol_set), 1, symbol_set)
    3
    """
    arity = symbol_set.arity
    open_operands = 1
    while open_operands:
        open_operands += arity[genome[start]] - 1
        start += 1
    return start


def levels_of(genome: bytes, symbol_set: SymbolSet) -> bytes:
    """Return the level of each node, the root's is 1, as bytes in genome order. O(size).

    >>> symbol_set = SymbolSet(("X", "t"), ())
    >>> list(levels_of(from_formula(Formula.parse("exp(X) * t"), symbol_set), symbol_set))
    [1, 2, 3, 2]
    """
    arity = symbol_set.arity
    levels = bytearray()
    pending_levels: list[int] = []  # the levels of outstanding second operands
    level = 1
    for symbol in genome:
        levels.append(level)
        operands = arity[symbol]
        if operands:
            level += 1
            if operands == 2:
                pending_levels.append(level)
        elif pending_levels:
            level = pending_levels.pop()
    return bytes(levels)


def depth_of(genome: bytes, symbol_set: SymbolSet) -> int:
    """Return the depth of the genome, 1 for a leaf, like ``Formula.depth``. O(size)."""
    return max(levels_of(genome, symbol_set))


def is_genome(genome: bytes, symbol_set: SymbolSet) -> bool:
    """Return whether `genome` is one complete tree over `symbol_set`. O(size).

    >>> symbol_set = SymbolSet(("X", "t"), ())
    >>> [is_genome(bytes(symbols), symbol_set) for symbols in ([2, 0, 1], [2, 0], [0, 1], [], [99])]
    [True, False, False, False, False]
    """
    open_operands = 1
    for symbol in genome:
        if not open_operands or symbol >= len(symbol_set.arity):
            return False
        open_operands += symbol_set.arity[symbol] - 1
    return not open_operands


def grow_tree(symbol_set: SymbolSet, depth: int, rng: Random, *, leaf: bool = True) -> bytes:
    """Return a random tree of at most `depth` levels by Koza's grow method; its root is a function unless `leaf`.
    O(size).

    Above the last level, terminals, constants and functions are drawn with equal probability.
    """
    first = 0 if leaf or depth == 1 else symbol_set.leaves
    return _draw_tree(symbol_set, depth, rng, first, 0)


def full_tree(symbol_set: SymbolSet, depth: int, rng: Random) -> bytes:
    """Return a random tree with all leaves at level `depth`, by Koza's full method. O(size).

    Functions are drawn with equal probability, and so are leaves.
    """
    return _draw_tree(symbol_set, depth, rng, symbol_set.leaves, symbol_set.leaves)


def ramped_trees(count: int, depths: tuple[int, int], symbol_set: SymbolSet, rng: Random) -> list[bytes]:
    """Return `count` trees by ramped half-and-half (Koza 1992). O(their sizes).

    The depth limits cycle through `depths`, both ends included. Alternate rounds use the grow method, with functions at
    the roots, and the full method. A duplicate tree is drawn again, up to 20 times.
    """
    trees: dict[bytes, None] = {}
    repeats: list[bytes] = []
    low, high = depths
    for number in range(count):
        round_number, step = divmod(number, high - low + 1)
        tree = _draw_initial(symbol_set, low + step, rng, full=round_number % 2 == 1)
        for _ in range(_MAX_REDRAWS):
            if tree not in trees:
                break
            tree = _draw_initial(symbol_set, low + step, rng, full=round_number % 2 == 1)
        if tree in trees:
            repeats.append(tree)
        trees[tree] = None
    return [*trees, *repeats]


def _draw_initial(symbol_set: SymbolSet, depth: int, rng: Random, *, full: bool) -> bytes:
    return full_tree(symbol_set, depth, rng) if full else grow_tree(symbol_set, depth, rng, leaf=False)


def _draw_tree(symbol_set: SymbolSet, depth: int, rng: Random, root: int, inner: int) -> bytes:
    """Return a tree of at most `depth` levels; root symbol at least `root`, other inner symbols at least `inner`."""
    random, arity, leaves = rng.random, symbol_set.arity, symbol_set.leaves
    count = len(arity)
    genome = bytearray()
    pending = [depth]  # levels left for each outstanding operand, the next one last
    first = root
    while pending:
        left = pending.pop()
        symbol = int(random() * leaves) if left == 1 else first + int(random() * (count - first))
        genome.append(symbol)
        pending += [left - 1] * arity[symbol]
        first = inner
    return bytes(genome)


def to_formula(genome: bytes, symbol_set: SymbolSet) -> Formula:
    """Return the formula of `genome`; its text can be parsed by ``Formula.parse``. O(size * depth).

    Raises ValueError if `genome` is not one complete tree over `symbol_set`.

    >>> print(to_formula(bytes([4, 0, 1]), SymbolSet(("X", "t"), ())))
    X * t
    """
    if not is_genome(genome, symbol_set):
        raise ValueError(
            f"genome: expected one complete tree over {len(symbol_set.symbols)} symbols, found {genome[:80]!r}"
        )
    operands: list[Node] = []
    for symbol in reversed(genome):
        name = symbol_set.symbols[symbol]
        if not isinstance(name, str):
            operands.append(Constant(name))
        elif name in symbol_set.terminals:
            operands.append(Terminal(name))
        elif name in UNARY:
            operands.append(Unary(cast(UnaryOp, name), operands.pop()))
        else:
            operands.append(Binary(cast(BinaryOp, name), operands.pop(), operands.pop()))
    return Formula(operands.pop())


def from_formula(formula: Formula, symbol_set: SymbolSet) -> bytes | None:
    """Return the genome of `formula`, or None if it contains a symbol that `symbol_set` lacks. O(size).

    ``-x`` becomes ``0 - x``, which evaluates identically, if 0 is among the constants.
    """
    codes = {symbol: code for code, symbol in enumerate(symbol_set.symbols)}
    genome = bytearray()
    pending = [formula.root]
    while pending:
        node = pending.pop()
        if isinstance(node, Unary) and node.op == "neg":
            node = Binary("-", Constant(0.0), node.operand)
        symbol = _symbol(node)
        if symbol not in codes:
            return None
        genome.append(codes[symbol])
        if isinstance(node, Binary):
            pending += (node.right, node.left)
        elif isinstance(node, Unary):
            pending.append(node.operand)
    return bytes(genome)


def _symbol(node: Node) -> str | float:
    if isinstance(node, Constant):
        return node.value
    return node.name if isinstance(node, Terminal) else node.op
