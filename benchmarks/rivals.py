"""Rivals as usually written in Python: a dict per page for ingest, NumPy columns and argpartition for the top k."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamsched.numerics.arrays import Floats, Rows

__all__ = ["DictIngest", "rank_columns"]


class DictIngest:
    """One dict per page, updated one event at a time, as stream-learning libraries keep their models."""

    def __init__(self) -> None:
        self.pages: dict[str, dict[str, Any]] = {}

    def learn_one(self, url: str, fetched_at: float, changed: bool) -> None:
        """Update the counting estimators and the Gamma posterior of one page."""
        page = self.pages.get(url)
        if page is None:
            self.pages[url] = {"last": fetched_at, "n": 0, "X": 0, "S": 0.0, "g": 0.0, "a": 0.5, "b": 5.0}
            return
        if fetched_at <= page["last"]:
            return
        interval = (fetched_at - page["last"]) / 86_400.0
        page["last"] = fetched_at
        page["n"] += 1
        page["g"] = page["g"] / 2 + changed
        if not changed:
            page["b"] += interval
            return
        page["X"] += 1
        page["S"] += page["n"]
        a, b = page["a"], page["b"]
        growth = math.log1p(interval / b)
        d0, d1, d2 = (-math.expm1(-(a + j) * growth) for j in range(3))
        mean = a / b * d1 / d0
        variance = a * (a + 1) / b**2 * d2 / d0 - mean**2
        page["a"], page["b"] = mean**2 / variance, mean / variance


def rank_columns(last: Floats, shape: Floats, exposure: Floats, now: float, k: int) -> Rows:
    """Return the top `k` by the probability of a change, from whole columns: float64[pages]."""
    elapsed = (now - last) / 86_400.0
    scores = 1.0 - (exposure / (exposure + elapsed)) ** shape
    top = np.argpartition(scores, scores.size - k)[scores.size - k :]
    return top[np.argsort(-scores[top])]
