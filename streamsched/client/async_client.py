"""The client for asyncio."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import httpx

from streamsched.api.answers import Change
from streamsched.client.calls import Asynchronous, Call
from streamsched.client.replies import (
    Failure,
    Reply,
    check_token,
    check_url,
    connection_failure,
    describe_request,
    read_reply,
    request_headers,
)
from streamsched.client.retries import Attempts, RetryPolicy, check_seconds

Result = TypeVar("Result")

_MOST_CONNECTIONS: Final = 100


class AsyncClient(Asynchronous):
    """Calls a service; an asynchronous context manager, or to be closed by `close`.

    ``url``: where the service is; ``token``: as `streamsched token` prints it; ``timeout_s``: the time of a call with
    all its attempts, which each method can override by its own ``timeout_s``; ``retries``: how long to wait between
    attempts; ``transport``: of httpx, for other certificates, proxies, or tests; ``clock``: seconds of a clock that is
    never set. Any number of tasks may use one client at the same time.

    Methods raise SettingsError for an argument that the client or the service refuses, AccessDenied for a missing
    token or scope, ServiceUnavailable if there is no answer in time, and ServiceError for any other refusal.
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
        self.url = check_url(url)
        self._timeout_s = check_seconds("timeout_s", timeout_s)
        self._policy = RetryPolicy() if retries is None else retries
        self._clock = clock
        self._before_close: list[Callable[[], Awaitable[None]]] = []
        self._http = httpx.AsyncClient(
            headers=request_headers(check_token(token)),
            transport=transport,
            verify=not self.url.startswith("http:"),  # certificates that nobody needs take 40 ms
            limits=httpx.Limits(max_connections=_MOST_CONNECTIONS),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections, after what `before_close` was given has ended. Raises the first error of that."""
        failure: Exception | None = None
        try:
            while self._before_close:
                try:
                    await self._before_close.pop()()
                except Exception as error:  # noqa: BLE001  the others are to end, too
                    failure = failure or error
        finally:
            await self._http.aclose()
        if failure is not None:
            raise failure

    def before_close(self, end: Callable[[], Awaitable[None]], *, remove: bool = False) -> None:
        """Await ``end()`` when the client is closed, while it can still call; `remove`: not any more. O(ends)."""
        if not remove:
            self._before_close.append(end)
        elif end in self._before_close:
            self._before_close.remove(end)

    async def perform(self, call: Call[Result]) -> Result:
        """Return the answer to `call`, trying again while its time allows."""
        timeout_s = self._timeout_s if call.timeout_s is None else check_seconds("timeout_s", call.timeout_s)
        attempts = Attempts(call, self._policy, timeout_s + call.wait_s, self._clock)
        request = describe_request(self.url, call)
        while True:
            try:
                return read_reply(call, request, await self._exchange(call, attempts))
            except Failure as failure:
                wait_s = attempts.wait_s(failure)
            except httpx.RequestError as error:
                wait_s = attempts.wait_s(connection_failure(request, error))
            await asyncio.sleep(wait_s)

    async def changes(
        self, after: str = "oldest", *, limit: int = 1_000, wait: str | float = "30s", follow: bool = True
    ) -> AsyncIterator[Change]:
        """Yield the changes after the position `after`, each once, in order; wait for further ones for ever.

        Keep the ``cursor`` of the last change that was dealt with, and give it as `after` to go on. `after`: see
        `read_changes`; `limit`: changes of one request; `wait`: the time of one request without a change; `follow`:
        False to end after the changes that there are. Raises ChangesGone if the changes after the cursor are not kept,
        and what other methods raise.
        """
        while True:
            waits = follow and after != "newest"  # a position first: a second attempt would miss what was found since
            found = await self.read_changes(after, limit=limit, wait=wait if waits else None)
            for change in found.changes:
                yield change
            if not follow and not found.changes:
                return
            after = found.cursor

    async def _exchange(self, call: Call[Any], attempts: Attempts) -> Reply:
        """Send the request once; return the whole reply. Raises httpx.RequestError without one."""
        headers = {} if call.body is None else {"content-type": call.body.media_type}
        content = None if call.body is None else call.body.content
        async with self._http.stream(
            call.operation.method,
            f"{self.url}{call.path}",
            params=call.query or None,
            content=content,
            headers=headers,
            timeout=attempts.silence_s(),
        ) as response:
            parts = []
            async for part in response.aiter_bytes():
                parts.append(part)
                if attempts.left_s <= 0.0:
                    raise httpx.ReadTimeout("no whole answer in time", request=response.request)
            return Reply(response.status_code, response.headers, b"".join(parts))
