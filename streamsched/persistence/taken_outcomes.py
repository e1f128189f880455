"""Outcomes taken from streams since the last entry of the log, which records them before the next call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from streamsched.persistence.call_codec import StreamOffsets

__all__ = ["TakenOutcomes"]


class TakenOutcomes:
    """What the log must record of the outcomes that were taken: their streams, counts and positions."""

    def __init__(self) -> None:
        self._entries: list[StreamOffsets] = []
        self._beyond: dict[str, int] = {}  # by stream: outcomes after its position, of an unfinished delivery

    def add(self, path: str, outcomes: int, latest_s: float | None, positions: dict[str, Any], position: Any) -> None:
        """Add `outcomes` outcomes of the stream `path`; set ``positions[path]`` to `position` unless it is None. O(1).

        `latest_s`: the latest time that was valid for them, as in `StreamOffsets`.
        """
        entries = self._entries
        if not entries or (entries[-1].path, entries[-1].latest_s) != (path, latest_s):
            entries.append(StreamOffsets(path, positions.get(path), self._beyond.get(path, 0), 0, None, latest_s))
        if position is None:
            self._beyond[path] = self._beyond.get(path, 0) + outcomes
        else:
            positions[path] = position
            self._beyond.pop(path, None)
        last = entries[-1]
        entries[-1] = replace(last, outcomes=last.outcomes + outcomes, position=positions.get(path))

    def encode(self) -> Iterator[bytes]:
        """Yield the entries for the log, in order."""
        return (entry.encode() for entry in self._entries)

    def clear(self) -> None:
        """Forget the entries: the log or an image holds them."""
        self._entries.clear()
