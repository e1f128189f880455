"""What every source of crawl outcomes has in common: deliveries, positions to resume at, and what it had to reject.

A source is iterated: each `Delivery` holds valid outcomes and the `Position` at which to go on after them. Whoever
applies a delivery saves its position together with the state that resulted, and hands it to `Source.seek` after a
restart. A source of many parts (a broker's partitions) delivers from one part at a time: keep the last position of
each ``path``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Literal, Protocol, Self, TypeAlias, TypeGuard, runtime_checkable

from streamsched.errors import SourceError, shorten
from streamsched.numerics.arrays import Floats
from streamsched.outcomes import OutcomeBatch

__all__ = ["Delivery", "Position", "Rejection", "Source", "Unit", "VisitBatch"]

Unit: TypeAlias = Literal["line", "byte", "message"]


@dataclass(frozen=True, slots=True)
class Position:
    """Where to resume in one part of a source.

    ``kind``: what wrote it, a file's format or a broker's name; ``path``: the part, an absolute file name or a topic
    and partition; ``offset``: the first byte (of the decompressed input) or message not read yet; ``records``: lines,
    maps or messages before it, delivered, rejected or blank, so that line numbers go on where they stood.
    """

    kind: str
    path: str
    offset: int
    records: int

    def to_json(self) -> dict[str, str | int]:
        """Return the position as a map that JSON can hold.

        >>> Position("jsonl", "/logs/day.jsonl", 5120, 64).to_json()
        {'kind': 'jsonl', 'path': '/logs/day.jsonl', 'offset': 5120, 'records': 64}
        """
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> Position:
        """Return the position that `to_json` made `value` of; raises SourceError where it is none.

        >>> Position.from_json({"kind": "jsonl", "path": "/logs/day.jsonl", "offset": 5120, "records": 64}).offset
        5120
        """
        kind, path, offset, records = (value.get(field) for field in ("kind", "path", "offset", "records"))
        if isinstance(kind, str) and isinstance(path, str) and _is_count(offset) and _is_count(records):
            return cls(kind, path, offset, records)
        raise SourceError(str(path), f"expected a position with kind, path, offset and records, found {shorten(value)}")


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


@dataclass(frozen=True, slots=True)
class Delivery:
    """Valid outcomes in stream order, at least one, and where to resume after them."""

    outcomes: OutcomeBatch
    position: Position


@dataclass(frozen=True, slots=True)
class Rejection:
    """A record that broke its format: where it stood, which field, what was expected and what was found.

    ``offset`` counts lines from 1, bytes of the decompressed input from 0 or a partition's messages from 0, as ``unit``
    says; ``field`` is "record" where the record as a whole could not be read.
    """

    path: str
    unit: Unit
    offset: int
    field: str
    reason: str
    found: str

    def __str__(self) -> str:
        return f"{self.path}, {self.unit} {self.offset}: {self.field}: {self.reason}, found {self.found}"


@runtime_checkable
class Source(Protocol):
    """A stream of crawl outcomes that can be resumed; use it as a context manager or `close` it.

    Iterating a second time goes on where the first stopped, as with a file. Errors: SourceError where the input cannot
    be read on; what was read before has been delivered by then.
    """

    @property
    def rejected(self) -> int:
        """Return how many records were rejected since the source was opened."""
        ...

    @property
    def rejections(self) -> Sequence[Rejection]:
        """Return the last rejections, at most 100, oldest first."""
        ...

    def seek(self, position: Position) -> None:
        """Go to `position`, in a source of many parts once for each; raises SourceError where it does not fit."""
        ...

    def close(self) -> None:
        """Let go of files and connections; a second call does nothing."""
        ...

    def __iter__(self) -> Iterator[Delivery]: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class VisitBatch(Protocol):
    """The pages to visit next, as a sink publishes them; `streamsched.Batch` is one."""

    @property
    def urls(self) -> list[str]:
        """The pages, best first."""
        ...

    @property
    def hosts(self) -> list[str]:
        """Host and port of each page."""
        ...

    @property
    def scores(self) -> Floats:
        """The score of each page: float64[m]."""
        ...

    @property
    def now(self) -> float:
        """The time of the ranking, UTC epoch seconds."""
        ...

    @property
    def lease_until_s(self) -> float | None:
        """When the leases of the pages expire, None where none was taken."""
        ...
