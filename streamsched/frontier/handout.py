"""GetURLs: pages are leased and sent, each with its host as the key."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from streamsched.frontier.intake import ETAG, LAST_MODIFIED
from streamsched.frontier.messages import message
from streamsched.frontier.queues import count_hosts
from streamsched.scheduler.durable import DurableScheduler
from streamsched.scheduler.results import Batch

URL_INFO: Final = message("urlfrontier.URLInfo")
MOST_URLS: Final = 10_000  # of one call, however many queues and URLs it asks for
LEASE_S: Final = 30  # of a call without `delay_requestable`, as clients of the API expect


class Wanted(NamedTuple):
    """The pages that a call asks for, 0 for any number. ``host``: empty for all hosts."""

    hosts: int
    per_host: int
    host: str
    lease_s: int

    @classmethod
    def of(cls, asked: Any) -> Wanted:
        """Return what a message GetParams asks for."""
        lease_s = asked.delay_requestable or LEASE_S
        return cls(asked.max_queues, asked.max_urls_per_queue, asked.key, lease_s)

    def lease(self, scheduler: DurableScheduler, now: float) -> Batch:
        """Lease the pages."""
        hosts = [self.host] if self.host else None
        most_hosts = 1 if self.host else self.hosts or MOST_URLS
        per_host = min(self.per_host or MOST_URLS, MOST_URLS)
        k = min(most_hosts * per_host, MOST_URLS)
        if hosts is None and 0 < self.hosts < k and _has_more_hosts(scheduler, self.hosts):
            offered = scheduler.offer(k, now=now, lease=self.lease_s, per_host=per_host)
            best = dict.fromkeys(offered.hosts)
            hosts = list(best)[: self.hosts] if len(best) > self.hosts else None
        return scheduler.next_batch(k, now=now, lease=self.lease_s, hosts=hosts, per_host=per_host)


def _has_more_hosts(scheduler: DurableScheduler, most: int) -> bool:
    """Return whether there may be more hosts than `most`. O(groups), O(1) if these are many."""
    groups = int(scheduler.core.pages.arrays.corpus["groups"][0])
    return groups > MOST_URLS or count_hosts(scheduler) > most


def encode_pages(batch: Batch, crawl: str) -> list[bytes]:
    """Return the pages of `batch` as messages."""
    messages = []
    for url, host, etag, modified in zip(batch.urls, batch.hosts, batch.etags, batch.last_modified, strict=True):
        info = URL_INFO(url=url, key=host, crawlID=crawl)
        if etag is not None:
            info.metadata[ETAG].values.append(etag)
        if modified is not None:
            info.metadata[LAST_MODIFIED].values.append(modified)
        messages.append(info.SerializeToString())
    return messages
