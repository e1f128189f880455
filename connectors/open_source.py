"""Any source by its name: a file, standard input, or a Kafka topic."""

from __future__ import annotations

from pathlib import Path
from typing import overload

from streamsched.connectors.file_source import BATCH, FileSource, open_file
from streamsched.connectors.formats.microsoft import ORIGIN_S
from streamsched.connectors.kafka import BATCH as MESSAGES
from streamsched.connectors.kafka import SCHEME, KafkaSource, open_kafka
from streamsched.connectors.source import Position
from streamsched.errors import SettingsError

__all__ = ["open_source"]


@overload
def open_source(
    path: Path,
    *,
    format: str | None = ...,
    position: Position | None = ...,
    dead_letters: str | Path | None = ...,
    batch: int = ...,
    origin_s: float = ...,
) -> FileSource: ...
@overload
def open_source(
    path: str,
    *,
    format: str | None = ...,
    position: Position | None = ...,
    dead_letters: str | Path | None = ...,
    batch: int = ...,
    origin_s: float = ...,
) -> FileSource | KafkaSource: ...
def open_source(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002  the word that users know
    position: Position | None = None,
    dead_letters: str | Path | None = None,
    batch: int = BATCH,
    origin_s: float = ORIGIN_S,
) -> FileSource | KafkaSource:
    """Open `path` as a source of crawl outcomes: a file, "-" for standard input, or a topic, ``kafka://HOST/TOPIC?…``.

    ``format``: "changes" (`formats.changelog`), "jsonl", "msgpack" or "microsoft", told by name and
    content where None (a pipe is then waited on for its first 4 KiB); gzip is told by content, and what a message is by
    its first bytes. ``position``: where to resume. ``dead_letters``: a file to append rejected records to, as JSON
    lines. ``batch``: most records (lines, maps) in a delivery, of a topic at most 16,384 messages taken at a time; one
    record, a frame or a page's history, may bring many outcomes. ``origin_s``: when Microsoft's collection started,
    UTC epoch seconds. What else a topic's URL may say: `streamsched.connectors.kafka.kafka_settings`.

    Raises SourceError where there is no such file or topic, it cannot be read, its format is not known or `position`
    does not fit it, SettingsError where a setting cannot work. A truncated or damaged gzip is read up to there; then
    iterating raises SourceError. An empty file gives no deliveries.
    """
    if isinstance(path, str) and path.startswith(SCHEME):
        if format is not None:
            raise SettingsError("format", format, "none: each message of a topic says what it is by its first bytes")
        return open_kafka(path, position=position, dead_letters=dead_letters, batch=min(batch, MESSAGES))
    return open_file(path, format=format, position=position, dead_letters=dead_letters, batch=batch, origin_s=origin_s)
