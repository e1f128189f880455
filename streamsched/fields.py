"""Fields of records, each described once: by the annotation of its attribute in `OutcomeEvent` or `SignalEvent`.

An annotation holds a `Field`: the kind of its values, its bit, its documentation. `read_fields` makes a table of them,
and all that handles fields loops over such a table: columns of batches (here), columnar frames (`streamsched.frames`),
events on the wire and what is wrong with them, the log of calls, and the tables in docs (``make docs``). Crawlers
import this with `streamsched.client`, so nothing here needs numba.
"""

from __future__ import annotations

import difflib
import logging
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from operator import attrgetter
from types import NoneType
from typing import Any, ClassVar, Final, Self, TypeAlias, get_type_hints

import msgspec
import numpy as np
import numpy.typing as npt

from streamsched.errors import NOTHING, InvalidRecord, shorten
from streamsched.numerics.argument_checks import TIME_LIMIT_S, expected_time, read_items
from streamsched.numerics.column_casting import as_column, join_columns, join_urls
from streamsched.numerics.packed_urls import MAX_URL_BYTES, URL_EXPECTED, PackedUrls
from streamsched.numerics.table_columns import Cells, read_cells, read_time, table_columns

Column: TypeAlias = npt.NDArray[Any] | PackedUrls
_Fault: TypeAlias = tuple[npt.NDArray[np.intp], str]  # rows, and what is expected in their place

_LARGEST: Final = float(np.finfo(np.float32).max)  # of float32, in which records store amounts
_WIDE: Final = ("<f8", "<f4")
_ALIKE: Final = 0.75  # of names: the ratio of `difflib` that one mistake leaves in a short word
_log: Final = logging.getLogger("streamsched.tables")


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """A kind of values.

    - ``expected``: what an error says
    - ``wire``: their type in the tables of docs
    - ``dtype``: of the column, None for URLs and headers, which are packed
    - ``packed``: element types of packed arrays; frames are written with the first that holds the values
    """

    expected: str
    wire: str
    dtype: np.dtype[Any] | None = None
    packed: tuple[str, ...] = ()

    def fits(self, value: Any) -> bool:
        """Return whether a record may have `value`, not None."""
        raise NotImplementedError

    def read(self, text: str) -> float:
        """Return the number that `text` names. Raises ValueError if it names none."""
        raise ValueError(text)

    def plain(self, value: Any) -> Any:
        """Return a value that fits as records hold it."""
        return value

    @property
    def words(self) -> Mapping[str, int]:
        """Words for some of the numbers in a column."""
        return {}

    def column(self, values: list[Any], *, has_texts: bool) -> Column:
        """Return `values` as a column; `has_texts`: some are texts to `read`. O(n).

        Raises ValueError or OverflowError if one does not fit the column.
        """
        if has_texts:
            values = [self.read(value) if isinstance(value, str) else value for value in values]
        return np.array(values, self.dtype)

    def faults(self, column: Any) -> Iterator[_Fault]:
        """Yield the rows whose values do not fit. O(n)."""
        del column
        return iter(())


class Url(Kind):
    """URLs: 1 to 8,192 bytes of UTF-8."""

    def fits(self, value: Any) -> bool:
        """Return whether `value` is a URL."""
        if not isinstance(value, str) or not 1 <= len(value) <= MAX_URL_BYTES:
            return False
        return value.isascii() or fits_utf8(value, MAX_URL_BYTES)

    def column(self, values: list[Any], *, has_texts: bool) -> Column:
        """Return `values` packed, none of them None."""
        del has_texts
        return PackedUrls.pack(values)

    def faults(self, column: Any) -> Iterator[_Fault]:
        """Yield the URLs of a wrong length, then those that are not UTF-8."""
        yield column.out_of_range(), URL_EXPECTED
        yield column.not_utf8(), "UTF-8"


class Header(Url):
    """Values of HTTP headers: at most 8,192 bytes of UTF-8, packed as URLs are."""

    def fits(self, value: Any) -> bool:
        """Return whether `value` is such a text."""
        return isinstance(value, str) and (not value or super().fits(value))

    def faults(self, column: Any) -> Iterator[_Fault]:
        """Yield the texts that are too long, then those that are not UTF-8."""
        yield np.flatnonzero(np.diff(column.offsets) > MAX_URL_BYTES), self.expected
        yield column.not_utf8(), "UTF-8"


