"""The memory of a shard's change signals: records of pages and sources, which exist once there are signals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from streamsched.numerics.growable_array import GrowableArray
from streamsched.records.signals.signal_schema import (
    MOST_KINDS,
    SIGNAL,
    SIGNAL_KIND,
    SIGNAL_SOURCE,
    SIGNAL_STATE,
    SignalArrays,
)

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Ints, Records
    from streamsched.signals import SignalBatch

__all__ = ["NO_KIND", "SignalTables"]

NO_KIND: Final = -1  # in place of the number of a kind without an applied signal
_NO_SIGNALS: Final = np.empty(0, SIGNAL)
_NO_SOURCES: Final = np.empty(0, SIGNAL_SOURCE)


class SignalTables:
    """The signals of one shard. 16 bytes a page and 104 a source from the first signal on; nothing before.

    ``names``: those of the kinds of sources, by number; they are saved with the rest of the state.
    """

    def __init__(self, names: Sequence[str], reserved: int) -> None:
        """Create tables without pages. `reserved`: pages."""
        self.names = list(names)
        self._reserved = reserved
        self._pages: GrowableArray | None = None
        self._sources: GrowableArray | None = None
        self._kinds = np.zeros(MOST_KINDS, SIGNAL_KIND)
        self._state = np.zeros(1, SIGNAL_STATE)
        self._state["kinds"] = len(self.names)
        self._is_in_batch = False

    @property
    def pages(self) -> Records:
        """SIGNAL[rows], of length 0 before the first signal; valid until the next `reserve`."""
        return _NO_SIGNALS if self._pages is None else self._pages.array

    @property
    def arrays(self) -> SignalArrays:
        """The arrays of sources for kernels, valid until the next `reserve`."""
        sources = _NO_SOURCES if self._sources is None else self._sources.array
        return SignalArrays(sources, self._kinds, self._state)

    def begin_batch(self, batch: SignalBatch) -> Ints:
        """Return the number of each kind of ``batch.names``: int64[m], NO_KIND for a new one. O(m).

        From now to `end_batch` there is memory even if no kind has a number yet.
        """
        self._is_in_batch = True
        return np.array([self.names.index(one) if one in self.names else NO_KIND for one in batch.names], np.int64)

    def end_batch(self, batch: SignalBatch, numbers: Ints) -> None:
        """Name the kinds that got a number in the batch: those with an applied signal. `numbers`: int64[m]."""
        self._is_in_batch = False
        named = {int(number): name for number, name in zip(numbers, batch.names, strict=True)}
        self.names += [named[number] for number in range(len(self.names), int(self._state["kinds"][0]))]
        if not self.names:
            self._pages = self._sources = None

    def reserve(self, pages: int, groups: int) -> None:
        """Make room for that many pages and groups in all, if there are kinds of sources or may soon be."""
        if not self.names and not self._is_in_batch:
            return
        if self._pages is None or self._sources is None:
            self._pages = GrowableArray(SIGNAL, self._reserved)
            self._sources = GrowableArray(SIGNAL_SOURCE, self._reserved // 8)
        self._pages.ensure(pages)
        self._sources.ensure(MOST_KINDS * groups)

    def nbytes(self, pages: int) -> int:
        """Return the bytes of memory that the tables take for that many pages, if all of them have signals."""
        if self._pages is None or self._sources is None:
            return 0
        return self._pages.resident_bytes(pages) + self._sources.resident_bytes(int(self._state["sources"][0]))
