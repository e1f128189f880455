"""The endpoints of crawlers: batches, offers and grants, outcomes, change signals, discoveries, pages given back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import Final, cast

from streamsched.api.answers import Grant, LeasedBatch, LeasedPage, Offer, Released
from streamsched.api.operations import (
    Discoveries,
    GrantDemand,
    NextBatch,
    OfferQuestion,
    OutcomesQuery,
    Releases,
    VisitRequests,
)
from streamsched.api.views import Discovered, Noticed, Observed
from streamsched.errors import shorten
from streamsched.http.protocol.problems import HttpError
from streamsched.http.service import Service, read_wait
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import OutcomeBatch
from streamsched.scheduler.batches.batch_requests import BatchRequest
from streamsched.scheduler.durable import DurableScheduler
from streamsched.scheduler.reading.views import view_offer
from streamsched.scheduler.results import Batch
from streamsched.signals import SignalBatch

LOOK_EVERY_S: Final = 0.5  # for pages whose time has come, which nothing tells


class KeysInUse:
    """Keys of requests that are not answered yet."""

    def __init__(self) -> None:
        self._running: set[str] = set()

    @contextmanager
    def using(self, key: str | None) -> Iterator[None]:
        """Keep others from using `key` within this block. Raises HttpError, 409, if another request uses it."""
        if key in self._running:
            raise HttpError(
                HTTPStatus.CONFLICT,
                "key_running",
                "a request with this key is still running",
                fields={"field": "key", "found": shorten(key)},
                headers={"retry-after": "1"},
            )
        own = set() if key is None else {key}
        self._running |= own
        try:
            yield
        finally:
            self._running -= own


class Crawling:
    """Answers crawlers. A page, an outcome or a lease that an answer names is on disk."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._keys = KeysInUse()

    async def next_batch(self, asked: NextBatch) -> LeasedBatch:
        """Lease the pages to visit next, or wait for one."""
        wait_s = read_wait(asked.wait)
        with self._keys.using(asked.key):
            return await self._lease_within(asked, wait_s)

    async def _lease_within(self, asked: NextBatch, wait_s: float) -> LeasedBatch:
        """Lease pages once there are any, after `wait_s` seconds at the latest.

        A look leases nothing: an empty batch would be logged, and kept for its key.
        """
        service = self._service

        async def look() -> bool:
            return await service.read(lambda scheduler, now: _has_batch(scheduler, now, asked))

        if wait_s:
            await service.done.first(
                look, lambda has: has or service.is_stopping, wait_s, at_least_every_s=LOOK_EVERY_S
            )
        return await self._lease(asked)

    async def _lease(self, asked: NextBatch) -> LeasedBatch:
        return await self._service.call(
            lambda scheduler, now: _show_batch(
                scheduler.next_batch(
                    asked.k, now=now, lease=asked.lease, hosts=asked.hosts, per_host=asked.per_host, key=asked.key
                )
            )
        )

    async def offer(self, asked: OfferQuestion) -> Offer:
        """Return the pages that a batch would hold, without a lease."""
        request = partial(BatchRequest.checked, asked.k, lease=asked.lease, hosts=asked.hosts, per_host=asked.per_host)
        return await self._service.read(lambda scheduler, now: view_offer(scheduler.core, request(now), asked.keys))

    async def grant(self, wanted: GrantDemand) -> Grant:
        """Lease pages by name, such as those chosen from an offer.

        Those that may not be leased are named, with the reason.
        """

        def lease(scheduler: DurableScheduler, now: float) -> Grant:
            granted = scheduler.grant(wanted.urls, now=now, lease=wanted.lease, key=wanted.key)
            batch, refused = granted.batch, {url: reason.value for url, reason in granted.refused.items()}
            until_s = batch.now if batch.lease_until_s is None else batch.lease_until_s
            return Grant(now=batch.now, lease_until=until_s, refused=refused, repeated=batch.repeated)

        return await self._service.call(lease)

    async def observe(self, outcomes: OutcomeBatch, options: OutcomesQuery) -> Observed:
        """Report finished crawls.

        The invalid ones are named, the others applied.
        """
        return await self._service.call(lambda scheduler, _: scheduler.observe(outcomes, positions=options.positions))

    async def notice(self, signals: SignalBatch) -> Noticed:
        """Report change signals, such as those of sitemaps and feeds.

        The invalid ones are named, the others applied.
        """
        return await self._service.call(lambda scheduler, _: scheduler.notice(signals))

    async def discover(self, found: Discoveries) -> Discovered:
        """Add pages that were found and not visited yet.

        The invalid ones are named, the others applied.
        """
        urls = PackedUrls.pack(found.urls)
        importance = found.importance if isinstance(found.importance, float) else None
        return await self._service.call(lambda scheduler, now: scheduler.discover(urls, now=now, importance=importance))

    async def ask(self, wanted: VisitRequests) -> Discovered:
        """Request one visit of each page, whatever its score.

        The invalid ones are named, the others applied.
        """
        urls = PackedUrls.pack(wanted.urls)
        return await self._service.call(lambda scheduler, now: scheduler.ask(urls, now=now))

    async def release(self, given: Releases) -> Released:
        """Give leased pages back unvisited."""
        return Released(known=await self._service.call(lambda scheduler, _: scheduler.release(given.urls)))


def _has_batch(scheduler: DurableScheduler, now: float, asked: NextBatch) -> bool:
    """Return whether `asked` would be answered with a page, or with the batch that its key has."""
    if asked.key is not None and scheduler.core.keys.has(asked.key, now):
        return True
    offered = scheduler.offer(1, now=now, lease=asked.lease, hosts=asked.hosts, per_host=asked.per_host)
    return len(offered) > 0


def _show_batch(batch: Batch) -> LeasedBatch:
    return LeasedBatch(pages=cast("list[LeasedPage]", list(batch)), now=batch.now, repeated=batch.repeated)