@dataclass(frozen=True, slots=True, eq=False)
class Number(Kind):
    """Numbers from ``least`` to ``most``; ``codes``: words for numbers beyond."""

    least: float = 0.0
    most: float = math.inf
    codes: Mapping[str, int] | None = None

    def fits(self, value: Any) -> bool:
        """Return whether `value` is such a number, or one of the words."""
        if isinstance(value, str):
            return value in self.words
        assert self.dtype is not None
        value = value.item() if isinstance(value, np.generic) else value
        is_number = isinstance(value, int if self.dtype.kind in "iu" else int | float) and not isinstance(value, bool)
        return is_number and self.least <= value <= self.most

    def read(self, text: str) -> float:
        """Return the code of a word."""
        if text not in self.words:
            raise ValueError(text)
        return self.words[text]

    @property
    def words(self) -> Mapping[str, int]:
        """The codes by word."""
        return self.codes or {}

    def faults(self, column: Any) -> Iterator[_Fault]:
        """Yield the numbers out of range; NaN is one."""
        if not (np.minimum.reduce(column) >= self.least and np.maximum.reduce(column) <= self.most):
            within = (column >= self.least) & (column <= self.most)
            for code in self.words.values():
                within |= column == code
            yield np.flatnonzero(~within), self.expected


class Time(Number):
    """Times, UTC epoch seconds above 0, below 1e11.

    Others fit a record if they are finite, not a batch: a wrong clock must not stop a crawler.
    """

    def fits(self, value: Any) -> bool:
        """Return whether `value` is a finite time, or the ISO 8601 text of one."""
        if isinstance(value, str):
            try:
                self.read(value)
            except ValueError:
                return False
            return True
        value = value.item() if isinstance(value, np.generic) else value
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and -sys.float_info.max <= value <= sys.float_info.max

    def read(self, text: str) -> float:
        """Return the time of an ISO 8601 text, in UTC unless it names a zone.

        >>> TIME.read("1970-01-01T01:00:00+01:00")
        0.0
        """
        return read_time(text)

    def plain(self, value: Any) -> Any:
        """Return the time that a text is."""
        return self.read(value) if isinstance(value, str) else value

    def faults(self, column: Any) -> Iterator[_Fault]:
        """Yield the times that are not above 0 and below 1e11, each with a hint of its own."""
        if not (np.minimum.reduce(column) > 0.0 and np.maximum.reduce(column) < TIME_LIMIT_S):
            for row in np.flatnonzero(~((column > 0.0) & (column < TIME_LIMIT_S))):
                found = column[row].item()
                yield np.array([row]), self.expected if found <= 0.0 else expected_time(found)


class Fingerprint(Number):
    """Whole numbers of 64 bits, or their 16 hexadecimal digits: many JSON writers lose numbers beyond 2**53."""

    def fits(self, value: Any) -> bool:
        """Return whether `value` is such a number or its digits."""
        return bool(re.fullmatch(HEX_64, value)) if isinstance(value, str) else Number.fits(self, value)

    def read(self, text: str) -> int:
        """Return the number that 16 hexadecimal digits are.

        >>> FINGERPRINT_64.read("00000000000000ff")
        255
        """
        if not re.fullmatch(HEX_64, text):
            raise ValueError(text)
        return int(text, 16)

    def plain(self, value: Any) -> Any:
        """Return the number that a text is."""
        return self.read(value) if isinstance(value, str) else value

    def faults(self, column: Any) -> Iterator[_Fault]:
        """Yield nothing: any uint64 fits."""
        del column
        return iter(())


class Flag(Kind):
    """True or false."""

    def fits(self, value: Any) -> bool:
        """Return whether `value` is one of them."""
        return isinstance(value, bool | np.bool_)


class Name(Kind):
    """Names; a batch holds each different one once (`SignalBatch.names`), and its positions as the column."""

    def fits(self, value: Any) -> bool:
        """Return whether `value` is a name."""
        return isinstance(value, str) and value.isprintable() and fits_utf8(value, MAX_NAME_BYTES)


GIVEN: Final = np.dtype(np.uint16)  # of the bits of optional fields
MAX_NAME_BYTES: Final = 64
MAX_STATUS: Final = 999  # three digits, as HTTP writes them
HEX_64: Final = "^[0-9a-fA-F]{16}$"

