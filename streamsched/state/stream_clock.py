"""Streams of outcomes: which times are too far in the future.

Much depends on the newest time that a scheduler has seen: how rhythms fade, which cycle evolution and the panel are in,
when a page was last visited. One wrong clock among the crawlers must not move it, so outcomes are checked against the
stream's own times or the caller's clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from streamsched.errors import InvalidOutcome, InvalidRecord, InvalidSignal, SettingsError
from streamsched.numerics.argument_checks import TIME_LIMIT_S, check_time
from streamsched.numerics.arrays import Floats, Ints
from streamsched.numerics.durations import format_duration, parse_duration
from streamsched.outcomes import OutcomeBatch
from streamsched.signals import SignalBatch

MAX_AHEAD: Final = "100d"  # of the stream's newest time: a crawl once a quarter is no jump, a wrong year is one
MAX_AHEAD_OF_CLOCK: Final = "1d"  # clocks in a wrong time zone are hours apart


class StreamClock:
    """The newest time of a stream, which a single outcome with a wrong time cannot move far.

    An outcome is refused if it is more than ``max_ahead_s`` ahead of ``newest_s``, the newest accepted time. Each
    consecutive refusal moves the bound by another ``max_ahead_s``, so that a stream continues after a gap; an outcome
    within ``max_ahead_s`` of the newest time resets the count. Older outcomes are accepted and change nothing. The
    first outcome is not known to be right until a second one comes near it: an older one replaces it, and so do two
    later ones that agree. Those near one that was replaced are accepted meanwhile, as it was.

    The result does not depend on how outcomes are cut into batches. ``max_ahead_s`` None refuses nothing.
    ``has_moved``: whether the last call changed anything. For one call at a time.
    """

    def __init__(self, max_ahead_s: float | None) -> None:
        self.max_ahead_s = max_ahead_s
        self.newest_s = -math.inf
        self.has_moved = False
        self._is_supported = False  # a second outcome, or a clock, confirmed the newest time
        self._refusals = 0  # in a row
        self._rival_s: float | None = None  # later than the newest time while that has no support
        self._replaced_s: float | None = None  # by an older one, which has no support either

    def admit(self, times: Floats, latest_s: float | None = None) -> Ints:
        """Take the times of outcomes, float64[n], in their order; return the positions of those refused.

        `latest_s`: accept all times up to this one instead, because a clock says so. O(n log n), usually O(n).
        """
        before = self.state()
        refused = self._admit_in_order(times) if latest_s is None else self._admit_until(times, latest_s)
        self.has_moved = self.state() != before
        return refused

    def advance(self, now: float) -> None:
        """Take the time of a call: its caller knows what time it is. O(1)."""
        before = self.state()
        self.newest_s = max(now, self.newest_s) if self._is_supported else now
        self._support()
        self.has_moved = self.state() != before

    def turn_back(self, latest_s: float, newest_s: float) -> int:
        """Set the newest time to `newest_s` if it is later than `latest_s`; return 1 if so, else 0. O(1)."""
        if self.newest_s <= latest_s:
            return 0
        self.newest_s = newest_s
        self._support()
        return 1

    def state(self) -> dict[str, Any]:
        """Return the newest time and the counts, as plain values for JSON; `restore` takes them."""
        newest_s = self.newest_s if math.isfinite(self.newest_s) else None
        doubts = {"rival_s": self._rival_s, "replaced_s": self._replaced_s}
        return {"newest_s": newest_s, "supported": self._is_supported, "refusals": self._refusals, **doubts}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state` returned."""
        self.newest_s = -math.inf if state["newest_s"] is None else state["newest_s"]
        self._is_supported, self._refusals = state["supported"], state["refusals"]
        self._rival_s, self._replaced_s = state["rival_s"], state.get("replaced_s")

    def latest_valid(self, latest_s: float | None) -> tuple[float, bool]:
        """Return the latest time that is believed now, inf if any is, and whether it can only grow.

        `latest_s`: as for `admit`.
        """
        if latest_s is not None or self.max_ahead_s is None:
            return math.inf if latest_s is None else latest_s, True
        if self.newest_s == -math.inf:
            return math.inf, False
        return self.newest_s + self.max_ahead_s, self._is_supported

    def describe_bound(self, latest_s: float | None) -> str:
        """Return what an error expects in place of a refused time."""
        if latest_s is not None:
            return f"UTC epoch seconds up to {latest_s:.0f}, by the present time"
        ahead = format_duration(self.max_ahead_s or 0.0)
        return f"UTC epoch seconds at most {ahead} (max_ahead) ahead of the newest outcome before it"

    def _admit_until(self, times: Floats, latest_s: float) -> Ints:
        late = times > latest_s
        newest_s = float(times[~late].max(initial=-math.inf))
        if newest_s > -math.inf:
            self.newest_s = max(self.newest_s, newest_s)
            self._support()
        return np.flatnonzero(late)

    def _admit_in_order(self, times: Floats) -> Ints:
        """Take times one by one, twice as many each time, until all that follow can be taken at once."""
        refused: list[int] = []
        at, count = 0, 1
        while at < times.size and not self._admit_all(times[at:]):
            refused += [
                at + i for i, time_s in enumerate(times[at : at + count].tolist()) if not self._admit_one(time_s)
            ]
            at, count = at + count, 2 * count
        return np.array(refused, np.int64)

    def _admit_all(self, times: Floats) -> bool:
        """Take all of `times` if each is accepted, which is the usual case; return whether they were."""
        if self.max_ahead_s is None:
            self.newest_s = float(times.max(initial=self.newest_s))
            return True
        if not self._is_supported or self._refusals:
            return False
        newest_s = float(times.max(initial=self.newest_s))
        if newest_s - self.newest_s > self.max_ahead_s:
            before = np.maximum.accumulate(np.concatenate(([self.newest_s], times[:-1])))
            if np.any(times - before > self.max_ahead_s):
                return False
        self.newest_s = newest_s
        return True

    def _admit_one(self, time_s: float) -> bool:
        assert self.max_ahead_s is not None
        if self.newest_s == -math.inf:
            self.newest_s = time_s
        elif abs(time_s - self.newest_s) <= self.max_ahead_s:
            if time_s != self.newest_s:  # the same may be the same outcome once more
                self._support()
            self.newest_s, self._refusals = max(self.newest_s, time_s), 0
        elif not self._is_supported:
            return self._try_first(time_s)
        elif time_s > self.newest_s + self.max_ahead_s * (1 + self._refusals):
            self._refusals += 1
            return False
        elif time_s > self.newest_s:
            self.newest_s, self._refusals = time_s, 0
        return True

    def _try_first(self, time_s: float) -> bool:
        """Take a time that contradicts the only one before it; return whether it is accepted."""
        assert self.max_ahead_s is not None
        if time_s < self.newest_s:
            self._replaced_s, self.newest_s = self.newest_s, time_s
            return True
        if self._rival_s is None or time_s == self._rival_s or abs(time_s - self._rival_s) > self.max_ahead_s:
            self._rival_s = time_s
            return self._replaced_s is not None and abs(time_s - self._replaced_s) <= self.max_ahead_s
        self.newest_s = max(time_s, self._rival_s)
        self._support()
        return True

    def _support(self) -> None:
        """Take the newest time as right."""
        self._is_supported, self._refusals, self._rival_s, self._replaced_s = True, 0, None, None


