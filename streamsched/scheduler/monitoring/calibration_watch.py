"""Calibration of a scheduler at work: foretold probabilities of a change against what the visits found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from streamsched.scheduler.monitoring.reliability import Reliability

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bools, Floats, Ints, Records, Rows

__all__ = ["PENDING_MOST", "WINDOW", "CalibrationWatch"]

WINDOW: Final = 10_000  # visits; with that many, chance alone moves the calibration error by 1 to 2 points
PENDING_MOST: Final = 1 << 16  # forecasts that wait for a visit


class _Forecasts(NamedTuple):
    """Forecasts for m pages, and what was known of the pages at that moment."""

    rows: Ints
    probabilities: Floats
    visits: Ints
    changes: Ints
    until_s: Floats

    def take(self, which: Bools) -> _Forecasts:
        return _Forecasts(
            self.rows[which], self.probabilities[which], self.visits[which], self.changes[which], self.until_s[which]
        )


class CalibrationWatch:
    """Compares each forecast with the next visit to its page that could show a change. For one call at a time.

    A forecast is dropped if the page's lease expires before such a visit, or if more than one visit came between two
    calls of `settle`, because it is not known which of them found the change. `window`: how many of the newest compared
    forecasts count; `most`: further forecasts are ignored while that many wait. Nothing is saved with the state.
    """

    def __init__(self, window: int = WINDOW, most: int = PENDING_MOST) -> None:
        self._window = window
        self._most = most
        self._pending: list[_Forecasts] = []
        self._waiting = 0
        self._probabilities: Floats = np.empty(0)
        self._changed: Bools = np.empty(0, np.bool_)

    def __len__(self) -> int:
        """Return how many forecasts wait for a visit."""
        return self._waiting

    def note(self, pages: Records, rows: Rows, probabilities: Floats, until_s: float) -> None:
        """Keep forecasts for ``rows``: int64[m], each once, whose leases expire at `until_s`. O(m).

        ``pages``: PAGE[n], the records of all pages; ``probabilities``: float64[m].
        """
        if self._waiting + rows.size > self._most:
            return
        known = pages[rows]
        counts = known["visits"].astype(np.int64), known["changes"].astype(np.int64)
        forecasts = _Forecasts(rows.astype(np.int64), probabilities, *counts, np.full(rows.size, until_s))
        self._pending.append(forecasts)
        self._waiting += rows.size

    def settle(self, pages: Records, now: float) -> None:
        """Compare the forecasts whose pages have been visited, and drop those whose leases have expired by `now`.

        O(waiting log waiting).
        """
        if not self._pending:
            return
        waiting = _Forecasts(*map(np.concatenate, zip(*self._pending, strict=True)))
        visits, changes, is_last = _find_following(waiting, pages)
        compared = visits - waiting.visits == 1
        stays = (visits == waiting.visits) & is_last & (waiting.until_s > now)
        found = (changes - waiting.changes)[compared] == 1
        self._probabilities = np.concatenate([self._probabilities, waiting.probabilities[compared]])[-self._window :]
        self._changed = np.concatenate([self._changed, found])[-self._window :]
        self._pending = [waiting.take(stays)]
        self._waiting = int(np.count_nonzero(stays))

    @property
    def reliability(self) -> Reliability:
        """The compared forecasts of the window. O(window)."""
        return Reliability.of(self._probabilities, self._changed)


def _find_following(waiting: _Forecasts, pages: Records) -> tuple[Ints, Ints, Bools]:
    """Return the counts of visits and changes at the next forecast for the same page, or now: int64[m] each.

    Also returns which forecasts are the last of their pages: bool[m].
    """
    known = pages[waiting.rows]
    visits, changes = known["visits"].astype(np.int64), known["changes"].astype(np.int64)
    order = np.argsort(waiting.rows, kind="stable")
    is_repeated = waiting.rows[order[1:]] == waiting.rows[order[:-1]]
    earlier, later = order[:-1][is_repeated], order[1:][is_repeated]
    visits[earlier], changes[earlier] = waiting.visits[later], waiting.changes[later]
    is_last = np.ones(waiting.rows.size, np.bool_)
    is_last[earlier] = False
    return visits, changes, is_last
