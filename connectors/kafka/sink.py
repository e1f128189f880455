"""A Kafka topic as a sink: outcomes as frames or single messages, and batches of pages to visit."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import msgspec
import numpy as np

from streamsched.connectors.formats.columns import join, to_events
from streamsched.connectors.formats.msgpack_frames import encode_frame
from streamsched.connectors.kafka.clients.factory import open_producer
from streamsched.connectors.kafka.message_keys import choose_partitions, host_keys
from streamsched.errors import SettingsError

if TYPE_CHECKING:
    from streamsched.connectors.kafka.clients.protocol import Producer
    from streamsched.connectors.kafka.kafka_settings import KafkaSettings
    from streamsched.connectors.source import VisitBatch
    from streamsched.outcomes import OutcomeBatch

__all__ = ["FORMATS", "FRAME_ROWS", "KafkaSink", "cut_frames"]

FORMATS: Final = ("frames", "msgpack", "json")
FRAME_ROWS: Final = 1_000  # outcomes in a frame: 80 kB, a tenth of the default limit of brokers
_FRAME_BYTES: Final = 500_000  # of a frame, half of that limit: URLs may be long
_ROW_BYTES: Final = 48  # most bytes of an outcome in a frame, besides its URL
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
        self._waiting: dict[int, list[OutcomeBatch]] = {}

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
        for problem in outcomes.problems():
            raise problem
        if format == "frames":
            if rows < 1:
                raise SettingsError("rows", rows, "a whole number of 1 or more")
            self._send_frames(outcomes, rows)
            return
        encode = _ENCODERS.get(format)
        if encode is None:
            raise SettingsError("format", format, f"one of {', '.join(FORMATS)}")
        hosts = host_keys(outcomes.urls)
        for event, host in zip(to_events(outcomes), hosts, strict=True):
            self._producer.send(self.settings.topic, encode(event), host.encode())

    def send_batch(self, batch: VisitBatch, format: str = "json") -> None:  # noqa: A002  the name that users know
        """Send each page of `batch` as a map, with its host as key.

        The map has ``url``, ``host``, ``score``, ``now`` and, if the pages were leased, ``lease_until_s``.
        """
        encode = _ENCODERS.get(format)
        if encode is None:
            raise SettingsError("format", format, "json or msgpack")
        common = {"now": batch.now} | ({} if batch.lease_until_s is None else {"lease_until_s": batch.lease_until_s})
        for url, host, score in zip(batch.urls, batch.hosts, batch.scores.tolist(), strict=True):
            page = {"url": url, "host": host, "score": score, **common}
            self._producer.send(self.settings.topic, encode(page), host.encode())

    def flush(self) -> None:
        """Send incomplete frames and wait until everything is stored. Raises SourceError if a message is not."""
        self._send_waiting()
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

    def _send_frames(self, outcomes: OutcomeBatch, rows: int) -> None:
        if self._partitions is None:
            self._partitions = self._producer.partitions(self.settings.topic)
        chosen = choose_partitions(host_keys(outcomes.urls), self._partitions)
        for partition in np.unique(chosen).tolist():
            waiting = self._waiting.pop(partition, [])
            *full, rest = cut_frames(join([*waiting, outcomes.take(np.flatnonzero(chosen == partition))]), rows)
            self._waiting[partition] = [rest]
            for frame in full:
                self._producer.send(self.settings.topic, encode_frame(frame), partition=partition)

    def _send_waiting(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for partition, (rest,) in waiting.items():
            self._producer.send(self.settings.topic, encode_frame(rest), partition=partition)


def cut_frames(outcomes: OutcomeBatch, rows: int) -> list[OutcomeBatch]:
    """Return `outcomes` in parts of at most `rows`, and 500 kB unless one outcome is larger; at least one part."""
    ends = outcomes.urls.offsets + np.arange(len(outcomes) + 1) * _ROW_BYTES
    parts, start = [], 0
    while start + rows < len(outcomes) or ends[-1] - ends[start] > _FRAME_BYTES:
        within = int(np.searchsorted(ends, ends[start] + _FRAME_BYTES, "right")) - 1
        stop = max(start + 1, min(start + rows, within))
        if stop == len(outcomes):
            break
        parts.append(outcomes.take(np.arange(start, stop)))
        start = stop
    return [*parts, outcomes.take(np.arange(start, len(outcomes)))]
