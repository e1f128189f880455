"""A `Consumer` and a `Producer` with kafka-python.

The library calls its rebalance listeners on its I/O thread, which must not block. The callbacks of a
`RebalanceListener` block, so they run on a separate thread while the I/O thread sleeps and the caller waits in `poll`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from ssl import SSLError
from typing import Any, Final
from uuid import UUID

from streamsched.connectors.kafka.clients.options import python_name, shown_value, to_python
from streamsched.connectors.kafka.clients.protocol import (
    Consumer,
    Headers,
    Messages,
    OffsetOutOfRange,
    Producer,
    RebalanceListener,
    TopicIdentity,
    keep_trying,
)
from streamsched.connectors.kafka.kafka_settings import KafkaSettings
from streamsched.errors import SettingsError, SourceError, StreamschedError

library: Any = import_module("kafka")  # type checkers may know stubs of another version
_PARTITION_BYTES: Final = 4 << 20  # of one fetch from a partition: about 40,000 small messages
_ALL_OPTIONS: Final = frozenset().union(
    *(kind.DEFAULT_CONFIG for kind in (library.KafkaConsumer, library.KafkaProducer, library.KafkaAdminClient))
)
_FIRST_TRY_S: Final = 0.5  # of connecting
_NAP_S: Final = 0.005  # interval of checks whether a listener has returned
_POSITION_MS: Final = 100  # timeout of a request for a position
_NO_HEADERS: Final[list[Any]] = []
_CODEC: Final = "codec"  # in errors about the setting compression_type
_NO_ID: Final = str(UUID(int=0))  # of a topic, from brokers that give none

logging.getLogger("kafka").addHandler(logging.NullHandler())  # silent by default: errors are raised


@contextmanager
def translate_errors(settings: KafkaSettings, place: str | None = None) -> Iterator[None]:
    """Raise errors of kafka-python as a SourceError about `place`, by default the topic."""
    try:
        yield
    except library.errors.KafkaConfigurationError as error:
        raise _to_settings_error(error, settings.options) from error
    except library.errors.KafkaError as error:
        reason = str(error) or type(error).__name__
        where = place or f"kafka://{settings.topic}"
        raise SourceError(where, f"{settings.servers}: {reason}", retriable=bool(error.retriable)) from error
    except (OSError, ValueError, AssertionError, RuntimeError) as error:  # certificate files, and invalid settings
        if isinstance(error, SourceError | SettingsError):
            raise
        if _CODEC in str(error):
            raise _to_settings_error(error, settings.options) from error
        if isinstance(error, RuntimeError):
            raise
        raise SourceError(place or f"kafka://{settings.topic}", f"{settings.servers}: {error}") from error


def _to_settings_error(error: Exception, options: Mapping[str, str]) -> SettingsError:
    """Return kafka-python's error about a setting as a SettingsError that names it, if the library does."""
    text = str(error).replace(_CODEC, "compression_type")
    for option, value in options.items():
        if python_name(option) in text:
            return SettingsError(option, shown_value(option, value), "a value that kafka-python accepts")
    return SettingsError("options", str(error), "settings that kafka-python accepts together")


