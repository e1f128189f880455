"""Limits of the rate of requests: a bucket of tokens for each caller."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

__all__ = ["RateLimit"]

_MOST_CALLERS: Final = 10_000  # remembered; of more, the one that has called least recently is forgotten


class RateLimit:
    """Lets each caller make `rate` requests a second, and as many at once. O(1) a request.

    `clock`: seconds of a clock that is never set.

    >>> times = iter([0.0, 0.0, 0.0, 0.5])
    >>> limit = RateLimit(2, times.__next__)
    >>> [limit.wait_s("a") for _ in range(4)]
    [0.0, 0.0, 0.5, 0.0]
    """

    def __init__(self, rate: float, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # requests left, and when

    def wait_s(self, caller: str) -> float:
        """Count a request of `caller`; return 0 if it may be made, else the seconds after which one may."""
        with self._lock:
            now_s = self._clock()
            left, at_s = self._buckets.get(caller, (self._rate, now_s))
            left = min(self._rate, left + (now_s - at_s) * self._rate)
            allowed = left >= 1.0
            self._buckets[caller] = (left - 1.0 if allowed else left, now_s)
            self._buckets.move_to_end(caller)
            if len(self._buckets) > _MOST_CALLERS:
                self._buckets.popitem(last=False)
        return 0.0 if allowed else (1.0 - left) / self._rate
