"""The client for asyncio."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import httpx

from streamsched import answers
from streamsched.client import calls
from streamsched.client.calls import Call, Outcomes, Rules, Signals
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


class AsyncClient:
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
        self._http = httpx.AsyncClient(
            headers=request_headers(check_token(token)),
            transport=transport,
            limits=httpx.Limits(max_connections=_MOST_CONNECTIONS),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def next_batch(
        self,
        k: int,
        *,
        lease: str | float = "10m",
        hosts: Iterable[str] | None = None,
        per_host: int | None = None,
        key: str | None = None,
        timeout_s: float | None = None,
    ) -> answers.LeasedBatch:
        """Lease the best `k` pages for the time `lease`, such as ``"10m"`` or seconds.

        `hosts`: only pages of these; `per_host`: the most pages of each host. `key`: an idempotency key, 1 to 128
        visible ASCII characters; within the lease the same key returns the same batch. Without one the client makes a
        new key, so that its own attempts lease one batch only; a caller that wants the same batch after a crash of its
        own gives a key. Raises KeyReusedError if the key is in use with other arguments.
        """
        return await self._send(calls.next_batch(k, lease, hosts, per_host, key), timeout_s)

    async def observe(self, outcomes: Outcomes, *, timeout_s: float | None = None) -> answers.ObservedOutcomes:
        """Report outcomes, at most 10,000; they are on the service's disk when this returns.

        `outcomes`: `Outcome` objects of this package or of `streamsched`, or an OutcomeBatch. Invalid ones are counted
        and named in the answer, the others are applied. To report an outcome twice changes nothing.
        """
        return await self._send(calls.observe(outcomes), timeout_s)

    async def notice(self, signals: Signals, *, timeout_s: float | None = None) -> answers.NoticedSignals:
        """Report change signals, at most 10,000.

        `signals`: `Signal` objects of this package or of `streamsched`, or a SignalBatch. To report a signal twice
        changes nothing.
        """
        return await self._send(calls.notice(signals), timeout_s)

    async def discover(
        self, urls: Iterable[str], *, importance: float | None = None, timeout_s: float | None = None
    ) -> answers.Discovered:
        """Add pages that were found and not visited yet, at most 10,000; `importance`: of each of them from now on.

        After a lost answer, ``added`` of the next one does not count the pages that the first attempt has added.
        """
        return await self._send(calls.discover(urls, importance), timeout_s)

    async def release(self, urls: Iterable[str], *, timeout_s: float | None = None) -> answers.Released:
        """Give leased pages back unvisited.

        It is tried again only if the service has certainly not applied it: otherwise another crawler might have got a
        page in between. Pages that are not given back are free when their lease expires.
        """
        return await self._send(calls.release(urls), timeout_s)

    async def rank(self, k: int = 100, *, timeout_s: float | None = None) -> answers.Ranking:
        """Return the best `k` pages without leasing them."""
        return await self._send(calls.rank(k), timeout_s)

    async def explain(self, url: str, *, k: int = 1_000, timeout_s: float | None = None) -> answers.Explained:
        """Explain the rank of a page, and whether a batch of `k` pages would hold it. Raises UnknownPage."""
        return await self._send(calls.explain(url, k), timeout_s)

    async def page(self, url: str, *, timeout_s: float | None = None) -> answers.PageState | None:
        """Return what is known of a page, None if it is not known."""
        return await self._send(calls.page(url), timeout_s)

    async def hosts(self, start: int = 0, size: int = 100, *, timeout_s: float | None = None) -> answers.HostList:
        """Return a part of the list of hosts. `start`: 0, or the ``next`` of the part before."""
        return await self._send(calls.hosts(start, size), timeout_s)

    async def host(self, name: str, *, timeout_s: float | None = None) -> answers.HostState | None:
        """Return a host, its limits and what holds it back; None if no page of it is known."""
        return await self._send(calls.host(name), timeout_s)

    async def set_rules(self, rules: Rules, *, timeout_s: float | None = None) -> answers.RulesSet:
        """Set rules for hosts, URL patterns and pages; None removes a rule. Rules of other targets stay."""
        return await self._send(calls.set_rules(rules), timeout_s)

    async def block(self, host: str, seconds: float, *, timeout_s: float | None = None) -> answers.Blocked:
        """Visit no page of a host for some seconds; 0 ends a block."""
        return await self._send(calls.block(host, seconds), timeout_s)

    async def champion(self, *, timeout_s: float | None = None) -> answers.ChampionView:
        """Return the formula in use and its origin."""
        return await self._send(calls.champion(), timeout_s)

    async def use(self, formula: str | int, *, timeout_s: float | None = None) -> answers.ChampionView:
        """Rank by a formula or objective, or by the champion of the record with this number.

        It is tried again only if the service has certainly not applied it: each change is recorded.
        """
        return await self._send(calls.use(formula), timeout_s)

    async def evolutions(self, last: int = 100, *, timeout_s: float | None = None) -> answers.Evolutions:
        """Return the newest `last` records of evolutions, oldest first."""
        return await self._send(calls.evolutions(last), timeout_s)

    async def stats(self, since: float = 0.0, *, timeout_s: float | None = None) -> answers.Stats:
        """Return figures of the service, and the samples of them that are later than `since`, UTC epoch seconds."""
        return await self._send(calls.stats(since), timeout_s)

    async def _send(self, call: Call[Result], timeout_s: float | None) -> Result:
        """Return the answer to `call`, trying again while its time allows."""
        timeout_s = self._timeout_s if timeout_s is None else check_seconds("timeout_s", timeout_s)
        attempts = Attempts(call, self._policy, timeout_s, self._clock)
        request = describe_request(self.url, call)
        while True:
            try:
                return read_reply(call, request, await self._exchange(call, attempts))
            except Failure as failure:
                wait_s = attempts.wait_s(failure)
            except httpx.RequestError as error:
                wait_s = attempts.wait_s(connection_failure(request, error))
            await asyncio.sleep(wait_s)

    async def _exchange(self, call: Call[Any], attempts: Attempts) -> Reply:
        """Send the request once; return the whole reply. Raises httpx.RequestError without one."""
        headers = {} if call.body is None else {"content-type": call.body.media_type}
        content = None if call.body is None else call.body.content
        async with self._http.stream(
            call.method,
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
