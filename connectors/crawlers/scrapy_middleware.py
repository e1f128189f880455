"""The downloader middleware that reports visits, outside of all others: it sees the last word on each page."""

from __future__ import annotations

from typing import Any, Final, Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.utils.asyncio import run_in_thread

from streamsched.client import Outcome
from streamsched.connectors.crawlers.frontier import OpenVisit
from streamsched.connectors.crawlers.scrapy_frontier import ScrapyFrontier, frontier_of, redirect_status
from streamsched.connectors.crawlers.scrapy_pages import META
from streamsched.connectors.crawlers.visits import Visit, outcomes_of

_SHOWN: Final = ("Content-Type", "ETag", "Last-Modified")  # headers of an answer of 2xx, and 304
_NOT_SHOWN: Final = ("Location", "Retry-After")
_LARGE: Final = 200_000  # bytes of a body: its text takes some 10 ms, in which the reactor does not wait
_ROBOTS: Final = "Forbidden by robots.txt"


class OutcomeMiddleware:
    """Reports what came of each page, once, whatever retries, redirects and filters have made of its request."""

    def __init__(self, crawler: Crawler) -> None:
        self._own: ScrapyFrontier = frontier_of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Return the middleware of a crawler."""
        return cls(crawler)

    async def process_response(self, request: Request, response: Response) -> Response:
        """Report a page that has answered; its callback waits until its meta has whether it has changed."""
        visit = self._own.find(request)
        if visit is None:
            return response
        outcomes = await self._describe(visit, request, response)
        if self._own.find(request) is not None:  # nobody has reported it meanwhile
            self._own.await_verdict(request, self._own.report(visit, outcomes, request.meta[META]))
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Report a page that gave no answer, or that robots.txt or a filter keeps away."""
        visit = self._own.find(request)
        if visit is None:
            return
        is_refused = isinstance(exception, IgnoreRequest)
        denied = is_refused and str(exception) == _ROBOTS
        if is_refused:
            self._own.count("robots_denied" if denied else "dropped")
        self._own.end_without_answer(visit, "robots_denied" if denied else 0)

    async def _describe(self, visit: OpenVisit, request: Request, response: Response) -> tuple[Outcome, ...]:
        names = _SHOWN if response.status < 300 or response.status == 304 else _NOT_SHOWN
        found = Visit(
            visit.url,
            self._own.frontier.now(),
            status=response.status,
            headers={name: value for name in names if (value := _header(response, name)) is not None},
            body=response.body,
            final_url=response.url,
            redirect_status=redirect_status(request) or 302,
            cost=self._cost(request.meta.get("download_latency")),
        )
        if len(response.body) <= _LARGE:
            return outcomes_of(found, self._own.settings.content)
        return await run_in_thread(outcomes_of, found, self._own.settings.content)

    def _cost(self, latency: Any) -> float | None:
        """Return what a visit costs if costs are reported: 1 if it takes as long as an ordinary one."""
        ordinary_s = self._own.settings.cost_s
        return latency / ordinary_s if ordinary_s is not None and isinstance(latency, float) else None


def _header(response: Response, name: str) -> str | None:
    value = response.headers.get(name)
    return None if value is None else value.decode("latin-1").strip()
