"""An idempotent `Producer` with librdkafka's client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from streamsched.connectors.kafka.clients.confluent_connection import (
    Refusals,
    make_client,
    request_metadata,
    to_error,
    translate_errors,
)
from streamsched.errors import SourceError

if TYPE_CHECKING:
    from streamsched.connectors.kafka.clients.protocol import Headers
    from streamsched.connectors.kafka.kafka_settings import KafkaSettings

__all__ = ["ConfluentProducer"]

_LINGER_MS: Final = "5"  # time that small messages wait to share a request with others
_MOST_BYTES: Final = str(1 << 23)  # of one message; the broker's limit, by default 1 MiB, applies first
_RETRY_S: Final = 0.1  # interval of attempts while the queue is full


class ConfluentProducer:
    """A producer of librdkafka's client; see `streamsched.connectors.kafka.clients.protocol.Producer`."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._failure: SourceError | None = None
        own = {
            "enable.idempotence": "true",
            "linger.ms": _LINGER_MS,
            "message.max.bytes": _MOST_BYTES,
            "partitioner": "murmur2_random",  # as in Kafka's own clients: one partition a host
        }
        self._refusals = Refusals(settings)
        self._producer = make_client(Producer, settings, own, self._refusals)
        request_metadata(self._producer, settings, self._refusals)

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of `topic`; the broker may create the topic. Raises SourceError."""
        found = request_metadata(self._producer, self._settings, self._refusals, topic).topics[topic]
        if found.error is not None and found.error.code() != KafkaError.LEADER_NOT_AVAILABLE:
            raise to_error(found.error, self._settings, f"kafka://{topic}")
        return len(found.partitions)

    def create(self, topic: str, partitions: int) -> bool:
        """Create `topic` with `partitions`; return False if it exists already."""
        admin = make_client(AdminClient, self._settings, {}, self._refusals)
        answer = admin.create_topics([NewTopic(topic, partitions)], request_timeout=self._settings.patience_s)[topic]
        try:
            answer.result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return False
            raise to_error(error.args[0], self._settings, f"kafka://{topic}") from error
        return True

    def send(
        self,
        topic: str,
        value: bytes,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> None:
        """Queue a message; waits while too many are in flight. Raises the failure of an earlier message."""
        self._raise_failure()
        place: dict[str, Any] = {} if partition is None else {"partition": partition}
        while True:
            try:
                with translate_errors(self._settings, f"kafka://{topic}"):
                    self._producer.produce(
                        topic, value, key, headers=list(headers), on_delivery=self._delivered, **place
                    )
                break
            except BufferError:
                self._producer.poll(_RETRY_S)
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until all queued messages are stored. Raises SourceError if one is not."""
        left = self._producer.flush(self._settings.patience_s)
        self._raise_failure()
        self._refusals.check()
        if left:
            reason = f"{self._settings.servers}: {left} messages still not stored after {self._settings.patience_s:g} s"
            raise SourceError(f"kafka://{self._settings.topic}", reason, retriable=True)

    def close(self) -> None:
        """Flush, then close connections."""
        self.flush()

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._failure = self._failure or to_error(error, self._settings, f"kafka://{message.topic()}")

    def _raise_failure(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
