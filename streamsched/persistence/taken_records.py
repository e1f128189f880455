"""Records taken from streams since the last entry of the log, which tells them before the next call.

The records are not logged, as their streams can be read again: only how many each stream delivered, in which turns.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from streamsched.persistence.call_codec import encode_call

_MOST_TURNS: Final = 1 << 16  # in an entry, of ten bytes each


@dataclass(frozen=True, slots=True)
class StreamOffsets:
    """Records taken of the stream ``path``: ``records`` after the first ``skipped`` that follow position ``start``.

    ``position``: the stream's position after them, or before the last ``beyond`` of them, whose delivery was not
    finished. Positions are JSON; None is the stream's beginning. ``latest_s``: the latest time that was valid by a
    clock; None if the streams' own times decided.
    """

    path: str
    start: Any
    skipped: int
    records: int
    position: Any
    beyond: int
    latest_s: float | None


@dataclass(slots=True)
class TakenTurns:
    """Records taken from ``streams`` in turns: turn i took ``counts[i]`` records of stream ``turns[i]``."""

    kind: ClassVar[str] = "take"
    streams: list[StreamOffsets] = field(default_factory=list)
    turns: array[int] = field(default_factory=lambda: array("H"))
    counts: array[int] = field(default_factory=lambda: array("Q"))

    def fits(self, path: str, latest_s: float | None) -> bool:
        """Return whether another turn of the stream `path` with that `latest_s` can be added."""
        is_same = all(one.latest_s == latest_s for one in self.streams if one.path == path)
        return is_same and len(self.turns) < _MOST_TURNS

    def add(self, taken: StreamOffsets) -> None:
        """Add a turn in which `taken` was taken. O(streams)."""
        number = next((i for i, one in enumerate(self.streams) if one.path == taken.path), len(self.streams))
        if number == len(self.streams):
            self.streams.append(taken)
        else:
            before = self.streams[number]
            records = before.records + taken.records
            self.streams[number] = replace(taken, start=before.start, skipped=before.skipped, records=records)
        if self.turns and self.turns[-1] == number:
            self.counts[-1] += taken.records
        else:
            self.turns.append(number)
            self.counts.append(taken.records)

    def encode(self) -> bytes:
        """Return the log's entry."""
        turns, counts = np.array(self.turns, np.uint16), np.array(self.counts, np.uint64)
        arrays: dict[str, npt.NDArray[Any]] = {"turns": turns, "counts": counts}
        return encode_call({"call": self.kind, "streams": [asdict(one) for one in self.streams]}, arrays)

    @classmethod
    def decode(cls, fields: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> TakenTurns:
        """Return what `encode` encoded, without ``call`` in the fields."""
        streams = [StreamOffsets(**one) for one in fields["streams"]]
        return cls(streams, array("H", arrays["turns"].tolist()), array("Q", arrays["counts"].tolist()))


class StreamPositions:
    """Up to where each stream is applied.

    ``positions``: by stream, the position as JSON; ``beyond``: how many records after it are applied as well, the first
    parts of a delivery, by stream where there are any.
    """

    def __init__(self) -> None:
        self.positions: dict[str, Any] = {}
        self.beyond: dict[str, int] = {}

    def advance(self, path: str, records: int, position: Any, latest_s: float | None) -> StreamOffsets:
        """Add `records` records of the stream `path`, up to `position`, None within a delivery; return what was. O(1).

        `latest_s`: as in `StreamOffsets`.
        """
        start, skipped = self.positions.get(path), self.beyond.pop(path, 0)
        if position is not None:
            self.positions[path] = position
        elif skipped + records:
            self.beyond[path] = skipped + records
        beyond = self.beyond.get(path, 0)
        return StreamOffsets(path, start, skipped, records, self.positions.get(path), beyond, latest_s)

    def reach(self, taken: StreamOffsets) -> None:
        """Set what is known of a stream to what `taken` led to."""
        self.beyond.pop(taken.path, None)
        if taken.beyond:
            self.beyond[taken.path] = taken.beyond
        if taken.position is not None:
            self.positions[taken.path] = taken.position

    def to_json(self) -> dict[str, dict[str, Any]]:
        """Return ``positions`` and ``beyond``."""
        return {"positions": dict(self.positions), "beyond": dict(self.beyond)}

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> StreamPositions:
        """Return what `to_json` described."""
        reached = cls()
        reached.positions, reached.beyond = state["positions"], state["beyond"]
        return reached


class TakenRecords:
    """The log's entry for records that were taken: their streams, counts, turns and positions."""

    def __init__(self) -> None:
        self._entries: list[TakenTurns] = []

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add(self, taken: StreamOffsets) -> None:
        """Add what was taken of a stream. O(streams)."""
        if not self._entries or not self._entries[-1].fits(taken.path, taken.latest_s):
            self._entries.append(TakenTurns())
        self._entries[-1].add(taken)

    def encode(self) -> Iterator[bytes]:
        """Yield the entries for the log, in order."""
        return (entry.encode() for entry in self._entries)

    def clear(self) -> None:
        """Forget the entries: the log or an image holds them."""
        self._entries.clear()
