"""The frontier of one Scrapy crawler, which its scheduler and its middleware share."""

from __future__ import annotations

import asyncio
import atexit
import logging
import time
from collections import deque
from collections.abc import Callable
from inspect import isawaitable
from typing import Any, Final
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from msgspec import structs
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.utils.asyncio import call_later, is_asyncio_available
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from streamsched.client import AsyncClient, Outcome
from streamsched.connectors.crawlers.frontier import Frontier, LeaseSettings, OpenVisit
from streamsched.connectors.crawlers.scrapy_pages import META, SpiderPages
from streamsched.connectors.crawlers.scrapy_settings import AddonSettings, read_settings
from streamsched.connectors.crawlers.service_link import ServiceLink, connection, shared_loop
from streamsched.connectors.crawlers.visits import Visit, outcomes_of
from streamsched.errors import AccessDenied

_LOG: Final = logging.getLogger("streamsched.connectors.scrapy")
_VERDICT_S: Final = 2.0  # most time that a response waits for whether its page has changed
_SOON_S: Final = 0.2  # that outcomes wait for others while callbacks wait for verdicts
_FRAME: Final = 50  # ... or until this number waits
_RELAXED_S: Final = 1.0  # ... while no callback waits
_LARGE_FRAME: Final = 500
_GATHERED_S: Final = 0.05  # ... and callbacks, which need no verdict: one right after another costs less
_WAIT: Final = "2s"  # of a call for the service's next page: also the longest that a stop waits for it
_MOST_IN_HAND: Final = 1_000_000  # pages: Scrapy bounds them by itself
_FORCED_S: Final = 2.0  # for what the second Ctrl-C leaves

_FRONTIERS: Final[WeakKeyDictionary[Crawler, ScrapyFrontier]] = WeakKeyDictionary()


def frontier_of(crawler: Crawler) -> ScrapyFrontier:
    """Return the frontier of `crawler`, made at the first call. Raises SettingsError for a wrong setting."""
    if crawler not in _FRONTIERS:
        _FRONTIERS[crawler] = ScrapyFrontier(crawler)
    return _FRONTIERS[crawler]


