"""Chooses the client library, and opens its consumer or producer."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from streamsched.connectors.kafka.clients.protocol import Consumer, Producer
from streamsched.connectors.kafka.kafka_settings import KafkaSettings, check_credentials
from streamsched.errors import SettingsError

_MODULES: Final = {"confluent": "confluent_kafka", "kafka-python": "kafka"}  # the faster first


def choose_client(asked: str) -> str:
    """Return the client to use; "auto" is the fastest installed one. Raises SettingsError if it is not installed.

    >>> choose_client("kafka-python")
    'kafka-python'
    """
    installed = [name for name, module in _MODULES.items() if find_spec(module) is not None]
    if asked == "auto" and installed:
        return installed[0]
    if asked not in installed:
        raise SettingsError("client", asked, "an installed client: pip install streamsched[confluent] adds one")
    return asked


def open_consumer(settings: KafkaSettings) -> Consumer:
    """Return a consumer of the client in `settings`. Raises SourceError, SettingsError."""
    check_credentials(settings)
    # Imported on demand: one may not be installed, and both take time that reading files does not need.
    if choose_client(settings.client) == "confluent":
        from streamsched.connectors.kafka.clients.confluent import ConfluentConsumer  # noqa: PLC0415

        return ConfluentConsumer(settings)
    from streamsched.connectors.kafka.clients.kafka_python import PythonConsumer  # noqa: PLC0415

    return PythonConsumer(settings)


def open_producer(settings: KafkaSettings) -> Producer:
    """Return a connected producer of the client in `settings`. Raises SourceError, SettingsError."""
    check_credentials(settings)
    if choose_client(settings.client) == "confluent":
        from streamsched.connectors.kafka.clients.confluent import ConfluentProducer  # noqa: PLC0415

        return ConfluentProducer(settings)
    from streamsched.connectors.kafka.clients.kafka_python import PythonProducer  # noqa: PLC0415

    return PythonProducer(settings)
