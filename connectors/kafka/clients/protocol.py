"""What the source and the sink ask of a Kafka client: the seam behind which kafka-python and librdkafka are alike.

Partitions are plain numbers, for one client reads one topic. Whatever a client's library raises comes out as a
SourceError that names the topic, never as the library's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

__all__ = [
    "Consumer",
    "Headers",
    "Messages",
    "OffsetOutOfRange",
    "Producer",
    "RebalanceListener",
    "partition_path",
]

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


@dataclass(slots=True)
class Messages:
    """Messages of one partition by ascending offset, gaps allowed, as columns of equal length.

    ``headers`` is empty where no message has any.
    """

    partition: int
    offsets: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Headers | None]

    def __len__(self) -> int:
        return len(self.offsets)

    def before(self, offset: int) -> Messages:
        """Return the messages before `offset`, all of them where they are. O(n)."""
        if not self.offsets or self.offsets[-1] < offset:
            return self
        count = sum(one < offset for one in self.offsets)
        columns = (column[:count] for column in (self.keys, self.values, self.headers))
        return Messages(self.partition, self.offsets[:count], *columns)  # type: ignore[arg-type]


class OffsetOutOfRange(Exception):
    """The next offset of a partition is no longer, or not yet, in the log."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        super().__init__(partition)


class RebalanceListener(Protocol):
    """Whom a consumer of a group tells about its partitions, while its caller waits in `Consumer.poll`.

    Its methods may call the consumer and do not raise.
    """

    def on_assigned(self, partitions: Sequence[int]) -> Mapping[int, int]:
        """Return the offset to start at for each of `partitions`, which are the consumer's from now on."""
        ...

    def on_revoked(self, partitions: Sequence[int], *, lost: bool) -> None:
        """Save and commit what was read of `partitions`, which others will read on; `lost`: they do so already."""
        ...


class Consumer(Protocol):
    """A reader of one topic; not safe for use by two threads at once."""

    def partitions(self) -> list[int]:
        """Return the numbers of the topic's partitions; raises SourceError where there is no such topic."""
        ...

    def bounds(self, partitions: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Return the first offset in the log and the next to be written, for each of `partitions`."""
        ...

    def committed(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return the offsets that the group has committed of `partitions`; those without one are left out."""
        ...

    def assign(self, starts: Mapping[int, int]) -> None:
        """Read the partitions in `starts`, each from the offset given."""
        ...

    def subscribe(self, listener: RebalanceListener) -> None:
        """Join the group; the partitions it gives come and go by way of `listener`."""
        ...

    def seek(self, partition: int, offset: int) -> None:
        """Read `partition`, one that is assigned, from `offset` on."""
        ...

    def poll(self, timeout_s: float, limit: int) -> list[Messages]:
        """Return up to `limit` messages as soon as there are some, none after `timeout_s`; raises OffsetOutOfRange."""
        ...

    def position(self, partition: int) -> int | None:
        """Return the offset to be read next, past gaps at the end of the log; None while it is not known."""
        ...

    def end(self, partition: int) -> int | None:
        """Return the next offset to be written as last heard, without asking; None where nothing was heard."""
        ...

    def pause(self, partitions: Iterable[int]) -> None:
        """Fetch nothing of `partitions` until `resume`."""
        ...

    def resume(self, partitions: Iterable[int]) -> None:
        """Fetch `partitions` again."""
        ...

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Store the group's offsets and wait for the answer."""
        ...

    def close(self) -> None:
        """Leave the group and let go of connections."""
        ...


class Producer(Protocol):
    """A writer of topics that sends each message once, in order within a partition, or says that it could not."""

    def partitions(self, topic: str) -> int:
        """Return how many partitions `topic` has; the broker may create it when asked. Raises SourceError."""
        ...

    def create(self, topic: str, partitions: int) -> bool:
        """Create `topic` with so many partitions; False where it is there already."""
        ...

    def send(
        self,
        topic: str,
        value: bytes,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> None:
        """Hand a message over to be sent; waits where too many are on their way. Raises what befell earlier ones."""
        ...

    def flush(self) -> None:
        """Wait until all messages handed over are stored; raises SourceError where one is not."""
        ...

    def close(self) -> None:
        """Flush, and let go of connections."""
        ...


def partition_path(topic: str, partition: int) -> str:
    """Return the name that positions and rejections have for a partition.

    >>> partition_path("outcomes", 3)
    'kafka://outcomes/3'
    """
    return f"kafka://{topic}/{partition}"
