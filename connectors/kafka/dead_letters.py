"""Rejected messages, sent to a topic of their own for whoever repairs their producer.

A dead letter has the key and the value of the rejected message; for a frame with some invalid rows, each of these rows
as a frame of one. Its headers ``reason``, ``field`` and ``found`` describe the fault, ``topic``, ``partition`` and
``offset`` the message, and ``bytes`` its length if the value is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, Generic

import numpy as np

from streamsched.connectors.kafka.clients.protocol import Headers, Messages, Producer, partition_path
from streamsched.connectors.kafka.decoding import RejectedMessage
from streamsched.connectors.kafka.message_keys import host_keys
from streamsched.connectors.reading.rejections import RecordProblem, Rejections
from streamsched.connectors.records import RecordType
from streamsched.connectors.source import Delivery, Records, Rejection
from streamsched.errors import InvalidRecord

_MOST_BYTES: Final = 900_000  # of a value: the default limit of brokers, 1 MiB, less space for headers


class DeadLetters(Generic[Records]):
    """Counts the rejections of a topic of `records`, and sends each to the topic `target` if one is given.

    ``open_producer`` is called at the first rejection.
    """

    def __init__(
        self,
        records: RecordType[Records],
        topic: str,
        target: str | None,
        open_producer: Callable[[], Producer],
        file: str | Path | None = None,
    ) -> None:
        self._type = records
        self.rejections = Rejections(file)
        self._topic = topic
        self._target = target
        self._open = open_producer
        self._producer: Producer | None = None
        self._unsent = False

    def send(self, partition: int, key: bytes | None, message: RejectedMessage) -> None:
        """Send `message` to the target topic, if there is one. O(bytes)."""
        if self._target is None:
            return
        if self._producer is None:
            self._producer = self._open()
        value = message.raw[:_MOST_BYTES]
        headers = self._describe(partition, message, cut=message.size > len(value))
        self._producer.send(self._target, value, key, headers)
        self._unsent = True

    def count(self, partition: int, message: RejectedMessage) -> None:
        """Count `message` as rejected, and write it to the dead-letter file, if there is one. O(bytes)."""
        rejection = Rejection(partition_path(self._topic, partition), "message", message.offset, *message.fault)
        self.rejections.add(rejection, message.raw, message.size)

    def send_all(self, messages: Messages, rejected: Iterable[RejectedMessage]) -> None:
        """Send the `rejected` ones of `messages`, each with its key. O(messages) if there are any."""
        keys: dict[int, bytes | None] = {}
        for message in rejected:
            keys = keys or dict(zip(messages.offsets, messages.keys, strict=True))
            self.send(messages.partition, keys[message.offset], message)

    def count_all(self, partition: int, rejected: Sequence[RejectedMessage]) -> None:
        """Count `rejected` messages, and write them to the dead-letter file, if there is one. O(bytes)."""
        for message in rejected:
            self.count(partition, message)
        if rejected:
            self.rejections.flush()

    def reject(self, partition: int, delivery: Delivery[Records], problems: Sequence[InvalidRecord]) -> None:
        """Send and count records of `delivery` as rejected, as JSON; their place is its last message. O(bytes)."""
        for problem in problems:
            raw = self._type.encode(delivery.records, problem.record)
            message = RejectedMessage(delivery.position.offset - 1, RecordProblem.of(problem), raw, len(raw))
            (host,) = host_keys(delivery.records.urls.take(np.array([problem.record], np.intp)))
            self.send(partition, host.encode(), message)
            self.count(partition, message)
        self.rejections.flush()
        self.flush()

    def flush(self) -> None:
        """Wait until the sent messages are stored. Raises SourceError if one is not."""
        if self._producer is not None and self._unsent:
            self._producer.flush()
            self._unsent = False

    def close(self) -> None:
        """Flush, then close the file and the connections; a second call does nothing."""
        producer, self._producer = self._producer, None
        try:
            if producer is not None:
                producer.close()
        finally:
            self.rejections.close()

    def _describe(self, partition: int, message: RejectedMessage, *, cut: bool) -> Headers:
        fields = {
            "reason": str(message.fault.reason),
            "field": message.fault.field,
            "found": message.fault.found,
            "topic": self._topic,
            "partition": str(partition),
            "offset": str(message.offset),
        }
        headers = fields | ({"bytes": str(message.size)} if cut else {})
        return [(name, text.encode("utf-8", "backslashreplace")) for name, text in headers.items()]
