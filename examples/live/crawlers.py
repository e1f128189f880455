"""Two crawlers with the same budget: one asks the service what to visit, the other visits the oldest copies first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from examples.live.world import Copies
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import OutcomeBatch

if TYPE_CHECKING:
    from examples.live.world import World
    from streamsched.client import Client
    from streamsched.connectors.kafka import KafkaSink

__all__ = ["OldestFirst", "ServiceCrawler"]

LEASE = "10d"  # of the service's time: outcomes come back through the topic within a second of the machine's


class ServiceCrawler:
    """Asks the service for pages, visits them, and sends what it found to the topic that the service reads."""

    def __init__(self, world: World, start_s: float, client: Client, topic: KafkaSink) -> None:
        self.copies = Copies(world, start_s)
        self._world = world
        self._client = client
        self._topic = topic
        self._announced = world.count(start_s)

    def crawl(self, k: int) -> int:
        """Visit up to `k` pages at the service's present; return how many."""
        batch = self._client.next_batch(k, lease=LEASE)
        urls = [page.url for page in batch.pages]
        changed = self.copies.visit(self._world.find(urls), batch.now)
        times = np.full(len(urls), batch.now)
        self._topic.send_outcomes(OutcomeBatch(PackedUrls.pack(urls), times, changed=changed))
        self._topic.flush()  # else they would wait for a full frame, a week of the service's time
        self._announce(batch.now)
        return len(urls)

    def _announce(self, now: float) -> None:
        """Report the pages that have appeared, as a crawler does that finds links."""
        count = self._world.count(now)
        if count > self._announced:
            self._client.discover(self._world.urls[self._announced : count])
            self._announced = count


class OldestFirst:
    """Visits the pages whose copies are oldest, those without a copy before all others."""

    def __init__(self, world: World, start_s: float) -> None:
        self.copies = Copies(world, start_s)
        self._world = world

    def crawl(self, k: int, now: float) -> None:
        """Visit `k` pages at `now`."""
        known = self._world.count(now)
        oldest = np.argsort(self.copies.visited_s[:known], kind="stable")[:k]
        self.copies.visit(oldest, now)