@dataclass(frozen=True, slots=True)
class WallClock:
    """The clock of a live scheduler: `read` returns UTC epoch seconds, as `time.time` does.

    Times more than `max_ahead` ahead of it are refused; None refuses none. Raises SettingsError.
    """

    read: Callable[[], float]
    max_ahead: str | float | None = MAX_AHEAD_OF_CLOCK

    def __post_init__(self) -> None:
        if not callable(self.read):
            raise SettingsError("read", self.read, "a function that returns the time, as time.time does")
        object.__setattr__(self, "max_ahead", parse_max_ahead(self.max_ahead))

    def latest_s(self, newest_s: float = -math.inf) -> float:
        """Return the latest time that is accepted, if `newest_s` is known to have been reached."""
        if self.max_ahead is None:
            return TIME_LIMIT_S
        return max(check_time(self.read(), "clock"), newest_s) + float(self.max_ahead)

    def check_now(self, now: float, newest_s: float) -> float:
        """Return `now`; raises SettingsError if it is too far ahead of both the clock and `newest_s`."""
        latest_s = self.latest_s(newest_s)
        if now > latest_s:
            raise SettingsError("now", now, f"UTC epoch seconds up to {latest_s:.0f}, by the present time")
        return now


def parse_max_ahead(max_ahead: str | float | None) -> float | None:
    """Return the setting `max_ahead` in seconds, None for no bound. Raises SettingsError."""
    return None if max_ahead is None else parse_duration(max_ahead, "max_ahead")


def admit_outcomes(
    clock: StreamClock, batch: OutcomeBatch, problems: list[InvalidOutcome], latest_s: float | None
) -> tuple[OutcomeBatch, list[InvalidOutcome]]:
    """Return the valid outcomes of `batch` that `clock` accepts, and the problems of all others by record. O(n).

    `problems`: what ``batch.problems()`` returned; `latest_s`: as for `StreamClock.admit`.
    """
    admitted = _admit_rows(clock, batch.fetched_at, problems, latest_s)
    found = [InvalidOutcome(record, "fetched_at", time_s, admitted.expected) for record, time_s in admitted.ahead]
    problems = sorted([*problems, *found], key=lambda problem: problem.record) if found else problems
    return (batch if admitted.rows is None else batch.take(admitted.rows)), problems


def admit_signals(
    clock: StreamClock, batch: SignalBatch, problems: list[InvalidSignal], latest_s: float | None
) -> tuple[SignalBatch, list[InvalidSignal]]:
    """Return the valid signals of `batch` that `clock` accepts, and the problems of the others, as `admit_outcomes`."""
    admitted = _admit_rows(clock, batch.at, problems, latest_s)
    found = [InvalidSignal(record, "at", time_s, admitted.expected) for record, time_s in admitted.ahead]
    problems = sorted([*problems, *found], key=lambda problem: problem.record) if found else problems
    return (batch if admitted.rows is None else batch.take(admitted.rows)), problems


class _Admitted(NamedTuple):
    """Which records a clock accepts: int64[m], None for all; and the others with their times, and what was expected."""

    rows: Ints | None
    ahead: list[tuple[int, float]]
    expected: str


def _admit_rows(
    clock: StreamClock, times: Floats, problems: Sequence[InvalidRecord], latest_s: float | None
) -> _Admitted:
    """Let `clock` take the ``times``: float64[n] of all records but those with `problems`."""
    rows = None
    if problems:
        valid = np.ones(times.size, np.bool_)
        valid[[problem.record for problem in problems]] = False
        rows = np.flatnonzero(valid)
    refused = clock.admit(times if rows is None else times[rows], latest_s)
    if not refused.size:
        return _Admitted(rows, [], "")
    rows = np.arange(times.size) if rows is None else rows
    ahead = list(zip(rows[refused].tolist(), times[rows[refused]].tolist(), strict=True))
    return _Admitted(np.delete(rows, refused), ahead, clock.describe_bound(latest_s))
