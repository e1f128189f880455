"""The time of the service: the wall clock, which never goes back, or for rehearsals a faster one."""

from __future__ import annotations

import threading
from collections.abc import Callable


class ServiceClock:
    """The present time, never before a time that was read earlier. For several threads.

    `wall`: UTC epoch seconds, as ``time.time``; `steady`: seconds of a clock that is never set, as ``time.monotonic``.
    If the wall clock is put back, time continues by the steady clock until the wall clock has caught up: leases and
    delays that began before end as they should.

    >>> wall = iter([100.0, 90.0, 104.0])
    >>> clock = ServiceClock(lambda: next(wall), iter([0.0, 1.0, 2.0]).__next__)
    >>> clock.read(), clock.read(), clock.read()
    (100.0, 101.0, 104.0)
    """

    def __init__(self, wall: Callable[[], float], steady: Callable[[], float]) -> None:
        self._wall = wall
        self._steady = steady
        self._lock = threading.Lock()
        self._last_s = float("-inf")
        self._at_s = 0.0  # of the steady clock when `_last_s` was read

    def read(self) -> float:
        """Return the present time, UTC epoch seconds."""
        with self._lock:
            wall_s, steady_s = self._wall(), self._steady()
            self._last_s = wall_s if wall_s >= self._last_s else self._last_s + (steady_s - self._at_s)
            self._at_s = steady_s
            return self._last_s


class ScaledClock:
    """A time that goes `speed` times as fast as `steady`, seconds, once it has begun; until then it is `start_s`.

    For rehearsals: a year of a crawl in a minute. `start_s`: UTC epoch seconds.

    >>> clock = ScaledClock(1_000.0, 60.0, iter([7.0, 9.5]).__next__)
    >>> clock.read(), clock.begin(), clock.read()
    (1000.0, None, 1150.0)
    """

    def __init__(self, start_s: float, speed: float, steady: Callable[[], float]) -> None:
        self._start_s = start_s
        self._speed = speed
        self._steady = steady
        self._begun_s: float | None = None

    def begin(self) -> None:
        """Let the time pass from now on."""
        self._begun_s = self._steady()

    def read(self) -> float:
        """Return the time, UTC epoch seconds."""
        return self._start_s + (0.0 if self._begun_s is None else (self._steady() - self._begun_s) * self._speed)
