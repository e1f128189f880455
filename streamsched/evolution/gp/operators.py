"""How individuals become others: crossover, reproduction, replacement and swap mutation (sections 4.1 and 5.2).

Wherever a node is drawn, each node of the tree is as likely as any other, leaves too, so about half of what is
exchanged are leaves. (Koza draws inner nodes nine times in ten; the paper says "random".) What comes out is always one
whole tree of at most ``max_depth`` levels: places are drawn anew up to 10 times until it is. Where none is found the
operator has nothing to offer and another is drawn, up to 10 times, at last reproduction, which always has.
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

__all__ = ["Breeder", "cross", "replace_subtree", "swap_subtrees"]

Operator: TypeAlias = Callable[[], bytes | None]

_TRIES: Final = 10  # of drawing places, parents or operators that fit, before giving way


def cross(first: bytes, second: bytes, alphabet: SymbolSet, max_depth: int, rng: Random) -> bytes | None:
    """Return `first` with a random subtree of `second` in place of one of its own; None where 10 draws are too deep.

    Both parents have at most `max_depth` levels. O(size).
    """
    random = rng.random
    levels, donor_levels = levels_of(first, alphabet), levels_of(second, alphabet)
    for _ in range(_TRIES):
        start, donor = int(random() * len(first)), int(random() * len(second))
        donor_end = subtree_end(second, donor, alphabet)
        if levels[start] + max(donor_levels[donor:donor_end]) - donor_levels[donor] <= max_depth:
            return first[:start] + second[donor:donor_end] + first[subtree_end(first, start, alphabet) :]
    return None


def replace_subtree(genome: bytes, alphabet: SymbolSet, settings: EvolutionSettings, rng: Random) -> bytes:
    """Return `genome` with a new tree in place of a random subtree. O(size).

    The new tree is grown; its depth limit is the greatest that the first generation knew, or what room there is.
    """
    start = int(rng.random() * len(genome))
    room = settings.max_depth - levels_of(genome[: start + 1], alphabet)[start] + 1
    new = grow_tree(alphabet, min(room, settings.initial_depth[1]), rng)
    return genome[:start] + new + genome[subtree_end(genome, start, alphabet) :]


def swap_subtrees(genome: bytes, alphabet: SymbolSet, max_depth: int, rng: Random) -> bytes | None:
    """Return `genome` with two of its subtrees in each other's place, neither within the other. O(size).

    It has at most `max_depth` levels. None where 10 draws find no two that fit: in a leaf, or a chain of functions of
    one operand, there are none.
    """
    random = rng.random
    levels = levels_of(genome, alphabet)
    for _ in range(_TRIES):
        one, other = int(random() * len(genome)), int(random() * len(genome))
        left, right = min(one, other), max(one, other)
        left_end = subtree_end(genome, left, alphabet)
        if left_end > right:
            continue
        right_end = subtree_end(genome, right, alphabet)
        deepest = max(
            levels[right] + max(levels[left:left_end]) - levels[left],
            levels[left] + max(levels[right:right_end]) - levels[right],
        )
        if deepest <= max_depth:
            parts = (genome[right:right_end], genome[left_end:right], genome[left:left_end])
            return b"".join((genome[:left], *parts, genome[right_end:]))
    return None


class Breeder:
    """Makes new individuals from `ranked` ones, the best first: parents by tournament, operators by roulette.

    Of an individual's tournament the best rank wins. Of the settings it reads ``tournament``, ``max_depth``,
    ``crossover_depth``, ``initial_depth`` and the four rates.
    """

    def __init__(self, ranked: Sequence[bytes], alphabet: SymbolSet, settings: EvolutionSettings, rng: Random) -> None:
        if not ranked:
            raise ValueError("ranked: expected one parent or more, found none")
        self.ranked = ranked
        self.alphabet = alphabet
        self.settings = settings
        self.rng = rng
        self._operators: tuple[Operator, ...] = (self._cross, self.pick, self._replace, self._swap)
        rates = (settings.crossover, settings.reproduction, settings.replacement, settings.swap)
        self._wheel = tuple(accumulate(rates))
        self._shallow: dict[bytes, bool] = {}  # may the individual take part in a crossover

    def breed(self) -> bytes:
        """Return a new individual. O(size)."""
        for _ in range(_TRIES):
            child = self._draw_operator()()
            if child is not None:
                return child
        return self.pick()

    def pick(self) -> bytes:
        """Return the winner of a tournament. O(1)."""
        random, count = self.rng.random, len(self.ranked)
        return self.ranked[min(int(random() * count) for _ in range(self.settings.tournament))]

    def _draw_operator(self) -> Operator:
        point = self.rng.random() * self._wheel[-1]
        for operator, end in zip(self._operators, self._wheel, strict=True):
            if point < end:
                return operator
        return self.pick

    def _cross(self) -> bytes | None:
        first, second = self._pick_shallow(), self._pick_shallow()
        if first is None or second is None:
            return None
        return cross(first, second, self.alphabet, self.settings.max_depth, self.rng)

    def _pick_shallow(self) -> bytes | None:
        """Return the winner of the first of 10 tournaments whose winner may take part in a crossover."""
        for _ in range(_TRIES):
            parent = self.pick()
            if parent not in self._shallow:
                self._shallow[parent] = depth_of(parent, self.alphabet) <= self.settings.crossover_depth
            if self._shallow[parent]:
                return parent
        return None

    def _replace(self) -> bytes | None:
        return replace_subtree(self.pick(), self.alphabet, self.settings, self.rng)

    def _swap(self) -> bytes | None:
        return swap_subtrees(self.pick(), self.alphabet, self.settings.max_depth, self.rng)
