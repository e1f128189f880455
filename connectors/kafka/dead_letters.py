"""Rejected messages on a topic of their own, for whoever mends what wrote them.

A dead letter has the key and the value of the message it stands for, of a frame with some bad rows those rows as frames
of one, and these headers: ``reason``, ``field`` and ``found`` say what is wrong, ``topic``, ``partition`` and
``offset`` where it stood, ``bytes`` its length where the value is cut.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from streamsched.connectors.kafka.clients.protocol import Headers, Producer, part_path
from streamsched.connectors.kafka.decoding import Faulty
from streamsched.connectors.reading.rejections import Rejections
from streamsched.connectors.source import Rejection

__all__ = ["DeadLetters"]

_LARGEST: Final = 900_000  # bytes of a value: what brokers take unless told otherwise, less room for headers


class DeadLetters:
    """Keeps the book of a topic's rejections, and sends each on to the topic `target` where one is given.

    ``open_producer`` is called at the first rejection.
    """

    def __init__(
        self, topic: str, target: str | None, open_producer: Callable[[], Producer], file: str | Path | None = None
    ) -> None:
        self.book = Rejections(file)
        self._topic = topic
        self._target = target
        self._open = open_producer
        self._producer: Producer | None = None
        self._unsent = False

    def send(self, partition: int, key: bytes | None, faulty: Faulty) -> None:
        """Send `faulty` of `partition` on, if there is where to. O(bytes)."""
        if self._target is None:
            return
        if self._producer is None:
            self._producer = self._open()
        value = faulty.raw[:_LARGEST]
        headers = self._describe(partition, faulty, cut=faulty.size > len(value))
        self._producer.send(self._target, value, key, headers)
        self._unsent = True

    def count(self, partition: int, faulty: Faulty) -> None:
        """Write `faulty` of `partition` down in the book. O(1) beside a file's letter."""
        rejection = Rejection(part_path(self._topic, partition), "message", faulty.offset, *faulty.fault)
        self.book.add(rejection, faulty.raw, faulty.size)

    def flush(self) -> None:
        """Wait until what was sent is stored; raises SourceError where it is not."""
        if self._producer is not None and self._unsent:
            self._producer.flush()
            self._unsent = False

    def close(self) -> None:
        """Flush, and let go of the file and the connections; a second call does nothing."""
        producer, self._producer = self._producer, None
        try:
            if producer is not None:
                producer.close()
        finally:
            self.book.close()

    def _describe(self, partition: int, faulty: Faulty, *, cut: bool) -> Headers:
        found = {
            "reason": str(faulty.fault.reason),
            "field": faulty.fault.field,
            "found": faulty.fault.found,
            "topic": self._topic,
            "partition": str(partition),
            "offset": str(faulty.offset),
        }
        headers = found | ({"bytes": str(faulty.size)} if cut else {})
        return [(name, text.encode("utf-8", "backslashreplace")) for name, text in headers.items()]
