"""Change signals: the table of their fields, `Signal` for one, `SignalBatch` for many in columns.

A signal says that a page has changed: a sitemap's lastmod, an entry of a feed, an IndexNow notice. How far it is
believed is learned from the visits that follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Final, Self

import msgspec
import numpy as np
import numpy.typing as npt

from streamsched.errors import InvalidOutcome, InvalidSignal, shorten
from streamsched.fields import GIVEN, NAME, PART, TIME, URL, Field, RecordColumns, check_record, read_fields
from streamsched.numerics.argument_checks import read_items
from streamsched.numerics.column_casting import as_column
from streamsched.numerics.packed_urls import PackedUrls

SIGNIFICANCE: Final = 1  # the bit of `SignalBatch.given`


class SignalEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One signal in wire format, not checked beyond its types: the table of the fields of signals."""

    url: Annotated[str, Field(URL, "the page, as crawled, 1 to 8,192 bytes of UTF-8")]
    at: Annotated[
        float | str,
        Field(
            TIME,
            "when it was announced, UTC epoch seconds, above 0. In JSON Lines and msgpack maps also an ISO 8601 text",
        ),
    ]
    source: Annotated[
        str, Field(NAME, "the kind of source, such as `sitemap` or `feed`, 1 to 64 bytes of printable UTF-8")
    ]
    significance: Annotated[float | None, Field(PART, "how much changed, from 0 to 1; not used yet", SIGNIFICANCE)] = (
        None
    )


FIELDS: Final = read_fields(SignalEvent)


class Signal(SignalEvent, frozen=True, gc=False, omit_defaults=True):
    """One announcement that a page has changed; docs/signal-streams.md lists the fields.

    ``source`` and the page's host name the source whose reliability is learned. Raises InvalidSignal, as record 0, if a
    field breaks the format. A finite time that is not above 0 and below 1e11 is left to `notice`,
    which rejects it.

    >>> Signal("https://example.org/", 1_700_000_000.0, "sitemap").source
    'sitemap'
    """

    at: float  # a text is replaced by its time

    def __post_init__(self) -> None:
        check_record(self, FIELDS, InvalidSignal)


class SignalBatch(RecordColumns):
    """n signals as columns, in stream order.

    ``urls``: PackedUrls of n; ``at``: float64[n], UTC epoch seconds; ``source``: int32[n], the position of each
    signal's source in ``names``; ``given``: uint16[n], 1 for signals that have a significance; ``significance``:
    float64[n], or of length 0 if none has one; meaningless where it is not given.

    >>> batch = SignalBatch(["https://a.example/", "https://a.example/b"], [1.0, 2.0], "sitemap")
    >>> len(batch), batch.names
    (2, ('sitemap',))
    >>> SignalBatch.concatenate([batch, SignalBatch(["https://a.example/"], [3.0], "feed")]).names
    ('sitemap', 'feed')
    """

    __slots__ = ("at", "names", "significance", "source")
    FIELDS, ERROR, EVENT, RECORD = FIELDS, InvalidSignal, SignalEvent, Signal

    at: npt.NDArray[np.float64]
    source: npt.NDArray[np.int32]
    names: tuple[str, ...]
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
                raise InvalidSignal(int(np.flatnonzero(missing)[0]), "at", None, TIME.expected)
            self.names, self.source = _encode_sources(source, names, count)
            self.given = np.zeros(count, GIVEN)
            self.significance = np.empty(0)
            if significance is not None:
                self.significance, missing = as_column("significance", np.dtype(np.float64), significance, count)
                self.given = np.ones(count, GIVEN) if missing is None else (~missing).astype(GIVEN)
        except InvalidOutcome as error:
            raise InvalidSignal(error.record, error.field, error.found, error.expected) from None

    @classmethod
    def from_signals(cls, signals: Iterable[Signal]) -> SignalBatch:
        """Return the columns of `signals`. O(n)."""
        return cls._from_records("signals", signals)

    def _join_others(self, parts: Sequence[Any]) -> None:
        names: dict[str, int] = {}
        codes = [np.array([names.setdefault(name, len(names)) for name in part.names], np.int32) for part in parts]
        if codes:
            self.source = np.concatenate([own[part.source] for own, part in zip(codes, parts, strict=True)])
        self.names = tuple(names)

    def __repr__(self) -> str:
        return f"SignalBatch({len(self)} signals of {', '.join(self.names)})"

    def take(self, rows: npt.NDArray[np.intp]) -> Self:
        """Return the signals at `rows`: intp[m], in that order. O(m)."""
        taken = super().take(rows)
        taken.names = self.names
        return taken

    def _set(self, field: Field, values: list[Any], *, has_texts: bool) -> None:
        if field.kind is NAME:
            self.names, self.source = _encode_sources(values, None, len(values))
        else:
            super()._set(field, values, has_texts=has_texts)

    def _values(self, field: Field) -> Iterable[Any]:
        return map(self.names.__getitem__, self.source.tolist()) if field.kind is NAME else super()._values(field)

    def _faults(self, field: Field, column: Any) -> Iterator[tuple[npt.NDArray[np.intp], str]]:
        if field.kind is not NAME:
            return super()._faults(field, column)
        wrong = [code for code, name in enumerate(self.names) if not NAME.fits(name)]
        return iter([(np.flatnonzero(np.isin(self.source, wrong)), NAME.expected)] if wrong else [])

    def _show(self, field: Field, row: int) -> Any:
        return self.names[self.source[row]] if field.kind is NAME else super()._show(field, row)


def _encode_sources(
    source: str | Sequence[str] | npt.NDArray[np.integer[Any]], names: Sequence[str] | None, count: int
) -> tuple[tuple[str, ...], npt.NDArray[np.int32]]:
    """Return the different names and each signal's position in them."""
    if names is not None:
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
            raise InvalidSignal(record, "source", name, NAME.expected)
        positions.setdefault(name, len(positions))
    return tuple(positions), np.array([positions[name] for name in values], np.int32)
