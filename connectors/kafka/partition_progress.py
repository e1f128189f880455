"""The assigned partitions: where reading of each starts, and how far each has been read and delivered."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Generic

from streamsched.connectors.kafka.clients.protocol import partition_path
from streamsched.connectors.kafka.decoding import DecodedBatch, DecodingResult, RejectedMessage
from streamsched.connectors.kafka.kafka_settings import KafkaSettings
from streamsched.connectors.source import Position, Records
from streamsched.errors import SettingsError, SourceError


@dataclass(frozen=True, slots=True)
class PendingDelivery(Generic[Records]):
    """Decoded records of partition ``number`` that wait to be delivered, or None, and the messages rejected before.

    ``position``: the partition's position after this delivery.
    """

    number: int
    position: Position
    decoded: DecodedBatch[Records] | None
    rejected: Sequence[RejectedMessage]


@dataclass(slots=True)
class PartitionProgress:
    """Progress in one partition: up to ``read`` its messages are decoded, up to ``delivered`` they are delivered.

    ``log_end``: the end of its log when it was assigned; ``stops``: whether reading stops there.
    """

    number: int
    read: Position
    delivered: Position
    log_end: int
    stops: bool

    def is_done(self) -> bool:
        """Return whether reading has reached the end at which it stops."""
        return self.stops and self.read.offset >= self.log_end


class AssignedPartitions(Mapping[int, PartitionProgress], Generic[Records]):
    """The assigned partitions by number, and their pending deliveries in stream order."""

    def __init__(self) -> None:
        self._parts: dict[int, PartitionProgress] = {}
        self._pending: deque[PendingDelivery[Records]] = deque()

    def __getitem__(self, number: int) -> PartitionProgress:
        return self._parts[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def positions(self, numbers: Iterable[int] | None = None) -> dict[str, Position]:
        """Return the positions after the last delivery by path; of `numbers` only, if given."""
        chosen = self._parts if numbers is None else [number for number in numbers if number in self._parts]
        return {self._parts[number].delivered.path: self._parts[number].delivered for number in chosen}

    def offsets_within(self, bounds: Mapping[int, tuple[int, int]]) -> dict[int, int]:
        """Return the offset of each partition of `bounds`, moved between the first and the last one given for it."""
        return {
            number: min(max(self[number].delivered.offset, least), most) for number, (least, most) in bounds.items()
        }

    def begin(self, number: int, position: Position, log_end: int, *, stops: bool) -> None:
        """Set the position of a partition; its pending deliveries are dropped."""
        self.drop(number)
        self._parts[number] = PartitionProgress(number, position, position, log_end, stops)

    def drop(self, number: int) -> Position | None:
        """Remove a partition; return its position, or None if it was not assigned."""
        self._pending = deque(pending for pending in self._pending if pending.number != number)
        part = self._parts.pop(number, None)
        return None if part is None else part.delivered

    def add(self, number: int, result: DecodingResult[Records], offset: int, messages: int) -> None:
        """Append the records of `result`, decoded from that many `messages` up to `offset`, as pending deliveries."""
        part = self._parts[number]
        before = part.read
        rejected = deque(sorted(result.rejected, key=attrgetter("offset")))
        for decoded in result.batches:
            position = replace(before, offset=decoded.offset, records=before.records + decoded.messages)
            earlier = _pop_before(rejected, decoded.offset)
            self._pending.append(PendingDelivery(number, position, decoded, earlier))
        part.read = replace(before, offset=offset, records=before.records + messages)
        self._pending.append(PendingDelivery(number, part.read, None, list(rejected)))

    def rewind(self) -> None:
        """Drop all pending deliveries."""
        self._pending.clear()
        for part in self._parts.values():
            part.read = part.delivered

    def advance(self, number: int, offset: int | None) -> None:
        """Skip a gap in the log up to `offset`, unless deliveries are pending."""
        part = self._parts[number]
        if offset is not None and offset > part.read.offset and not self._pending:
            part.read = part.delivered = replace(part.read, offset=offset)

    def take(self) -> PendingDelivery[Records] | None:
        """Remove and return the next pending delivery, or None."""
        if not self._pending:
            return None
        pending = self._pending.popleft()
        self._parts[pending.number].delivered = pending.position
        return pending

    def are_done(self) -> bool:
        """Return whether all partitions are read to their ends and nothing is pending."""
        return not self._pending and all(part.is_done() for part in self._parts.values())


def _pop_before(rejected: deque[RejectedMessage], offset: int) -> list[RejectedMessage]:
    earlier: list[RejectedMessage] = []
    while rejected and rejected[0].offset < offset:
        earlier.append(rejected.popleft())
    return earlier


Bounds = tuple[int, int]
"""The first offset in the log and the next to be written."""


@dataclass(frozen=True, slots=True)
class StartOffset:
    """Where to start in a partition; ``skipped`` messages before it were deleted before they were read."""

    offset: int
    records: int = 0
    skipped: int = 0


def choose_partitions(settings: KafkaSettings, existing: Sequence[int]) -> dict[str, int]:
    """Return the numbers of the partitions to read, by path; with a group, all that exist.

    Raises SettingsError if the settings name partitions that do not exist, or both partitions and a group.
    """
    asked = settings.partitions
    if asked is not None and (settings.group is not None or not set(asked) <= set(existing)):
        raise SettingsError("partitions", asked, f"some of the topic's, 0 to {existing[-1]}, and no group")
    return {partition_path(settings.topic, one): one for one in (existing if asked is None else asked)}


def choose_start(
    settings: KafkaSettings, start: Position, bounds: Bounds, saved: Position | None, committed: int | None
) -> StartOffset:
    """Return where to start a partition: `saved`, else `committed`, else the end of the log in ``settings.start``.

    `start` names the partition and its topic's id. Raises SourceError if that offset is not in the log, or was in the
    log of another topic, and ``settings.lost`` is "fail".
    """
    first, last = bounds
    wanted = committed if saved is None else saved.offset
    if wanted is None:
        return StartOffset(first if settings.start == "earliest" else last)
    records = 0 if saved is None else saved.records
    is_other = saved is not None and "" not in (saved.topic_id, start.topic_id) and saved.topic_id != start.topic_id
    if first <= wanted <= last and not is_other:
        return StartOffset(wanted, records)
    if settings.lost == "fail":
        if is_other:
            why = f"the topic was deleted and made again: the log of the new one is {first} to {last}"
        elif wanted < first:
            why = f"the log begins at {first}: {first - wanted} messages were deleted before they were read"
        else:
            why = f"the log ends at {last}: the topic was recreated or truncated"
        reason = f"cannot continue at offset {wanted}, {why}; set lost=earliest or lost=latest to continue at that end"
        raise SourceError(start.path, reason, wanted)
    offset = first if settings.lost == "earliest" else last
    return StartOffset(offset, records, max(0, offset - wanted) if wanted <= last and not is_other else 0)


def find_partition(settings: KafkaSettings, position: Position, kind: str, known: Mapping[str, int]) -> int:
    """Return the partition of `position`, one of `known` by path. Raises SourceError if it has none or another kind."""
    if position.kind != kind or position.path not in known:
        reason = f"the position belongs to {position.path} ({position.kind}), not to a partition of this topic ({kind})"
        raise SourceError(f"kafka://{settings.topic}", reason)
    return known[position.path]