class ScrapyFrontier:
    """A `Frontier`, and what it uses of a crawler (`frontier.Surroundings`). For the crawler's thread."""

    def __init__(self, crawler: Crawler) -> None:
        self.settings = read_settings(crawler.settings)
        self._crawler = crawler
        self._pages: SpiderPages | None = None
        self._frontier: Frontier | None = None
        self._link: ServiceLink | None = None
        self._waiting: deque[tuple[float, Deferred[None]]] = deque()  # for verdicts, oldest first
        self._released: deque[Deferred[None]] = deque()  # of responses that need not wait, until it is their turn
        self._is_answering = True  # whether the service has answered the last outcome in time
        self._announced: tuple[OpenVisit, Request] | None = None  # it is being scheduled, unless a filter drops it
        self._delays: dict[str, float] = {}
        self._has_warned: set[str] = set()
        self._is_closed = False

    @property
    def has_work(self) -> bool:
        """Whether there are or may be pages to visit."""
        return self.frontier.waiting > 0 or not self.frontier.is_done

    @property
    def frontier(self) -> Frontier:
        """What the spider visits, once it is open."""
        if self._frontier is None:
            raise NotConfigured("streamsched: the middleware needs the scheduler of the add-on")
        return self._frontier

    @property
    def pages(self) -> SpiderPages:
        """Which requests are pages, once the spider is open."""
        assert self._pages is not None
        return self._pages

    def open(self, spider: Spider) -> None:
        """Begin to ask for pages. Returns at once; a service of its own starts meanwhile."""
        given = self.settings
        self._pages = SpiderPages(spider, given.callbacks, given.meta)
        serve = () if given.clock_speed == 1.0 else ("--set", f"clock.speed={given.clock_speed:g}")
        self._link = ServiceLink(
            lambda: connection(given.url, given.state, given.token, serve),
            to_loop=shared_loop().call_soon_threadsafe,
            to_crawler=_delivery(),
            positions=True,
        )
        self._frontier = Frontier(
            self._link,
            LeaseSettings(
                size=given.batch,
                lease=given.lease_s,
                wait=_WAIT,
                hosts=_hosts_of(spider, given),
                per_host=given.per_host,
                in_hand=_MOST_IN_HAND,
                limit=given.pages or None,
                of_host=self._crawler.settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN"),
                idle_close_s=given.idle_close_s,
                clock_speed=given.clock_speed,
                frame=_FRAME if given.changed else _LARGE_FRAME,
                every_s=_SOON_S if given.changed else _RELAXED_S,
            ),
            self,
        )
        atexit.register(self._give_up)
        self._frontier.start()

    def close(self) -> Deferred[None]:
        """Report what is to report, give leased pages back, and end the connection."""
        closed: Deferred[None] = Deferred()
        if self._frontier is None or self._is_closed:
            closed.callback(None)
            return closed
        frontier, stop_s, now_s = self._frontier, self.settings.stop_s, time.monotonic()

        def finish() -> None:
            left_s = now_s + stop_s - time.monotonic()
            frontier.finish(max(1.0, left_s), lambda error: self._note_end(error, closed))

        frontier.stop(stop_s / 2, finish)
        return closed

    # What a frontier uses of its crawler

    def count(self, name: str, number: int = 1, /) -> None:
        """Add to a figure of Scrapy's stats."""
        if number:
            assert self._crawler.stats is not None
            self._crawler.stats.inc_value(f"streamsched/{name}", number)

    def wake(self) -> None:
        """Let the engine ask for requests now; by itself it looks every 5 s."""
        engine = self._crawler.engine
        if engine is None or engine.spider is None or engine.needs_backout():
            return  # it will ask once it has room
        if (request := self.next_request()) is not None:
            engine.crawl(request)

    def later(self, seconds: float, call: Callable[[], None], /) -> None:
        """Call a function after some seconds."""
        call_later(seconds, call)

    def fail(self, error: Exception, /) -> None:
        """Close the spider: the service refuses to lease pages, so trying again is in vain."""
        _LOG.error("streamsched: the service leases no pages, the spider is closed: %s", error)
        engine = self._crawler.engine
        if engine is not None and engine.spider is not None:
            deferred_from_coro(engine.close_spider_async(reason="streamsched_refused"))

    # Requests

    def next_request(self) -> Request | None:
        """Return the request for the best leased page, None if there is none now."""
        while (visit := self.frontier.next_visit()) is not None:
            assert visit.page is not None
            headers: dict[str, str] = {}
            if self.settings.validators:
                found = {"If-None-Match": visit.page.etag, "If-Modified-Since": visit.page.last_modified}
                headers = {name: value for name, value in found.items() if value}
            try:
                request = self.pages.make_request(visit.url, headers=headers)
            except ValueError:  # no URL that Scrapy can request: as a failed visit the page backs off
                self.count("dropped")
                self.end_without_answer(visit, 0)
                continue
            return self._mark(request, visit)
        return None

    def adopt(self, request: Request) -> Request:
        """Return a request of the spider's own, as a visit that will be reported if it is a page."""
        if self.find(request) is not None or not self.pages.is_page(request):
            return request
        return self._mark(request, self.frontier.begin_own(request.url))

    def find(self, request: Request) -> OpenVisit | None:
        """Return the visit that a request belongs to, None if it has none or the visit was reported."""
        mark = request.meta.get(META)
        return self.frontier.find(mark.get("visit")) if isinstance(mark, dict) else None

    def takes_link(self, request: Request) -> bool:
        """Return whether a request is a link: the service gets it, and it is not visited now."""
        meta = request.meta
        if (
            not self.settings.discover
            or "is_start_request" in meta
            or "redirect_times" in meta
            or "retry_times" in meta
        ):
            return False
        if self.pages.is_page(request):
            return True
        self.count("links_kept")
        if "callback" not in self._has_warned and request.method == "GET" and meta.get(META) is not False:
            self._has_warned.add("callback")
            _LOG.info("%s is left to Scrapy: a lease would bring another callback (STREAMSCHED_CALLBACKS)", request)
        return False

    def announce(self, request: Request) -> None:
        """Note that a request is being scheduled: filters may drop it without a word."""
        self.settle_announced()
        visit = self.find(request)
        self._announced = None if visit is None else (visit, request)

    def accept(self) -> None:
        """Note that the announced request was scheduled."""
        self._announced = None

    def settle_announced(self) -> None:
        """Report the visit whose request a filter has dropped, such as a redirect to a host that is not allowed."""
        announced, self._announced = self._announced, None
        if announced is None:
            return
        visit, request = announced
        if self.frontier.find(visit.number) is None:
            return
        self.count("dropped")
        status = redirect_status(request)
        if status is None:
            self.end_without_answer(visit, 0)
        else:
            outcomes = outcomes_of(
                Visit(visit.url, self.frontier.now(), status=status, headers={"location": request.url})
            )
            self.frontier.report(visit, outcomes)

    # Outcomes

    def end_without_answer(self, visit: OpenVisit, status: Any) -> None:
        """Report a visit that got no answer; nobody waits for its verdict."""
        self.frontier.report(visit, [Outcome(visit.url, self.frontier.now(), status=status)])

    def report(self, visit: OpenVisit, outcomes: tuple[Outcome, ...], mark: dict[str, Any]) -> Deferred[None]:
        """Report a visit; `mark` has whether its page has changed once the result is there, after 2 s at the latest."""
        known: Deferred[None] = Deferred()

        def note(changed: bool | None) -> None:
            mark["changed"] = changed
            self._is_answering = True
            self._release(known)

        self.frontier.report(visit, outcomes, note)
        if not self.settings.changed or not self._is_answering:
            self._release(known)
            return known
        if not self._waiting:
            self.later(_VERDICT_S / 4, self._release_late)
        self._waiting.append((time.monotonic() + _VERDICT_S, known))
        return known

    def await_verdict(self, request: Request, known: Deferred[None]) -> None:
        """Let the callback of a request wait until its verdict is known: no downloader waits meanwhile."""
        spider = self._crawler.spider
        assert spider is not None
        inner = request.callback
        callback: Any = inner or spider._parse  # noqa: SLF001  what Scrapy calls without a callback

        async def wait(response: Response, **named: Any) -> Any:
            request.callback = inner  # spiders may look at it, and make other requests of this one
            await maybe_deferred_to_future(known)
            found = callback(response, **named)
            if isinstance(found, Deferred):
                return await maybe_deferred_to_future(found)
            return await found if isawaitable(found) else found

        request.callback = wait

    def note_robots(self, robotparser: Any, request: Request) -> None:
        """Pass the Crawl-delay of a robots.txt on to the service, as a rule of its host."""
        settings = self._crawler.settings
        agent = settings.get("ROBOTSTXT_USER_AGENT") or settings.get("USER_AGENT") or ""
        host, delay = urlsplit(request.url).netloc.rpartition("@")[2].lower(), robotparser.crawl_delay(agent)
        if not delay or self._delays.get(host) == delay or self._link is None:
            return
        self._delays[host] = float(delay)
        self._link.perform(lambda client: _set_delay(client, host, float(delay)), self._note_delay)

    def _note_delay(self, result: bool | Exception) -> None:
        if not isinstance(result, Exception):
            self.count("crawl_delays", int(result))
            return
        self.count("failed_calls")
        if "delay" not in self._has_warned:
            self._has_warned.add("delay")
            why = "the token lacks the scope admin" if isinstance(result, AccessDenied) else str(result)
            _LOG.warning("Crawl-delay was not passed on: %s", why)

    def _mark(self, request: Request, visit: OpenVisit) -> Request:
        """Tie a request to its visit, and see that its last failure is reported."""
        page, inner = visit.page, request.errback
        request.meta[META] = {
            "visit": visit.number,
            "url": visit.url,
            "changed": None,
            "probability": None if page is None else page.probability,
            "score": None if page is None else page.score,
        }

        def errback(failure: Failure) -> Any:
            if self.frontier.find(visit.number) is not None:  # a middleware has raised: max redirections reached, say
                self.count("dropped")
                self.end_without_answer(visit, 0)
            return failure if inner is None else inner(failure)

        request.errback = errback
        return request

    def _release(self, known: Deferred[None]) -> None:
        """Let a response go to its callback, one in each turn of the loop.

        Scrapy makes 100 tasks for the results of each callback: with those of several callbacks at a time the garbage
        collector takes up to 0.5 ms a response.
        """
        self._released.append(known)
        if len(self._released) == 1:
            self.later(0.0 if self.settings.changed else _GATHERED_S, self._release_next)

    def _release_next(self) -> None:
        known = self._released.popleft()
        if self._released:
            self.later(0.0, self._release_next)
        if not known.called:
            known.callback(None)

    def _release_late(self) -> None:
        """Let responses go whose verdict has not come in time."""
        now = time.monotonic()
        while self._waiting and (self._waiting[0][1].called or self._waiting[0][0] <= now):
            _, known = self._waiting.popleft()
            if not known.called:
                self._is_answering = False
                self.count("verdicts_late")
                self._release(known)
        if self._waiting:
            self.later(_VERDICT_S / 4, self._release_late)

    def _note_end(self, error: Exception | None, closed: Deferred[None]) -> None:
        self._is_closed = True
        _FRONTIERS.pop(self._crawler, None)
        atexit.unregister(self._give_up)
        assert self._link is not None
        self.count("links_dropped", self._link.links_dropped)
        if error is not None:
            _LOG.warning("streamsched: not all was reported or given back; leases end by themselves: %r", error)
        closed.callback(None)

    def _give_up(self) -> None:
        """At the end of an interpreter whose spider was not closed, after a second Ctrl-C: do what is quick."""
        if self._link is not None and not self._is_closed:
            self.frontier.finish(_FORCED_S, lambda _: None)
            self._link.has_ended.wait(_FORCED_S + 1.0)


