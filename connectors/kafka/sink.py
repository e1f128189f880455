"""A Kafka topic as a sink: outcomes or signals as frames or single messages, and batches of pages to visit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Final, Self

import msgspec
import numpy as np

from streamsched.api.answers import Change
from streamsched.connectors.kafka.clients.factory import open_producer
from streamsched.connectors.kafka.clients.protocol import Producer
from streamsched.connectors.kafka.kafka_settings import KafkaSettings
from streamsched.connectors.kafka.message_keys import choose_partitions, host_keys
from streamsched.connectors.source import Records, VisitBatch
from streamsched.errors import SettingsError
from streamsched.fields import RecordColumns
from streamsched.frames import encode_frame, most_row_bytes
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import OutcomeBatch
from streamsched.signals import SignalBatch

FORMATS: Final = ("frames", "msgpack", "json")
FRAME_ROWS: Final = 1_000  # records in a frame: 80 kB, a tenth of the default limit of brokers
_FRAME_BYTES: Final = 500_000  # of a frame, half of that limit: URLs may be long
_ENCODERS: Final[dict[str, Callable[[object], bytes]]] = {
    "json": msgspec.json.Encoder().encode,
    "msgpack": msgspec.msgpack.Encoder().encode,
}


class KafkaSink:
    """Writes to the topic of `settings` with an idempotent producer: each message is stored once, or an error raised.

    All messages of a host go to one partition, the one that Kafka's own clients choose for the host as key. Use it as a
    context manager, or `close` it: everything is stored only after that, or after `flush`.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        self._producer: Producer = open_producer(settings)
        self._partitions: int | None = None
        self._waiting: dict[tuple[type[Any], int], Any] = {}  # by type of records and partition

    def create(self, partitions: int) -> bool:
        """Create the topic with `partitions`; return False if it exists already."""
        if partitions < 1:
            raise SettingsError("partitions", partitions, "a whole number of 1 or more")
        return self._producer.create(self.settings.topic, partitions)

    def send_outcomes(self, outcomes: OutcomeBatch, format: str = "frames", rows: int = FRAME_ROWS) -> None:  # noqa: A002
        """Send `outcomes` as "frames" of `rows`, or each as one message, "msgpack" or "json". O(bytes).

        A frame holds outcomes of one partition's hosts and has no key; outcomes that do not fill one wait for more, or
        for `flush`. A single message has its host as key. Raises InvalidOutcome if one breaks the event format.
        """
        self._send(outcomes, format, rows)

    def send_signals(self, signals: SignalBatch, format: str = "frames", rows: int = FRAME_ROWS) -> None:  # noqa: A002
        """Send `signals` as `send_outcomes` sends outcomes. O(bytes). Raises InvalidSignal.

        A topic holds outcomes or signals, not both: a reader of either rejects the other.
        """
        self._send(signals, format, rows)

    def send_batch(self, batch: VisitBatch, format: str = "json") -> None:  # noqa: A002  the name that users know
        """Send each page of `batch` as a map, with its host as key.

        The map has ``url``, ``host``, ``score``, ``probability``, ``now``, if the pages were leased ``lease_until_s``,
        and ``etag`` and ``last_modified`` of pages that have them.
        """
        encode = _ENCODERS.get(format)
        if encode is None:
            raise SettingsError("format", format, "json or msgpack")
        common = {"now": batch.now} | ({} if batch.lease_until_s is None else {"lease_until_s": batch.lease_until_s})
        columns = batch.urls, batch.hosts, batch.scores.tolist(), batch.probabilities.tolist()
        pairs = zip(batch.etags, batch.last_modified, strict=True)
        for url, host, score, probability, validators in zip(*columns, pairs, strict=True):
            page = {"url": url, "host": host, "score": score, "probability": probability, **common}
            named = zip(("etag", "last_modified"), validators, strict=True)
            page |= {name: text for name, text in named if text is not None}
            self._producer.send(self.settings.topic, encode(page), host.encode())

    def send_changes(self, changes: Iterable[Change]) -> None:
        """Send each change as JSON, with its host as key, so that those of a page stay in their order. O(bytes)."""
        encode = _ENCODERS["json"]
        for change in changes:
            self._producer.send(self.settings.topic, encode(change), change.host.encode())

    def flush(self) -> None:
        """Send incomplete frames and wait until everything is stored. Raises SourceError if a message is not."""
        waiting, self._waiting = self._waiting, {}
        for (_, partition), rest in waiting.items():
            self._producer.send(self.settings.topic, encode_frame(rest), partition=partition)
        self._producer.flush()

    def close(self) -> None:
        """Flush, then close connections."""
        try:
            self.flush()
        finally:
            self._producer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._waiting.clear()  # the caller has failed: incomplete frames are not sent
        self.close()

    def _send(self, records: RecordColumns, shape: str, rows: int) -> None:
        for problem in records.problems():
            raise problem
        if shape == "frames":
            if rows < 1:
                raise SettingsError("rows", rows, "a whole number of 1 or more")
            self._send_frames(records, rows)
            return
        encode = _ENCODERS.get(shape)
        if encode is None:
            raise SettingsError("format", shape, f"one of {', '.join(FORMATS)}")
        for event, host in zip(records.to_events(), host_keys(records.urls), strict=True):
            self._producer.send(self.settings.topic, encode(event), host.encode())

    def _send_frames(self, records: RecordColumns, rows: int) -> None:
        if self._partitions is None:
            self._partitions = self._producer.partitions(self.settings.topic)
        chosen = choose_partitions(host_keys(records.urls), self._partitions)
        for partition in np.unique(chosen).tolist():
            own = records.take(np.flatnonzero(chosen == partition))
            waiting = self._waiting.pop((type(own), partition), None)
            *full, rest = cut_frames(own if waiting is None else own.concatenate([waiting, own]), rows)
            self._waiting[type(own), partition] = rest
            for frame in full:
                self._producer.send(self.settings.topic, encode_frame(frame), partition=partition)


def cut_frames(records: Records, rows: int) -> list[Records]:
    """Return `records` in parts of at most `rows`, and 500 kB unless one record is larger; at least one part."""
    ends = np.arange(len(records) + 1) * most_row_bytes(type(records))
    for field in records.FIELDS:
        column = getattr(records, field.column)
        if isinstance(column, PackedUrls) and len(column):
            ends += column.offsets
    parts, start = [], 0
    while start + rows < len(records) or ends[-1] - ends[start] > _FRAME_BYTES:
        within = int(np.searchsorted(ends, ends[start] + _FRAME_BYTES, "right")) - 1
        stop = max(start + 1, min(start + rows, within))
        if stop == len(records):
            break
        parts.append(records.take(np.arange(start, stop)))
        start = stop
    return [*parts, records.take(np.arange(start, len(records)))]
