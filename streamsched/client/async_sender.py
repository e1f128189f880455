"""Reports outcomes in the background, for asyncio."""

# sync_sender.py is made of this file by `make client`.

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeAlias

from streamsched.client.buffer import OutcomeBuffer
from streamsched.client.protocol.events import Outcome
from streamsched.client.workers import AsyncCondition, AsyncWorker
from streamsched.errors import SettingsError

if TYPE_CHECKING:
    from streamsched.answers import ObservedOutcomes
    from streamsched.client.async_client import AsyncClient

__all__ = ["AsyncOutcomeSender"]

_OnAnswer: TypeAlias = Callable[[Sequence[Outcome], "ObservedOutcomes"], None]


class AsyncOutcomeSender:
    """Sends outcomes in the background, many in one request; an asynchronous context manager.

    ``client``: what sends them, which the sender does not close; ``frame``: the most outcomes of a request, 1 to
    10,000; ``every_s``: the longest time that an outcome waits while the service answers; ``capacity``: the most
    outcomes that wait, then `add` waits; ``on_answer``: called with the outcomes of each request and its answer, which
    names the rejected ones; ``clock``: seconds of a clock that is never set.

    Outcomes are sent in the order in which they were added, and stay in the buffer until the service has them on disk.
    If it gives no answer, they are sent again until it does; if it refuses them, the sender stops. No outcome is
    dropped: at the end of the block all are sent, or the error is raised and ``unsent`` has the others.
    ``counts``: how many outcomes had which fate.
    """

    def __init__(
        self,
        client: AsyncClient,
        *,
        frame: int = 1_000,
        every_s: float = 1.0,
        capacity: int = 100_000,
        on_answer: _OnAnswer | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._client = client
        self._buffer = OutcomeBuffer(frame=frame, every_s=every_s, capacity=capacity)
        self._every_s = every_s
        self._on_answer = on_answer
        self._clock = clock
        self._changed = AsyncCondition()
        self._worker: AsyncWorker | None = None
        self._flush_to = 0  # outcomes, counted from the first, that are due at once
        self._failures = 0
        self._failure: Exception | None = None  # of the last request
        self._is_open = False
        self._has_stopped = False

    @property
    def unsent(self) -> list[Outcome]:
        """The outcomes that the service has not yet confirmed to be on disk, oldest first."""
        return self._buffer.outcomes()

    async def __aenter__(self) -> Self:
        self._is_open = True
        self._worker = AsyncWorker(self._work)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Send what waits. Raises the error that has stopped the sender."""
        async with self._changed:
            self._is_open = False
            self._changed.notify_all()
        assert self._worker is not None
        await self._worker.join()
        if self._failure is not None:
            raise self._failure

    async def add(self, outcome: Outcome) -> None:
        """Add an outcome, once there is room for it.

        Raises SettingsError if it is none or the sender is not open. Raises the error of the last request if the
        sender has stopped, or if that request failed and there is no room; the outcome is not added then.
        """
        if not isinstance(outcome, Outcome):
            raise SettingsError("outcome", outcome, "an Outcome of streamsched.client")
        async with self._changed:
            while self._must_wait():
                await self._changed.wait()
            self._buffer.add(outcome, self._clock())
            if self._buffer.wakes_sender:
                self._changed.notify_all()

    async def flush(self) -> None:
        """Send what was added before. Raises the error of the request if it fails; what is left is sent later."""
        async with self._changed:
            target, failures = self._buffer.added, self._failures
            self._flush_to = target
            self._changed.notify_all()
            while self._buffer.sent < target:
                if self._failure is not None and (self._has_stopped or self._failures > failures):
                    raise self._failure
                await self._changed.wait()

    def _must_wait(self) -> bool:
        """Return whether there is no room. Raises what `add` raises."""
        if not self._is_open:
            raise SettingsError("outcome", "one outside of the sender's block", "outcomes within its `with` block only")
        if self._failure is not None and (self._has_stopped or self._buffer.is_full):
            raise self._failure
        return self._buffer.is_full

    async def _work(self) -> None:
        """Send frames until the sender is closed and nothing waits, or until a request cannot succeed."""
        while not self._has_stopped:
            async with self._changed:
                if not await self._wait_for_frame():
                    return
                frame = self._buffer.first_frame()
            try:
                answer = await self._client.observe(frame)
            except Exception as error:  # noqa: BLE001  the caller gets it from `add`, `flush` or the end of the block
                await self._note_failure(error)
            else:
                await self._note_answer(frame, answer)

    async def _wait_for_frame(self) -> bool:
        """Wait until a frame is due; return False once the sender is closed and nothing waits."""
        while True:
            due_in_s = self._buffer.due_in_s(self._clock())
            if due_in_s is None:
                if not self._is_open:
                    return False
            elif due_in_s <= 0.0 or self._is_hurried():
                return True
            await self._changed.wait(due_in_s)

    def _is_hurried(self) -> bool:
        return not self._is_open or self._buffer.sent < self._flush_to

    async def _note_answer(self, frame: Sequence[Outcome], answer: ObservedOutcomes) -> None:
        async with self._changed:
            self._buffer.drop(len(frame))
            self._failure = None
            for name in answer.__struct_fields__:
                if name != "rejections":
                    self.counts[name] += getattr(answer, name)
            self._changed.notify_all()
        try:
            if self._on_answer is not None:
                self._on_answer(frame, answer)
        except Exception as error:  # noqa: BLE001  likewise
            await self._note_failure(error)

    async def _note_failure(self, error: Exception) -> None:
        """Keep the error for the caller, and stop or pause."""
        async with self._changed:
            self._failure = error
            self._failures += 1
            self._flush_to = 0
            self._has_stopped = not self._is_open or not getattr(error, "retriable", False)
            self._changed.notify_all()
            until_s = self._clock() + self._every_s
            while not self._has_stopped and not self._is_hurried() and self._clock() < until_s:
                await self._changed.wait(until_s - self._clock())
