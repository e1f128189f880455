"""Rankings with fixed scores: a formula, and pages made so that it gives any score."""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsched.formula import Formula
from streamsched.numerics.arrays import Floats
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.state.page_table import PageTable

SCORE: Final = Formula.parse("rate").compile()


def set_scores(table: PageTable, values: Floats) -> None:
    """Let `SCORE` score page i by the i-th of `values`: float64[pages]."""
    pages = table.arrays.pages.records[: values.size]
    pages["prior_shape"], pages["own_shape"] = -0.0, values  # -0.0 + x is x, also for x = -0.0
    pages["prior_exposure"], pages["own_exposure"] = 0.0, 1.0


def make_pages(count: int) -> PageTable:
    """Pages ``https://a.example/0`` and so on."""
    table = PageTable(86_400.0)
    blob = "".join(f"https://a.example/{i}" for i in range(count)).encode()
    lengths = 18 + np.char.str_len(np.arange(count).astype(str))
    table.discover(PackedUrls(blob, np.concatenate([[0], np.cumsum(lengths)])), 0.0)
    return table
