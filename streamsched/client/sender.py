"""Reports outcomes in the background: a buffer of those that wait, and the task that sends them."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import islice
from types import TracebackType
from typing import Final, NamedTuple, Self, TypeAlias

from streamsched.api.values import MOST_RECORDS
from streamsched.api.views import Observed
from streamsched.client.async_client import AsyncClient
from streamsched.client.retries import check_seconds
from streamsched.errors import SettingsError
from streamsched.outcomes import FIELDS, Outcome

_TEXTS: Final = tuple(field.name for field in FIELDS if field.kind.dtype is None)
_MOST_CHARACTERS: Final = 1 << 20  # of the texts in a frame: 4 MiB at most, and the service takes 8 by default


class _Waiting(NamedTuple):
    outcome: Outcome
    added_s: float

    @property
    def characters(self) -> int:
        """The length of its texts."""
        return sum(len(getattr(self.outcome, name) or "") for name in _TEXTS)


class OutcomeBuffer:
    """Outcomes that wait, at most `capacity`.

    A frame of them is due once there are `frame` or the oldest has waited `every_s` seconds. ``added``, ``sent``: how
    many outcomes were added and sent. Raises SettingsError if an argument is invalid.

    >>> from streamsched.client import Outcome
    >>> buffer = OutcomeBuffer(frame=2, every_s=1.0, capacity=3)
    >>> buffer.add(Outcome("https://a.example/", 7.0), now_s=10.0)
    >>> buffer.due_in_s(10.5)
    0.5
    """

    def __init__(self, *, frame: int, every_s: float, capacity: int) -> None:
        self._frame = _check_count("frame", frame, MOST_RECORDS)
        self._every_s = check_seconds("every_s", every_s)
        self._capacity = _check_count("capacity", capacity, None)
        self._waiting: deque[_Waiting] = deque()
        self.sent = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def added(self) -> int:
        """The number of outcomes that were ever added."""
        return self.sent + len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether no outcome may be added."""
        return len(self._waiting) >= self._capacity

    @property
    def wakes_sender(self) -> bool:
        """Whether the outcome that was added last may have changed when a frame is due."""
        return len(self._waiting) == 1 or len(self._waiting) >= min(self._frame, self._capacity)

    def add(self, outcome: Outcome, now_s: float) -> None:
        """Append an outcome at the time `now_s`; the buffer must not be full."""
        self._waiting.append(_Waiting(outcome, now_s))

    def due_in_s(self, now_s: float) -> float | None:
        """Return in how many seconds a frame is due, 0 or less if it is now; None if there is nothing to send."""
        if not self._waiting:
            return None
        if self.is_full or len(self._waiting) >= self._frame:
            return 0.0
        return self._waiting[0].added_s + self._every_s - now_s

    def first_frame(self) -> list[Outcome]:
        """Return the oldest outcomes, a request's fill at most; they stay in the buffer. O(frame)."""
        frame: list[Outcome] = []
        characters = 0
        for waiting in list(islice(self._waiting, self._frame)):  # at once: another thread may add
            characters += waiting.characters
            if characters > _MOST_CHARACTERS:
                break
            frame.append(waiting.outcome)
        return frame

    def drop(self, count: int) -> None:
        """Remove the oldest `count` outcomes, which were sent. O(count)."""
        for _ in range(count):
            self._waiting.popleft()
        self.sent += count

    def outcomes(self) -> list[Outcome]:
        """Return all outcomes that wait. O(n)."""
        return [waiting.outcome for waiting in list(self._waiting)]


def _check_count(name: str, value: object, most: int | None) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1 and (most is None or value <= most):
        return value
    raise SettingsError(name, value, "1 or more outcomes" if most is None else f"1 to {most:,} outcomes")


class _Condition:
    """An asyncio.Condition whose `wait` takes a timeout."""

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


_OnAnswer: TypeAlias = Callable[[Sequence[Outcome], Observed], Awaitable[None] | None]


