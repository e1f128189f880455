"""Boundaries of the maps of a msgpack stream, by `msgpack.Unpacker`, and the search for the next map after damage.

Nothing is decoded but the top-level keys of maps that are measured one by one, so a header that declares a huge
length costs no memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, TypeVar

import msgspec
from msgpack import OutOfData, Unpacker

# The kind of a map by the value of its key "url": text or other, packed bytes or a list, no such key.
EVENT: Final = 1
FRAME: Final = 2
ANONYMOUS: Final = 3

# In place of a map's end.
MALFORMED: Final = -1
INCOMPLETE: Final = -2

MAX_DEPTH: Final = 1 + 1024  # the map and the lists and maps in a value, as msgpack.Unpacker allows; frames need 2

_WORK_PER_BYTE: Final = 128  # bytes that failed attempts may examine per byte of input; random bytes make it 50
_COPIES_PER_BYTE: Final = 16  # bytes that are copied in the time in which one is examined
_PAIR_BYTES: Final = 16  # a key read one by one costs as much as examining these
_LEAST_BYTES: Final = 1 << 16  # input for which that is granted at least: a search through less is exhaustive
_WINDOW_BYTES: Final = 256  # first bytes given to an Unpacker: most events end within, a false start costs no more
_MAP_START: Final = re.compile(rb"[\x81-\x8f](?=[\xa0-\xbf\xd9-\xdb]|\Z)|[\xde\xdf]")  # whose first key may be text
_PACKED: Final = frozenset([*range(0x90, 0xA0), 0xC4, 0xC5, 0xC6, 0xDC, 0xDD])  # first bytes of lists and bin
_MAX_LENGTH_16: Final = 0xFFFF
_LONG: Final = frozenset([0xC6, 0xC9, 0xDB, 0xDD, 0xDF])  # first bytes of values with a length of 32 bits

Read = TypeVar("Read")


class _EventStart(msgspec.Struct):
    """The field that makes a map an event if its value is text; other fields are skipped."""

    url: str


_EVENT: Final = msgspec.msgpack.Decoder(_EventStart)


def is_event(raw: bytes | memoryview) -> bool:
    """Return whether `raw` is exactly one map whose "url" is text; False if others need `MapScanner`. 0.2 µs.

    >>> is_event(msgspec.msgpack.encode({"url": "https://example.org/"}))
    True
    """
    try:
        _EVENT.decode(raw)
    except (ValueError, RecursionError):
        return False
    return True


def find_ends(unpacker: Unpacker, count: int) -> list[int]:
    """Return where the next values of `unpacker`, of any type and `count` at most, end. 0.1 µs a value.

    Stops before a value that is incomplete or malformed.
    """
    ends: list[int] = []
    skip, tell, append = unpacker.skip, unpacker.tell, ends.append
    try:
        for _ in range(count):
            skip()
            append(tell())
    except (OutOfData, ValueError):
        pass
    return ends


class MapScanner:
    """Measures single maps in `data` and searches for the next after bytes that are no map.

    `limit`: the length beyond which a map is malformed; `final`: no bytes follow `data`; ``work``: bytes that failed
    attempts have examined. Linear in `data` however hostile: once ``work`` is 128 times its size (8 MiB at least), each
    false start of m bytes makes the search leap over m / 128 bytes. `bounds`: where values begin and end, as far as
    `find_ends` has found them, which makes measuring those that are events 10 times as fast.
    """

    def __init__(self, data: bytes, limit: int, *, final: bool, bounds: Sequence[int] = ()) -> None:
        self._data = data
        self._view = memoryview(data)
        self._limit = limit
        self._final = final
        self._ends = dict(pairwise(bounds))
        self.work = 0
        self._leap = 1

    def measure(self, start: int) -> tuple[int, int]:
        """Return the end and the kind of the map at `start`. 2 µs an event.

        The end is INCOMPLETE if ``data[start:]`` may still become a map of at most `limit` bytes, and MALFORMED if it
        cannot: no map, a key that is not text, nesting beyond 1,025 levels, a byte that msgpack never uses.
        """
        known_end = self._ends.get(start)
        if known_end is not None and is_event(self._view[start:known_end]):
            return known_end, EVENT
        attempt = _Attempt(self._view, start, self._limit)
        end, kind = attempt.run()
        if end < 0:
            self.work += attempt.work
        exhausted = self.work > _WORK_PER_BYTE * max(len(self._data), _LEAST_BYTES)
        self._leap = 1 + attempt.work // _WORK_PER_BYTE if exhausted else 1
        return end, kind

    def find(self, start: int) -> tuple[int, bool]:
        """Return the start of the next whole map with a key "url" at or after `start`, and True.

        If there is none, returns where the search continues with more bytes, and False: the end, or
        unless `final` the start of a map that those bytes may complete.
        """
        at = start
        while match := _MAP_START.search(self._data, at):
            at = match.start()
            end, kind = self.measure(at)
            if end > 0 and kind != ANONYMOUS:
                return at, True
            if end == INCOMPLETE and not self._final:
                return at, False
            at += self._leap
        return len(self._data), False

    def find_after(self, start: int) -> tuple[int, bool]:
        """Return what `find` does for the bytes after a map at `start` that `measure` has just found malformed."""
        return self.find(min(start + self._leap, len(self._data)))


class _Attempt:
    """One attempt to read a map: feeds an Unpacker by growing windows, so that a false start copies little."""

    def __init__(self, data: memoryview, start: int, limit: int) -> None:
        self._data = data
        self._start = start
        self._limit = limit
        self._stop = min(len(data), start + limit)
        self._fed = start
        self._pairs = 0
        # Limits of 0: a key that is a list or map is refused by its header. Values are skipped, which has no limits.
        self._unpacker = Unpacker(
            read_size=_WINDOW_BYTES,
            max_buffer_size=0,
            max_array_len=0,
            max_map_len=0,
            unicode_errors="surrogateescape",
        )

    @property
    def work(self) -> int:
        """The cost so far, in bytes examined."""
        copied = (self._fed - self._start) // _COPIES_PER_BYTE
        examined: int = self._unpacker.tell()
        return max(examined, copied) + _PAIR_BYTES * self._pairs

    def run(self) -> tuple[int, int]:
        """Return the end and the kind of the map; see `MapScanner.measure`."""
        kind, unpacker = ANONYMOUS, self._unpacker
        try:
            pairs = self._read(unpacker.read_map_header)
            if 2 * pairs > self._limit:
                return MALFORMED, kind
            for self._pairs in range(pairs):
                self._check_length(self._start + unpacker.tell())
                key = self._read(unpacker.unpack)
                if not isinstance(key, str):
                    return MALFORMED, kind
                at = self._start + unpacker.tell()
                self._check_length(at)
                self._read(unpacker.skip)
                if key == "url":
                    kind = FRAME if self._data[at] in _PACKED else EVENT
        except OutOfData:
            return (INCOMPLETE if len(self._data) - self._start < self._limit else MALFORMED), kind
        except ValueError:
            return MALFORMED, kind
        return self._start + unpacker.tell(), kind

    def _read(self, method: Callable[[], Read]) -> Read:
        """Return the result of a method of the Unpacker, which is fed until it has enough."""
        while True:
            try:
                return method()
            except OutOfData:
                at = self._start + self._unpacker.tell()
                if self._fed - at > _MAX_LENGTH_16:  # all but a payload with a length of 32 bits would be consumed
                    self._check_length(at - 5)
                if self._fed == self._stop:
                    raise
                fed = min(self._stop, self._fed + max(_WINDOW_BYTES, 3 * (self._fed - self._start)))
                self._unpacker.feed(self._data[self._fed : fed])
                self._fed = fed

    def _check_length(self, at: int) -> None:
        """Raise ValueError if the value at `at` declares to be longer than the limit."""
        if at < len(self._data) and self._data[at] in _LONG:
            head = self._data[at : at + 5]
            if len(head) == 5 and int.from_bytes(head[1:], "big") > self._limit:
                raise ValueError("expected a length within the limit")
