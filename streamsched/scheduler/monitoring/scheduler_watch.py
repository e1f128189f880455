"""Measures a scheduler at work: what its calls did, how its forecasts came true, how current the copies are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from streamsched.records.page_schema import FORGOTTEN, VISITED
from streamsched.scheduler.monitoring.calibration_watch import CalibrationWatch
from streamsched.scheduler.results import Noticed, Observed

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Rows
    from streamsched.scheduler.core import SchedulerCore
    from streamsched.scheduler.monitoring.reliability import Reliability
    from streamsched.scheduler.results import Batch

__all__ = ["SAMPLED_PAGES", "SchedulerWatch", "estimate_freshness"]

SAMPLED_PAGES: Final = 1 << 14  # of all, for the freshness: a standard error of 0.4 points at most
_FORECASTS_MOST: Final = 1_000  # of a batch


class SchedulerWatch:
    """Watches the calls of one scheduler from its making on. Methods may be called from several threads.

    ``observed``, ``noticed``: sums of what outcomes and signals did, from whichever source; ``batches``,
    ``handed_out``: batches and pages that were leased.
    """

    def __init__(self, core: SchedulerCore) -> None:
        self.observed = Observed()
        self.noticed = Noticed()
        self.batches = 0
        self.handed_out = 0
        self._core = core
        self._calibration = CalibrationWatch()
        core.listeners.append(self._note)

    def calibration(self, *, now: float) -> Reliability:
        """Return forecasts and visits of the newest `WINDOW` pages that were handed out and visited.

        The forecast of a page is the probability of a change when it was leased. O(forecasts that wait for a visit).
        """
        with self._core.lock:
            self._calibration.settle(self._core.pages.arrays.pages.records, now)
            return self._calibration.reliability

    def freshness(self, *, now: float, sample: int = SAMPLED_PAGES) -> float | None:
        """Return `estimate_freshness` of the scheduler. O(sample)."""
        with self._core.lock:
            return estimate_freshness(self._core, now, sample)

    def leased(self, *, now: float) -> int:
        """Return how many pages are leased at `now`. O(groups)."""
        core = self._core
        with core.lock, core.batch_builder.leases_as_of(now):
            shard = core.pages.arrays
            return int(shard.groups.records["out"][: int(shard.corpus["groups"][0])].sum(dtype=np.int64))

    def _note(self, result: Observed | Noticed | Batch) -> None:
        if isinstance(result, Observed):
            self.observed += result
        elif isinstance(result, Noticed):
            self.noticed += result
        else:
            self._note_batch(result)

    def _note_batch(self, batch: Batch) -> None:
        """Count a batch that is being leased, and keep forecasts for a part of its pages spread over its order."""
        self.batches += 1
        self.handed_out += len(batch)
        rows = batch.rows[_spread(len(batch), _FORECASTS_MOST)]
        until_s = batch.now if batch.lease_until_s is None else batch.lease_until_s
        foretold = self._core.batch_builder.change_probabilities(batch.now, rows)
        probabilities = np.clip(np.nan_to_num(foretold), 0.0, 1.0)
        self._calibration.note(self._core.pages.arrays.pages.records, rows, probabilities, until_s)


def estimate_freshness(core: SchedulerCore, now: float, sample: int = SAMPLED_PAGES) -> float | None:
    """Return the share of known pages whose copy is current at `now`, as expected; None without pages. O(sample).

    It is the mean of 1 − P(changed since the last visit), 0 for a page that was never visited, over at most `sample`
    rows at equal distances. It is as true as P is calibrated. Under the lock.
    """
    rows = _spread(len(core.pages), sample)
    rows = rows[core.pages.arrays.pages.records["rule"][rows] != FORGOTTEN]
    if rows.size == 0:
        return None
    changed = np.clip(np.nan_to_num(core.batch_builder.change_probabilities(now, rows)), 0.0, 1.0)
    is_visited = (core.pages.arrays.pages.records["flags"][rows] & VISITED) != 0
    return float(np.where(is_visited, 1.0 - changed, 0.0).mean())


def _spread(count: int, most: int) -> Rows:
    """Return at most `most` of the numbers below `count`, at equal distances: intp[m]. O(m)."""
    size = min(count, most)
    return np.arange(size) * count // max(size, 1)
