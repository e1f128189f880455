"""The endpoints of crawlers: the next batch, outcomes, change signals, discoveries, pages given back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import numpy as np

from streamsched.answers import (
    Discovered,
    LeasedBatch,
    LeasedPage,
    NoticedSignals,
    ObservedOutcomes,
    Rejection,
    Released,
)
from streamsched.connectors.records import OUTCOMES, SIGNALS
from streamsched.errors import InvalidRecord, shorten
from streamsched.http.endpoints.messages import Discoveries, NextBatch, Outcomes, Releases, Signals
from streamsched.http.endpoints.reading import show_counts
from streamsched.http.protocol.bodies import MessageBody, RecordsBody
from streamsched.http.protocol.problems import HttpError
from streamsched.http.protocol.routes import Call, Route
from streamsched.http.service import Service
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import OutcomeBatch
from streamsched.scheduler.durable import DurableScheduler
from streamsched.scheduler.results import KEPT_REJECTIONS, Batch, Noticed, Observed


class Crawling:
    """Answers crawlers. A page, an outcome or a lease that an answer names is on disk."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._running: set[str] = set()  # keys of requests that are not answered yet

    def routes(self) -> list[Route]:
        """Return the routes of these endpoints."""
        return [
            Route(
                "POST",
                "/v1/next",
                self.next_batch,
                "crawl",
                LeasedBatch,
                body=MessageBody(NextBatch),
                errors={HTTPStatus.CONFLICT: "A request with this key is still running."},
                links=_LINKS_OF_BATCH,
            ),
            Route(
                "POST", "/v1/outcomes", self.observe, "crawl", ObservedOutcomes, body=RecordsBody(OUTCOMES, Outcomes)
            ),
            Route("POST", "/v1/signals", self.notice, "crawl", NoticedSignals, body=RecordsBody(SIGNALS, Signals)),
            Route("POST", "/v1/discover", self.discover, "crawl", Discovered, body=MessageBody(Discoveries)),
            Route("POST", "/v1/release", self.release, "crawl", Released, body=MessageBody(Releases)),
        ]

    async def next_batch(self, call: Call) -> LeasedBatch:
        """Lease the pages to visit next."""
        asked: NextBatch = call.body
        service, key = self._service, asked.key
        if key is not None and key in self._running:
            raise HttpError(
                HTTPStatus.CONFLICT,
                "key_running",
                "a request with this key is still running",
                fields={"field": "key", "found": shorten(key)},
                headers={"retry-after": "1"},
            )

        def lease(scheduler: DurableScheduler) -> LeasedBatch:
            batch = scheduler.next_batch(
                asked.k,
                now=service.clock(),
                lease=asked.lease,
                hosts=asked.hosts,
                per_host=asked.per_host,
                key=key,
            )
            return _show_batch(batch)

        try:
            if key is not None:
                self._running.add(key)
            leased = await service.write(lease)
        finally:
            if key is not None:
                self._running.discard(key)
        return leased

    async def observe(self, call: Call) -> ObservedOutcomes:
        """Report finished crawls.

        The invalid ones are named, the others applied.
        """
        observed: Observed = await self._service.write(lambda scheduler: scheduler.observe(call.body))
        return ObservedOutcomes(**show_counts(observed), rejections=_show(observed.rejections))

    async def notice(self, call: Call) -> NoticedSignals:
        """Report change signals, such as those of sitemaps and feeds.

        The invalid ones are named, the others applied.
        """
        noticed: Noticed = await self._service.write(lambda scheduler: scheduler.notice(call.body))
        return NoticedSignals(**show_counts(noticed), rejections=_show(noticed.rejections))

    async def discover(self, call: Call) -> Discovered:
        """Add pages that were found and not visited yet.

        The invalid ones are named, the others applied.
        """
        found: Discoveries = call.body
        urls = PackedUrls.pack(found.urls)
        importance = found.importance if isinstance(found.importance, float) else None

        def add(scheduler: DurableScheduler) -> Discovered:
            now = self._service.clock()
            problems = OutcomeBatch(urls, np.full(len(urls), now)).problems()
            valid = np.delete(np.arange(len(urls)), [problem.record for problem in problems])
            added = scheduler.discover(urls.take(valid) if problems else urls, now=now, importance=importance)
            return Discovered(added=added, rejected=len(problems), rejections=_show(problems[:KEPT_REJECTIONS]))

        return await self._service.write(add)

    async def release(self, call: Call) -> Released:
        """Give leased pages back unvisited."""
        given: Releases = call.body
        return Released(known=await self._service.write(lambda scheduler: scheduler.release(given.urls)))


_FIRST_URL: Any = "$response.body#/pages/0/url"
_LINKS_OF_BATCH: Any = {
    "explain": {"operationId": "explain", "parameters": {"query.url": _FIRST_URL}},
    "release": {"operationId": "release", "requestBody": {"urls": [_FIRST_URL]}},
}


def _show_batch(batch: Batch) -> LeasedBatch:
    until_s = batch.now if batch.lease_until_s is None else batch.lease_until_s
    scores = [score if math.isfinite(score) else None for score in batch.scores.tolist()]
    columns = batch.urls, batch.hosts, scores, batch.tiers.tolist(), batch.probabilities.tolist(), batch.reasons
    pages = [
        LeasedPage(
            url=url, host=host, score=score, tier=tier, probability=probability, lease_until=until_s, why=why.value
        )
        for url, host, score, tier, probability, why in zip(*columns, strict=True)
    ]
    return LeasedBatch(pages=pages, now=batch.now, repeated=batch.repeated)


def _show(problems: Sequence[InvalidRecord]) -> list[Rejection]:
    return [
        Rejection(record=one.record, field=one.field, found=shorten(one.found), expected=one.expected)
        for one in problems
    ]
