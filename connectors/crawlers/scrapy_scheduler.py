"""Scrapy's scheduler with the pages that the service leases below the spider's own requests."""

from __future__ import annotations

from typing import Self

from scrapy import Request, Spider, signals
from scrapy.core.scheduler import Scheduler
from scrapy.crawler import Crawler
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred

from streamsched.connectors.crawlers.scrapy_frontier import ScrapyFrontier, frontier_of


class StreamschedScheduler(Scheduler):
    """Scrapy's queues for what the spider asks for itself, and for retries and redirects; leased pages after them.

    Links go to the service in place of the queue (``STREAMSCHED_DISCOVER``). The spider stays open while the service
    has or may have pages.
    """

    _own: ScrapyFrontier

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Return the scheduler of a crawler."""
        made = super().from_crawler(crawler)
        made._join(crawler)  # noqa: SLF001  of this class
        return made

    def _join(self, crawler: Crawler) -> None:
        self._own = frontier_of(crawler)
        crawler.signals.connect(self._note_scheduled, signals.request_scheduled)
        if hasattr(signals, "robots_parsed"):  # Scrapy 2.19
            crawler.signals.connect(self._note_robots, signals.robots_parsed)

    def open(self, spider: Spider) -> Deferred[None] | None:
        """Open Scrapy's queues and begin to ask for pages."""
        opened = super().open(spider)
        self._own.open(spider)
        return opened

    def close(self, reason: str) -> Deferred[None] | None:
        """Close Scrapy's queues; report what is to report, and give leased pages back."""
        return deferred_from_coro(self._close(super().close(reason)))

    async def _close(self, closed: Deferred[None] | None) -> None:
        await maybe_deferred_to_future(self._own.close())
        if closed is not None:
            await maybe_deferred_to_future(closed)

    def has_pending_requests(self) -> bool:
        """Return whether there are or may be requests: the spider closes when there are none."""
        return super().has_pending_requests() or self._own.has_work

    def enqueue_request(self, request: Request) -> bool:
        """Take a request: a retry or redirect of a page that is being visited, a link, or another one."""
        visit = self._own.find(request)
        self._own.accept()
        if visit is not None:  # in memory: another process would not have its lease
            self._mqpush(request)
            return True
        if not self._own.takes_link(request):
            return super().enqueue_request(request)
        if not request.dont_filter and self.df.request_seen(request):
            self.df.log(request, self.spider)
            return False
        self._own.frontier.add_link(request.url)
        return True

    def next_request(self) -> Request | None:
        """Return the spider's next request, else that of the best leased page."""
        self._own.settle_announced()
        request = super().next_request()
        return self._own.next_request() if request is None else self._own.adopt(request)

    def _note_scheduled(self, request: Request) -> None:
        self._own.announce(request)

    def _note_robots(self, robotparser: object, request: Request) -> None:
        if self._own.settings.crawl_delay:
            self._own.note_robots(robotparser, request)
