"""The endpoints of crawlers: the next batch, outcomes, change signals, discoveries, pages given back."""

from __future__ import annotations

from http import HTTPStatus

from streamsched.api.answers import LeasedBatch, LeasedPage, Released
from streamsched.api.operations import Discoveries, NextBatch, Releases, VisitRequests
from streamsched.api.views import Discovered, Noticed, Observed, finite
from streamsched.errors import shorten
from streamsched.http.protocol.problems import HttpError
from streamsched.http.service import Service
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import OutcomeBatch
from streamsched.scheduler.results import Batch
from streamsched.signals import SignalBatch


class Crawling:
    """Answers crawlers. A page, an outcome or a lease that an answer names is on disk."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._running: set[str] = set()  # keys of requests that are not answered yet

    async def next_batch(self, asked: NextBatch) -> LeasedBatch:
        """Lease the pages to visit next."""
        key = asked.key
        if key is None:
            return await self._lease(asked)
        if key in self._running:
            raise HttpError(
                HTTPStatus.CONFLICT,
                "key_running",
                "a request with this key is still running",
                fields={"field": "key", "found": shorten(key)},
                headers={"retry-after": "1"},
            )
        self._running.add(key)
        try:
            return await self._lease(asked)
        finally:
            self._running.discard(key)

    async def _lease(self, asked: NextBatch) -> LeasedBatch:
        return await self._service.call(
            lambda scheduler, now: _show_batch(
                scheduler.next_batch(
                    asked.k, now=now, lease=asked.lease, hosts=asked.hosts, per_host=asked.per_host, key=asked.key
                )
            )
        )

    async def observe(self, outcomes: OutcomeBatch) -> Observed:
        """Report finished crawls.

        The invalid ones are named, the others applied.
        """
        return await self._service.call(lambda scheduler, _: scheduler.observe(outcomes))

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


def _show_batch(batch: Batch) -> LeasedBatch:
    until_s = batch.now if batch.lease_until_s is None else batch.lease_until_s
    scores = map(finite, batch.scores.tolist())
    ranked = batch.urls, batch.hosts, scores, batch.tiers.tolist(), batch.probabilities.tolist()
    pages = [
        LeasedPage(
            url=url,
            host=host,
            score=score,
            tier=tier,
            probability=probability,
            lease_until=until_s,
            why=why.value,
            etag=etag,
            last_modified=modified,
        )
        for url, host, score, tier, probability, why, etag, modified in zip(
            *ranked, batch.reasons, batch.etags, batch.last_modified, strict=True
        )
    ]
    return LeasedBatch(pages=pages, now=batch.now, repeated=batch.repeated)
