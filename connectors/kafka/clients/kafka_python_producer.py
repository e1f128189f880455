"""An idempotent `Producer` with kafka-python."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from streamsched.connectors.kafka.clients.kafka_python_consumer import (
    connect,
    library,
    python_options,
    translate_errors,
)
from streamsched.errors import SourceError

if TYPE_CHECKING:
    from streamsched.connectors.kafka.clients.protocol import Headers
    from streamsched.connectors.kafka.kafka_settings import KafkaSettings

__all__ = ["PythonProducer"]

_LINGER_MS: Final = 5  # time that small messages wait to share a request with others
_BATCH_BYTES: Final = 1 << 18
_MOST_BYTES: Final = 1 << 23  # of one message; the broker's limit, by default 1 MiB, applies first


class PythonProducer:
    """A producer of kafka-python; see `streamsched.connectors.kafka.clients.protocol.Producer`."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._failure: Any = None
        own = {
            "batch_size": _BATCH_BYTES,
            "enable_idempotence": True,
            "linger_ms": _LINGER_MS,
            "max_block_ms": round(settings.patience_s * 1000),
            "max_request_size": _MOST_BYTES,
        }
        options = python_options(settings, library.KafkaProducer.DEFAULT_CONFIG)
        self._producer = connect(settings, library.KafkaProducer, own | options)

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of `topic`; the broker may create the topic. Raises SourceError."""
        with translate_errors(self._settings, f"kafka://{topic}"):
            return len(self._producer.partitions_for(topic))

    def create(self, topic: str, partitions: int) -> bool:
        """Create `topic` with `partitions`; return False if it exists already."""
        options = python_options(self._settings, library.KafkaAdminClient.DEFAULT_CONFIG)
        admin = connect(self._settings, library.KafkaAdminClient, options)
        with translate_errors(self._settings, f"kafka://{topic}"):
            try:
                admin.create_topics({topic: {"num_partitions": partitions}}, wait_for_metadata=True)
            except library.errors.TopicAlreadyExistsError:
                return False
            finally:
                admin.close()
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
        with translate_errors(self._settings, f"kafka://{topic}"):
            sent = self._producer.send(topic, value, key, list(headers), partition)
        sent.add_errback(self._on_failure)

    def flush(self) -> None:
        """Wait until all queued messages are stored. Raises SourceError if one is not."""
        try:
            with translate_errors(self._settings):
                self._producer.flush(self._settings.patience_s)
        finally:
            self._raise_failure()

    def close(self) -> None:
        """Flush, then close connections."""
        try:
            self.flush()
        finally:
            with suppress(library.errors.KafkaTimeoutError):
                self._producer.close(timeout=self._settings.patience_s)

    def _on_failure(self, error: Any) -> None:
        self._failure = self._failure or error

    def _raise_failure(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            retriable = isinstance(failure, library.errors.KafkaError) and bool(failure.retriable)
            reason = f"{self._settings.servers}: a message could not be stored: {failure}"
            raise SourceError(f"kafka://{self._settings.topic}", reason, retriable=retriable) from failure