URL: Final = Url(URL_EXPECTED, "text")
HEADER: Final = Header(f"at most {MAX_URL_BYTES} bytes of UTF-8", "text")
TIME: Final = Time("UTC epoch seconds above 0", "number", np.dtype(np.float64), ("<f8",))
AMOUNT: Final = Number(
    f"a finite number of 0 or more, at most {_LARGEST:.6g}", "number", np.dtype(np.float64), _WIDE, most=_LARGEST
)
SECONDS: Final = Number(  # servers send any: the politeness caps it
    "a finite number of 0 or more seconds", "number", np.dtype(np.float64), _WIDE, most=sys.float_info.max
)
PART: Final = Number("a number from 0 to 1", "number", np.dtype(np.float64), _WIDE, most=1.0)
FINGERPRINT_64: Final = Fingerprint(
    "a whole number from 0 to 2**64 - 1 or 16 hexadecimal digits",
    "64-bit whole number",
    np.dtype(np.uint64),
    ("<u8",),
    most=2**64 - 1,
)
FLAG: Final = Flag("true or false", "true or false", np.dtype(np.bool_), ("u1",))
NAME: Final = Name(f"1 to {MAX_NAME_BYTES} bytes of printable UTF-8", "text", np.dtype(np.int32), ("u1", "<i4"))


def status_code(words: Mapping[str, int]) -> Number:
    """Return the kind of statuses: those of HTTP, 0, and `words` with their codes."""
    expected = f"a whole number from 0 to {MAX_STATUS}, {' or '.join(map(repr, words))}"
    wire = f"0 to {MAX_STATUS}, or a word"
    return Number(expected, wire, np.dtype(np.int32), ("<i2", "<i4"), 0, MAX_STATUS, words)


def fits_utf8(text: str, most: int) -> bool:
    """Return whether `text` has 1 to `most` bytes of UTF-8."""
    try:
        return 1 <= len(text.encode()) <= most
    except UnicodeEncodeError:
        return False


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A field of a record. ``bit``: of `given`, in optional fields; ``name``: of the attribute that it annotates."""

    kind: Kind
    doc: str
    bit: int = 0
    name: str = ""

    @property
    def column(self) -> str:
        """The name of the column: plural for the URLs of the pages."""
        return "urls" if self.name == "url" else self.name

    def accepts(self, value: Any) -> bool:
        """Return whether a record may have `value`, None for an absent optional field."""
        return bool(self.bit) if value is None else self.kind.fits(value)


def read_fields(event: type[msgspec.Struct]) -> tuple[Field, ...]:
    """Return the fields of a type of events, in the order of its attributes."""
    hints = get_type_hints(event, include_extras=True)
    found = ((name, part) for name in event.__struct_fields__ for part in getattr(hints[name], "__metadata__", ()))
    return tuple(replace(part, name=name) for name, part in found if isinstance(part, Field))


def check_record(record: Any, fields: Sequence[Field], error: type[InvalidRecord]) -> None:
    """Raise `error`, as record 0, for the first field of `record` that does not fit; replace texts of numbers."""
    for field in fields:
        value = getattr(record, field.name)
        if value is None and field.bit:  # as most are, for each outcome of a crawler
            continue
        if not field.accepts(value):
            raise error(0, field.name, value, field.kind.expected)
        if (plain := field.kind.plain(value)) is not value:
            msgspec.structs.force_setattr(record, field.name, plain)


def diagnose(event: object, fields: Sequence[Field], error: type[InvalidRecord]) -> InvalidRecord | None:
    """Return what is wrong with `event`, decoded without types: its first field that does not fit; None if all do."""
    if not isinstance(event, Mapping):
        return error(0, "record", event, "a map")
    for field in fields:
        value = event.get(field.name, None if field.bit else NOTHING)
        if not field.accepts(value):
            return error(0, field.name, value, field.kind.expected)
    return None


def suggest(name: str, known: Iterable[str]) -> str:
    """Return what a question after an unknown name is, if one of `known` resembles it. O(known).

    >>> suggest("staus", ["url", "status"]), suggest("title", ["url", "status"])
    (': did you mean status?', '')
    """
    alike = closest(name, known)
    return "" if alike is None else f": did you mean {alike}?"


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the one of `known` that most resembles `name`, None if none does. O(known)."""
    return next(iter(difflib.get_close_matches(name[:MAX_NAME_BYTES], list(known), 1, _ALIKE)), None)


