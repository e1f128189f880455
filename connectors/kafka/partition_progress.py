"""The partitions that are ours at the moment, and how far each was read and handed out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from streamsched.connectors.kafka.decoding import Decoded, Faulty, Run
from streamsched.connectors.source import Position

__all__ = ["AssignedPartitions", "Entry", "PartitionProgress"]


@dataclass(frozen=True, slots=True)
class Entry:
    """What waits to be handed out of partition ``number``: a run, or None, and the faults that lie before its end.

    ``position``: where the partition stands after it.
    """

    number: int
    position: Position
    run: Run | None
    faults: Sequence[Faulty]


@dataclass(slots=True)
class PartitionProgress:
    """A partition: ``read``: up to which its messages were decoded; ``given``: up to which they were handed out.

    ``log_end``: the end of its log when it became ours; ``stops``: there we stop.
    """

    number: int
    read: Position
    given: Position
    log_end: int
    stops: bool

    def is_done(self) -> bool:
        """Return whether everything was read that is to be read."""
        return self.stops and self.read.offset >= self.log_end


class AssignedPartitions(Mapping[int, PartitionProgress]):
    """Partitions by number, and what was read of them and waits to be handed out, in stream order."""

    def __init__(self) -> None:
        self._parts: dict[int, PartitionProgress] = {}
        self._ready: deque[Entry] = deque()

    def __getitem__(self, number: int) -> PartitionProgress:
        return self._parts[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def positions(self, numbers: Iterable[int] | None = None) -> dict[str, Position]:
        """Return where each partition stands after what was handed out, by path; those of `numbers` only."""
        chosen = self._parts if numbers is None else [one for one in numbers if one in self._parts]
        return {self._parts[one].given.path: self._parts[one].given for one in chosen}

    def begin(self, number: int, position: Position, log_end: int, *, stops: bool) -> None:
        """Let a partition stand at `position`; what was read of it before and not handed out is dropped."""
        self.drop(number)
        self._parts[number] = PartitionProgress(number, position, position, log_end, stops)

    def drop(self, number: int) -> Position | None:
        """Forget a partition; return where it stood, None where it was not ours."""
        self._ready = deque(entry for entry in self._ready if entry.number != number)
        part = self._parts.pop(number, None)
        return None if part is None else part.given

    def add(self, number: int, decoded: Decoded, offset: int, taken: int) -> None:
        """Let what was decoded wait to be handed out; `taken` messages up to `offset` were read."""
        part = self._parts[number]
        before = part.read
        faults = deque(sorted(decoded.faults, key=attrgetter("offset")))
        for run in decoded.runs:
            position = replace(before, offset=run.offset, records=before.records + run.taken)
            self._ready.append(Entry(number, position, run, _take_before(faults, run.offset)))
        part.read = replace(before, offset=offset, records=before.records + taken)
        self._ready.append(Entry(number, part.read, None, list(faults)))

    def rewind(self) -> None:
        """Drop what waits to be handed out."""
        self._ready.clear()
        for part in self._parts.values():
            part.read = part.given

    def advance(self, number: int, offset: int | None) -> None:
        """Go on to `offset` where only a gap lies before it, which nothing waiting to be handed out may follow."""
        part = self._parts[number]
        if offset is not None and offset > part.read.offset and not self._ready:
            part.read = part.given = replace(part.read, offset=offset)

    def take(self) -> Entry | None:
        """Hand out the next entry, None where there is none."""
        if not self._ready:
            return None
        entry = self._ready.popleft()
        self._parts[entry.number].given = entry.position
        return entry

    def are_done(self) -> bool:
        """Return whether all was read up to the ends and handed out."""
        return not self._ready and all(part.is_done() for part in self._parts.values())


def _take_before(faults: deque[Faulty], offset: int) -> list[Faulty]:
    taken: list[Faulty] = []
    while faults and faults[0].offset < offset:
        taken.append(faults.popleft())
    return taken