class _ConnectionErrors(logging.Handler):
    """Collects why connections failed, which the library only logs while it tries one after the other."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.reason: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        for cause in record.args if isinstance(record.args, tuple) else ():
            if isinstance(cause, BaseException) and (self.reason is None or not _is_transient(cause)):
                self.reason = cause


def _is_transient(cause: BaseException) -> bool:
    """Return whether waiting may help: for an unreachable broker, not for one that refuses the connection."""
    refusals = (library.errors.SaslAuthenticationFailedError, library.errors.UnsupportedSaslMechanismError, SSLError)
    return not isinstance(cause, refusals)


def connect(settings: KafkaSettings, make: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    """Return the connected client that the constructor `make` returns for `options`.

    Raises SourceError at once if the brokers refuse the connection, after the patience if none answers. The library
    tries again whatever the reason, so its first attempts are short.
    """

    def attempt(timeout_s: float) -> Any:
        return _attempt(settings, make, {"bootstrap_timeout_ms": round(timeout_s * 1000), **options})

    return keep_trying(settings.patience_s, _FIRST_TRY_S, attempt)


def _attempt(settings: KafkaSettings, make: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    """Connect once. Raises SourceError with the reason of the last failure, and closes all connections."""
    opened: list[Any] = []

    def build(**configs: Any) -> Any:
        client = library.net.compat.KafkaNetClient(**configs)
        # The library drops this setting on its way here: a consumer would make a topic that was deleted again.
        client.cluster.config["allow_auto_create_topics"] = configs.get("allow_auto_create_topics", True)
        opened.append(client)
        return client

    errors = _ConnectionErrors()
    logger = logging.getLogger("kafka.net")
    logger.addHandler(errors)
    try:
        with translate_errors(settings):
            return make(**options, kafka_client=build)
    except StreamschedError as error:
        for one in opened:
            one.close()
        if errors.reason is None or not isinstance(error, SourceError):
            raise
        is_transient = _is_transient(errors.reason)
        # The library drops the broker's refusal if the connection ends with it, as it often does over TLS.
        hint = "; authentication may have failed" if is_transient and "sasl.username" in settings.options else ""
        raise SourceError(error.path, f"{settings.servers}: {errors.reason}{hint}", retriable=is_transient) from error
    finally:
        logger.removeHandler(errors)


def python_options(settings: KafkaSettings, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `settings` and what all clients of kafka-python share, by its names.

    `defaults`: all settings of the client to be made.
    """
    common = {"bootstrap_servers": settings.servers.split(",")}
    more = {"reconnect_backoff_max_ms": 1_000, "metrics_enabled": False}  # a returning broker is found within 1 s
    shared = {name: value for name, value in (common | more).items() if name in defaults}
    return shared | to_python(settings.options, defaults, _ALL_OPTIONS)


