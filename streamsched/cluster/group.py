"""The consumer group of the outcomes' topic decides who owns which partition, and finds out who has died.

A host is a member of the group that reads nothing by it: its partitions are paused, and each is read by a consumer of
its own. The client id of a member is the address of its host, so the group also says whom to ask for a partition.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Self

import confluent_kafka as library
from confluent_kafka import OFFSET_END, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from streamsched.connectors.kafka.clients.confluent import (
    TRANSIENT,
    Refusals,
    make_client,
    request_metadata,
    to_error,
    translate_errors,
)
from streamsched.connectors.kafka.clients.protocol import keep_trying
from streamsched.connectors.kafka.kafka_settings import KafkaSettings
from streamsched.errors import SettingsError, SourceError
from streamsched.service.event_log import LOG

_PROTOCOL: Final = "group.protocol"
_LOOK_S: Final = 1.0  # between two looks at who owns what
# After a timeout of its own, librdkafka's client aborts the process when the broker is back (its issue 4605).
_NEVER_S: Final = 3_600.0
_STOP_S: Final = 1.0
_NAMED: Final = 5  # members that an error names
_SOON_S: Final = 0.1  # the same after a partition's owner did not answer as one
Numbers = list[int]


class GroupMember:
    """A member of the group in `settings` whose client id is `address`. For one thread.

    `poll` and `close` call `on_assigned` with the partitions that have come, `on_revoked` with those that go once it
    returns, and `on_lost` with those that others may already have.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        address: str,
        on_assigned: Callable[[Numbers], None],
        on_revoked: Callable[[Numbers], None],
        on_lost: Callable[[Numbers], None],
    ) -> None:
        assert settings.group is not None
        self._settings = settings
        self._refusals = Refusals(settings)
        own = {
            "group.id": settings.group,
            "client.id": address,
            "enable.auto.commit": "false",
            "auto.offset.reset": "latest",
            "allow.auto.create.topics": "false",
        }
        if settings.options.get(_PROTOCOL, "classic") == "classic":
            own["partition.assignment.strategy"] = "cooperative-sticky"
        self._consumer = make_client(library.Consumer, settings, own, self._refusals)

        def assign(consumer: Any, parts: list[Any]) -> None:
            consumer.incremental_assign([TopicPartition(one.topic, one.partition, OFFSET_END) for one in parts])
            consumer.pause(parts)
            on_assigned(sorted(one.partition for one in parts))

        def revoke(consumer: Any, parts: list[Any]) -> None:
            on_revoked(sorted(one.partition for one in parts))
            consumer.incremental_unassign(parts)

        def lose(consumer: Any, parts: list[Any]) -> None:
            on_lost(sorted(one.partition for one in parts))
            consumer.incremental_unassign(parts)

        with translate_errors(settings):
            self._consumer.subscribe([settings.topic], on_assign=assign, on_revoke=revoke, on_lost=lose)

    def poll(self, timeout_s: float) -> None:
        """Keep the membership for `timeout_s`; partitions come and go meanwhile. Raises SourceError if it cannot be."""
        message = self._consumer.poll(timeout_s)
        self._refusals.check()
        error = None if message is None else message.error()
        if error is not None and error.code() not in TRANSIENT and not error.retriable():
            raise to_error(error, self._settings)

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Commit `offsets` by partition, for displays of the lag only: a shard starts where its image says."""
        parts = [TopicPartition(self._settings.topic, number, offset) for number, offset in offsets.items()]
        if parts:
            try:
                self._consumer.commit(offsets=parts, asynchronous=True)
            except KafkaException as error:
                LOG.warning("not committed", reason=error.args[0].str())

    def close(self) -> None:
        """Leave the group, after a last call of `on_revoked`."""
        with translate_errors(self._settings):
            self._consumer.close()


def count_partitions(settings: KafkaSettings) -> int:
    """Return how many partitions the topic has. Raises SourceError, SettingsError if there is no such topic."""
    refusals = Refusals(settings)
    admin = make_client(AdminClient, settings, {}, refusals)
    found = request_metadata(admin, settings, refusals).topics.get(settings.topic)
    if found is None or not found.partitions:
        raise SourceError(f"kafka://{settings.topic}", f"{settings.servers} has no such topic: create it")
    return len(found.partitions)


def add_partitions(settings: KafkaSettings, count: int) -> None:
    """Let the topic have `count` partitions, if it has fewer. Raises SourceError."""
    if count_partitions(settings) >= count:
        return
    admin = make_client(AdminClient, settings, {}, Refusals(settings))
    with translate_errors(settings):
        admin.create_partitions([NewPartitions(settings.topic, count)])[settings.topic].result(settings.patience_s)
    end = time.monotonic() + settings.patience_s
    while count_partitions(settings) < count:
        if time.monotonic() > end:
            raise SourceError(f"kafka://{settings.topic}", f"{count} partitions were made and are not there yet")
        time.sleep(_SOON_S)


def check_no_members(settings: KafkaSettings) -> None:
    """Raise SettingsError if the group has members, SourceError if the brokers do not say."""
    members = GroupOwners(settings, 0).members()
    if members:
        names = ", ".join(sorted(member.client_id for member in members)[:_NAMED])
        raise SettingsError(
            "group", f"{settings.group} with {len(members)} members ({names})", "no host: stop all first"
        )


class GroupOwners:
    """Who owns which partition of the topic, by the group: a thread looks every second. A context manager.

    ``count``: partitions.
    """

    def __init__(self, settings: KafkaSettings, count: int) -> None:
        self.count = count
        self._settings = settings
        self._admin = make_client(AdminClient, settings, {}, Refusals(settings))
        self._asked: Any = None  # the future of a request that is not answered yet
        self._owners: dict[int, str] = {}
        self._wanted = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._look_regularly, name="streamsched owners", daemon=True)

    def owner(self, partition: int) -> str | None:
        """Return the address of the owner, HOST:PORT; None if there is none now."""
        return self._owners.get(partition)

    def lost(self, partition: int) -> None:
        """Note that its owner did not answer as one: look soon."""
        self._owners.pop(partition, None)
        self._wanted.set()

    def look(self) -> dict[int, str]:
        """Return the address of each partition's owner now. Raises SourceError, SettingsError for a foreign group."""
        owners: dict[int, str] = {}
        for member in self.members():
            for part in member.assignment.topic_partitions:
                if part.topic == self._settings.topic:
                    owners[part.partition] = member.client_id
        if any(":" not in address for address in owners.values()):
            expected = "a group of cluster hosts, whose client ids are addresses HOST:PORT"
            raise SettingsError("group", self._settings.group, expected)
        return owners

    def members(self) -> list[Any]:
        """Return the members of the group now. Raises SourceError."""
        found: list[Any] = keep_trying(self._settings.patience_s, _SOON_S, self._describe).members
        return found

    def _describe(self, timeout_s: float) -> Any:
        """Return what the brokers say of the group. Raises SourceError, `retriable` after `timeout_s`."""
        assert self._settings.group is not None
        if self._asked is None:
            asked = self._admin.describe_consumer_groups([self._settings.group], request_timeout=_NEVER_S)
            self._asked = asked[self._settings.group]
        try:
            with translate_errors(self._settings):
                found = self._asked.result(timeout_s)
        except TimeoutError:  # it is answered, or fails, once the brokers are back
            reason = f"{self._settings.servers} do not say who is in the group {self._settings.group}"
            raise SourceError(f"kafka://{self._settings.topic}", reason, retriable=True) from None
        except SourceError:
            self._asked = None
            time.sleep(_SOON_S)
            raise
        self._asked = None
        return found

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        self._wanted.set()
        self._thread.join(_STOP_S)

    def _look_regularly(self) -> None:
        while not self._stopping:
            self._wanted.clear()
            try:
                self._owners = self.look()
            except (SourceError, SettingsError) as error:
                level = logging.INFO if isinstance(error, SourceError) and error.retriable else logging.WARNING
                LOG.log(level, "owners unknown", reason=str(error))
            begun = time.monotonic()
            if self._wanted.wait(_LOOK_S):
                time.sleep(max(0.0, _SOON_S - (time.monotonic() - begun)))
