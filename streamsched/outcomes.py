"""Crawl outcomes: the table of their fields and status words, `Outcome` for one, `OutcomeBatch` for many in columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

from streamsched.errors import InvalidOutcome
from streamsched.fields import (
    AMOUNT,
    FINGERPRINT_64,
    FLAG,
    GIVEN,
    HEADER,
    HEX_64,
    MAX_STATUS,
    PART,
    SECONDS,
    TIME,
    URL,
    Field,
    RecordColumns,
    check_record,
    read_fields,
    status_code,
)
from streamsched.numerics.argument_checks import read_items
from streamsched.numerics.arrays import is_masked
from streamsched.numerics.column_casting import as_column, as_urls
from streamsched.numerics.packed_urls import PackedUrls

# Bits of `OutcomeBatch.given`: which optional fields a record has.
STATUS: Final = 1
FINGERPRINT: Final = 2
CHANGED: Final = 4
IMPORTANCE: Final = 8
COST: Final = 16
RETRY_AFTER: Final = 32
MOVED_TO: Final = 64
SIGNIFICANCE: Final = 128
ETAG: Final = 256
LAST_MODIFIED: Final = 512
CONTENT: Final = 1024
NOT_BEFORE: Final = 2048

NEVER_S: Final = 99_999_999_999.0  # as `not_before`: the latest time there is

# Codes of the status words in columns. They fit into the int16 of frames, and no crawler is known to use them.
ROBOTS_DENIED: Final = 30_001
NOT_ATTEMPTED: Final = 30_002

StatusWord: TypeAlias = Literal["robots_denied", "not_attempted"]


class Status(NamedTuple):
    """A status word. ``code``: in columns; ``doc``: what it means, and what becomes of the page."""

    code: int
    doc: str


STATUSES: Final[Mapping[StatusWord, Status]] = MappingProxyType(
    {
        "robots_denied": Status(
            ROBOTS_DENIED,
            "robots.txt forbids the page. Its lease ends, and no batch has it again until an outcome with another "
            "status arrives, or `ask` names it: then it gets one visit. It counts neither as a failure nor as an "
            "observation",
        ),
        "not_attempted": Status(
            NOT_ATTEMPTED,
            "the crawler gives the page back unvisited. Its lease ends and its host's slot is free, nothing else: a "
            "page that was asked for is still asked for, and a back-off does not begin again. `release` is the same "
            "as a call",
        ),
    }
)
STATUS_CODE: Final = status_code({word: status.code for word, status in STATUSES.items()})


class OutcomeEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One outcome in wire format, not checked beyond its types: the table of the fields of outcomes."""

    url: Annotated[str, Field(URL, "as crawled, 1 to 8,192 bytes of UTF-8")]
    fetched_at: Annotated[
        float | str, Field(TIME, "UTC epoch seconds, above 0. In JSON Lines and msgpack maps also an ISO 8601 text")
    ]
    status: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_STATUS)] | StatusWord | None,
        Field(STATUS_CODE, "HTTP status; 0 for a network failure; a word, see below. 200 if absent", STATUS),
    ] = None
    fingerprint: Annotated[
        Annotated[int, Meta(ge=0, extra_json_schema={"maximum": 2**64 - 1})]
        | Annotated[str, Meta(pattern=HEX_64)]
        | None,
        Field(FINGERPRINT_64, "SimHash of the content. In JSON also 16 hexadecimal digits", FINGERPRINT),
    ] = None
    changed: Annotated[
        bool | None, Field(FLAG, "the crawler's own verdict; wins over `content` and `fingerprint`", CHANGED)
    ] = None
    importance: Annotated[
        float | None,
        Field(AMOUNT, "weight of the page from now on, 0 or more; 1 if none was reported", IMPORTANCE),
    ] = None
    cost: Annotated[
        float | None,
        Field(
            AMOUNT,
            "seconds or bytes of the visit, 0 or more; 0 leaves the page's cost as it was. A page without one has 1",
            COST,
        ),
    ] = None
    retry_after: Annotated[
        float | None,
        Field(
            SECONDS,
            "seconds after `fetched_at` in which the server asks for no visit, from a Retry-After header, used with a "
            "status of 429 or 503",
            RETRY_AFTER,
        ),
    ] = None
    moved_to: Annotated[
        str | None,
        Field(URL, "where the page redirects, 1 to 8,192 bytes of UTF-8; the page's own URL is ignored", MOVED_TO),
    ] = None
    significance: Annotated[
        float | None,
        Field(PART, "how much of the page changed, 0 to 1; used if the visit saw a change, see below", SIGNIFICANCE),
    ] = None
    etag: Annotated[
        str | None,
        Field(
            HEADER,
            "the ETag of the answer, kept and returned with the page if it is at most 255 bytes of printable ASCII",
            ETAG,
        ),
    ] = None
    last_modified: Annotated[
        str | None,
        Field(HEADER, "the Last-Modified of the answer, as text, likewise if it is at most 64 bytes", LAST_MODIFIED),
    ] = None
    content: Annotated[
        Annotated[int, Meta(ge=0, extra_json_schema={"maximum": 2**64 - 1})]
        | Annotated[str, Meta(pattern=HEX_64)]
        | None,
        Field(
            FINGERPRINT_64,
            "exact hash of the content without noise: another one is a change. In JSON also 16 hexadecimal digits",
            CONTENT,
        ),
    ] = None
    not_before: Annotated[
        float | str | None,
        Field(
            TIME,
            "the crawler wants no visit of the page before that time, unless `ask` names it; like `fetched_at`, "
            "99999999999 for never. The next outcome ends it",
            NOT_BEFORE,
        ),
    ] = None


