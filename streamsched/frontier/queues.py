"""The calls that show and change queues: a queue is a host, by the name that URLs of it have."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Any, Final

import numpy as np

from streamsched.api.views import HostPage
from streamsched.frontier.connections import Code, GrpcError
from streamsched.frontier.intake import ETAG, LAST_MODIFIED
from streamsched.frontier.messages import message
from streamsched.http.service import Service
from streamsched.numerics.arrays import Ints
from streamsched.outcomes import NEVER_S
from streamsched.politeness.politeness_settings import HostRule
from streamsched.politeness.rule_targets import find_pages_of_hosts, read_host
from streamsched.reasons import ReasonCode
from streamsched.records.page_schema import FORGOTTEN
from streamsched.records.url_store import url_texts
from streamsched.scheduler.durable import DurableScheduler

_SIZE: Final = 100  # entries of a list whose caller names no number
_READ: Final = 10_000  # pages or hosts read in one turn, between which other calls are answered
_COUNTERS: Final = ("applied", "changed", "failures", "unproven")  # of outcomes since the start, in the statistics

_EMPTY: Final = message("urlfrontier.Empty")
_LONG: Final = message("urlfrontier.Long")
_NEVER: Final = (ReasonCode.NEVER_BY_RULE, ReasonCode.ROBOTS_DENIED)
_QUEUES: Final = message("urlfrontier.QueueList")
_STATS: Final = message("urlfrontier.Stats")
_URL_ITEM: Final = message("urlfrontier.URLItem")


class Queues:
    """Answers what is asked of the queues of `crawl`."""

    def __init__(self, service: Service, crawl: str) -> None:
        self._service = service
        self._crawl = crawl

    async def stats(self, asked: Any) -> Any:
        """Return how many pages a queue or the crawl has, and how many are leased."""
        watch = self._service.figures.watch

        def read(scheduler: DurableScheduler, now: float) -> tuple[int, int, int]:
            if asked.key:
                host = scheduler.host(asked.key, now=now)
                return (0, 0, 0) if host is None else (host.pages, host.leased, 1)
            return len(scheduler), watch.leased(now=now), count_hosts(scheduler)

        pages, leased, hosts = await self._service.read(read)
        outcomes = watch.observed.counts()
        counts = {} if asked.key else {name: outcomes[name] for name in _COUNTERS}
        return _STATS(size=pages, inProcess=leased, numberOfQueues=hosts, counts=counts, crawlID=self._crawl)

    async def list_queues(self, asked: Any) -> Any:
        """Return hosts in the order in which they became known, by default those that may be visited now."""
        size, found, passed = asked.size or _SIZE, list[str](), 0
        start: int | None = 0
        while start is not None and len(found) < size:
            part = await self._service.read(partial(_read_hosts, start=start))
            named = [host.host for host in part.hosts if asked.include_inactive or host.held_back is None]
            skipped = min(max(asked.start - passed, 0), len(named))
            found += named[skipped : skipped + size - len(found)]
            passed += len(named)
            start = part.next
        total = await self._service.read(lambda scheduler, _: count_hosts(scheduler))
        return _QUEUES(values=found, total=total, start=asked.start, size=len(found), crawlID=self._crawl)

    async def count_urls(self, asked: Any) -> Any:
        """Return how many pages there are, of a queue or all, with a text in their URLs or all."""
        matches = _matcher(asked)
        if not asked.key and matches is None:
            return _LONG(value=await self._service.read(lambda scheduler, _: len(scheduler)))
        count = 0
        async for urls in self._urls(asked.key):
            count += len(urls) if matches is None else sum(map(matches, urls))
        return _LONG(value=count)

    async def url_status(self, asked: Any) -> Any:
        """Return what is known of a page."""
        (item,) = await self._service.read(partial(self._show, urls=[asked.url]))
        if item is None:
            raise GrpcError(Code.NOT_FOUND, "this URL is not known")
        return item

    async def list_urls(self, asked: Any) -> AsyncIterator[list[Any]]:
        """Yield pages in the order in which they became known."""
        matches, skip, left = _matcher(asked), asked.start, asked.size or _SIZE
        async for part in self._urls(asked.key):
            urls = part if matches is None else list(filter(matches, part))
            chosen = urls[skip : skip + left]
            skip, left = max(skip - len(urls), 0), left - len(chosen)
            for start in range(0, len(chosen), _SIZE):
                shown = await self._service.read(partial(self._show, urls=chosen[start : start + _SIZE]))
                yield [item for item in shown if item is not None]
            if not left:
                return

    async def block(self, asked: Any) -> Any:
        """Hand out no page of a host before a time; 0 ends that."""
        await self._service.call(lambda scheduler, _: scheduler.block(asked.key, float(asked.time)))
        return _EMPTY()

    async def set_delay(self, asked: Any) -> Any:
        """Set the least time between two visits to a host, or to each host that has no rule."""
        delay_s = float(asked.delay_requestable)

        def change(scheduler: DurableScheduler, _: float) -> None:
            if not asked.key:
                if scheduler.politeness.delay != delay_s:
                    scheduler.set_politeness(replace(scheduler.politeness, delay=delay_s))
                return
            host = read_host(asked.key, "key").host
            rule = scheduler.rules.hosts.get(host)
            if rule is None or rule.delay != delay_s:
                kept = {} if rule is None else {"in_flight": rule.in_flight, "per_batch": rule.per_batch}
                scheduler.set_rule(host, HostRule(delay=delay_s, **kept))

        await self._service.call(change)
        return _EMPTY()

    async def delete_queue(self, asked: Any) -> Any:
        """Forget the pages of a host."""
        return _LONG(value=await self._service.call(lambda scheduler, _: scheduler.forget(host=asked.key)))

    async def delete_crawl(self, asked: Any) -> Any:  # noqa: ARG002  all calls have a message
        """Forget all pages."""
        count = 0
        async for urls in self._urls(""):
            count += await self._service.call(partial(_forget, urls=urls))
        return _LONG(value=count)

    async def _urls(self, host: str) -> AsyncIterator[list[str]]:
        """Yield the URLs of a host, or of all if it is empty, in parts."""
        start = 0
        while True:
            urls, start = await self._service.read(partial(_read_urls, host=host, start=start))
            if urls:
                yield urls
            if not start:
                return

    def _show(self, scheduler: DurableScheduler, now: float, *, urls: list[str]) -> list[Any]:
        """Return pages as messages, None for those that are not known."""
        return [self._show_page(scheduler, now, url) for url in urls]

    def _show_page(self, scheduler: DurableScheduler, now: float, url: str) -> Any:
        page = scheduler.page(url, now=now)
        if page is None:
            return None
        item = _URL_ITEM(ID=url)
        holder = item.discovered if page.last_outcome_s is None else item.known
        holder.info.url, holder.info.key, holder.info.crawlID = url, page.host, self._crawl
        for name, text in ((ETAG, page.etag), (LAST_MODIFIED, page.last_modified)):
            if text is not None:
                holder.info.metadata[name].values.append(text)
        eligible_from_s = NEVER_S if page.held_back in _NEVER else page.eligible_from_s
        if page.last_outcome_s is not None and eligible_from_s is not None:
            item.known.refetchable_from_date = ceil(eligible_from_s)
        return item


def _matcher(asked: Any) -> Callable[[str], bool] | None:
    """Return whether a URL has the text that a call asks for, None if it asks for none."""
    if not asked.filter:
        return None
    wanted = asked.filter.lower() if asked.ignoreCase else asked.filter
    return (lambda url: wanted in url.lower()) if asked.ignoreCase else lambda url: wanted in url


def count_hosts(scheduler: DurableScheduler) -> int:
    """Return how many hosts have pages. O(groups)."""
    with scheduler.core.lock:
        shard = scheduler.core.pages.arrays
        groups = shard.groups.records[: int(shard.corpus["groups"][0])]
        return int(np.count_nonzero((groups["depth"] == 0) & (groups["host_pages"] > 0)))


def _read_hosts(scheduler: DurableScheduler, now: float, *, start: int) -> HostPage:
    return scheduler.hosts(start, _READ, now=now)


def _forget(scheduler: DurableScheduler, _: float, *, urls: list[str]) -> int:
    return scheduler.forget(urls)


def _read_urls(scheduler: DurableScheduler, _: float, *, host: str, start: int) -> tuple[list[str], int]:
    """Return URLs from the row `start` on, and the row after them, 0 if there are none."""
    with scheduler.core.lock:
        shard = scheduler.core.pages.arrays
        if host:
            named = read_host(host, "key").host
            rows: Ints = find_pages_of_hosts(shard.groups, shard.corpus, [named])[1]
            rows = rows[np.searchsorted(rows, start) :]
            after = int(rows[_READ]) if rows.size > _READ else 0
            rows = rows[:_READ]
        else:
            end = min(start + _READ, int(shard.corpus["pages"][0]))
            rows = np.arange(start, end)
            after = end if end < int(shard.corpus["pages"][0]) else 0
        return url_texts(shard.pages, rows[shard.pages.records["rule"][rows] != FORGOTTEN]), after
