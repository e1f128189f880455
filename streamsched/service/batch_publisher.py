"""Publishes batches of pages to visit to a topic, for crawlers that read from Kafka."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from streamsched.connectors.kafka.sink import KafkaSink
from streamsched.errors import SnapshotError, SourceError
from streamsched.scheduler.durable import DurableScheduler
from streamsched.service.event_log import LOG
from streamsched.service.run_settings import BatchPlan


class BatchPublisher:
    """Leases pages of `scheduler` and sends them to `sink` according to `plan`; a context manager.

    `wall` is the time of the leases, `clock` that of the interval. The leases are on disk before a page is sent: after
    a crash in between, pages are sent again only once their leases have expired. While brokers are unreachable no
    further batch is leased; the pending one is sent when they return. ``sent``: pages so far.
    """

    def __init__(
        self,
        scheduler: DurableScheduler,
        sink: KafkaSink,
        plan: BatchPlan,
        *,
        wall: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        self.sent = 0
        self._scheduler = scheduler
        self._sink = sink
        self._plan = plan
        self._wall = wall
        self._clock = clock
        self._due = clock()
        self._unsent = 0  # pages that the brokers have not stored yet

    def tick(self, lag: int | None) -> None:
        """Publish a batch if it is due and `lag` is at most ``plan.behind`` messages. Mostly milliseconds.

        With a `lag` of None, unknown, only a pending batch is sent.
        """
        if self._clock() < self._due:
            return
        self._due = self._clock() + float(self._plan.every)
        if self._unsent or (lag is not None and lag <= self._plan.behind):
            try:
                self._publish()
            except SnapshotError as error:  # no lease on disk, no batch
                LOG.error("no batch", reason=str(error))
            except SourceError as error:
                LOG.error("batch waits for brokers", pages=self._unsent, reason=str(error))

    def _publish(self) -> None:
        if not self._unsent:
            batch = self._scheduler.next_batch(self._plan.size, now=self._wall(), lease=self._plan.lease)
            self._unsent = len(batch)
            self._sink.send_batch(batch)
        self._sink.flush()
        self.sent += self._unsent
        LOG.debug("batch", pages=self._unsent)
        self._unsent = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._sink.close()
        except SourceError as unsent:
            LOG.error("batch not taken", pages=self._unsent, reason=str(unsent))
