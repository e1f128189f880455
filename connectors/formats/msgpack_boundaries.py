"""Where the maps of a msgpack stream begin and end, by `msgpack.Unpacker`, and the search for the next map after damage.

Nothing is decoded but the top-level keys of maps that are measured one by one, so a header that declares a huge
length costs no memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeVar

from msgpack import OutOfData, Unpacker

__all__ = ["ANONYMOUS", "EVENT", "FRAME", "INCOMPLETE", "MALFORMED", "MAX_DEPTH", "MapScanner", "ValueBoundaries"]

# The kind of a map by the value of its key "url": text or other, packed bytes or a list, no such key.
EVENT: Final = 1
FRAME: Final = 2
ANONYMOUS: Final = 3

# In place of a map's end.
MALFORMED: Final = -1
INCOMPLETE: Final = -2

MAX_DEPTH: Final = 1024  # of lists and maps within each other, the limit of msgpack.Unpacker; events and frames need 2

_WORK_PER_BYTE: Final = 16  # bytes that failed attempts may examine, per byte of input, before the search takes leaps
_WINDOW_BYTES: Final = 256  # first bytes given to an Unpacker: most events end within, a false start costs no more
_MAP_START: Final = re.compile(rb"[\x81-\x8f](?=[\xa0-\xbf\xd9-\xdb]|\Z)|[\xde\xdf]")  # whose first key may be text
_PACKED: Final = frozenset([*range(0x90, 0xA0), 0xC4, 0xC5, 0xC6, 0xDC, 0xDD])  # first bytes of lists and bin
_LONG: Final = frozenset([0xC6, 0xC9, 0xDB, 0xDD, 0xDF])  # first bytes of values with a length of 32 bits

Read = TypeVar("Read")


class ValueBoundaries:
    """Ends of the msgpack values, of any type, that follow each other from the start of `data`. 0.1 µs a value."""

    def __init__(self, data: bytes) -> None:
        self._unpacker = Unpacker(max_buffer_size=0)
        self._unpacker.feed(data)

    def take(self, count: int) -> list[int]:
        """Return the ends of the next values, `count` at most; none if the next is incomplete or malformed."""
        ends: list[int] = []
        skip, tell, append = self._unpacker.skip, self._unpacker.tell, ends.append
        try:
            for _ in range(count):
                skip()
                append(tell())
        except (OutOfData, ValueError):
            pass
        return ends


class MapScanner:
    """Measures single maps in `data` and searches for the next after bytes that are no map.

    `limit`: the length beyond which a map is malformed; `final`: no bytes follow `data`. Linear in `data` however
    hostile: if false starts have examined more than 16 times its size, each later one of m bytes makes the search
    leap over m / 16 bytes.
    """

    def __init__(self, data: bytes, limit: int, *, final: bool) -> None:
        self._data = data
        self._limit = limit
        self._final = final
        self._work_left = _WORK_PER_BYTE * len(data)

    def measure(self, start: int) -> tuple[int, int]:
        """Return the end and the kind of the map at `start`. 2 µs an event.

        The end is INCOMPLETE if ``data[start:]`` may still become a map of at most `limit` bytes, and MALFORMED if it
        cannot: no map, a key that is not text, nesting beyond 1,024 levels, a byte that msgpack never uses.
        """
        attempt = _Attempt(self._data, start, self._limit)
        end, kind = attempt.run()
        if end < 0:
            self._work_left -= attempt.work
        self._leap = 1 if self._work_left > 0 else 1 + attempt.work // _WORK_PER_BYTE
        return end, kind

    def find(self, start: int) -> tuple[int, bool]:
        """Return the start of the next whole map with a key "url" at or after `start`, and True.

        If there is none, returns where the search has to go on once more bytes are there, and False: the end, or
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

    def __init__(self, data: bytes, start: int, limit: int) -> None:
        self._data = memoryview(data)
        self._start = start
        self._limit = limit
        self._stop = min(len(data), start + limit)
        self._fed = start
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
        """Bytes examined, or copied, which is faster by a factor of at least 16."""
        return max(self._unpacker.tell(), (self._fed - self._start) // _WORK_PER_BYTE)

    def run(self) -> tuple[int, int]:
        """Return the end and the kind of the map; see `MapScanner.measure`."""
        at, kind, unpacker = self._start, ANONYMOUS, self._unpacker
        try:
            pairs = self._read(unpacker.read_map_header)
            if 2 * pairs > self._limit:
                return MALFORMED, kind
            for _ in range(pairs):
                at = self._start + unpacker.tell()
                key = self._read(unpacker.unpack)
                if not isinstance(key, str):
                    return MALFORMED, kind
                at = self._start + unpacker.tell()
                self._read(unpacker.skip)
                if key == "url":
                    kind = FRAME if self._data[at] in _PACKED else EVENT
        except OutOfData:
            return (INCOMPLETE if self._can_grow(at) else MALFORMED), kind
        except ValueError:
            return MALFORMED, kind
        return self._start + unpacker.tell(), kind

    def _read(self, method: Callable[[], Read]) -> Read:
        """Return the result of a method of the Unpacker, which is fed until it has enough."""
        while True:
            try:
                return method()
            except OutOfData:
                if self._fed == self._stop:
                    raise
                fed = min(self._stop, self._fed + max(_WINDOW_BYTES, 3 * (self._fed - self._start)))
                self._unpacker.feed(self._data[self._fed : fed])
                self._fed = fed

    def _can_grow(self, at: int) -> bool:
        """Whether more bytes may complete the map, whose key or value at `at` is incomplete, within the limit."""
        head = self._data[at : at + 5]
        oversized = len(head) == 5 and head[0] in _LONG and int.from_bytes(head[1:], "big") > self._limit
        return len(self._data) - self._start < self._limit and not oversized
