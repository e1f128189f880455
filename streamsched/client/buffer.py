"""The outcomes that a sender has not sent yet, in the order in which they were added."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from streamsched.client.protocol.retries import check_seconds
from streamsched.errors import SettingsError

if TYPE_CHECKING:
    from streamsched.client.protocol.events import Outcome

__all__ = ["MOST_RECORDS", "OutcomeBuffer"]

MOST_RECORDS: Final = 10_000  # that the service takes in one request
_MOST_CHARACTERS: Final = 1 << 20  # of the URLs in a frame: 4 MiB at most, and the service takes 8 by default


class _Waiting(NamedTuple):
    outcome: Outcome
    added_s: float

    @property
    def characters(self) -> int:
        """The length of its URLs."""
        return len(self.outcome.url) + len(self.outcome.moved_to or "")


class OutcomeBuffer:
    """Outcomes that wait, at most `capacity`.

    A frame of them is due once there are `frame` or the oldest has waited `every_s` seconds. ``added``, ``sent``: how
    many outcomes came and went. Raises SettingsError if an argument is invalid.

    >>> from streamsched.client import Outcome
    >>> buffer = OutcomeBuffer(frame=2, every_s=1.0, capacity=3)
    >>> buffer.add(Outcome("https://a.example/", 7.0), now_s=10.0)
    >>> buffer.due_in_s(10.5)
    0.5
    """

    def __init__(self, *, frame: int, every_s: float, capacity: int) -> None:
        self._frame = _check_count("frame", frame, MOST_RECORDS)
        self._every_s = check_seconds("every_s", every_s)
        self._capacity = _check_count("capacity", capacity, None)
        self._waiting: deque[_Waiting] = deque()
        self.sent = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def added(self) -> int:
        """The number of outcomes that were ever added."""
        return self.sent + len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether no outcome may be added."""
        return len(self._waiting) >= self._capacity

    @property
    def wakes_sender(self) -> bool:
        """Whether the outcome that was added last may have changed when a frame is due."""
        return len(self._waiting) == 1 or len(self._waiting) >= min(self._frame, self._capacity)

    def add(self, outcome: Outcome, now_s: float) -> None:
        """Append an outcome at the time `now_s`; the buffer must not be full."""
        self._waiting.append(_Waiting(outcome, now_s))

    def due_in_s(self, now_s: float) -> float | None:
        """Return in how many seconds a frame is due, 0 or less if it is now; None if there is nothing to send."""
        if not self._waiting:
            return None
        if self.is_full or len(self._waiting) >= self._frame:
            return 0.0
        return self._waiting[0].added_s + self._every_s - now_s

    def first_frame(self) -> list[Outcome]:
        """Return the oldest outcomes, a request's fill at most; they stay in the buffer. O(frame)."""
        frame: list[Outcome] = []
        characters = 0
        for waiting in islice(self._waiting, self._frame):
            characters += waiting.characters
            if frame and characters > _MOST_CHARACTERS:
                break
            frame.append(waiting.outcome)
        return frame

    def drop(self, count: int) -> None:
        """Remove the oldest `count` outcomes, which were sent. O(count)."""
        for _ in range(count):
            self._waiting.popleft()
        self.sent += count

    def outcomes(self) -> list[Outcome]:
        """Return all outcomes that wait. O(n)."""
        return [waiting.outcome for waiting in self._waiting]


def _check_count(name: str, value: object, most: int | None) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1 and (most is None or value <= most):
        return value
    raise SettingsError(name, value, "1 or more outcomes" if most is None else f"1 to {most:,} outcomes")
