"""Batches published to a topic, for crawlers that read what to visit next from Kafka."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from streamsched.checks import check_whole
from streamsched.connectors.kafka import KafkaSink
from streamsched.durable import DurableScheduler
from streamsched.durations import parse_duration
from streamsched.errors import SnapshotError, SourceError
from streamsched.service.logs import tell

__all__ = ["BatchPlan", "Batches"]


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """How batches are published: ``size`` pages every ``every``, leased for ``lease``, both as ``"10s"`` or seconds."""

    size: int = 1000
    every: str | float = "10s"
    lease: str | float = "10m"

    def __post_init__(self) -> None:
        check_whole("size", self.size, 1, "1 or more pages")
        object.__setattr__(self, "every", parse_duration(self.every, "every"))
        object.__setattr__(self, "lease", parse_duration(self.lease, "lease"))


class Batches:
    """Hands out pages of `scheduler` through `sink` by `plan`, as of the time of `wall`, when `clock` has gone on.

    The leases are on disk before a page is sent: a crash between costs the wait for their end, and no page is sent
    twice before. Where brokers do not take a batch its pages are given back. ``sent``: pages so far.
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

    def tick(self) -> None:
        """Publish a batch if it is time. Milliseconds, and the brokers' answer."""
        if self._clock() < self._due:
            return
        self._due = self._clock() + float(self._plan.every)
        try:
            batch = self._scheduler.next_batch(self._plan.size, now=self._wall(), lease=self._plan.lease)
        except SnapshotError as error:  # told by whoever sees to saving; no lease, no batch
            tell("no batch", logging.ERROR, reason=str(error))
            return
        try:
            self._sink.send_batch(batch)
            self._sink.flush()
        except SourceError as error:
            self._scheduler.release(batch.urls)
            tell("batch not taken", logging.ERROR, pages=len(batch), reason=str(error))
            return
        self.sent += len(batch)
        tell("batch", logging.DEBUG, pages=len(batch))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sink.close()
