"""Random numbers in kernels, from a state of one uint64: identical on every machine, with one stream per page."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from streamsched.numerics.compilation.machine_operations import fold_multiply
from streamsched.numerics.jit import bare_kernel, inlined_kernel, mix

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Hashes

__all__ = ["draw_gamma", "draw_uniform", "seed_state"]

_INCREMENT: Final = np.uint64(0xA0761D6478BD642F)  # wyrand's constants: odd, half of their bits set
_XOR_MASK: Final = np.uint64(0xE7037ED1A0B428DB)


@inlined_kernel
def seed_state(state: Hashes, seed: int, page_hash: int) -> None:
    """Set `state`: uint64[1] to the start of a page's stream under a seed, both uint64. O(1)."""
    state[0] = mix(page_hash ^ mix(seed ^ _XOR_MASK))


@bare_kernel
def draw_uniform(state: Hashes) -> float:
    """Return the next uniform number in (0, 1), both ends excluded. O(1). Source: wyrand, of wyhash 4.2.

    >>> state = np.zeros(1, np.uint64)
    >>> seed_state(state, np.uint64(1), np.uint64(2))
    >>> 0.0 < draw_uniform(state) < 1.0
    True
    """
    state[0] += _INCREMENT
    word = fold_multiply(state[0], state[0] ^ _XOR_MASK)
    return (np.float64(word >> np.uint64(12)) + 0.5) * 2.0**-52


@bare_kernel
def draw_gamma(state: Hashes, shape: float) -> float:
    """Return a draw from the Gamma distribution with that shape > 0 and scale 1. O(1) expected.

    Rejection sampling from a cubed normal; below shape 1, a draw of shape + 1 times a power of a uniform (Marsaglia and
    Tsang 2000, "A simple method for generating gamma variables").
    """
    scale = 1.0
    if shape < 1.0:
        scale = draw_uniform(state) ** (1.0 / shape)
        shape += 1.0
    mode = shape - 1.0 / 3.0
    while True:
        normal = math.sqrt(-2.0 * math.log(draw_uniform(state))) * math.cos(2.0 * math.pi * draw_uniform(state))
        cube = (1.0 + normal / math.sqrt(9.0 * mode)) ** 3
        if cube > 0.0:
            bound = 0.5 * normal * normal + mode * (1.0 - cube + math.log(cube))
            if math.log(draw_uniform(state)) < bound:
                return scale * mode * cube
