"""Tells a topic from another that was made under its name after it had been deleted.

Offsets begin again in the other topic, so a position in the one that was read means nothing there. Brokers give each
topic an id, from Kafka 2.8 on. The watch asks for it when reading begins, then a second after messages have been read,
and every half a minute while there are none: deliveries of that second may be of the other topic.
"""

from __future__ import annotations

import time
from typing import Final

from streamsched.connectors.kafka.clients.protocol import Consumer, keep_trying
from streamsched.connectors.kafka.kafka_settings import KafkaSettings
from streamsched.errors import SourceError

_BUSY_S: Final = 1.0  # between two requests while messages arrive
_IDLE_S: Final = 30.0
_REQUEST_S: Final = 1.0  # timeout of a request: the caller waits in `poll`
_LOOKS: Final = 2  # that find no topic before it counts as deleted: a broker that starts may not know it yet


class TopicWatch:
    """Compares the topic of a `consumer` with the one that had its name when reading began.

    ``topic_id``: its id, "" while unknown; ``partitions``: of the topic that has the name, when last asked.
    """

    def __init__(self, settings: KafkaSettings, consumer: Consumer) -> None:
        self.topic_id = ""
        self.partitions: list[int] = []
        self._settings = settings
        self._consumer = consumer
        self._asked = 0.0
        self._has_read = False
        self._missing = 0

    def begin(self) -> None:
        """Ask for the topic that is read from now on. One request; it stays unknown if the brokers do not tell."""
        self.topic_id = ""
        self._asked = time.monotonic()
        try:
            found = keep_trying(self._settings.patience_s, _REQUEST_S, self._consumer.identify)
        except SourceError:
            return
        if found is not None:
            self.topic_id, self.partitions = found

    def is_other(self, *, has_read: bool, at_once: bool = False) -> bool:
        """Return whether another topic has the name now, asked for if it is time or `at_once`; `begin` then.

        Raises SourceError if no topic has it.
        """
        self._has_read |= has_read
        wait_s = _BUSY_S if self._has_read or self._missing else _IDLE_S
        if not self.topic_id or (not at_once and time.monotonic() < self._asked + wait_s):
            return False
        self._asked = time.monotonic()
        try:
            found = self._consumer.identify(_REQUEST_S)
        except SourceError:
            return False  # asked again later
        self._has_read = False
        self._missing = 0 if found is not None else self._missing + 1
        if found is None and (at_once or self._missing == _LOOKS):
            reason = f"{self._settings.servers} has the topic no more: it was deleted while it was read"
            raise SourceError(f"kafka://{self._settings.topic}", reason)
        if found is None or found.topic_id in ("", self.topic_id):
            return False
        self.partitions = found.partitions
        return True
