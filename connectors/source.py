"""The contract of every source of records: deliveries, positions to resume at, and rejected records.

Records are crawl outcomes or change signals; a source has one of the two. It is an iterator of `Delivery` objects, each
with valid records and the `Position` after them. Save that
position together with the state that resulted from the delivery, and pass it to `Source.seek` after a restart. A source
with several partitions delivers from one at a time: keep the last position of each ``path``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import MappingProxyType, TracebackType
from typing import Any, Final, Generic, Literal, Protocol, Self, TypeAlias, TypeGuard, TypeVar, runtime_checkable

from streamsched.errors import InvalidRecord, SourceError, shorten
from streamsched.fields import RecordColumns
from streamsched.numerics.arrays import Floats

Unit: TypeAlias = Literal["line", "byte", "message"]


Records = TypeVar("Records", bound=RecordColumns)


@dataclass(frozen=True, slots=True)
class Position:
    """Where to resume in a file or a partition.

    ``kind``: a file's format or "kafka", followed by " signals" if that is what it holds; ``path``: an absolute file
    name, or topic and partition; ``offset``: the first byte (of the decompressed input) or message not read yet;
    ``records``: the number of lines, maps or messages before it, delivered, rejected or blank, so that line numbers
    continue after a restart; ``topic_id``: the brokers' id of the topic, which another topic of the same name does not
    have, "" if there is none. It is no part of a comparison.
    """

    kind: str
    path: str
    offset: int
    records: int
    topic_id: str = field(default="", compare=False)

    def to_json(self) -> dict[str, str | int]:
        """Return the position as a JSON object.

        >>> Position("jsonl", "/logs/day.jsonl", 5120, 64).to_json()
        {'kind': 'jsonl', 'path': '/logs/day.jsonl', 'offset': 5120, 'records': 64}
        """
        return {name: value for name, value in asdict(self).items() if value or name != "topic_id"}

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> Position:
        """Return the position that `to_json` encoded. Raises SourceError if `value` is not such a mapping.

        >>> Position.from_json({"kind": "jsonl", "path": "/logs/day.jsonl", "offset": 5120, "records": 64}).offset
        5120
        """
        if not isinstance(value, Mapping):
            raise SourceError(
                "value", f"expected a mapping with kind, path, offset and records, found {shorten(value)}"
            )
        kind, path, offset, records = (value.get(name) for name in ("kind", "path", "offset", "records"))
        topic_id = value.get("topic_id", "")
        texts = (kind, path, topic_id)
        if _are_texts(texts) and _is_count(offset) and _is_count(records):
            return cls(texts[0], texts[1], offset, records, texts[2])
        raise SourceError(str(path), f"expected a position with kind, path, offset and records, found {shorten(value)}")


RevokeCallback: TypeAlias = Callable[[Mapping[str, Position]], None]
"""Receives the positions of the partitions that are about to be revoked."""


def _are_texts(values: tuple[object, object, object]) -> TypeGuard[tuple[str, str, str]]:
    return all(isinstance(value, str) for value in values)


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


@dataclass(frozen=True, slots=True)
class Delivery(Generic[Records]):
    """Valid records in stream order, at least one, and the position after them."""

    records: Records
    position: Position


@dataclass(frozen=True, slots=True)
class Rejection:
    """A record that does not follow its format: its place, the field, what was expected and what was found.

    ``offset`` counts in ``unit``: lines from 1, bytes of the decompressed input from 0, or messages of a partition
    from 0. ``field`` is "record" if the record as a whole could not be read.
    """

    path: str
    unit: Unit
    offset: int
    field: str
    reason: str
    found: str

    def __str__(self) -> str:
        return f"{self.path}, {self.unit} {self.offset}: {self.field}: {self.reason}, found {self.found}"


_EMPTY: Final[Mapping[str, Position]] = MappingProxyType({})


@runtime_checkable
class Source(Protocol[Records]):
    """A stream of crawl outcomes or of change signals that can be resumed; use it as a context manager, or `close` it.

    Iterating a second time continues after the last delivery. Raises SourceError if the input cannot be read further;
    everything before that point has been delivered.

    What is implemented here suits a source without partitions: no positions but those of its deliveries, no lag,
    nothing to commit.

    ``format``: the format of a file, or "kafka". ``is_replayable``: whether it can be read again from a position, as a
    pipe cannot. ``is_partitioned``: whether it has partitions, which are assigned, committed and revoked.
    ``on_revoke``: called before partitions are revoked, with their positions.
    """

    format: str
    is_replayable: bool = True
    is_partitioned: bool = False
    on_revoke: RevokeCallback | None = None

    @property
    @abstractmethod
    def rejected(self) -> int:
        """The number of records rejected since the source was opened."""
        ...

    @property
    @abstractmethod
    def rejections(self) -> Sequence[Rejection]:
        """The last rejections, at most 100, oldest first."""
        ...

    @property
    def positions(self) -> Mapping[str, Position]:
        """The position of each assigned partition by path, past delivered and rejected messages."""
        return _EMPTY

    @property
    def starts(self) -> Mapping[str, Position]:
        """The position at which reading of each partition began last, by path."""
        return _EMPTY

    @property
    def lag(self) -> Mapping[str, int]:
        """The number of messages between each assigned partition's position and its end, by path."""
        return {}

    def counts(self) -> dict[str, int]:
        """Return the source's counters by name, ``rejected`` among them."""
        return {"rejected": self.rejected}

    @abstractmethod
    def owns(self, path: str) -> bool:
        """Return whether `path`, of a saved position, names this file or a partition of this topic."""
        ...

    @abstractmethod
    def seek(self, position: Position) -> None:
        """Continue at `position`; with several partitions, once for each. Raises SourceError if it does not fit."""
        ...

    def deliveries(self, timeout_s: float) -> Iterator[Delivery[Records] | None]:
        """Yield deliveries until the source ends, and None whenever none arrives within `timeout_s`.

        A file or a pipe waits for its next delivery without a timeout.
        """
        del timeout_s
        yield from self

    @abstractmethod
    def reject(self, delivery: Delivery[Records], problems: Sequence[InvalidRecord]) -> None:
        """Count records of the last `delivery` as rejected, and keep them aside with the other dead letters.

        For records that are well formed but impossible, as one from the future. Raises SourceError if they cannot be
        stored.
        """
        ...

    def commit(self, positions: Mapping[str, Position]) -> None:
        """Commit `positions` for other readers: only positions that a saved state holds. A file has none."""
        del positions

    @abstractmethod
    def close(self) -> None:
        """Close files and connections; a second call does nothing."""
        ...

    def __iter__(self) -> Self:
        return self

    @abstractmethod
    def __next__(self) -> Delivery[Records]: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


AnySource: TypeAlias = Source[Any]
"""A source of records of whichever type."""


class VisitBatch(Protocol):
    """The pages to visit next, as a sink publishes them; `streamsched.Batch` implements it."""

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
    def probabilities(self) -> Floats:
        """The probability that each page has changed: float64[m]."""
        ...

    @property
    def etags(self) -> list[str | None]:
        """The ETag of each page's content, None where none is kept."""
        ...

    @property
    def last_modified(self) -> list[str | None]:
        """Likewise the Last-Modified."""
        ...

    @property
    def now(self) -> float:
        """The time of the ranking, UTC epoch seconds."""
        ...

    @property
    def lease_until_s(self) -> float | None:
        """When the leases of the pages expire; None without leases."""
        ...