class RecordColumns:
    """n records as columns, in stream order: what `OutcomeBatch` and `SignalBatch` share, by loops over ``FIELDS``.

    ``urls``: PackedUrls of n; ``given``: uint16[n], the bits of the optional fields that each record has. A column of
    an optional field that no record has is of length 0, otherwise n; where a bit is not set, the value is meaningless.
    """

    __slots__ = ("given", "urls")

    FIELDS: ClassVar[tuple[Field, ...]]
    ERROR: ClassVar[type[InvalidRecord]]
    EVENT: ClassVar[type[Any]]  # of one record, unchecked
    RECORD: ClassVar[type[Any]]  # likewise, checked

    urls: PackedUrls
    given: npt.NDArray[np.uint16]

    @classmethod
    def _from_records(cls, name: str, records: Iterable[Any]) -> Self:
        """Return the columns of checked records, the argument `name`. Raises TypeError."""
        expected = f"{cls.__name__} or {cls.RECORD.__name__} objects"
        rows = read_items(name, records, expected)
        for row in rows:
            if not isinstance(row, cls.RECORD):
                raise TypeError(f"{name}: expected {expected}, found {shorten(row)}")
        return cls.from_events(rows)

    @classmethod
    def from_events(cls, events: Sequence[Any]) -> Self:
        """Return `events` as columns, in order. O(n), some 0.3 µs an event.

        Raises ValueError or OverflowError if a number does not fit its column.
        """
        batch = object.__new__(cls)
        batch.given = np.zeros(len(events), GIVEN)
        for field in cls.FIELDS:
            values: list[Any] = list(map(attrgetter(field.name), events))
            if not field.bit:
                batch._set(field, values, has_texts=isinstance(field.kind, Time) and str in set(map(type, values)))
                continue
            if not values or (values[0] is None and values.count(None) == len(values)):
                batch._set(field, [], has_texts=False)
                continue
            kinds = set(map(type, values))
            if NoneType in kinds:
                batch.given |= np.array([0 if value is None else field.bit for value in values]).astype(GIVEN)
                nothing: Any = "" if field.kind.dtype is None else 0
                values = [nothing if value is None else value for value in values]
            else:
                batch.given |= GIVEN.type(field.bit)
            batch._set(field, values, has_texts=str in kinds)
        return batch

    @classmethod
    def from_table(cls, table: object) -> Self:
        """Return the rows of `table` as columns: its columns with the names of fields. O(n).

        Others are not read; the log names those that may be meant for fields.

        A pandas or polars frame, an Arrow table or whatever has the Arrow PyCapsule interface, or a mapping of arrays
        and lists. Optional fields may have gaps: null, None, NaN, NaT, NA. Whole numbers may be floats because of them,
        but for fingerprints, whose digits floats have lost. Times are numbers, datetimes (UTC unless they have a zone)
        or ISO 8601 text.

        Raises InvalidRecord for the first value that its field's column cannot hold, ValueError for a missing column
        and columns of different lengths, TypeError if `table` is none, or needs pyarrow and it is not installed.
        Values that the format forbids are left to `problems`.
        """
        columns = table_columns(table)
        names = [field.name for field in cls.FIELDS]
        for name in columns.keys() - set(names):
            if hint := suggest(name, names):
                _log.warning("column %s is not read%s", shorten(name), hint)
        batch, count = object.__new__(cls), -1
        for field in cls.FIELDS:
            if field.name not in columns:
                if not field.bit:
                    found = ", ".join(map(repr, columns)) or "none"
                    raise ValueError(f"table: expected a column {field.name!r}, found {found}")
                batch._set(field, [], has_texts=False)
                continue
            cells = read_cells(field.name, columns[field.name])
            if count < 0:
                count, batch.given = len(cells.values), np.zeros(len(cells.values), GIVEN)
            if len(cells.values) != count:
                raise ValueError(f"{field.name}: expected {count} values, found {len(cells.values)}")
            batch._set_cells(field, cells)
        return batch

    def _set_cells(self, field: Field, cells: Cells) -> None:
        """Store a column of a table."""
        values, gaps = cells
        if gaps is not None and not field.bit:
            raise self.ERROR(int(np.argmax(gaps)), field.name, None, field.kind.expected)
        present = None if gaps is None else ~gaps
        if field.bit:
            self.given |= GIVEN.type(field.bit) if present is None else np.where(present, field.bit, 0).astype(GIVEN)
        if field.kind.dtype is None or field.kind is NAME:
            absent = repeat(False) if gaps is None else gaps
            self._set_texts(field, ["" if gap else text for text, gap in zip(values, absent, strict=False)])
            return
        if isinstance(values, list):
            values = self._read_items(field, values)
        elif gaps is not None:
            values = np.where(gaps, values.dtype.type(0), values)
        try:
            column, _ = as_column(field.name, field.kind.dtype, values, len(values))
        except InvalidRecord as error:
            raise self.ERROR(error.record, field.name, error.found, error.expected) from None
        setattr(self, field.column, column)

    def _read_items(self, field: Field, values: list[Any]) -> list[Any]:
        """Return a column of a table with numbers in place of texts, whole ones if the column has no others."""
        is_whole = field.kind.dtype is not None and field.kind.dtype.kind == "i"
        for record, value in enumerate(values):
            if is_whole and isinstance(value, float | np.floating) and value.is_integer():
                values[record] = int(value)
            elif isinstance(value, str):
                try:
                    values[record] = field.kind.read(value)
                except ValueError:
                    raise self.ERROR(record, field.name, value, field.kind.expected) from None
        return values

    def _set_texts(self, field: Field, texts: list[Any]) -> None:
        for record, text in enumerate(texts):
            if not isinstance(text, str):
                found = text.item() if isinstance(text, np.generic) else text
                raise self.ERROR(record, field.name, found, f"a text, {field.kind.expected}")
        self._set(field, texts, has_texts=False)

    def _set(self, field: Field, values: list[Any], *, has_texts: bool) -> None:
        """Store the column of `values`, none of them None."""
        setattr(self, field.column, field.kind.column(values, has_texts=has_texts))

    def _values(self, field: Field) -> Iterable[Any]:
        """Return the values of a column that is not empty, as records hold them."""
        column: Any = getattr(self, field.column)
        if field.kind.dtype is None:
            return column  # type: ignore[no-any-return]
        words = {code: word for word, code in field.kind.words.items()}
        values = column.tolist()
        return [words.get(value, value) for value in values] if words else values

    def to_events(self) -> Iterator[Any]:
        """Return each record as an event, unchecked. O(n)."""
        return map(self.EVENT, *self._all_values())

    def __iter__(self) -> Iterator[Any]:
        return map(self.RECORD, *self._all_values())

    def _all_values(self) -> list[Iterable[Any]]:
        """Return the values of each field, None where it is not given."""
        fields: list[Iterable[Any]] = []
        for field in self.FIELDS:
            if not field.bit:
                fields.append(self._values(field))
            elif len(getattr(self, field.column)):
                pairs = zip(self._values(field), (self.given & field.bit).tolist(), strict=True)
                fields.append([value if there else None for value, there in pairs])
            else:
                fields.append(repeat(None, len(self)))
        return fields

    @classmethod
    def concatenate(cls, batches: Iterable[Self]) -> Self:
        """Return the records of `batches`, one batch after another. O(bytes).

        Applying one large batch takes less time than applying many small ones.
        """
        parts = read_items("batches", batches, f"{cls.__name__} objects")
        joined, counts = object.__new__(cls), [len(part) for part in parts]
        joined.given = join_columns([part.given for part in parts], counts, GIVEN)
        for field in cls.FIELDS:
            columns = [getattr(part, field.column) for part in parts]
            dtype = field.kind.dtype
            column = join_urls(columns, counts) if dtype is None else join_columns(columns, counts, dtype)
            setattr(joined, field.column, column)
        joined._join_others(parts)
        return joined

    def _join_others(self, parts: Sequence[Any]) -> None:
        """Complete what `concatenate` made of `parts`."""

    def __len__(self) -> int:
        return self.given.size

    def __getitem__(self, record: int) -> Any:
        """Return one record; raises InvalidRecord if it breaks the format. O(length of its URL)."""
        record = range(len(self))[record]
        values = [self._value(field, record) for field in self.FIELDS]
        return self.RECORD(*values)

    def take(self, rows: npt.NDArray[np.intp]) -> Self:
        """Return the records at `rows`: intp[m], in that order. O(m)."""
        taken = object.__new__(type(self))
        taken.given = self.given[rows]
        for field in self.FIELDS:
            column = getattr(self, field.column)
            if len(column):
                column = column.take(rows) if isinstance(column, PackedUrls) else column[rows]
            setattr(taken, field.column, column)
        return taken

    def problems(self) -> list[Any]:
        """Return what breaks the format, the first problem of each invalid record, in record order. O(n)."""
        found: dict[int, InvalidRecord] = {}
        for field in self.FIELDS:
            column = getattr(self, field.column)
            for rows, expected in self._faults(field, column) if len(column) else ():
                given = rows[(self.given[rows] & field.bit) != 0] if field.bit else rows
                for row in given.tolist():
                    found.setdefault(row, self.ERROR(row, field.name, self._show(field, row), expected))
        return [found[row] for row in sorted(found)]

    def _faults(self, field: Field, column: Any) -> Iterator[_Fault]:
        return field.kind.faults(column)

    def _show(self, field: Field, row: int) -> Any:
        """Return a value of a column as an error shows it."""
        value = getattr(self, field.column)[row]
        return value if isinstance(value, str) else value.item()

    def _value(self, field: Field, row: int) -> Any:
        """Return a value as a record holds it."""
        if field.bit and not self.given[row] & field.bit:
            return None
        value = self._show(field, row)
        return next((word for word, code in field.kind.words.items() if code == value), value)
