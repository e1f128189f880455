"""Hash slots: every number placed is found by linear probing from its tag."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched.numerics.hash_slots import place_slot


@pytest.mark.parametrize("tags", [[7, 7, 7, 6, 0, 7], [2**32 - 1, 15, 0, 3], list(range(8))])
def test_numbers_are_in_the_first_free_slot_from_their_tag(tags: list[int]) -> None:
    slots, expected = np.zeros(8, np.uint64), [0] * 8
    for number, tag in enumerate(tags):
        place_slot(slots, np.uint64(tag), number)
        position = tag % 8
        while expected[position]:
            position = (position + 1) % 8
        expected[position] = tag << 32 | number + 1
    assert slots.tolist() == expected
