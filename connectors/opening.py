"""Opens any source of outcomes or signals by its name: a file, standard input, or a Kafka topic."""

from __future__ import annotations

from pathlib import Path

from streamsched.connectors.file_source import BATCH, open_file
from streamsched.connectors.formats.microsoft import ORIGIN_S
from streamsched.connectors.kafka import open_topic
from streamsched.connectors.kafka.kafka_settings import SCHEME
from streamsched.connectors.kafka.source import BATCH as MESSAGES
from streamsched.connectors.records import OUTCOMES, SIGNALS, RecordType
from streamsched.connectors.source import Position, Records, Source
from streamsched.errors import SettingsError
from streamsched.numerics.argument_checks import check_path, check_time, check_type, check_whole
from streamsched.outcomes import OutcomeBatch
from streamsched.signals import SignalBatch


def open_source(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002  the name that users know
    position: Position | None = None,
    dead_letters: str | Path | None = None,
    batch: int = BATCH,
    origin_s: float = ORIGIN_S,
) -> Source[OutcomeBatch]:
    """Open `path` as a source of crawl outcomes: a file, "-" for standard input, or a topic, ``kafka://HOST/TOPIC?…``.

    ``format``: "changes" (`formats.changelog`), "jsonl", "msgpack" or "microsoft"; None detects it by name and content
    (a pipe is then read up to its first 4 KiB). Gzip is detected by content, and the format of a message by its first
    bytes. ``position``: where to resume. ``dead_letters``: a file to which rejected records are appended, as JSON
    lines. ``batch``: the most records (lines, maps) in a delivery, or messages of a topic in one poll, at most 16,384;
    one record, a frame or a page's history, may contain many outcomes. ``origin_s``: when Microsoft's collection
    started, UTC epoch seconds. Further settings of a topic's URL: `streamsched.connectors.kafka.kafka_settings`.

    Raises SourceError if there is no such file or topic, if it cannot be read, if its format is unknown or if
    `position` does not fit, and SettingsError if a setting is invalid. A truncated or damaged gzip is read up to the
    damage; then iterating raises SourceError. An empty file has no deliveries.
    """
    origin_s = check_time(origin_s, "origin_s")
    return _open(OUTCOMES, path, format, position, dead_letters, batch, origin_s)


def open_signals(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002  the name that users know
    position: Position | None = None,
    dead_letters: str | Path | None = None,
    batch: int = BATCH,
) -> Source[SignalBatch]:
    """Open `path` as a source of change signals: a file, "-" for standard input, or a topic, ``kafka://HOST/TOPIC?…``.

    ``format``: "jsonl" or "msgpack". All else is as for `open_source`, errors too. A record that is an outcome is
    rejected as any that lacks the fields of a signal.
    """
    return _open(SIGNALS, path, format, position, dead_letters, batch, ORIGIN_S)


def _open(  # noqa: PLR0913, PLR0917  what a user may say of a source
    records: RecordType[Records],
    path: str | Path,
    format_name: str | None,
    position: Position | None,
    dead_letters: str | Path | None,
    batch: int,
    origin_s: float,
) -> Source[Records]:
    path = path if isinstance(path, str) else check_path("path", path)
    check_type("format", format_name, str | None, "a format by name, or None to detect it")
    dead_letters = None if dead_letters is None else check_path("dead_letters", dead_letters)
    batch = check_whole("batch", batch, 1, "1 or more records")
    if isinstance(path, str) and path.startswith(SCHEME):
        if format_name is not None:
            raise SettingsError(
                "format", format_name, "no format: each message of a topic is recognised by its first bytes"
            )
        return open_topic(records, path, position=position, dead_letters=dead_letters, batch=min(batch, MESSAGES))
    check_path("path", path)
    return open_file(
        path, records, format=format_name, position=position, dead_letters=dead_letters, batch=batch, origin_s=origin_s
    )
