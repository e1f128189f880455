"""Replays streams for logged calls that depend on their outcomes: files by name, topics from their brokers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from streamsched.connectors.file_source import open_file
from streamsched.connectors.kafka.kafka_settings import SCHEME, KafkaSettings, read_settings
from streamsched.connectors.kafka.source import KafkaSource
from streamsched.connectors.source import Position
from streamsched.errors import SourceError

if TYPE_CHECKING:
    from streamsched.outcomes import OutcomeBatch
    from streamsched.persistence.call_codec import Rereader

__all__ = ["reread_files", "reread_with"]

_BATCH: Final = 1024  # messages in one poll: few have to be read again


def reread_files(path: str, position: Mapping[str, Any] | None) -> Iterator[OutcomeBatch]:
    """Yield the outcomes of the file at `path` from `position` on. Raises SourceError if it cannot be read."""
    if path.startswith(SCHEME):
        raise SourceError(path, "the topic has to be read again first: start `streamsched run` with it as source")
    with open_file(path, position=None if position is None else Position.from_json(position)) as source:
        for delivery in source:
            yield delivery.outcomes


def reread_with(url: str, kafka: Mapping[str, object]) -> Rereader:
    """Return a function that reads files, and partitions of the topic at `url` with the settings `kafka`, again."""
    settings = read_settings(url, kafka)

    def reread(path: str, position: Mapping[str, Any] | None) -> Iterator[OutcomeBatch]:
        topic, _, number = path.removeprefix(SCHEME).rpartition("/")
        if path.startswith(SCHEME) and topic == settings.topic:
            return _reread_partition(settings, int(number), position)
        return reread_files(path, position)

    return reread


def _reread_partition(
    settings: KafkaSettings, number: int, position: Mapping[str, Any] | None
) -> Iterator[OutcomeBatch]:
    """Yield the outcomes of a partition from `position`, or from ``settings.start``, without joining the group."""
    alone = replace(settings, group=None, partitions=(number,), until_end=True, dead_letters=None, versions="reject")
    with KafkaSource(alone, batch=_BATCH) as source:
        if position is not None:
            source.seek(Position.from_json(position))
        for delivery in source:
            yield delivery.outcomes
