"""A bell: coroutines wait for it, any thread rings it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

Result = TypeVar("Result")

_PAUSE_S: Final = 0.02  # between two looks of a waiter, so that a bell that never stops costs little


class Bell:
    """Wakes those who wait. A ring while nobody waits is lost, so `first` listens before it looks."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waiting)

    def ring(self) -> None:
        """Wake all who wait. O(waiting)."""
        for waiting in list(self._waiting):
            with suppress(RuntimeError):  # its loop is closed
                waiting.get_loop().call_soon_threadsafe(_finish, waiting)

    async def first(
        self,
        look: Callable[[], Awaitable[Result]],
        is_enough: Callable[[Result], bool],
        wait_s: float,
        *,
        at_least_every_s: float = 60.0,
    ) -> Result:
        """Return what `look` returns once it `is_enough`, or as it is after `wait_s` seconds.

        It looks at once, at each ring, and from time to time.
        """
        end_s = time.monotonic() + wait_s
        while True:
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.add(waiting)
            try:
                found = await look()
                left_s = end_s - time.monotonic()
                if left_s <= 0.0 or is_enough(found):
                    return found
                await asyncio.wait([waiting], timeout=min(left_s, at_least_every_s))
            finally:
                self._waiting.discard(waiting)
                waiting.cancel()
            await asyncio.sleep(min(_PAUSE_S, max(end_s - time.monotonic(), 0.0)))


def _finish(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
