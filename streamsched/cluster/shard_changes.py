"""Writes the changes of a shard to a topic, at least once, whoever owns the shard.

Change number i of a shard is determined by its log, and so is the identity of its feed: every owner gives a change the
same cursor. An image is named only once all changes that it has are stored in the topic, so the owner after a crash
finds the others again and writes them, some of them a second time.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from typing import Final

from streamsched.cluster.group import count_partitions
from streamsched.cluster.shard import Shard
from streamsched.connectors.kafka.kafka_settings import KafkaSettings, read_settings
from streamsched.connectors.kafka.sink import KafkaSink
from streamsched.errors import ChangesGone, SnapshotError
from streamsched.persistence.change_feed import Cursor
from streamsched.service.change_writer import ChangeWriter, PlaceOfChanges, TopicOfChanges
from streamsched.service.run_settings import RunSettings

KEPT: Final = "10m"  # at least, of what is written: a segment of the feed's files is a part of it
_PATIENCE: Final = "5s"  # with the brokers: a save waits meanwhile
_ENDED: Final = "the partition is given up"
# After a change that the brokers refuse, no later one may follow: readers skip what comes behind a greater number.
_NO_GAPS: Final = {"enable.gapless.guarantee": "true"}


class ShardChangeWriter(ChangeWriter):
    """Writes what the feed of `shard` has to `place`. It begins after the shard's newest image, and leaves what it has
    not written at its end to the next owner.
    """

    writes_rest = False

    def __init__(self, shard: Shard, place: PlaceOfChanges, to: str, partition: int) -> None:
        super().__init__(shard, place, to, {"partition": partition})
        assert shard.feed is not None
        self._shard = shard
        self._stored = shard.feed.oldest.number
        self._moved = threading.Condition()
        self._problem: str | None = None

    def await_written(self, number: int) -> None:
        """Return once the first `number` changes are stored. Raises SnapshotError if the last attempt has failed."""
        with self._moved:
            self._moved.wait_for(lambda: self._stored >= number or self._problem is not None)
            if self._stored < number:
                reason = f"is not saved: its changes are not written to {self._to}: {self._problem}"
                raise SnapshotError(str(self._shard.directory), reason)

    def _work(self) -> None:
        try:
            super()._work()
        finally:
            self._report(_ENDED)

    def _drain(self) -> bool:
        is_done = super()._drain()
        self._report(self._failure)
        return is_done

    def _report(self, problem: str | None) -> None:
        with self._moved:
            self._problem = problem
            self._moved.notify_all()

    def _read_cursor(self) -> str:
        return "oldest"

    def _keep_cursor(self, cursor: str) -> None:
        with self._moved:
            self._stored, self._problem = Cursor.parse(cursor).number, None
            self._moved.notify_all()

    def _miss(self, gone: ChangesGone) -> None:
        """Have the shard opened again, from its image."""
        lost = SnapshotError(str(self._shard.directory), f"has lost changes after {gone.after} that are not written")
        self._shard.refuse(lost)
        raise lost from gone


def changes_topic(settings: RunSettings) -> KafkaSettings:
    """Return the topic to which all shards write their changes."""
    assert settings.changes.to is not None
    topic = read_settings(settings.changes.to, {"patience": _PATIENCE, **settings.kafka})
    return replace(topic, client="confluent", group=None)


def write_shard_changes(settings: RunSettings, shard: Shard, partition: int) -> ShardChangeWriter:
    """Return what writes the changes of `shard` to the topic of `settings`, once it is entered."""
    topic = changes_topic(settings)
    place = TopicOfChanges(partial(_open_sink, topic))
    return ShardChangeWriter(shard, place, f"kafka://{topic.servers}/{topic.topic}", partition)


def _open_sink(topic: KafkaSettings) -> KafkaSink:
    """Open the topic, which is not made. Raises SourceError."""
    count_partitions(topic)
    return KafkaSink(replace(topic, options=_NO_GAPS | dict(topic.options)))
