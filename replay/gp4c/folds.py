"""Temporal cross-validation: five folds of pages, three spans of cycles, five rotations (GP4C, section 5.2).

A rotation trains on the first span of three folds, validates on the second span of the fourth and tests on the third
span of the fifth. The three share no page and no cycle, and the test follows the training in time.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from streamsched.errors import ReplayError
from streamsched.evolution.data.change_history import ChangeHistory
from streamsched.numerics.packed_urls import PackedUrls, hash_bytes
from streamsched.numerics.topk_order import tie_keys
from streamsched.replay.gp4c.prior import fit_prior
from streamsched.replay.gp4c.protocol_settings import FOLDS, SPANS, ProtocolSettings

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bools, Hashes, Ints
    from streamsched.replay.truth.ground_truth import Window

__all__ = ["Rotation", "Stages", "assign_folds", "cut_history", "rotate_folds", "split_history"]


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
    return ChangeHistory.of(
        history.changed,
        hashes=history.hashes,
        prior_shape=shape,
        prior_mean=mean,
        importance=history.importance,
        cost=history.cost,
    )


def _name_folds(folds: tuple[int, ...]) -> str:
    numbers = ", ".join(str(fold + 1) for fold in folds)
    return f"fold {numbers}" if len(folds) == 1 else f"folds {numbers}"


def _hash_urls(urls: PackedUrls) -> Hashes:
    """Return the hashes that a page table uses for the pages: uint64[n]. O(bytes)."""
    spans = pairwise(urls.offsets.tolist())
    return np.fromiter((hash_bytes(urls.blob, start, stop) for start, stop in spans), np.uint64, len(urls))
