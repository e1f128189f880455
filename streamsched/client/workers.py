"""What asyncio and threads call differently: a condition that is waited for with a timeout, and a worker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType

__all__ = ["AsyncCondition", "AsyncWorker", "Condition", "Worker"]

Condition = threading.Condition


class AsyncCondition:
    """An asyncio.Condition with the methods of threading.Condition."""

    def __init__(self) -> None:
        self._condition = asyncio.Condition()

    async def __aenter__(self) -> None:
        await self._condition.acquire()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._condition.release()

    def notify_all(self) -> None:
        """Wake all that wait."""
        self._condition.notify_all()

    async def wait(self, timeout_s: float | None = None) -> None:
        """Wait until notified, for `timeout_s` seconds at most, None for ever."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._condition.wait()


class AsyncWorker:
    """Runs `work` as a task."""

    def __init__(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        self._task = asyncio.create_task(work())

    async def join(self) -> None:
        """Return once the work is done; it is cancelled if this is."""
        await self._task


class Worker:
    """Runs `work` in a thread, which does not keep the interpreter from its end."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=work, name="streamsched sender", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Return once the work is done."""
        self._thread.join()
