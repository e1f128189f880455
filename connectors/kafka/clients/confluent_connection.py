"""What consumers and producers of librdkafka share: settings, the first contact with the brokers, and errors."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from streamsched.connectors.kafka.clients.options import shown_value, to_confluent
from streamsched.errors import SettingsError, SourceError

if TYPE_CHECKING:
    from streamsched.connectors.kafka.kafka_settings import KafkaSettings

__all__ = ["TRANSIENT", "Refusals", "make_client", "request_metadata", "to_error", "translate_errors"]

Client = TypeVar("Client")

TRANSIENT: Final = (  # errors that pass, or that an administrator resolves while we wait
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001  its API
    KafkaError._TRANSPORT,  # noqa: SLF001
    KafkaError._RESOLVE,  # noqa: SLF001
    KafkaError._TIMED_OUT,  # noqa: SLF001
    KafkaError._MAX_POLL_EXCEEDED,  # noqa: SLF001
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
)
_REFUSALS: Final = (KafkaError._AUTHENTICATION, KafkaError._SSL)  # noqa: SLF001
_FIRST_TRY_S: Final = 0.25  # of the first request; each further one waits twice as long, up to the patience in all


@contextmanager
def translate_errors(settings: KafkaSettings, place: str | None = None) -> Iterator[None]:
    """Raise errors of librdkafka's client as a SourceError about `place`, by default the topic."""
    try:
        yield
    except KafkaException as error:
        raise to_error(error.args[0], settings, place) from error


def to_error(error: Any, settings: KafkaSettings, place: str | None = None) -> SourceError:
    """Return a KafkaError as a SourceError."""
    retriable = bool(error.retriable()) or error.code() in TRANSIENT
    reason = f"{settings.servers}: {error.name()}: {error.str()}"
    return SourceError(place or f"kafka://{settings.topic}", reason, retriable=retriable)


class Refusals:
    """The callback for errors of connections: keeps the first permanent one, such as a refused password."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._first: SourceError | None = None

    def __call__(self, error: Any) -> None:
        """Keep `error` if waiting cannot help."""
        if self._first is None and (error.fatal() or error.code() in _REFUSALS):
            self._first = to_error(error, self._settings)

    def check(self) -> None:
        """Raise the error that was kept, once. Raises SourceError."""
        if self._first is not None:
            first, self._first = self._first, None
            raise first


def make_client(
    make: Callable[[dict[str, Any]], Client], settings: KafkaSettings, own: Mapping[str, Any], refusals: Refusals
) -> Client:
    """Return the client that the constructor `make` returns for `own` settings, which those of `settings` override.

    Raises SettingsError that names the setting if librdkafka does not accept it.
    """
    quiet = {"reconnect.backoff.max.ms": "1000", "log_level": "0"}  # errors are raised, not printed
    common = {"bootstrap.servers": settings.servers, **quiet}
    try:
        return make({**common, **own, **to_confluent(settings.options), "error_cb": refusals})
    except (KafkaException, TypeError, ValueError) as error:
        raise _to_settings_error(error, settings.options) from error


def request_metadata(client: Any, settings: KafkaSettings, refusals: Refusals, topic: str | None = None) -> Any:
    """Return the brokers' answer about `topic`, by default all topics.

    Raises SourceError at once if the brokers refuse the connection, after the patience if none answers. A request that
    waits does not see a refusal, so it waits a short time at first.
    """
    deadline = time.monotonic() + settings.patience_s
    asked = {} if topic is None else {"topic": topic}
    try_s = _FIRST_TRY_S
    while True:
        try:
            with translate_errors(settings, None if topic is None else f"kafka://{topic}"):
                return client.list_topics(**asked, timeout=max(min(try_s, deadline - time.monotonic()), 0.01))
        except SourceError as error:
            client.poll(0)  # calls back with the errors received meanwhile
            refusals.check()
            if not error.retriable or time.monotonic() >= deadline:
                raise
        try_s *= 2


def _to_settings_error(error: Exception, options: Mapping[str, str]) -> SettingsError:
    """Return librdkafka's error about a setting as a SettingsError that names it."""
    found = error.args[0]
    reason = found.str() if isinstance(found, KafkaError) else str(found)
    named = re.search(r'property:? "([^"]+)"', reason)
    if named is None:
        return SettingsError("options", reason, "settings that librdkafka accepts together")
    if reason.startswith("No such"):
        return SettingsError(named[1], "…", "a setting of librdkafka")  # the value may be a misspelt password's
    return SettingsError(named[1], shown_value(named[1], options.get(named[1])), "a value that librdkafka accepts")
