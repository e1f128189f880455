"""Change signals: `Signal` for one, `SignalBatch` for many in columns, and their validation.

A signal says that a page has changed: a sitemap's lastmod, an entry of a feed, an IndexNow notice. How far it is
believed is learned from the visits that follow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streamsched.errors import InvalidOutcome, InvalidSignal, shorten
from streamsched.numerics.argument_checks import TIME_LIMIT_S, expected_time, read_items
from streamsched.numerics.column_casting import as_column
from streamsched.numerics.packed_urls import URL_EXPECTED, PackedUrls

__all__ = ["MAX_SOURCE_BYTES", "Signal", "SignalBatch"]

MAX_SOURCE_BYTES: Final = 64  # of the name of a source

_SOURCE_EXPECTED: Final = f"1 to {MAX_SOURCE_BYTES} bytes of printable UTF-8"
_PART_EXPECTED: Final = "a number from 0 to 1"


@dataclass(frozen=True, slots=True)
class Signal:
    """One announcement that a page has changed.

    ``at``: when it was announced, UTC epoch seconds; ``source``: the kind of source, such as ``"sitemap"`` or
    ``"feed"``; with the page's host it names the source whose reliability is learned; ``significance``: how much
    changed, 0 to 1, None if that is unknown.

    Raises InvalidSignal, as record 0, if a field breaks the format. A finite time beyond 1e11 is left to `notice`,
    which rejects it.

    >>> Signal("https://example.org/", 1_700_000_000.0, "sitemap").source
    'sitemap'
    """

    url: str
    at: float
    source: str
    significance: float | None = None

    def __post_init__(self) -> None:
        for problem in SignalBatch.from_signals([self]).problems():
            if problem.field != "at" or not math.isfinite(self.at):
                raise problem


class SignalBatch:
    """n signals as columns, in stream order.

    ``urls``: PackedUrls of n; ``at``: float64[n], UTC epoch seconds; ``source``: int32[n], the position of each
    signal's source in ``names``; ``given``: bool[n], which signals have a significance; ``significance``: float64[n],
    or of length 0 if none has one; meaningless where it is not given.

    >>> batch = SignalBatch(["https://a.example/", "https://a.example/b"], [1.0, 2.0], "sitemap")
    >>> len(batch), batch.names
    (2, ('sitemap',))
    """

    __slots__ = ("at", "given", "names", "significance", "source", "urls")

    urls: PackedUrls
    at: npt.NDArray[np.float64]
    source: npt.NDArray[np.int32]
    names: tuple[str, ...]
    given: npt.NDArray[np.bool_]
    significance: npt.NDArray[np.float64]

    def __init__(
        self,
        urls: Sequence[str] | PackedUrls,
        at: npt.ArrayLike,
        source: str | Sequence[str] | npt.NDArray[np.integer[Any]],
        significance: npt.ArrayLike | Sequence[float | None] | None = None,
        *,
        names: Sequence[str] | None = None,
    ) -> None:
        """Use columns of equal length.

        `source`: one name for all, a name for each signal, or with `names` whole numbers, int[n], positions in it.
        `significance` may hold None. O(n); arrays of the right dtype are not copied. Raises InvalidSignal for the first
        value that the dtype of its column cannot hold, and TypeError or ValueError if the columns do not fit together.
        Values that the format forbids are left to `problems`.
        """
        try:
            self.urls = urls if isinstance(urls, PackedUrls) else PackedUrls.pack(urls)
            count = len(self.urls)
            self.at, missing = as_column("at", np.dtype(np.float64), at, count)
            if missing is not None:
                raise InvalidSignal(int(np.flatnonzero(missing)[0]), "at", None, "UTC epoch seconds")
            self.names, self.source = _encode_sources(source, names, count)
            self.given = np.zeros(count, np.bool_)
            self.significance = np.empty(0)
            if significance is not None:
                self.significance, missing = as_column("significance", np.dtype(np.float64), significance, count)
                self.given = np.ones(count, np.bool_) if missing is None else ~missing
        except InvalidOutcome as error:
            raise InvalidSignal(error.record, error.field, error.found, error.expected) from None

    @classmethod
    def from_signals(cls, signals: Iterable[Signal]) -> SignalBatch:
        """Return the columns of `signals`. O(n)."""
        rows = read_items("signals", signals, "a SignalBatch or Signal objects")
        for row in rows:
            if not isinstance(row, Signal):
                raise TypeError(f"signals: expected a SignalBatch or Signal objects, found {shorten(row)}")
        amounts = [row.significance for row in rows]
        given = amounts if any(amount is not None for amount in amounts) else None
        return cls([row.url for row in rows], [row.at for row in rows], [row.source for row in rows], given)

    def __len__(self) -> int:
        return self.at.size

    def __getitem__(self, record: int) -> Signal:
        """Return one signal; raises InvalidSignal if it breaks the format. O(length of its URL)."""
        record = range(len(self))[record]
        significance = float(self.significance[record]) if self.given[record] else None
        return Signal(self.urls[record], float(self.at[record]), self.names[self.source[record]], significance)

    def __iter__(self) -> Iterator[Signal]:
        return (self[record] for record in range(len(self)))

    def __repr__(self) -> str:
        return f"SignalBatch({len(self)} signals of {', '.join(self.names)})"

    def take(self, rows: npt.NDArray[np.intp]) -> SignalBatch:
        """Return the signals at `rows`: intp[m], in that order. O(m)."""
        taken = object.__new__(SignalBatch)
        taken.urls = self.urls.take(rows)
        taken.at, taken.source, taken.names = self.at[rows], self.source[rows], self.names
        taken.given = self.given[rows]
        taken.significance = self.significance[rows] if self.significance.size else self.significance
        return taken

    def problems(self) -> list[InvalidSignal]:
        """Return what breaks the format, the first problem of each invalid signal, in record order. O(n)."""
        problems_by_row: dict[int, InvalidSignal] = {}

        def report(rows: npt.NDArray[Any], field: str, found: Any, expected: str) -> None:
            for row in rows.tolist():
                problems_by_row.setdefault(row, InvalidSignal(row, field, found(row), expected))

        report(self.urls.out_of_range(), "url", lambda row: self.urls[row], URL_EXPECTED)
        report(self.urls.not_utf8(), "url", lambda row: self.urls[row], "UTF-8")
        for row in np.flatnonzero(~(np.abs(self.at) < TIME_LIMIT_S)).tolist():
            time_s = self.at[row].item()
            problems_by_row.setdefault(row, InvalidSignal(row, "at", time_s, expected_time(time_s)))
        wrong = [code for code, name in enumerate(self.names) if not _is_name(name)]
        report(
            np.flatnonzero(np.isin(self.source, wrong)),
            "source",
            lambda row: self.names[self.source[row]],
            _SOURCE_EXPECTED,
        )
        if self.significance.size:
            fits = (self.significance >= 0.0) & (self.significance <= 1.0)
            report(
                np.flatnonzero(self.given & ~fits),
                "significance",
                lambda row: self.significance[row].item(),
                _PART_EXPECTED,
            )
        return [problems_by_row[row] for row in sorted(problems_by_row)]


def _encode_sources(
    source: str | Sequence[str] | npt.NDArray[np.integer[Any]], names: Sequence[str] | None, count: int
) -> tuple[tuple[str, ...], npt.NDArray[np.int32]]:
    """Return the different names and each signal's position in them."""
    if names is not None:
        names = read_items("names", names, "a collection of names")
        if not all(isinstance(name, str) for name in names):
            raise TypeError(f"names: expected a collection of names, found {shorten(names)}")
        codes: npt.NDArray[Any] = np.ascontiguousarray(source)
        is_whole = codes.dtype.kind in "iu" and codes.shape == (count,)
        if not is_whole or np.any((codes < 0) | (codes >= len(names))):
            raise ValueError(
                f"source: expected int32[{count}], positions in {len(names)} names, "
                f"found {codes.dtype}{list(codes.shape)}"
            )
        return tuple(names), codes.astype(np.int32, copy=False)
    if isinstance(source, str):
        return (source,), np.zeros(count, np.int32)
    if isinstance(source, np.ndarray) and source.dtype.kind in "iu":
        raise TypeError(f"names: expected the names at the positions in source, found {shorten(names)}")
    values = read_items("source", source, "one name, or one for each URL")
    if len(values) != count:
        raise ValueError(f"source: expected {count} names, one for each URL, found {len(values)}")
    positions: dict[str, int] = {}
    for record, name in enumerate(values):
        if not isinstance(name, str):
            raise InvalidSignal(record, "source", name, _SOURCE_EXPECTED)
        positions.setdefault(name, len(positions))
    return tuple(positions), np.array([positions[name] for name in values], np.int32)


def _is_name(name: str) -> bool:
    """Return whether a name follows the format."""
    try:
        return 1 <= len(name.encode()) <= MAX_SOURCE_BYTES and name.isprintable()
    except UnicodeEncodeError:
        return False
