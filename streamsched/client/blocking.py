"""The client and the sender for threads: each runs its twin for asyncio on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

import httpx

from streamsched.api.answers import Change
from streamsched.api.views import Observed
from streamsched.client.async_client import AsyncClient
from streamsched.client.calls import Blocking, Call
from streamsched.client.retries import RetryPolicy
from streamsched.client.sender import AsyncOutcomeSender
from streamsched.outcomes import Outcome

Result = TypeVar("Result")
_OnAnswer: TypeAlias = Callable[[Sequence[Outcome], Observed], None]


class Client(Blocking):
    """Calls a service from threads; a context manager, or to be closed by `close`.

    Arguments and errors are those of `AsyncClient`; any number of threads may use one client at the same time.
    That AsyncClient runs on an event loop in a daemon thread of the client; a fork does not have it.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout_s: float = 60.0,
        retries: RetryPolicy | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._twin = AsyncClient(
            url, token=token, timeout_s=timeout_s, retries=retries, transport=transport, clock=clock
        )
        self.url = self._twin.url
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_serve, args=(self._loop,), name="streamsched client", daemon=True)
        self._thread.start()
        self._end = weakref.finalize(self, self._loop.call_soon_threadsafe, self._loop.stop)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections and end the thread."""
        if self._end.alive:
            self._run(self._twin.close())
            self._end()
            self._thread.join()

    def perform(self, call: Call[Result]) -> Result:
        """Return the answer to `call`."""
        return self._run(self._twin.perform(call))

    def changes(
        self, after: str = "oldest", *, limit: int = 1_000, wait: str | float = "30s", follow: bool = True
    ) -> Iterator[Change]:
        """Yield the changes after the position `after`; see `AsyncClient.changes`."""
        while True:
            waits = follow and after != "newest"  # a position first: a second attempt would miss what was found since
            found = self.read_changes(after, limit=limit, wait=wait if waits else None)
            yield from found.changes
            if not follow and not found.changes:
                return
            after = found.cursor

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Return the result of `work` on the client's event loop. Raises RuntimeError if the client is closed."""
        if not self._end.alive:
            work.close()
            raise RuntimeError("the client is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:  # Ctrl-C, for one, must not leave a call under way
            future.cancel()
            raise


class OutcomeSender:
    """Sends outcomes in the background, many in one request; a context manager. For any number of threads.

    Arguments, ``counts``, ``unsent`` and errors are those of `AsyncOutcomeSender`; ``client``: a `Client`, to be closed
    after the sender; ``on_answer`` is called in a thread of its own.
    """

    def __init__(  # noqa: PLR0913  all but the first by name
        self,
        client: Client,
        *,
        frame: int = 1_000,
        every_s: float = 1.0,
        capacity: int = 100_000,
        on_answer: _OnAnswer | None = None,
        positions: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        async def answer_aside(sent: Sequence[Outcome], answer: Observed) -> None:
            if on_answer is not None:
                await asyncio.to_thread(on_answer, sent, answer)

        self._wait, twin = client._run, client._twin  # noqa: SLF001  of this module
        self._twin = AsyncOutcomeSender(
            twin,
            frame=frame,
            every_s=every_s,
            capacity=capacity,
            on_answer=answer_aside,
            positions=positions,
            clock=clock,
        )
        self._adding = threading.Lock()

    @property
    def counts(self) -> Counter[str]:
        """How many outcomes had which fate."""
        return self._twin.counts

    @property
    def unsent(self) -> list[Outcome]:
        """The outcomes that the service has not yet confirmed to be on disk, oldest first."""
        return self._twin.unsent

    def __enter__(self) -> Self:
        self._wait(self._twin.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Send what waits. Raises the error that has stopped the sender."""
        self._wait(self._twin.__aexit__(kind, error, trace))

    def add(self, outcome: Outcome) -> None:
        """Add an outcome, once there is room for it. Raises what `AsyncOutcomeSender.add` does."""
        with self._adding:
            wakes = self._twin.add_now(outcome)
        if wakes is None:
            self._wait(self._twin.add(outcome))
        elif wakes:
            self._wait(self._twin.wake())

    def flush(self) -> None:
        """Send what was added before. Raises the error of the request if it fails; what is left is sent later."""
        self._wait(self._twin.flush())


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()
