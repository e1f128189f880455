"""The interface of a Kafka client for the source and the sink, implemented with kafka-python and with librdkafka.

Partitions are plain numbers, because one client reads one topic. The methods are documented here, once for both
clients. Errors of a client's library are raised as a SourceError that names the topic.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from streamsched.errors import SourceError

Answer = TypeVar("Answer")
Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


@dataclass(slots=True)
class Messages:
    """Messages of one partition by ascending offset, gaps allowed, as columns of equal length.

    ``headers`` is empty if no message has any.
    """

    partition: int
    offsets: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Headers | None]

    def __len__(self) -> int:
        return len(self.offsets)

    def before(self, offset: int) -> Messages:
        """Return the messages before `offset`; the same object if all are. O(n)."""
        if not self.offsets or self.offsets[-1] < offset:
            return self
        count = sum(one < offset for one in self.offsets)
        columns = (column[:count] for column in (self.keys, self.values, self.headers))
        return Messages(self.partition, self.offsets[:count], *columns)  # type: ignore[arg-type]


class TopicIdentity(NamedTuple):
    """Which topic has a name: its id, "" from brokers that give none, and the numbers of its partitions."""

    topic_id: str
    partitions: list[int]


class OffsetOutOfRange(Exception):
    """The next offset of a partition is no longer, or not yet, in the log."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        super().__init__(partition)


class RebalanceListener(Protocol):
    """Callbacks of a consumer in a group, called while its caller waits in `Consumer.poll`.

    They may call the consumer, and do not raise.
    """

    def on_assigned(self, partitions: Sequence[int]) -> Mapping[int, int]:
        """Return the offset to start at in each of `partitions`, which are now assigned to the consumer."""
        ...

    def on_revoked(self, partitions: Sequence[int], *, lost: bool) -> None:
        """Save and commit the progress in `partitions` before others read them; `lost`: others read them already."""
        ...


class Consumer(Protocol):
    """A reader of one topic; not safe for use by two threads at once."""

    def partitions(self) -> list[int]:
        """Return the numbers of the topic's partitions. Raises SourceError if there is no such topic."""
        ...

    def identify(self, timeout_s: float) -> TopicIdentity | None:
        """Ask the brokers which topic has the name now; None if none has. Raises SourceError without an answer."""
        ...

    def bounds(self, partitions: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Return the first offset in the log and the next to be written, for each of `partitions`."""
        ...

    def committed(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return the offsets that the group has committed for `partitions`; those without one are left out."""
        ...

    def assign(self, starts: Mapping[int, int]) -> None:
        """Read the partitions in `starts`, each from its offset."""
        ...

    def subscribe(self, listener: RebalanceListener) -> None:
        """Join the group; `listener` is called when partitions are assigned or revoked."""
        ...

    def seek(self, partition: int, offset: int) -> None:
        """Read `partition`, which is assigned, from `offset` on."""
        ...

    def poll(self, timeout_s: float, limit: int) -> list[Messages]:
        """Return up to `limit` messages once there are any, none after `timeout_s`. Raises OffsetOutOfRange."""
        ...

    def position(self, partition: int) -> int | None:
        """Return the offset to be read next, past gaps at the end of the log; None while unknown."""
        ...

    def end(self, partition: int) -> int | None:
        """Return the last known next offset to be written, without a request; None if unknown."""
        ...

    def pause(self, partitions: Iterable[int]) -> None:
        """Fetch nothing from `partitions` until `resume`."""
        ...

    def resume(self, partitions: Iterable[int]) -> None:
        """Fetch from `partitions` again."""
        ...

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Commit the group's offsets and wait for the response."""
        ...

    def close(self) -> None:
        """Leave the group and close connections."""
        ...


class Producer(Protocol):
    """A writer of topics: stores each message once, in order within a partition, or raises."""

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of `topic`; the broker may create the topic. Raises SourceError."""
        ...

    def create(self, topic: str, partitions: int) -> bool:
        """Create `topic` with `partitions`; return False if it exists already."""
        ...

    def send(
        self, topic: str, value: bytes, key: bytes | None = None, headers: Headers = (), partition: int | None = None
    ) -> None:
        """Queue a message; waits while too many are in flight. Raises the failure of an earlier message."""
        ...

    def flush(self) -> None:
        """Wait until all queued messages are stored. Raises SourceError if one is not."""
        ...

    def close(self) -> None:
        """Flush, then close connections."""
        ...


def keep_trying(patience_s: float, first_s: float, attempt: Callable[[float], Answer]) -> Answer:
    """Return the answer of `attempt`, called with the seconds that it may take, again after a retriable SourceError.

    An attempt that waits does not see a refusal, so the first takes `first_s` and each further one twice as long.
    Raises the last SourceError after `patience_s` in all, and at once if it is not retriable.
    """
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return attempt(max(min(first_s, deadline - time.monotonic()), 0.01))
        except SourceError as error:
            if not error.retriable or time.monotonic() >= deadline:
                raise
        first_s *= 2


def partition_path(topic: str, partition: int) -> str:
    """Return the path of a partition in positions and rejections.

    >>> partition_path("outcomes", 3)
    'kafka://outcomes/3'
    """
    return f"kafka://{topic}/{partition}"
