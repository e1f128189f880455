"""BatchPublisher published to a topic, for crawlers that read what to visit next from Kafka."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from streamsched.connectors.kafka import KafkaSink
from streamsched.errors import SnapshotError, SourceError
from streamsched.numerics.argument_checks import check_whole
from streamsched.numerics.durations import parse_duration
from streamsched.scheduler.durable import DurableScheduler
from streamsched.service.event_log import log_event

__all__ = ["BatchPlan", "BatchPublisher"]


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """How batches are published: ``size`` pages every ``every``, leased for ``lease``, both as ``"10s"`` or seconds.

    ``behind``: none while the stream is more messages behind: its outcomes are older than the leases, and end them.
    """

    size: int = 1000
    behind: int = 10_000
    every: str | float = "10s"
    lease: str | float = "10m"

    def __post_init__(self) -> None:
        check_whole("size", self.size, 1, "1 or more pages")
        check_whole("behind", self.behind, 0, "0 or more messages")
        object.__setattr__(self, "every", parse_duration(self.every, "every"))
        object.__setattr__(self, "lease", parse_duration(self.lease, "lease"))


class BatchPublisher:
    """Hands out pages of `scheduler` through `sink` by `plan`, as of the time of `wall`, when `clock` has gone on.

    The leases are on disk before a page is sent: a crash between costs the wait for their end, and no page is sent
    twice before. While brokers are away no more is handed out; what waits for them is sent when they are back.
    ``sent``: pages so far.
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
        self._waiting = 0  # pages that the brokers have not taken yet

    def tick(self, lag: int | None) -> None:
        """Publish a batch if it is time and the stream no more than `lag` messages behind. Milliseconds mostly.

        None: it is not known how far; then only what waits is sent.
        """
        if self._clock() < self._due:
            return
        self._due = self._clock() + float(self._plan.every)
        if self._waiting or (lag is not None and lag <= self._plan.behind):
            try:
                self._publish()
            except SnapshotError as error:  # told by whoever sees to saving; no lease, no batch
                log_event("no batch", logging.ERROR, reason=str(error))
            except SourceError as error:
                log_event("batch waits for brokers", logging.ERROR, pages=self._waiting, reason=str(error))

    def _publish(self) -> None:
        if not self._waiting:
            batch = self._scheduler.next_batch(self._plan.size, now=self._wall(), lease=self._plan.lease)
            self._waiting = len(batch)
            self._sink.send_batch(batch)
        self._sink.flush()
        self.sent += self._waiting
        log_event("batch", logging.DEBUG, pages=self._waiting)
        self._waiting = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._sink.close()
        except SourceError as unsent:
            log_event("batch not taken", logging.ERROR, pages=self._waiting, reason=str(unsent))