def redirect_status(request: Request) -> int | None:
    """Return the status of the first redirect that has led to a request: 200 if the page asks for it, None without."""
    reasons = request.meta.get("redirect_reasons")
    if not reasons:
        return None
    return reasons[0] if isinstance(reasons[0], int) else 200


def _delivery() -> Callable[..., Any]:
    """Return what calls a function in the thread of the running reactor or loop."""
    if is_asyncio_available():
        return asyncio.get_running_loop().call_soon_threadsafe
    from twisted.internet import reactor  # noqa: PLC0415  an import would install the default one

    found: Any = reactor
    return found.callFromThread  # type: ignore[no-any-return]


def _hosts_of(spider: Spider, settings: AddonSettings) -> tuple[str, ...] | None:
    """Return the hosts whose pages the spider asks for: those that Scrapy's offsite filter lets pass."""
    if settings.hosts is not None:
        return settings.hosts or None
    domains = [str(domain).lower() for domain in getattr(spider, "allowed_domains", None) or ()]
    if not domains:
        return None
    found = dict.fromkeys(host for domain in domains for host in (domain, f"*.{domain}"))
    for url in [*getattr(spider, "start_urls", ()), *getattr(spider, "sitemap_urls", ())]:  # hosts with a port
        parts = urlsplit(url)
        if parts.hostname and any(parts.hostname == one or parts.hostname.endswith(f".{one}") for one in domains):
            found[parts.netloc.rpartition("@")[2].lower()] = None
    return tuple(found)


async def _set_delay(client: AsyncClient, host: str, delay_s: float) -> bool:
    """Set the least delay of a host unless a longer one is set; its other rules stay. Return whether it was set."""
    rule = (await client.rules()).hosts.get(host)
    fields = {} if rule is None else structs.asdict(rule)
    fields = {name: value for name, value in fields.items() if value is not None}
    if (fields.get("delay") or 0.0) >= delay_s:
        return False
    await client.set_rules({host: {**fields, "delay": delay_s}})
    return True