class AsyncOutcomeSender:
    """Sends outcomes in the background, many in one request; an asynchronous context manager.

    ``client``: what sends them, which the sender does not close; ``frame``: the most outcomes of a request, 1 to
    10,000; ``every_s``: the longest time that an outcome waits while the service answers; ``capacity``: the most
    outcomes that wait, then `add` waits; ``on_answer``: called with the outcomes of each request and its answer, which
    names the rejected ones, and awaited if it is asynchronous; ``positions``: whether answers have the positions of
    the outcomes that were changes, and of those that were none; ``clock``: seconds of a clock that is never set.

    Outcomes are sent in the order in which they were added, and stay in the buffer until the service has them on disk.
    If it gives no answer, they are sent again until it does; if it refuses them, the sender stops. No outcome is
    dropped: at the end of the block all are sent, or the error is raised and ``unsent`` has the others.
    ``counts``: how many outcomes had which fate.
    """

    def __init__(  # noqa: PLR0913  all but the first by name
        self,
        client: AsyncClient,
        *,
        frame: int = 1_000,
        every_s: float = 1.0,
        capacity: int = 100_000,
        on_answer: _OnAnswer | None = None,
        positions: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._client = client
        self._wants_positions = positions
        self._buffer = OutcomeBuffer(frame=frame, every_s=every_s, capacity=capacity)
        self._every_s = every_s
        self._on_answer = on_answer
        self._clock = clock
        self._changed = _Condition()
        self._worker: asyncio.Task[None] | None = None
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
        self._worker = asyncio.create_task(self._work())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Send what waits. Raises the error that has stopped the sender."""
        async with self._changed:
            self._is_open = False
            self._changed.notify_all()
        assert self._worker is not None
        await self._worker
        if self._failure is not None:
            raise self._failure

    async def cancel(self) -> None:
        """End at once, in place of the end of the block; ``unsent`` has what was not sent."""
        self._is_open = False
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)

    async def add(self, outcome: Outcome) -> None:
        """Add an outcome, once there is room for it.

        Raises SettingsError if it is none or the sender is not open. Raises the error of the last request if the
        sender has stopped, or if that request failed and there is no room; the outcome is not added then.
        """
        if (wakes := self.add_now(outcome)) is None:
            async with self._changed:
                while (wakes := self.add_now(outcome)) is None:
                    await self._changed.wait()
        if wakes:
            await self.wake()

    def add_now(self, outcome: Outcome) -> bool | None:
        """Add an outcome if there is room; return whether `wake` is due, None if there is no room.

        Raises what `add` does. A thread other than that of the event loop may call it, one at a time.
        """
        if not isinstance(outcome, Outcome):
            raise SettingsError("outcome", outcome, "an Outcome of streamsched.client")
        if not self._is_open:
            raise SettingsError("outcome", "one outside of the sender's block", "outcomes within its `with` block only")
        if self._failure is not None and (self._has_stopped or self._buffer.is_full):
            raise self._failure
        if self._buffer.is_full:
            return None
        self._buffer.add(outcome, self._clock())
        return self._buffer.wakes_sender

    async def wake(self) -> None:
        """Let the task look at the buffer."""
        async with self._changed:
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

    async def _work(self) -> None:
        """Send frames until the sender is closed and nothing waits, or until a request cannot succeed."""
        while not self._has_stopped:
            async with self._changed:
                if not await self._wait_for_frame():
                    return
                frame = self._buffer.first_frame()
            try:
                answer = await self._client.observe(frame, positions=self._wants_positions)
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

    async def _note_answer(self, frame: Sequence[Outcome], answer: Observed) -> None:
        async with self._changed:
            self._buffer.drop(len(frame))
            self._failure = None
            self.counts.update(answer.counts())
            self._changed.notify_all()
        try:
            called = None if self._on_answer is None else self._on_answer(frame, answer)
            if called is not None:
                await called
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
