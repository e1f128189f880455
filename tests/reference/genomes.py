"""Genomes and their operators as trees: the slow, obvious reference for `evolution.genomes` and `generations`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from streamsched.evolution.symbols import SymbolSet

Tree: TypeAlias = tuple[int, list["Tree"]]  # a symbol and its operands


def read_tree(genome: Sequence[int], symbol_set: SymbolSet) -> Tree | None:
    """The tree of a genome, None if it is not one complete tree."""

    def read(place: int) -> tuple[Tree, int]:
        symbol = genome[place]
        operands = []
        place += 1
        for _ in range(arity_of(symbol_set.symbols[symbol])):
            operand, place = read(place)
            operands.append(operand)
        return (symbol, operands), place

    try:
        tree, end = read(0)
    except IndexError:
        return None
    return tree if end == len(genome) else None


def arity_of(symbol: str | float) -> int:
    return {"+": 2, "-": 2, "*": 2, "/": 2, "pow": 2, "log": 1, "exp": 1}.get(str(symbol), 0)


def write_tree(tree: Tree) -> bytes:
    symbol, operands = tree
    return bytes([symbol]) + b"".join(map(write_tree, operands))


def depth(tree: Tree) -> int:
    return 1 + max(map(depth, tree[1]), default=0)


def levels(tree: Tree, level: int = 1) -> list[int]:
    """The level of each node, parents first."""
    return [level] + [found for operand in tree[1] for found in levels(operand, level + 1)]


def subtrees(tree: Tree) -> list[Tree]:
    """Every subtree, parents first."""
    return [tree] + [found for operand in tree[1] for found in subtrees(operand)]


def replace_at(tree: Tree, place: int, new: Tree) -> Tree:
    """The tree with its subtree number `place`, parents first, replaced by `new`."""
    if place == 0:
        return new
    place -= 1
    operands = []
    for operand in tree[1]:
        size = len(subtrees(operand))
        operands.append(replace_at(operand, place, new) if 0 <= place < size else operand)
        place -= size
    return tree[0], operands


def crossover_children(first: Tree, second: Tree, max_depth: int) -> set[bytes]:
    """Every possible child of a crossover."""
    children = [replace_at(first, place, donor) for place in range(len(subtrees(first))) for donor in subtrees(second)]
    return {write_tree(child) for child in children if depth(child) <= max_depth}


def swap_children(tree: Tree, max_depth: int) -> set[bytes]:
    """Every possible child of a swap mutation."""
    nodes = subtrees(tree)
    children: set[bytes] = set()
    for left in range(len(nodes)):
        for right in range(left + len(subtrees(nodes[left])), len(nodes)):
            child = replace_at(replace_at(tree, right, nodes[left]), left, nodes[right])
            if depth(child) <= max_depth:
                children.add(write_tree(child))
    return children


def best_of_all(evaluated: Iterable[tuple[bytes, float]], count: int) -> list[tuple[bytes, float]]:
    """The `count` best distinct genomes of all evaluated."""
    left = {genome: fitness for genome, fitness in evaluated if not math.isnan(fitness)}
    best: list[tuple[bytes, float]] = []
    while left and len(best) < count:
        highest = max(left.values())
        equals = [genome for genome in left if left[genome] == highest]
        smallest = min(len(genome) for genome in equals)
        genome = min(genome for genome in equals if len(genome) == smallest)
        best.append((genome, left.pop(genome)))
    return best
