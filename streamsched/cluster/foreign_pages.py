"""Pages of other partitions' hosts that outcomes name: the target of a redirect is its owner's to discover."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import numpy as np

from streamsched.client import Client, RetryPolicy
from streamsched.connectors.kafka.message_keys import choose_partitions, host_keys
from streamsched.errors import ServiceError
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import FIELDS, OutcomeBatch
from streamsched.persistence.call_codec import Rereader
from streamsched.service.event_log import LOG
from streamsched.service.stream_hooks import Apply, StreamHook
from streamsched.signals import SignalBatch

_MOVED_TO: Final = next(field.bit for field in FIELDS if field.name == "moved_to")
_FORWARD_S: Final = 10.0  # in which the owner must take a page
_PAUSE_S: Final = 0.2


def partitions_of(urls: PackedUrls, count: int) -> Any:
    """Return the partition of each URL's host among `count`: int64[n]. O(bytes)."""
    return choose_partitions(host_keys(urls), count)


def take_out_foreign(outcomes: OutcomeBatch, partition: int, count: int) -> tuple[OutcomeBatch, PackedUrls]:
    """Return `outcomes` without the targets of redirects to hosts of other partitions, and these targets. O(n).

    It depends on the outcomes alone, so that a replay of the stream leads to the same state.
    """
    rows = np.flatnonzero(outcomes.given & _MOVED_TO)
    if not rows.size:
        return outcomes, PackedUrls.pack(())
    targets = outcomes.moved_to.take(rows)
    foreign = partitions_of(targets, count) != partition
    own = outcomes.take(np.arange(len(outcomes)))
    own.given[rows[foreign]] &= ~own.given.dtype.type(_MOVED_TO)
    return own, targets.take(np.flatnonzero(foreign))


def rereading_own(reread: Rereader, partition: int, count: int) -> Rereader:
    """Return `reread` without the pages of other partitions, as they were read the first time."""

    def own(path: str, position: dict[str, Any] | None) -> Iterator[OutcomeBatch | SignalBatch]:
        for batch in reread(path, position):
            yield take_out_foreign(batch, partition, count)[0] if isinstance(batch, OutcomeBatch) else batch

    return own


class ForeignPages(StreamHook):
    """Forwards the pages of other partitions that the outcomes of `partition` name, before the outcomes are applied.

    `owner`: returns the URL at which a shard is served now, None if it is not. ``done``: pages that were forwarded.
    """

    counted = "forwarded"

    def __init__(self, partition: int, count: int, owner: Callable[[int], str | None], token: str | None) -> None:
        super().__init__()
        self._partition = partition
        self._count = count
        self._owner = owner
        self._token = token

    def observe(self, outcomes: OutcomeBatch, apply: Apply) -> Any:
        """Forward the pages that `outcomes` name of other partitions; `apply` the rest."""
        own, foreign = take_out_foreign(outcomes, self._partition, self._count)
        if len(foreign):
            targets = partitions_of(foreign, self._count)
            for shard in np.unique(targets).tolist():
                self._forward(shard, list(foreign.take(np.flatnonzero(targets == shard))))
        return apply(own, True)

    def _forward(self, shard: int, urls: list[str]) -> None:
        end = time.monotonic() + _FORWARD_S
        while time.monotonic() < end:
            url = self._owner(shard)
            if url is not None:
                with (
                    suppress(ServiceError),
                    Client(url, token=self._token, timeout_s=_FORWARD_S, retries=RetryPolicy(attempts=1)) as client,
                ):
                    client.discover(urls)
                    self.done += len(urls)
                    return
            time.sleep(_PAUSE_S)
        LOG.warning(
            "redirects not forwarded: their shard is not served", partition=shard, pages=len(urls), first=urls[0]
        )