class PythonConsumer(Consumer):
    """A consumer of kafka-python."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._topic = settings.topic
        own = {
            "allow_auto_create_topics": False,
            "auto_offset_reset": "none",
            "enable_auto_commit": False,
            "group_id": settings.group,
            "isolation_level": "read_committed",
            "max_partition_fetch_bytes": _PARTITION_BYTES,
        }
        options = python_options(settings, library.KafkaConsumer.DEFAULT_CONFIG)
        if settings.group is None:
            options.pop("group_instance_id", None)  # the library refuses it
        self._admin: Any = None
        self._consumer = connect(settings, library.KafkaConsumer, own | options)

    def partitions(self) -> list[int]:
        with translate_errors(self._settings):
            found = self._consumer.partitions_for_topic(self._topic)
        if not found:
            raise SourceError(f"kafka://{self._topic}", f"{self._settings.servers} has no such topic: create it")
        return sorted(found)

    def identify(self, timeout_s: float) -> TopicIdentity | None:
        if self._admin is None:
            own = {"request_timeout_ms": round(timeout_s * 1000)}
            options = python_options(self._settings, library.KafkaAdminClient.DEFAULT_CONFIG)
            self._admin = connect(self._settings, library.KafkaAdminClient, options | own)
        with translate_errors(self._settings):
            (found,) = self._admin.describe_topics([self._topic])
        if found["error_code"] == library.errors.UnknownTopicOrPartitionError.errno:
            return None
        numbers = sorted(one["partition_index"] for one in found["partitions"])
        topic_id = str(found.get("topic_id") or _NO_ID)
        return TopicIdentity("" if topic_id == _NO_ID else topic_id, numbers)

    def bounds(self, partitions: Iterable[int]) -> dict[int, tuple[int, int]]:
        parts = [self._part(one) for one in partitions]
        patience_ms = self._settings.patience_s * 1000
        with translate_errors(self._settings):
            first = self._consumer.beginning_offsets(parts, timeout_ms=patience_ms)
            last = self._consumer.end_offsets(parts, timeout_ms=patience_ms)
        return {one.partition: (first[one], last[one]) for one in parts}

    def committed(self, partitions: Iterable[int]) -> dict[int, int]:
        found: dict[int, int] = {}
        for one in partitions:
            with translate_errors(self._settings):
                offset = self._consumer.committed(self._part(one), timeout_ms=self._settings.patience_s * 1000)
            if offset is not None and offset >= 0:
                found[one] = offset
        return found

    def assign(self, starts: Mapping[int, int]) -> None:
        self._consumer.assign([self._part(one) for one in starts])
        for one, offset in starts.items():
            self.seek(one, offset)

    def subscribe(self, listener: RebalanceListener) -> None:
        self._consumer.subscribe([self._topic], listener=_ListenerAdapter(self, listener))

    def seek(self, partition: int, offset: int) -> None:
        self._consumer.seek(self._part(partition), offset)

    def poll(self, timeout_s: float, limit: int) -> list[Messages]:
        # The library forgets a rebalance that began as the topic's partitions changed when a poll ends amid it: the
        # member then owns nothing and is silent for good. Java's client had the same fault (KAFKA-9815).
        coordinator = self._consumer._coordinator  # noqa: SLF001  # the library offers no public way
        if coordinator.rejoining:
            coordinator.request_rejoin()
        try:
            with translate_errors(self._settings):
                found = self._consumer.poll(timeout_ms=timeout_s * 1000, max_records=limit)
        except SourceError as error:
            cause: Any = error.__cause__
            if isinstance(cause, library.errors.OffsetOutOfRangeError) and cause.args:
                raise OffsetOutOfRange(next(iter(cause.args[0])).partition) from error
            if error.retriable:  # the client tries again by itself
                return []
            raise
        return [_to_columns(part.partition, records) for part, records in found.items() if records]

    def position(self, partition: int) -> int | None:
        with translate_errors(self._settings):
            offset: int | None = self._consumer.position(self._part(partition), timeout_ms=_POSITION_MS)
        return offset

    def end(self, partition: int) -> int | None:
        offset: int | None = self._consumer.highwater(self._part(partition))
        return offset

    def pause(self, partitions: Iterable[int]) -> None:
        self._consumer.pause(*map(self._part, partitions))

    def resume(self, partitions: Iterable[int]) -> None:
        self._consumer.resume(*map(self._part, partitions))

    def commit(self, offsets: Mapping[int, int]) -> None:
        committed = {self._part(one): library.OffsetAndMetadata(offset, "", -1) for one, offset in offsets.items()}
        with translate_errors(self._settings):
            self._consumer.commit(committed, timeout_ms=self._settings.patience_s * 1000)

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()
        with translate_errors(self._settings):
            self._consumer.close(autocommit=False, timeout_ms=self._settings.patience_s * 1000)

    def _part(self, partition: int) -> Any:
        return library.TopicPartition(self._topic, partition)


def _to_columns(partition: int, records: list[Any]) -> Messages:
    headers = [record.headers for record in records]
    return Messages(
        partition,
        [record.offset for record in records],
        [record.key for record in records],
        [record.value for record in records],
        headers if any(headers) else _NO_HEADERS,
    )


class _ListenerAdapter(library.consumer.subscription_state.AsyncConsumerRebalanceListener):  # type: ignore[misc]  # has no types
    """Calls a `RebalanceListener` at kafka-python's rebalances, on a thread that may use the consumer and block."""

    def __init__(self, consumer: PythonConsumer, listener: RebalanceListener) -> None:
        self._consumer = consumer
        self._listener = listener

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        await _run_in_thread(partial(self._start, sorted(part.partition for part in assigned)))

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        numbers = sorted(part.partition for part in revoked)
        await _run_in_thread(partial(self._listener.on_revoked, numbers, lost=False))

    async def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        numbers = sorted(part.partition for part in lost)
        await _run_in_thread(partial(self._listener.on_revoked, numbers, lost=True))

    def _start(self, partitions: list[int]) -> None:
        for partition, offset in self._listener.on_assigned(partitions).items():
            self._consumer.seek(partition, offset)


async def _run_in_thread(work: Callable[[], None]) -> None:
    """Run `work` on a separate thread while the client's event loop continues, heartbeats included."""
    thread = threading.Thread(target=work, name="streamsched-rebalance", daemon=True)
    thread.start()
    while thread.is_alive():
        await library.net.selector.KernelEvent("_sleep", _NAP_S)


_LINGER_MS: Final = 5  # time that small messages wait to share a request with others
_BATCH_BYTES: Final = 1 << 18
_MOST_BYTES: Final = 1 << 23  # of one message; the broker's limit, by default 1 MiB, applies first


class PythonProducer(Producer):
    """A producer of kafka-python."""

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
        with translate_errors(self._settings, f"kafka://{topic}"):
            return len(self._producer.partitions_for(topic))

    def create(self, topic: str, partitions: int) -> bool:
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
        self, topic: str, value: bytes, key: bytes | None = None, headers: Headers = (), partition: int | None = None
    ) -> None:
        self._raise_failure()
        with translate_errors(self._settings, f"kafka://{topic}"):
            sent = self._producer.send(topic, value, key, list(headers), partition)
        sent.add_errback(self._on_failure)

    def flush(self) -> None:
        try:
            with translate_errors(self._settings):
                self._producer.flush(self._settings.patience_s)
        finally:
            self._raise_failure()

    def close(self) -> None:
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
