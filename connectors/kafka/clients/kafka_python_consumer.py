"""kafka-python as a `Consumer`.

Its rebalance listeners run on the client's own input and output thread, where nothing may block; the callbacks of a
`RebalanceListener` do, so they are run on a thread of their own while that one sleeps and the caller waits in `poll`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from ssl import SSLError
from typing import Any, Final

from streamsched.connectors.kafka.clients.options import to_python
from streamsched.connectors.kafka.clients.protocol import Messages, OffsetOutOfRange, RebalanceListener
from streamsched.connectors.kafka.kafka_settings import KafkaSettings
from streamsched.errors import SettingsError, SourceError

__all__ = ["PythonConsumer", "connect", "library", "python_options", "translate_errors"]

library: Any = import_module("kafka")  # the stubs that a type checker may know are of another version
_PARTITION_BYTES: Final = 4 << 20  # fetched of a partition at a time: a decode of 40,000 small messages
_NAP_S: Final = 0.005  # between two looks whether a listener is done
_LOOK_MS: Final = 100  # that a position may take to be known
_NO_HEADERS: Final[list[Any]] = []

logging.getLogger("kafka").addHandler(logging.NullHandler())  # what matters is raised; a log is for who sets one up


@contextmanager
def translate_errors(settings: KafkaSettings, place: str | None = None) -> Iterator[None]:
    """Raise what kafka-python raises as a SourceError about `place`, the topic where None."""
    try:
        yield
    except library.errors.KafkaError as error:
        reason = str(error) or type(error).__name__
        where = place or f"kafka://{settings.topic}"
        raise SourceError(where, f"{settings.servers}: {reason}", retriable=bool(error.retriable)) from error
    except (OSError, ValueError, AssertionError) as error:  # files of certificates, and settings that do not fit
        if isinstance(error, SourceError | SettingsError):
            raise
        raise SourceError(place or f"kafka://{settings.topic}", f"{settings.servers}: {error}") from error


class _ConnectionErrors(logging.Handler):
    """Hears why connections fail while the library tries them one after the other, which it only logs."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.heard: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        for cause in record.args if isinstance(record.args, tuple) else ():
            if isinstance(cause, BaseException) and (self.heard is None or not _passes(cause)):
                self.heard = cause


def _passes(cause: BaseException) -> bool:
    """True where waiting may help: a broker that is away, not one that refuses us."""
    refusals = (library.errors.SaslAuthenticationFailedError, library.errors.UnsupportedSaslMechanismError, SSLError)
    return not isinstance(cause, refusals)


def connect(settings: KafkaSettings, make: Callable[..., Any], told: Mapping[str, Any]) -> Any:
    """Return what `make`, a client's constructor, makes of the settings `told`, connected.

    Raises SourceError that says what the last attempt failed with; no connection is left open then.
    """
    opened: list[Any] = []

    def build(**configs: Any) -> Any:
        opened.append(library.net.compat.KafkaNetClient(**configs))
        return opened[-1]

    ear = _ConnectionErrors()
    logger = logging.getLogger("kafka.net")
    logger.addHandler(ear)
    try:
        with translate_errors(settings):
            return make(**told, kafka_client=build)
    except SourceError as error:
        for one in opened:
            one.close()
        if ear.heard is None:
            raise
        reason = f"{settings.servers}: {ear.heard}"
        raise SourceError(error.path, reason, retriable=_passes(ear.heard)) from error
    finally:
        logger.removeHandler(ear)


