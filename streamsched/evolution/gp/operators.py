"""Genetic operators: crossover, reproduction, replacement and swap mutation (sections 4.1 and 5.2).

Every random node is uniform over all nodes of the tree, leaves included, so about half of the exchanged subtrees are
leaves. (Koza draws inner nodes nine times in ten; the paper says "random".) The result is always one complete tree of
at most ``max_depth`` levels: positions are redrawn up to 10 times. If none fits, the operator returns None and another
operator is drawn, up to 10 times; the last resort is reproduction, which always succeeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from random import Random
from typing import TYPE_CHECKING, Final, TypeAlias

from streamsched.evolution.gp.genomes import depth_of, grow_tree, levels_of, subtree_end

if TYPE_CHECKING:
    from streamsched.evolution.gp.evolution_settings import EvolutionSettings
    from streamsched.evolution.gp.symbols import SymbolSet

__all__ = ["Reproduction", "cross", "replace_subtree", "swap_subtrees"]

Operator: TypeAlias = Callable[[], bytes | None]

_MAX_TRIES: Final = 10  # draws of positions, parents or operators before the fallback


def cross(first: bytes, second: bytes, symbol_set: SymbolSet, max_depth: int, rng: Random) -> bytes | None:
    """Return `first` with one random subtree replaced by a random subtree of `second`; None if 10 draws are too deep.

    Both parents have at most `max_depth` levels. O(size).
    """
    random = rng.random
    levels, donor_levels = levels_of(first, symbol_set), levels_of(second, symbol_set)
    for _ in range(_MAX_TRIES):
        start, donor = int(random() * len(first)), int(random() * len(second))
        donor_end = subtree_end(second, donor, symbol_set)
        if levels[start] + max(donor_levels[donor:donor_end]) - donor_levels[donor] <= max_depth:
            return first[:start] + second[donor:donor_end] + first[subtree_end(first, start, symbol_set) :]
    return None


def replace_subtree(genome: bytes, symbol_set: SymbolSet, settings: EvolutionSettings, rng: Random) -> bytes:
    """Return `genome` with a random subtree replaced by a new tree. O(size).

    The new tree is grown; its depth limit is the largest of the initial population, or the remaining levels if fewer.
    """
    start = int(rng.random() * len(genome))
    levels_left = settings.max_depth - levels_of(genome[: start + 1], symbol_set)[start] + 1
    new = grow_tree(symbol_set, min(levels_left, settings.initial_depth[1]), rng)
    return genome[:start] + new + genome[subtree_end(genome, start, symbol_set) :]


def swap_subtrees(genome: bytes, symbol_set: SymbolSet, max_depth: int, rng: Random) -> bytes | None:
    """Return `genome` with two disjoint subtrees exchanged. O(size).

    The result has at most `max_depth` levels. None if 10 draws find no pair that fits; a leaf, or a chain of unary
    functions, has none.
    """
    random = rng.random
    levels = levels_of(genome, symbol_set)
    for _ in range(_MAX_TRIES):
        node, other_node = int(random() * len(genome)), int(random() * len(genome))
        left, right = min(node, other_node), max(node, other_node)
        left_end = subtree_end(genome, left, symbol_set)
        if left_end > right:
            continue
        right_end = subtree_end(genome, right, symbol_set)
        deepest = max(
            levels[right] + max(levels[left:left_end]) - levels[left],
            levels[left] + max(levels[right:right_end]) - levels[right],
        )
        if deepest <= max_depth:
            parts = (genome[right:right_end], genome[left_end:right], genome[left:left_end])
            return b"".join((genome[:left], *parts, genome[right_end:]))
    return None


class Reproduction:
    """Creates offspring from `ranked` individuals, best first: tournament selection, operators by roulette wheel.

    The best rank of a tournament wins. Settings used: ``tournament``, ``max_depth``, ``crossover_depth``,
    ``initial_depth`` and the four operator rates.
    """

    def __init__(
        self, ranked: Sequence[bytes], symbol_set: SymbolSet, settings: EvolutionSettings, rng: Random
    ) -> None:
        if not ranked:
            raise ValueError("ranked: expected one parent or more, found none")
        self.ranked = ranked
        self.symbol_set = symbol_set
        self.settings = settings
        self.rng = rng
        self._operators: tuple[Operator, ...] = (self._cross, self.select_parent, self._replace, self._swap)
        rates = (settings.crossover, settings.reproduction, settings.replacement, settings.swap)
        self._cumulative_rates = tuple(accumulate(rates))
        self._crossover_parents: dict[bytes, bool] = {}  # by genome: is it shallow enough for crossover

    def make_offspring(self) -> bytes:
        """Return a new individual. O(size)."""
        for _ in range(_MAX_TRIES):
            child = self._draw_operator()()
            if child is not None:
                return child
        return self.select_parent()

    def select_parent(self) -> bytes:
        """Return the winner of a tournament. O(1)."""
        random, count = self.rng.random, len(self.ranked)
        return self.ranked[min(int(random() * count) for _ in range(self.settings.tournament))]

    def _draw_operator(self) -> Operator:
        threshold = self.rng.random() * self._cumulative_rates[-1]
        for operator, upper in zip(self._operators, self._cumulative_rates, strict=True):
            if threshold < upper:
                return operator
        return self.select_parent

    def _cross(self) -> bytes | None:
        first, second = self._select_crossover_parent(), self._select_crossover_parent()
        if first is None or second is None:
            return None
        return cross(first, second, self.symbol_set, self.settings.max_depth, self.rng)

    def _select_crossover_parent(self) -> bytes | None:
        """Return the first winner of up to 10 tournaments that is shallow enough for crossover."""
        for _ in range(_MAX_TRIES):
            parent = self.select_parent()
            if parent not in self._crossover_parents:
                self._crossover_parents[parent] = depth_of(parent, self.symbol_set) <= self.settings.crossover_depth
            if self._crossover_parents[parent]:
                return parent
        return None

    def _replace(self) -> bytes | None:
        return replace_subtree(self.select_parent(), self.symbol_set, self.settings, self.rng)

    def _swap(self) -> bytes | None:
        return swap_subtrees(self.select_parent(), self.symbol_set, self.settings.max_depth, self.rng)
