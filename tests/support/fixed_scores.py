"""Rankings with fixed scores: a stand-in for a compiled formula, and pages numbered by importance."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from streamsched.formula import Arena
from streamsched.numerics.arrays import Floats
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.state.page_table import PageTable


class TableOfScores:
    """A program that scores page i, of importance i, by the i-th of `values`: float64[pages]."""

    terminals = ("importance",)

    def __init__(self, values: Floats) -> None:
        self._values = values

    def arena(self, block: int) -> Arena:
        return Arena(block, len(self.terminals))

    def run(self, columns: Mapping[str, Floats], out: Floats, arena: Arena) -> None:
        assert out.size <= arena.block
        np.take(self._values, columns["importance"].astype(np.int64), out=out)


def make_pages(count: int) -> PageTable:
    """Pages ``https://a.example/0`` and so on, page i with importance i."""
    table = PageTable(86_400.0, 6)
    blob = "".join(f"https://a.example/{i}" for i in range(count)).encode()
    lengths = 18 + np.char.str_len(np.arange(count).astype(str))
    table.discover(PackedUrls(blob, np.concatenate([[0], np.cumsum(lengths)])), 0.0)
    table.arrays.pages.records["importance"][:count] = np.arange(count)
    return table
