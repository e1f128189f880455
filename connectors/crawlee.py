"""Crawlee for Python: crawlers that visit the pages which the service leases. It needs the extra ``[crawlee]``.

    async with AsyncClient(url) as client, LeasedRequests(client) as requests:
        crawler = ParselCrawler(request_manager=requests)
        requests.attach_to(crawler)
        await crawler.run()

A `RequestManager` of Crawlee learns neither the status nor the body of an answer, so `attach_to` adds a hook that does.
Each attempt is a visit with an outcome of its own, and the service decides when the next one is due: requests are not
retried by Crawlee.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Protocol, Self

from crawlee import Request, RequestState
from crawlee.request_loaders import RequestManager
from crawlee.storage_clients.models import ProcessedRequest
from pydantic import ValidationError

from streamsched.client.async_client import AsyncClient
from streamsched.connectors.crawlers.frontier import LeaseSettings
from streamsched.connectors.crawlers.leased_page import LeasedPage
from streamsched.connectors.crawlers.page_leases import PageLeases
from streamsched.connectors.crawlers.visits import ContentRules
from streamsched.errors import SettingsError

__all__ = ["LeaseSettings", "LeasedRequests"]

logger = logging.getLogger("streamsched.crawlers")

_MOST_KNOWN: Final = 100_000  # links that are remembered, 10 MB: most of a page's are those of the page before


class Hooked(Protocol):
    """A crawler with hooks: HttpCrawler, ParselCrawler, BeautifulSoupCrawler, PlaywrightCrawler."""

    def post_navigation_hook(self, hook: Callable[[Any], Awaitable[None]]) -> None:
        """Call `hook` with the context of each answer."""
        ...


class LeasedRequests(RequestManager):
    """Requests for the pages that the service leases; an asynchronous context manager.

    ``client``: within whose ``async with`` block the crawler runs; ``settings``: what is leased, see `LeaseSettings`;
    ``rules``: how bodies become hashes. Links that the crawler enqueues are discovered, those at the ``forefront`` are
    asked for; the service leases them when they are due. Pages without an outcome are given back at the end.
    """

    def __init__(
        self, client: AsyncClient, settings: LeaseSettings | None = None, rules: ContentRules | None = None
    ) -> None:
        self.leases = PageLeases(client, settings, rules)
        self._pages: dict[str, LeasedPage] = {}  # in the crawler's hands, by unique key
        self._again: deque[Request] = deque()
        self._known: set[str] = set()
        self._handled = 0

    async def __aenter__(self) -> Self:
        await self.leases.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Send what is left and give the other pages back. Raises the service's error if outcomes cannot be sent."""
        self._pages.clear()
        self._again.clear()
        await self.leases.close()

    def attach_to(self, crawler: Hooked) -> None:
        """Let `crawler` report the answers of its requests. Raises SettingsError if it has no hooks."""
        if not hasattr(crawler, "post_navigation_hook"):
            raise SettingsError("crawler", type(crawler).__name__, "a crawler with post_navigation_hook")
        crawler.post_navigation_hook(self._report)

    async def _report(self, context: Any) -> None:
        """Report the answer that `context` has."""
        page = self._pages.get(context.request.unique_key)
        if page is None:
            return
        if hasattr(context, "http_response"):
            response = context.http_response
            status, headers, redirect_status = response.status_code, response.headers, 302
            body = await response.read() if 200 <= status < 300 else b""
        else:
            response = context.response
            status, headers = response.status, response.headers
            redirect_status = await _first_status(response)
            body = await _read_page(context, headers) if 200 <= status < 300 else b""
        final_url = context.request.loaded_url
        try:
            page.done(status, body, headers=headers, final_url=final_url, redirect_status=redirect_status)
        except SettingsError as error:  # it would be that of each page, and Crawlee calls it a failed request
            self.leases.failure = error
            raise

    async def fetch_next_request(self) -> Request | None:
        """Return a request for a page that is leased, None if there is none now. Raises the error of a refusal."""
        if self._again:
            return self._again.popleft()
        while (page := self.leases.take_now()) is not None:
            key = page.url if page.url not in self._pages else f"{page.url} {self.leases.leased}"
            try:
                request = Request.from_url(page.url, unique_key=key, no_retry=True)
            except (ValidationError, ValueError):  # it is no URL to Crawlee: no visit can succeed
                page.failed()
                continue
            self._pages[key] = page
            return request
        return None

    async def mark_request_as_handled(self, request: Request) -> ProcessedRequest:
        """Report what no hook has seen: a failure, or that robots.txt forbids the page."""
        self._handled += 1
        page = self._pages.pop(request.unique_key, None)
        if page is not None and page.is_held:
            if request.state == RequestState.SKIPPED:
                page.done("robots_denied")
            elif request.state == RequestState.DONE:
                page.done(200)  # a crawler without hooks: it was visited, and nothing is known of a change
            else:
                page.failed()
        return _processed(request, handled=True)

    async def reclaim_request(self, request: Request, *, forefront: bool = False) -> ProcessedRequest:
        """Hand a request out again that has no outcome yet; after an outcome the service decides when."""
        page = self._pages.get(request.unique_key)
        if page is None or not page.is_held:
            self._pages.pop(request.unique_key, None)
            return _processed(request, handled=True)
        if forefront:
            self._again.appendleft(request)
        else:
            self._again.append(request)
        return _processed(request, handled=False)

    async def add_request(self, request: str | Request, *, forefront: bool = False) -> ProcessedRequest | None:
        """Discover a page, or ask for a visit of it, soon. Only GET requests are pages: others return None."""
        if isinstance(request, Request) and request.method != "GET":
            logger.warning(
                "no page is added for %s %s: the service schedules GET requests", request.method, request.url
            )
            return None
        url = (request if isinstance(request, str) else request.url).partition("#")[0]  # places within a page are one
        key = url if isinstance(request, str) else request.unique_key
        if forefront:
            await self.leases.client.ask([url])
            self.leases.frontier.note_discovered()
        elif url not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known.add(url)
            self.leases.frontier.add_link(url)
        return ProcessedRequest(unique_key=key, was_already_present=False, was_already_handled=False)

    async def add_requests(
        self,
        requests: Sequence[str | Request],
        *,
        forefront: bool = False,
        batch_size: int = 1000,  # noqa: ARG002  likewise
        wait_time_between_batches: timedelta = timedelta(0),  # noqa: ARG002
        wait_for_all_requests_to_be_added: bool = False,
        wait_for_all_requests_to_be_added_timeout: timedelta | None = None,  # noqa: ARG002
    ) -> None:
        """Discover pages soon, at once if `wait_for_all_requests_to_be_added`."""
        for request in requests:
            await self.add_request(request, forefront=forefront)
        if wait_for_all_requests_to_be_added:
            await self.leases.discover()

    async def is_empty(self) -> bool:
        """Return whether no request may be had now."""
        return not self._again and not self.leases.frontier.has_page and self.leases.failure is None

    async def is_finished(self) -> bool:
        """Return whether there will be no request any more, which is so only if ``settings`` have an end."""
        ended = self.leases.has_ended and self.leases.failure is None
        return ended and not (self._pages or self._again or self.leases.frontier.has_links)

    async def get_handled_count(self) -> int:
        """Return how many requests were handled."""
        return self._handled

    async def get_total_count(self) -> int:
        """Return how many pages were leased."""
        return self.leases.leased

    async def drop(self) -> None:
        """Do nothing: the pages are the service's."""


async def _first_status(response: Any) -> int:
    """Return the status of the first redirect that Playwright followed."""
    request, first = response.request.redirected_from, None
    while request is not None:
        request, first = request.redirected_from, request
    answer = None if first is None else await first.response()
    return 302 if answer is None else int(answer.status)


async def _read_page(context: Any, headers: Mapping[str, str]) -> bytes | str:
    """Return the document as the browser has it, the body of an answer that is no HTML; nothing if it is gone."""
    try:
        if "html" in headers.get("content-type", "html"):
            return str(await context.page.content())
        return bytes(await context.response.body())
    except Exception as error:  # noqa: BLE001  Playwright is not needed otherwise: the page has moved on, or is closed
        logger.debug("no content of %s: %s", context.request.url, error)
        return b""


def _processed(request: Request, *, handled: bool) -> ProcessedRequest:
    return ProcessedRequest(unique_key=request.unique_key, was_already_present=True, was_already_handled=handled)
