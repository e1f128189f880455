"""The partitions that are ours at the moment, and how far each was read and handed out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from streamsched.connectors.kafka.decoding import Run
from streamsched.connectors.source import Delivery, Position

__all__ = ["Part", "Parts"]


@dataclass(slots=True)
class Part:
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


class Parts(Mapping[int, Part]):
    """Partitions by number, and the deliveries read from them that wait to be handed out, in stream order."""

    def __init__(self) -> None:
        self._parts: dict[int, Part] = {}
        self._ready: deque[tuple[int, Position, Delivery | None]] = deque()

    def __getitem__(self, number: int) -> Part:
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
        self._parts[number] = Part(number, position, position, log_end, stops)

    def drop(self, number: int) -> Position | None:
        """Forget a partition; return where it stood, None where it was not ours."""
        self._ready = deque(entry for entry in self._ready if entry[0] != number)
        part = self._parts.pop(number, None)
        return None if part is None else part.given

    def add(self, number: int, runs: Iterable[Run], offset: int, taken: int) -> None:
        """Let `runs` wait to be handed out; `taken` messages up to `offset` were read, rejected ones among them."""
        part = self._parts[number]
        before = part.read
        for run in runs:
            position = replace(before, offset=run.offset, records=before.records + run.taken)
            self._ready.append((number, position, Delivery(run.outcomes, position)))
        part.read = replace(before, offset=offset, records=before.records + taken)
        self._ready.append((number, part.read, None))

    def advance(self, number: int, offset: int | None) -> None:
        """Go on to `offset` where only a gap lies before it, which nothing waiting to be handed out may follow."""
        part = self._parts[number]
        if offset is not None and offset > part.read.offset and not self._ready:
            part.read = part.given = replace(part.read, offset=offset)

    def take(self) -> Delivery | None:
        """Hand out the next delivery, None where there is none."""
        while self._ready:
            number, position, delivery = self._ready.popleft()
            self._parts[number].given = position
            if delivery is not None:
                return delivery
        return None

    def are_done(self) -> bool:
        """Return whether all was read up to the ends and handed out."""
        return not self._ready and all(part.is_done() for part in self._parts.values())
