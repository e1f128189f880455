"""Crawl outcomes: `Outcome` for one, `OutcomeBatch` for many in columns, and their validation."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.errors import InvalidOutcome, shorten
from streamsched.numerics.argument_checks import TIME_LIMIT_S, check_type, expected_time, read_items
from streamsched.numerics.arrays import Bytes, Floats, Ints, frozen
from streamsched.numerics.column_casting import as_column, as_urls, join_columns, join_urls
from streamsched.numerics.compilation.machine_operations import load_word
from streamsched.numerics.jit import bare_kernel
from streamsched.numerics.packed_urls import MAX_URL_BYTES, URL_EXPECTED, PackedUrls

__all__ = [
    "CHANGED",
    "COLUMNS",
    "COST",
    "FINGERPRINT",
    "IMPORTANCE",
    "MAX_STATUS",
    "MOVED_TO",
    "NOT_ATTEMPTED",
    "RETRY_AFTER",
    "ROBOTS_DENIED",
    "SIGNIFICANCE",
    "STATUS",
    "STATUS_EXPECTED",
    "STATUS_WORDS",
    "Outcome",
    "OutcomeBatch",
]

# Bits of `OutcomeBatch.given`: which optional fields a record has.
STATUS: Final = 1
FINGERPRINT: Final = 2
CHANGED: Final = 4
IMPORTANCE: Final = 8
COST: Final = 16
RETRY_AFTER: Final = 32
MOVED_TO: Final = 64
SIGNIFICANCE: Final = 128

MAX_STATUS: Final = 999  # three digits, as HTTP writes them

# Codes of the status words in columns. They fit into the int16 of frames, and no crawler is known to use them.
ROBOTS_DENIED: Final = 30_001  # robots.txt forbids the page: retired until another outcome or a request
NOT_ATTEMPTED: Final = 30_002  # leased and not fetched: ends the lease, nothing else
STATUS_WORDS: Final[Mapping[str, int]] = MappingProxyType(
    {"robots_denied": ROBOTS_DENIED, "not_attempted": NOT_ATTEMPTED}
)
STATUS_EXPECTED: Final = f"a whole number from 0 to {MAX_STATUS}, {' or '.join(map(repr, STATUS_WORDS))}"

# The optional fields that are arrays, with their bits and dtypes. `moved_to` is the one whose column has URLs.
COLUMNS: Final[Mapping[str, tuple[int, np.dtype[Any]]]] = MappingProxyType(
    {
        "status": (STATUS, np.dtype(np.int32)),
        "fingerprint": (FINGERPRINT, np.dtype(np.uint64)),
        "changed": (CHANGED, np.dtype(np.bool_)),
        "importance": (IMPORTANCE, np.dtype(np.float64)),
        "cost": (COST, np.dtype(np.float64)),
        "retry_after": (RETRY_AFTER, np.dtype(np.float64)),
        "significance": (SIGNIFICANCE, np.dtype(np.float64)),
    }
)
_OPTIONAL: Final = (*COLUMNS, "moved_to")
_WORDS: Final = {code: word for word, code in STATUS_WORDS.items()}
_LARGEST: Final = float(np.finfo(np.float32).max)  # of float32, in which records store amounts
_HIGH_BITS: Final = np.uint64(0x8080808080808080)  # set in the bytes of characters beyond ASCII
_NUMBER_EXPECTED: Final = f"a finite number of 0 or more, at most {_LARGEST:.6g}"
_PART_EXPECTED: Final = "a number from 0 to 1"
_SECONDS_EXPECTED: Final = "a finite number of 0 or more seconds"  # servers send any: the politeness caps it
_AMOUNTS: Final = MappingProxyType(  # greatest value of each column of amounts, and what is expected
    {
        "importance": (_LARGEST, _NUMBER_EXPECTED),
        "cost": (_LARGEST, _NUMBER_EXPECTED),
        "retry_after": (sys.float_info.max, _SECONDS_EXPECTED),
        "significance": (1.0, _PART_EXPECTED),
    }
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One finished crawl of a page; None means that the crawler did not report the field.

    ``status``: an HTTP status, 0 for a network failure, ``"robots_denied"`` if robots.txt forbids the page, or
    ``"not_attempted"`` if the crawler gives it back unvisited; ``retry_after``: seconds after `fetched_at` in which the
    server asks for no visit, from a Retry-After header, used with a status of 429 or 503; ``moved_to``: the URL to
    which the page redirects; ``significance``: how much of the page changed, 0 to 1, used if the visit saw a change.

    Raises InvalidOutcome, as record 0, if a field breaks the format. A finite time beyond 1e11 is left to `observe`,
    which rejects it, so that a wrong clock does not stop a crawler.

    >>> Outcome("https://example.org/", 1_700_000_000.0, changed=True).changed
    True
    """

    url: str
    fetched_at: float
    status: int | str | None = None
    fingerprint: int | None = None
    changed: bool | None = None
    importance: float | None = None
    cost: float | None = None
    retry_after: float | None = None
    moved_to: str | None = None
    significance: float | None = None

    def __post_init__(self) -> None:
        if not _is_plain(self):
            if isinstance(self.status, int) and self.status in _WORDS:  # codes are for columns
                raise InvalidOutcome(0, "status", self.status, STATUS_EXPECTED)
            for problem in OutcomeBatch.from_outcomes([self]).problems():
                if problem.field != "fetched_at" or not math.isfinite(self.fetched_at):
                    raise problem


