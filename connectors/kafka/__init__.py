"""Kafka topics as sources and sinks; `docs/kafka.md` tells an operator's side of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from streamsched.connectors.kafka.kafka_settings import SCHEME, KafkaSettings, read_settings
from streamsched.connectors.kafka.sink import KafkaSink
from streamsched.connectors.kafka.source import BATCH, KafkaSource
from streamsched.connectors.source import Position

__all__ = ["BATCH", "SCHEME", "KafkaSettings", "KafkaSink", "KafkaSource", "open_kafka", "open_sink", "read_settings"]


def open_kafka(
    url: str,
    settings: Mapping[str, object] | None = None,
    *,
    position: Position | None = None,
    dead_letters: str | Path | None = None,
    batch: int = BATCH,
) -> KafkaSource:
    """Open the topic at `url`, ``kafka://HOST:PORT/TOPIC?…``, as a source of crawl outcomes.

    `settings`: more of what the URL's query may hold (`read_settings`), passwords for instance. ``position``: where to
    begin in its partition. ``dead_letters``: a file to append rejected messages to, beside the topic of that name in
    the settings. ``batch``: most messages taken at a time.

    Raises SettingsError where a setting cannot work, SourceError where the brokers cannot be reached, refuse us or have
    no such topic, or `position` does not fit.
    """
    source = KafkaSource(read_settings(url, settings), batch=batch, dead_letters=dead_letters)
    if position is not None:
        try:
            source.seek(position)
        except BaseException:
            source.close()
            raise
    return source


def open_sink(url: str, settings: Mapping[str, object] | None = None) -> KafkaSink:
    """Open the topic at `url` to be written to; raises as `open_kafka` does, at the first message where not before."""
    return KafkaSink(read_settings(url, settings))
