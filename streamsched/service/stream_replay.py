"""Replays streams for logged calls that depend on their records: files by name, topics from their brokers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from streamsched.connectors.file_source import open_file
from streamsched.connectors.kafka.kafka_settings import SCHEME, KafkaSettings
from streamsched.connectors.kafka.source import KafkaSource
from streamsched.connectors.records import OUTCOMES, RecordType, type_of_position
from streamsched.connectors.source import Position
from streamsched.errors import SourceError
from streamsched.outcomes import OutcomeBatch
from streamsched.persistence.call_codec import Rereader
from streamsched.signals import SignalBatch

_BATCH: Final = 1024  # messages in one poll: few have to be read again


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that may be read again: the type of its records, and how it is read."""

    records: RecordType[Any]
    settings: KafkaSettings


def reread_files(path: str, position: Mapping[str, Any] | None) -> Iterator[OutcomeBatch | SignalBatch]:
    """Yield the records of the file at `path` from `position` on, outcomes if it is None.

    Raises SourceError if it cannot be read.
    """
    if path.startswith(SCHEME):
        raise SourceError(path, "the topic has to be read again first: start `streamsched run` with it as source")
    start = None if position is None else Position.from_json(position)
    records = OUTCOMES if start is None else type_of_position(start.kind)
    with open_file(path, records, position=start) as source:
        for delivery in source:
            yield delivery.records


def reread_with(topics: Sequence[Topic]) -> Rereader:
    """Return a function that reads files and partitions of `topics` again."""
    by_name = {topic.settings.topic: topic for topic in topics}

    def reread(path: str, position: Mapping[str, Any] | None) -> Iterator[OutcomeBatch | SignalBatch]:
        name, _, number = path.removeprefix(SCHEME).rpartition("/")
        if path.startswith(SCHEME) and name in by_name:
            return _reread_partition(by_name[name], int(number), position)
        return reread_files(path, position)

    return reread


def _reread_partition(
    topic: Topic, number: int, position: Mapping[str, Any] | None
) -> Iterator[OutcomeBatch | SignalBatch]:
    """Yield the records of a partition from `position`, or from ``settings.start``, without joining the group."""
    alone = replace(
        topic.settings, group=None, partitions=(number,), until_end=True, dead_letters=None, versions="reject"
    )
    with KafkaSource(topic.records, alone, batch=_BATCH) as source:
        if position is not None:
            source.seek(Position.from_json(position))
        for delivery in source:
            yield delivery.records
