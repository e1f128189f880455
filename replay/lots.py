"""Drawing lots: numbers that look random and depend on a key and a round alone, on any machine and NumPy."""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsched.arrays import Hashes

__all__ = ["draw_lots"]

_STEP: Final = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: splitmix64's increment


def draw_lots(keys: Hashes, turn: int) -> Hashes:
    """Return a lot for each of ``keys``: uint64[n], different from turn to turn; different keys never tie. O(n).

    The output function of splitmix64 (Steele, Lea & Flood 2014) at the key moved on by `turn` increments.

    >>> draw_lots(np.array([0], np.uint64), 1)[0] == 0xE220A8397B1DCDAF  # splitmix64's first output from seed 0
    np.True_
    """
    lots = keys + _STEP * np.array([turn], np.uint64)
    lots = (lots ^ (lots >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    lots = (lots ^ (lots >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(lots ^ (lots >> np.uint64(31)))