FIELDS: Final = read_fields(OutcomeEvent)
OPTIONAL: Final = tuple(field for field in FIELDS if field.bit)


class Outcome(OutcomeEvent, frozen=True, gc=False, omit_defaults=True):
    """One finished crawl of a page; None means that the crawler did not report the field. docs/outcomes.md lists them.

    Raises InvalidOutcome, as record 0, if a field breaks the format. A finite time that is not above 0 and below 1e11
    is left to `observe`, which rejects it, so that a wrong clock does not stop a crawler.

    >>> Outcome("https://example.org/", 1_700_000_000.0, changed=True).changed
    True
    """

    fetched_at: float  # a text is replaced by its time
    not_before: float | None = None

    def __post_init__(self) -> None:
        check_record(self, FIELDS, InvalidOutcome)


class OutcomeBatch(RecordColumns):
    """n crawl outcomes as columns, in stream order.

    ``urls``: PackedUrls of n; ``fetched_at``: float64[n], UTC epoch seconds above 0; ``given``: uint16[n], the bits
    of the optional fields that each record has: STATUS, FINGERPRINT and so on. A column of an optional field that no
    record has is of length 0, otherwise n: ``moved_to``, ``etag`` and ``last_modified`` are PackedUrls, ``status`` has
    the codes of STATUSES for words. If a bit is not set, the value in the column is meaningless.

    >>> len(OutcomeBatch(["https://a.example/", "https://b.example/"], [1.0, 2.0], changed=[True, None]))
    2
    """

    __slots__ = tuple(field.column for field in FIELDS[1:])
    FIELDS, ERROR, EVENT, RECORD = FIELDS, InvalidOutcome, OutcomeEvent, Outcome

    fetched_at: npt.NDArray[np.float64]
    status: npt.NDArray[np.int32]
    fingerprint: npt.NDArray[np.uint64]
    changed: npt.NDArray[np.bool_]
    importance: npt.NDArray[np.float64]
    cost: npt.NDArray[np.float64]
    retry_after: npt.NDArray[np.float64]
    moved_to: PackedUrls
    significance: npt.NDArray[np.float64]
    etag: PackedUrls
    last_modified: PackedUrls
    content: npt.NDArray[np.uint64]
    not_before: npt.NDArray[np.float64]

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
        names = [field.name for field in OPTIONAL]
        unknown = optional.keys() - set(names)
        if unknown:
            raise TypeError(f"unknown column {min(unknown)!r}: expected any of {', '.join(names)}")
        self.urls = urls if isinstance(urls, PackedUrls) else PackedUrls.pack(urls)
        count = len(self.urls)
        self.fetched_at, missing = as_column("fetched_at", np.dtype(np.float64), fetched_at, count)
        if missing is not None:
            raise InvalidOutcome(int(np.flatnonzero(missing)[0]), "fetched_at", None, TIME.expected)
        self.given = np.zeros(count, GIVEN)
        for field in OPTIONAL:
            values: Any = optional.get(field.name)
            column: Any
            if field.kind.dtype is None:
                column, missing = as_urls(field.name, values, count)
            elif values is None:
                column = np.empty(0, field.kind.dtype)
            else:
                column, missing = as_column(field.name, field.kind.dtype, _read_texts(field, values), count)
            setattr(self, field.column, column)
            if values is not None:
                self.given |= (
                    GIVEN.type(field.bit) if missing is None else np.where(missing, 0, field.bit).astype(GIVEN)
                )

    @classmethod
    def from_outcomes(cls, outcomes: Iterable[Outcome]) -> OutcomeBatch:
        """Return the columns of `outcomes`. O(n)."""
        return cls._from_records("outcomes", outcomes)

    def __repr__(self) -> str:
        present = [field.name for field in OPTIONAL if len(getattr(self, field.column))]
        return f"OutcomeBatch({len(self)} outcomes: {', '.join(['url', 'fetched_at', *present])})"


def _read_texts(field: Field, values: Any) -> Any:
    """Return a column with numbers in place of words. Raises InvalidOutcome for a text that is none."""
    if is_masked(values):  # refused below
        return values
    if isinstance(values, np.ndarray) and (values.dtype.kind not in "OU" or values.ndim != 1):
        return values
    items = read_items(field.name, values, "a column, one value for each URL")
    for record, value in enumerate(items):
        if isinstance(value, str):
            try:
                items[record] = field.kind.read(value)
            except ValueError:
                raise InvalidOutcome(record, field.name, value, field.kind.expected) from None
    return items
