"""One request to a host at a time, and a pause between two."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

_PRUNED_AT: Final = 4_096  # hosts: from here on those that need no pause any more are dropped now and then


class HostRests(Exception):
    """A host must be left alone for ``seconds``."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(seconds)


@dataclass(slots=True)
class _Host:
    """``next_s``: when the next request may begin; ``users``: requests that hold or wait for it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    next_s: float = 0.0
    users: int = 0


class HostGate:
    """Lets requests pass one at a time and host, `delay_s` after the end of the one before, or what `slow` says.

    `clock`: seconds of a clock that is never set.
    """

    def __init__(self, delay_s: float, clock: Callable[[], float]) -> None:
        self._delay_s = delay_s
        self._clock = clock
        self._hosts: dict[str, _Host] = {}
        self._slow: dict[str, float] = {}
        self._prune_at = _PRUNED_AT

    def slow(self, host: str, delay_s: float) -> None:
        """Leave at least `delay_s` between two requests to `host` from now on, 0 for the usual delay. O(1)."""
        if delay_s > self._delay_s:
            self._slow[host] = delay_s
        else:
            self._slow.pop(host, None)

    def delay_s(self, host: str) -> float:
        """Return the delay of `host`. O(1)."""
        return self._slow.get(host, self._delay_s)

    @asynccontextmanager
    async def passing(self, host: str, most_s: float = math.inf) -> AsyncIterator[None]:
        """Hold the gate of `host` within the block. Raises HostRests if its pause is longer than `most_s`."""
        found = self._hosts.setdefault(host, _Host())
        found.users += 1
        try:
            async with found.lock:
                while (wait_s := found.next_s - self._clock()) > 0.0:
                    if wait_s > most_s:
                        raise HostRests(wait_s)
                    await asyncio.sleep(wait_s)
                try:
                    yield
                finally:
                    found.next_s = self._clock() + self.delay_s(host)
        finally:
            found.users -= 1
            self._prune()

    def _prune(self) -> None:
        if len(self._hosts) < self._prune_at:
            return
        now = self._clock()
        self._hosts = {name: host for name, host in self._hosts.items() if host.users or host.next_s > now}
        self._prune_at = max(_PRUNED_AT, 2 * len(self._hosts))
