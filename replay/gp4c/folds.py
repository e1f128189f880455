"""Temporal cross-validation: five folds of pages, three spans of cycles, five rotations (GP4C, section 5.2).

A rotation trains on the first span of three folds, validates on the second span of the fourth and tests on the third
span of the fifth. The three share no page and no cycle, and the test follows the training in time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from streamsched.errors import ReplayError
from streamsched.evolution.data.change_history import ChangeHistory
from streamsched.numerics.arrays import Bools, Hashes, Ints
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.numerics.topk_order import tie_keys
from streamsched.numerics.url_bytes import hash_bytes
from streamsched.replay.gp4c.protocol_settings import FOLDS, SPANS, ProtocolSettings
from streamsched.replay.ground_truth import Window

_LOWEST_SHAPE: Final = 0.1  # below, a page's first visit would dominate its estimate
_HIGHEST_SHAPE: Final = 100.0  # above, pages hardly differ
_HALVINGS: Final = 200  # bisection steps on the logarithm of the exposure: to the last bit


def fit_prior(changed: Bools) -> tuple[float, float]:
    """Return shape and mean, changes per cycle, of the prior of ``changed``: bool[pages, cycles]. O(pages · cycles).

    Shapes are limited to 0.1 to 100. The fit includes one extra page that changes in half of the cycles, so the mean is
    above 0 if nothing changes, and finite if every page changes in every cycle.

    >>> flags = np.random.default_rng(1).random((50_000, 19)) < 1 - np.exp(-np.random.default_rng(2).gamma(
    ...     0.5, 0.2, (50_000, 1)))
    >>> shape, mean = fit_prior(flags)
    >>> round(shape, 1), round(mean, 2)
    (0.5, 0.1)
    """
    pages, cycles = changed.shape
    quiet = (cycles - np.count_nonzero(changed, 1)).astype(np.float64)
    singles = (float(quiet.sum()) / cycles + 0.5) / (pages + 1.0)
    shape = _HIGHEST_SHAPE
    if cycles > 1:
        pairs = (float((quiet * (quiet - 1.0)).sum()) / (cycles * (cycles - 1.0)) + 0.25) / (pages + 1.0)
        shape = _solve_shape(-math.log(singles), -math.log(pairs))
    exposure = 1.0 / math.expm1(-math.log(singles) / shape)
    return shape, shape / exposure


def _solve_shape(single: float, pair: float) -> float:
    """Return the shape, within its limits, for these negative logarithms of the shares of quiet cycles and pairs."""
    ratio = pair / single
    low, high = -50.0, 50.0  # of the exposure's logarithm
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        exposure = math.exp(middle)
        if math.log1p(2 / exposure) / math.log1p(1 / exposure) < ratio:
            low = middle
        else:
            high = middle
    return min(max(single / math.log1p(math.exp(-low)), _LOWEST_SHAPE), _HIGHEST_SHAPE)


@dataclass(frozen=True, slots=True)
class Rotation:
    """The folds, numbered from 0, for training, validation and test."""

    train: tuple[int, ...]
    validation: int
    test: int


@dataclass(frozen=True, slots=True, eq=False)
class Stages:
    """The histories of one rotation, each with its own pages and its own span.

    ``prior_shape`` and ``prior_mean``: the Gamma prior of a page's changes per cycle, fitted to `train` and used by all
    three histories.
    """

    train: ChangeHistory
    validation: ChangeHistory
    test: ChangeHistory
    prior_shape: float
    prior_mean: float


def rotate_folds(folds: int = FOLDS) -> tuple[Rotation, ...]:
    """Return one rotation per fold: each fold is the test fold once and the validation fold once.

    >>> rotate_folds()[0], rotate_folds()[4].test
    (Rotation(train=(1, 2, 3), validation=4, test=0), 4)
    """
    turns = [[(test + 1 + place) % folds for place in range(folds)] for test in range(folds)]
    return tuple(Rotation(tuple(turn[:-2]), turn[-2], turn[-1]) for turn in turns)


def assign_folds(hashes: Hashes, folds: int, seed: int) -> Ints:
    """Return each page's fold: int64[pages], whose sizes differ by at most one page. O(pages log pages).

    Pages are assigned in turn in the order of their salted ``hashes``: uint64[pages]. The order of the log and the
    content of URLs have no influence.

    >>> assign_folds(np.arange(6, dtype=np.uint64), 3, seed=0).tolist()
    [1, 2, 1, 0, 0, 2]
    """
    order = np.lexsort((hashes, tie_keys(hashes, seed)))
    fold_of = np.empty(hashes.size, np.int64)
    fold_of[order] = np.arange(hashes.size) % folds
    return fold_of


def cut_history(window: Window) -> ChangeHistory:
    """Return the cycles in which each page of the window changed. O(pages · cycles + changes).

    Importance comes from the log; costs and the prior are unknown.
    """
    edges = np.array([window.edge(cycle) for cycle in range(1, window.cycles)])
    changed: Bools = np.zeros((window.pages, window.cycles), np.bool_)
    pages = np.repeat(np.arange(window.pages), window.changes())
    changed[pages, np.searchsorted(edges, window.times_s, "right")] = True
    importance = 1.0 if window.importance is None else window.importance
    return ChangeHistory.of(changed, hashes=_hash_urls(window.urls), importance=importance)


def split_history(history: ChangeHistory, fold_of: Ints, rotation: Rotation, settings: ProtocolSettings) -> Stages:
    """Return the rotation's histories for training, validation and test, ``fold_of``: int64[pages] from `assign_folds`.

    O(pages · cycles). Raises ReplayError if nothing changes in the ranked cycles of one of them.
    """
    cycles = history.cycles // SPANS
    parts = {}
    for span, (name, folds) in enumerate(
        (("train", rotation.train), ("validation", (rotation.validation,)), ("test", (rotation.test,)))
    ):
        parts[name] = history.take(np.flatnonzero(np.isin(fold_of, folds))).span(span * cycles, cycles)
        if not parts[name].changed[:, settings.warmup :].any():
            raise ReplayError(
                f"none of the {parts[name].pages} pages of {_name_folds(folds)} changes in the ranked cycles of span "
                f"{span + 1}: there is nothing to {_PURPOSES[name]}; expected a longer window or more pages"
            )
    shape, mean = fit_prior(parts["train"].changed)
    stages = {name: _give_prior(part, shape, mean) for name, part in parts.items()}
    return Stages(**stages, prior_shape=shape, prior_mean=mean)


_PURPOSES = {"train": "train on", "validation": "validate on", "test": "test on"}


def _give_prior(history: ChangeHistory, shape: float, mean: float) -> ChangeHistory:
    columns: dict[str, Any] = {**history.columns, "prior_mean": mean}
    return ChangeHistory.of(history.changed, hashes=history.hashes, prior_shape=shape, **columns)


def _name_folds(folds: tuple[int, ...]) -> str:
    numbers = ", ".join(str(fold + 1) for fold in folds)
    return f"fold {numbers}" if len(folds) == 1 else f"folds {numbers}"


def _hash_urls(urls: PackedUrls) -> Hashes:
    """Return the hashes that a page table uses for the pages: uint64[n]. O(bytes)."""
    spans = pairwise(urls.offsets.tolist())
    return np.fromiter((hash_bytes(urls.blob, start, stop) for start, stop in spans), np.uint64, len(urls))
