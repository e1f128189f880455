"""Kafka topics as sources and sinks; `docs/kafka.md` is the guide for operators."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from streamsched.connectors.kafka.kafka_settings import SCHEME, KafkaSettings, read_settings
from streamsched.connectors.kafka.sink import KafkaSink
from streamsched.connectors.kafka.source import BATCH, KafkaSource
from streamsched.connectors.records import OUTCOMES, RecordType
from streamsched.connectors.source import Position, Records
from streamsched.numerics.argument_checks import check_path, check_whole

if TYPE_CHECKING:
    from streamsched.outcomes import OutcomeBatch

__all__ = [
    "BATCH",
    "SCHEME",
    "KafkaSettings",
    "KafkaSink",
    "KafkaSource",
    "open_kafka",
    "open_sink",
    "open_topic",
    "read_settings",
]


def open_kafka(
    url: str,
    settings: Mapping[str, object] | None = None,
    *,
    position: Position | None = None,
    dead_letters: str | Path | None = None,
    batch: int = BATCH,
) -> KafkaSource[OutcomeBatch]:
    """Open the topic at `url`, ``kafka://HOST:PORT/TOPIC?…``, as a source of crawl outcomes.

    `settings`: further settings of the URL's query (`read_settings`), for example passwords. ``position``: where to
    start in its partition. ``dead_letters``: a file to which rejected messages are appended, in addition to the topic
    of that name in the settings. ``batch``: the most messages in one poll.

    Raises SettingsError if a setting is invalid, SourceError if the brokers cannot be reached, refuse the connection or
    have no such topic, or if `position` does not fit.
    """
    return open_topic(OUTCOMES, url, settings, position=position, dead_letters=dead_letters, batch=batch)


def open_topic(
    records: RecordType[Records],
    url: str,
    settings: Mapping[str, object] | None = None,
    *,
    position: Position | None = None,
    dead_letters: str | Path | None = None,
    batch: int = BATCH,
) -> KafkaSource[Records]:
    """Open the topic at `url` as a source of `records`; see `open_kafka`."""
    dead_letters = None if dead_letters is None else check_path("dead_letters", dead_letters)
    batch = check_whole("batch", batch, 1, "1 or more messages")
    source = KafkaSource(records, read_settings(url, settings), batch=batch, dead_letters=dead_letters)
    if position is not None:
        try:
            source.seek(position)
        except BaseException:
            source.close()
            raise
    return source


def open_sink(url: str, settings: Mapping[str, object] | None = None) -> KafkaSink:
    """Open the topic at `url` for writing. Raises like `open_kafka`, at the latest at the first message."""
    return KafkaSink(read_settings(url, settings))