class OutcomeBatch:
    """n crawl outcomes as columns, in stream order.

    ``urls``: PackedUrls of n; ``fetched_at``: float64[n], UTC epoch seconds; ``given``: uint8[n], the bits STATUS,
    FINGERPRINT, CHANGED, IMPORTANCE, COST, RETRY_AFTER, MOVED_TO and SIGNIFICANCE for the optional fields that each
    record has. An optional column that no record has is of length 0, otherwise n: ``status``: int32, words as the codes
    ROBOTS_DENIED and NOT_ATTEMPTED, ``fingerprint``: uint64, ``changed``: bool, ``importance``, ``cost``,
    ``retry_after`` and ``significance``: float64, ``moved_to``: PackedUrls. If a bit is not set, the value in the
    column is meaningless.

    >>> len(OutcomeBatch(["https://a.example/", "https://b.example/"], [1.0, 2.0], changed=[True, None]))
    2
    """

    __slots__ = ("fetched_at", "given", "urls", *_OPTIONAL)

    urls: PackedUrls
    fetched_at: npt.NDArray[np.float64]
    given: npt.NDArray[np.uint8]
    status: npt.NDArray[np.int32]
    fingerprint: npt.NDArray[np.uint64]
    changed: npt.NDArray[np.bool_]
    importance: npt.NDArray[np.float64]
    cost: npt.NDArray[np.float64]
    retry_after: npt.NDArray[np.float64]
    significance: npt.NDArray[np.float64]
    moved_to: PackedUrls

    def __init__(
        self,
        urls: Sequence[str] | PackedUrls,
        fetched_at: npt.ArrayLike,
        **optional: npt.ArrayLike | Sequence[object] | PackedUrls | None,
    ) -> None:
        """Use columns of equal length; `optional` has any of the optional columns.

        An optional column may hold None for records without it; a list of statuses may hold words. O(n); arrays of the
        right dtype are not copied. Raises InvalidOutcome for the first value that the dtype of its column cannot hold,
        and TypeError or ValueError if the columns do not fit together. Values that the dtype can hold but the format
        forbids are left to `problems`, so that one bad record does not cost the whole batch.
        """
        unknown = optional.keys() - set(_OPTIONAL)
        if unknown:
            raise TypeError(f"unknown column {min(unknown)!r}: expected any of {', '.join(_OPTIONAL)}")
        self.urls = urls if isinstance(urls, PackedUrls) else PackedUrls.pack(urls)
        count = len(self.urls)
        self.fetched_at, missing = as_column("fetched_at", np.dtype(np.float64), fetched_at, count)
        if missing is not None:
            raise InvalidOutcome(int(np.flatnonzero(missing)[0]), "fetched_at", None, "UTC epoch seconds")
        self.given = np.zeros(count, np.uint8)
        for field, (bit, dtype) in COLUMNS.items():
            values: Any = optional.get(field)
            if values is None:
                setattr(self, field, np.empty(0, dtype))
                continue
            column, missing = as_column(field, dtype, _encode_words(values) if bit == STATUS else values, count)
            setattr(self, field, column)
            self._mark(bit, missing)
        self.moved_to, missing = as_urls("moved_to", optional.get("moved_to"), count)
        if len(self.moved_to):
            self._mark(MOVED_TO, missing)

    @classmethod
    def from_outcomes(cls, outcomes: Iterable[Outcome]) -> OutcomeBatch:
        """Return the columns of `outcomes`. O(n)."""
        rows = read_items("outcomes", outcomes, "an OutcomeBatch or Outcome objects")
        for row in rows:
            if not isinstance(row, Outcome):
                raise TypeError(f"outcomes: expected an OutcomeBatch or Outcome objects, found {shorten(row)}")
        columns = {field: [getattr(row, field) for row in rows] for field in _OPTIONAL}
        present = {field: values for field, values in columns.items() if any(value is not None for value in values)}
        return cls([row.url for row in rows], [row.fetched_at for row in rows], **present)

    @classmethod
    def concatenate(cls, batches: Iterable[OutcomeBatch]) -> OutcomeBatch:
        """Return the records of `batches`, one batch after another. O(bytes).

        Applying one large batch takes less time than applying many small ones.

        >>> batches = [OutcomeBatch(["https://a.example/"], [1.0]), OutcomeBatch(["https://b.example/"], [2.0])]
        >>> OutcomeBatch.concatenate(batches).fetched_at.tolist()
        [1.0, 2.0]
        """
        parts = read_items("batches", batches, "OutcomeBatch objects")
        for part in parts:
            check_type("batches", part, OutcomeBatch, "OutcomeBatch objects")
        joined, counts = object.__new__(cls), [len(part) for part in parts]
        joined.urls = PackedUrls.concatenate([part.urls for part in parts])
        joined.fetched_at = join_columns([part.fetched_at for part in parts], counts, np.dtype(np.float64))
        joined.given = join_columns([part.given for part in parts], counts, np.dtype(np.uint8))
        for field, (_, dtype) in COLUMNS.items():
            setattr(joined, field, join_columns([getattr(part, field) for part in parts], counts, dtype))
        joined.moved_to = join_urls([part.moved_to for part in parts], counts)
        return joined

    def __len__(self) -> int:
        return self.fetched_at.size

    def __getitem__(self, record: int) -> Outcome:
        """Return one record; raises InvalidOutcome if it breaks the format. O(length of its URL)."""
        record = range(len(self))[record]
        fields: dict[str, Any] = {
            field: getattr(self, field)[record].item()
            for field, (bit, _) in COLUMNS.items()
            if self.given[record] & bit
        }
        if fields.get("status") in _WORDS:
            fields["status"] = _WORDS[fields["status"]]
        if self.given[record] & MOVED_TO:
            fields["moved_to"] = self.moved_to[record]
        return Outcome(self.urls[record], float(self.fetched_at[record]), **fields)

    def __iter__(self) -> Iterator[Outcome]:
        return (self[record] for record in range(len(self)))

    def __repr__(self) -> str:
        present = [field for field in _OPTIONAL if len(getattr(self, field))]
        return f"OutcomeBatch({len(self)} outcomes: {', '.join(['url', 'fetched_at', *present])})"

    def take(self, rows: npt.NDArray[np.intp]) -> OutcomeBatch:
        """Return the records at `rows`: intp[m], in that order. O(m)."""
        taken = object.__new__(OutcomeBatch)
        taken.urls = self.urls.take(rows)
        taken.fetched_at = self.fetched_at[rows]
        taken.given = self.given[rows]
        for field in COLUMNS:
            column = getattr(self, field)
            setattr(taken, field, column[rows] if column.size else column)
        taken.moved_to = self.moved_to.take(rows) if len(self.moved_to) else self.moved_to
        return taken

    def problems(self) -> list[InvalidOutcome]:
        """Return what breaks the format, the first problem of each invalid record, in record order. O(n)."""
        texts = (_freeze_text(self.urls), _freeze_text(self.moved_to))
        amounts = _Amounts(*(frozen(getattr(self, field)) for field in _AMOUNTS))
        if _are_valid(*texts, frozen(self.fetched_at), frozen(self.given), frozen(self.status), amounts):
            return []
        problems_by_row: dict[int, InvalidOutcome] = {}

        def report(rows: npt.NDArray[Any], field: str, found: Any, expected: str) -> None:
            for row in rows.tolist():
                problems_by_row.setdefault(row, InvalidOutcome(row, field, found(row), expected))

        report(self.urls.out_of_range(), "url", lambda row: self.urls[row], URL_EXPECTED)
        report(self.urls.not_utf8(), "url", lambda row: self.urls[row], "UTF-8")
        beyond = ~(np.abs(self.fetched_at) < TIME_LIMIT_S)
        for row in np.flatnonzero(beyond).tolist():
            time_s = self.fetched_at[row].item()
            problems_by_row.setdefault(row, InvalidOutcome(row, "fetched_at", time_s, expected_time(time_s)))
        if self.status.size:
            outside = ((self.status < 0) | (self.status > MAX_STATUS)) & ~np.isin(self.status, list(_WORDS))
            report(self._where(STATUS, outside), "status", self._value("status"), STATUS_EXPECTED)
        for field, (most, expected) in _AMOUNTS.items():
            column = getattr(self, field)
            if column.size:
                fits = (column >= 0) & (column <= most)
                report(self._where(COLUMNS[field][0], ~fits), field, self._value(field), expected)
        if len(self.moved_to):
            moved_rows = np.flatnonzero(self.given & MOVED_TO)
            for faulty, expected in (
                (self.moved_to.out_of_range(), URL_EXPECTED),
                (self.moved_to.not_utf8(), "UTF-8"),
            ):
                report(np.intersect1d(faulty, moved_rows), "moved_to", lambda row: self.moved_to[row], expected)
        return [problems_by_row[row] for row in sorted(problems_by_row)]

    def _mark(self, bit: int, missing: npt.NDArray[np.bool_] | None) -> None:
        """Note that the records carry the field of `bit`, but for those in `missing`: bool[n]."""
        self.given |= np.uint8(bit) if missing is None else np.where(missing, 0, bit).astype(np.uint8)

    def _where(self, bit: int, condition: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
        return np.flatnonzero(condition & ((self.given & bit) != 0))

    def _value(self, field: str) -> Any:
        return lambda row: getattr(self, field)[row].item()


def _encode_words(values: Any) -> Any:
    """Return a column of statuses with codes in place of words. Raises InvalidOutcome for an unknown word."""
    if isinstance(values, np.ndarray) and (values.dtype.kind not in "OU" or values.ndim != 1):
        return values
    codes = read_items("status", values, "a column, one value for each URL")
    for record, value in enumerate(codes):
        if isinstance(value, str):
            if value not in STATUS_WORDS:
                raise InvalidOutcome(record, "status", value, STATUS_EXPECTED)
            codes[record] = STATUS_WORDS[value]
    return codes


def _is_plain(outcome: Outcome) -> bool:
    """Return whether the fields are of plain types and certainly valid, as most are; others are checked in detail."""
    url, fetched_at, status, fingerprint = outcome.url, outcome.fetched_at, outcome.status, outcome.fingerprint
    return (
        outcome.moved_to is None
        and type(url) is str
        and 0 < len(url) <= MAX_URL_BYTES
        and url.isascii()
        and type(fetched_at) in (float, int)
        and abs(fetched_at) < TIME_LIMIT_S
        and (
            status is None
            or (type(status) is int and 0 <= status <= MAX_STATUS)
            or (type(status) is str and status in STATUS_WORDS)
        )
        and (fingerprint is None or (type(fingerprint) is int and 0 <= fingerprint < 1 << 64))
        and (outcome.changed is None or type(outcome.changed) is bool)
        and all(
            weight is None or (type(weight) in (float, int) and 0 <= weight <= _LARGEST)
            for weight in (outcome.importance, outcome.cost, outcome.retry_after)
        )
        and outcome.significance is None
    )


class _Text(NamedTuple):
    """The columns of a PackedUrls, for kernels."""

    blob: Bytes
    offsets: Ints


class _Amounts(NamedTuple):
    """The columns of amounts, for kernels: float64[n] each, or of length 0."""

    importance: Floats
    cost: Floats
    retry_after: Floats
    significance: Floats


def _freeze_text(urls: PackedUrls) -> _Text:
    return _Text(frozen(urls.blob), frozen(urls.offsets))


@bare_kernel
def _are_valid(
    urls: _Text, moved_to: _Text, fetched_at: Floats, given: Bytes, status: npt.NDArray[np.int32], amounts: _Amounts
) -> bool:
    """Return whether every record is valid and every URL is ASCII, in one pass."""
    importance, cost, retry_after, significance = amounts
    for i in range(fetched_at.size):
        sized = 1 <= urls.offsets[i + 1] - urls.offsets[i] <= MAX_URL_BYTES
        if not sized or not -TIME_LIMIT_S < fetched_at[i] < TIME_LIMIT_S:  # nor is NaN
            return False
        if given[i] & STATUS and not 0 <= status[i] <= MAX_STATUS and status[i] not in (ROBOTS_DENIED, NOT_ATTEMPTED):
            return False
        if given[i] & IMPORTANCE and not 0.0 <= importance[i] <= _LARGEST:
            return False
        if given[i] & COST and not 0.0 <= cost[i] <= _LARGEST:
            return False
        if given[i] & RETRY_AFTER and not 0.0 <= retry_after[i] < np.inf:
            return False
        if given[i] & SIGNIFICANCE and not 0.0 <= significance[i] <= 1.0:
            return False
        if given[i] & MOVED_TO and not 1 <= moved_to.offsets[i + 1] - moved_to.offsets[i] <= MAX_URL_BYTES:
            return False
    return _is_ascii(urls) and _is_ascii(moved_to)


@bare_kernel
def _is_ascii(text: _Text) -> bool:
    """Return whether all text between the first and the last offset is ASCII."""
    blob, offsets = text
    start, stop = offsets[0], offsets[offsets.size - 1]
    words = np.uint64(0)
    for i in range(start, stop - 7, 8):
        words |= load_word(blob, i)
    rest = np.uint8(0)
    for i in range(stop - (stop - start) % 8, stop):
        rest |= blob[i]
    return bool(words & _HIGH_BITS == 0 and rest < 0x80)