def python_options(settings: KafkaSettings, options: Mapping[str, str], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return `options` and what every client of kafka-python is told, by its names."""
    patience_ms = round(settings.patience_s * 1000)
    common = {"bootstrap_servers": settings.servers.split(","), "bootstrap_timeout_ms": patience_ms}
    calm = {"reconnect_backoff_max_ms": 1_000, "metrics_enabled": False}  # a broker that is back is found within 1 s
    return {name: value for name, value in (common | calm).items() if name in defaults} | to_python(options, defaults)


class PythonConsumer:
    """A consumer of kafka-python; see `streamsched.connectors.kafka.clients.protocol.Consumer`."""

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
        told = python_options(settings, settings.options, library.KafkaConsumer.DEFAULT_CONFIG)
        self._consumer = connect(settings, library.KafkaConsumer, own | told)

    def partitions(self) -> list[int]:
        """Return the numbers of the topic's partitions; raises SourceError where there is no such topic."""
        with translate_errors(self._settings):
            found = self._consumer.partitions_for_topic(self._topic)
        if not found:
            raise SourceError(f"kafka://{self._topic}", f"{self._settings.servers} has no such topic: create it")
        return sorted(found)

    def bounds(self, partitions: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Return the first offset in the log and the next to be written, for each of `partitions`."""
        asked = [self._part(one) for one in partitions]
        patience_ms = self._settings.patience_s * 1000
        with translate_errors(self._settings):
            first = self._consumer.beginning_offsets(asked, timeout_ms=patience_ms)
            last = self._consumer.end_offsets(asked, timeout_ms=patience_ms)
        return {one.partition: (first[one], last[one]) for one in asked}

    def committed(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return the offsets that the group has committed of `partitions`; those without one are left out."""
        found: dict[int, int] = {}
        for one in partitions:
            with translate_errors(self._settings):
                offset = self._consumer.committed(self._part(one), timeout_ms=self._settings.patience_s * 1000)
            if offset is not None and offset >= 0:
                found[one] = offset
        return found

    def assign(self, starts: Mapping[int, int]) -> None:
        """Read the partitions in `starts`, each from the offset given."""
        self._consumer.assign([self._part(one) for one in starts])
        for one, offset in starts.items():
            self.seek(one, offset)

    def subscribe(self, listener: RebalanceListener) -> None:
        """Join the group; the partitions it gives come and go by way of `listener`."""
        self._consumer.subscribe([self._topic], listener=_ListenerAdapter(self, listener))

    def seek(self, partition: int, offset: int) -> None:
        """Read `partition`, one that is assigned, from `offset` on."""
        self._consumer.seek(self._part(partition), offset)

    def poll(self, timeout_s: float, limit: int) -> list[Messages]:
        """Return up to `limit` messages as soon as there are some, none after `timeout_s`; raises OffsetOutOfRange."""
        try:
            with translate_errors(self._settings):
                found = self._consumer.poll(timeout_ms=timeout_s * 1000, max_records=limit)
        except SourceError as error:
            cause: Any = error.__cause__
            if isinstance(cause, library.errors.OffsetOutOfRangeError) and cause.args:
                raise OffsetOutOfRange(next(iter(cause.args[0])).partition) from error
            if error.retriable:  # gone for now: the client asks again by itself
                return []
            raise
        return [_to_columns(part.partition, records) for part, records in found.items() if records]

    def position(self, partition: int) -> int | None:
        """Return the offset to be read next, past gaps at the end of the log; None while it is not known."""
        with translate_errors(self._settings):
            offset: int | None = self._consumer.position(self._part(partition), timeout_ms=_LOOK_MS)
        return offset

    def end(self, partition: int) -> int | None:
        """Return the next offset to be written as last heard, without asking; None where nothing was heard."""
        offset: int | None = self._consumer.highwater(self._part(partition))
        return offset

    def pause(self, partitions: Iterable[int]) -> None:
        """Fetch nothing of `partitions` until `resume`."""
        self._consumer.pause(*map(self._part, partitions))

    def resume(self, partitions: Iterable[int]) -> None:
        """Fetch `partitions` again."""
        self._consumer.resume(*map(self._part, partitions))

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Store the group's offsets and wait for the answer."""
        told = {self._part(one): library.OffsetAndMetadata(offset, "", -1) for one, offset in offsets.items()}
        with translate_errors(self._settings):
            self._consumer.commit(told, timeout_ms=self._settings.patience_s * 1000)

    def close(self) -> None:
        """Leave the group and let go of connections."""
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
    """Tells a `RebalanceListener` of kafka-python's rebalances, on a thread on which it may ask the consumer and wait."""

    def __init__(self, consumer: PythonConsumer, listener: RebalanceListener) -> None:
        self._consumer = consumer
        self._listener = listener

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        await _run_in_thread(partial(self._start, sorted(part.partition for part in assigned)))

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        gone = sorted(part.partition for part in revoked)
        await _run_in_thread(partial(self._listener.on_revoked, gone, lost=False))

    async def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        gone = sorted(part.partition for part in lost)
        await _run_in_thread(partial(self._listener.on_revoked, gone, lost=True))

    def _start(self, partitions: list[int]) -> None:
        for partition, offset in self._listener.on_assigned(partitions).items():
            self._consumer.seek(partition, offset)


async def _run_in_thread(work: Callable[[], None]) -> None:
    """Run `work` on a thread of its own while the client's loop goes on, heartbeats included."""
    thread = threading.Thread(target=work, name="streamsched-rebalance", daemon=True)
    thread.start()
    while thread.is_alive():
        await library.net.selector.KernelEvent("_sleep", _NAP_S)
