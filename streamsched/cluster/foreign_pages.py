"""What outcomes of a partition say of other partitions' hosts: it is passed on to their owners."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from streamsched.client import Client
from streamsched.connectors.kafka.message_keys import choose_partitions, host_keys
from streamsched.errors import ServiceError, SourceError
from streamsched.numerics.arrays import Ints, Rows
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import MOVED_TO, OutcomeBatch
from streamsched.persistence.call_codec import Rereader
from streamsched.service.event_log import LOG
from streamsched.service.stream_hooks import Apply, StreamHook
from streamsched.signals import SignalBatch

_PASS_ON_S: Final = 60.0  # in which the owner must answer: a cluster that starts takes its time
_ANSWER_S: Final = 10.0  # of one call
_PAUSE_S: Final = 0.2


def partitions_of(urls: PackedUrls, count: int) -> Ints:
    """Return the partition of each URL's host among `count`: int64[n]. O(bytes)."""
    return choose_partitions(host_keys(urls), count)


class SplitOutcomes(NamedTuple):
    """Outcomes by the partitions of their hosts: their ``rows`` among all, and ``targets``: of redirects to others.

    ``outcomes`` are all of them, without these targets.
    """

    outcomes: OutcomeBatch
    rows: dict[int, Rows]
    targets: PackedUrls


def split_outcomes(outcomes: OutcomeBatch, count: int) -> SplitOutcomes:
    """Return `outcomes` for each of `count` partitions. O(n). It depends on the outcomes alone."""
    owners = partitions_of(outcomes.urls, count)
    targets = PackedUrls.pack(())
    moved = np.flatnonzero(outcomes.given & MOVED_TO)
    if moved.size:
        named = outcomes.moved_to.take(moved)
        foreign = np.flatnonzero(partitions_of(named, count) != owners[moved])
        outcomes = outcomes.take(np.arange(len(outcomes)))
        outcomes.given[moved[foreign]] &= ~outcomes.given.dtype.type(MOVED_TO)
        targets = named.take(foreign)
    rows = {partition: np.flatnonzero(owners == partition) for partition in np.unique(owners).tolist()}
    return SplitOutcomes(outcomes, rows, targets)


def rereading_own(reread: Rereader, partition: int, count: int) -> Rereader:
    """Return `reread` without what concerns other partitions, as the records were applied the first time."""

    def own(path: str, position: dict[str, Any] | None) -> Iterator[OutcomeBatch | SignalBatch]:
        for batch in reread(path, position):
            yield _take_own(split_outcomes(batch, count), partition) if isinstance(batch, OutcomeBatch) else batch

    return own


def _take_own(split: SplitOutcomes, partition: int) -> OutcomeBatch:
    rows = split.rows.get(partition, np.empty(0, np.intp))
    return split.outcomes if rows.size == len(split.outcomes) else split.outcomes.take(rows)


class ForeignPages(StreamHook):
    """Passes on what outcomes of `partition` say of other partitions' hosts, before the outcomes are applied.

    Targets of redirects are discovered by their owners. Outcomes whose message had another host as its key are
    observed by theirs, which may see them twice: they count once. `ask`: that of ShardSettings; `goes_on`: whether the
    partition is still served here, else the outcomes are left to its next owner. ``done``: pages that were passed on.
    """

    counted = "passed_on"

    def __init__(self, partition: int, count: int, ask: Callable[..., object], goes_on: Callable[[], bool]) -> None:
        super().__init__()
        self._partition = partition
        self._count = count
        self._ask = ask
        self._goes_on = goes_on

    def observe(self, outcomes: OutcomeBatch, apply: Apply) -> Any:
        """Pass on what concerns others; `apply` the rest. Raises SourceError if that cannot be done."""
        split = split_outcomes(outcomes, self._count)
        for partition, rows in split.rows.items():
            if partition != self._partition:
                misplaced = split.outcomes.take(rows)
                if not self._pass_on(partition, partial(_observe, misplaced)):
                    reason = f"{rows.size} outcomes of hosts of partition {partition} cannot be passed on to it"
                    raise SourceError(f"partition {self._partition}", reason, retriable=True)
                self.done += int(rows.size)
        targets = partitions_of(split.targets, self._count)
        for partition in np.unique(targets).tolist():
            urls = list(split.targets.take(np.flatnonzero(targets == partition)))
            if self._pass_on(partition, partial(_discover, urls)):
                self.done += len(urls)
            else:
                LOG.warning("targets of redirects lost", partition=partition, pages=len(urls), first=urls[0])
        return apply(_take_own(split, self._partition), True)

    def _pass_on(self, partition: int, call: Callable[[Client], object]) -> bool:
        """Call the owner of `partition`; return whether it has answered in time. Raises SourceError at an end here."""
        end = time.monotonic() + _PASS_ON_S
        while time.monotonic() < end:
            if not self._goes_on():
                raise SourceError(
                    f"partition {self._partition}", "ends here with outcomes not passed on", retriable=True
                )
            with suppress(ServiceError):
                self._ask(partition, call, _ANSWER_S)
                return True
            time.sleep(_PAUSE_S)
        return False


def _observe(outcomes: OutcomeBatch, client: Client) -> None:
    client.observe(outcomes)


def _discover(urls: list[str], client: Client) -> None:
    client.discover(urls)
