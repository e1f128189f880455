"""One partition as a durable scheduler whose log is a topic's partition and whose images are in a store.

Its changes are written to another topic, at least once, whoever owns it. Change number i of a shard is determined by
its log, and so is the identity of its feed: every owner gives a change the same cursor. An image is named only once all
changes that it has are stored in the topic, so the owner after a crash finds the others again and writes them, some of
them a second time.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from crc32c import crc32c

from streamsched.cluster.group import count_partitions
from streamsched.cluster.image_store import ImageStore, StoredFile
from streamsched.cluster.topic_log import CallsTopic, ImageRecord, TopicLog
from streamsched.connectors.kafka.kafka_settings import KafkaSettings, read_settings
from streamsched.connectors.kafka.sink import KafkaSink
from streamsched.errors import ChangesGone, SnapshotError, StateInUse
from streamsched.persistence.call_codec import Rereader, encode_call
from streamsched.persistence.change_feed import Cursor
from streamsched.persistence.files import list_images
from streamsched.persistence.group_commit import GroupCommitLog
from streamsched.persistence.image_reader import LoadedImages
from streamsched.persistence.image_writer import SavedImage, drop_images
from streamsched.scheduler.core import SchedulerCore
from streamsched.scheduler.durable import DurableScheduler
from streamsched.scheduler.recovered_state import TAKEN, replay
from streamsched.service.change_writer import ChangeWriter, PlaceOfChanges, TopicOfChanges
from streamsched.service.run_settings import RunSettings
from streamsched.service.state_copies import BESIDE

LEADING: Final = 0  # the shard whose formula is that of all
_IDENTITIES: Final = (1 << 32) - 1  # of change feeds, from 1 on
KEPT: Final = "10m"  # at least, of what is written: a segment of the feed's files is a part of it
_PATIENCE: Final = "5s"  # with the brokers: a save waits meanwhile
_ENDED: Final = "the partition is given up"
# After a change that the brokers refuse, no later one may follow: readers skip what comes behind a greater number.
_NO_GAPS: Final = {"enable.gapless.guarantee": "true"}


def identify_feed(topic: CallsTopic, partition: int) -> str:
    """Return the identity of the shard's change feed, whoever owns it. Those of a cluster's shards differ."""
    first = crc32c(f"{topic.group}-{topic.identity}".encode())
    return f"{1 + (first + partition) % _IDENTITIES:08x}"


class ShardLog:
    """The log and the images of a shard that this process has just taken over. See `recovered_state.KeptLog`.

    ``log``: fences earlier owners. `fetch` comes first. Everything is thrown away after an error. Raises SnapshotError
    if the store cannot be listed, and the errors of `TopicLog`.
    """

    is_damaged = False  # what is damaged in the store is an error

    def __init__(
        self,
        topic: CallsTopic,
        partition: int,
        store: ImageStore,
        clock: Callable[[], float],
        wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        self.feed_identity = identify_feed(topic, partition)
        self._store = store
        self._clock = clock
        self._prefix = f"{topic.group}-{topic.identity}/{partition}"  # another cluster may use the same store
        # Listed before the fence, so no file of a later owner is among them, however long this process is frozen.
        self._left = store.keys(f"{self._prefix}/")
        self.log = TopicLog(topic, partition, wanted)
        self._token = os.urandom(6).hex()  # no other owner, before or after, uses these names
        self._calls: list[tuple[int, bytes]] = []
        self._stored: dict[str, StoredFile] = {}  # by name: those of the newest image

    def fetch(self, directory: Path) -> int:
        """Read the log, and fetch the files of the newest image to `directory`, emptied; return their bytes."""
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        self._calls = self.log.read()
        image = self.log.image
        if image is not None:
            for stored in image.files:
                self._store.fetch(stored, directory)
            self._stored = {stored.name: stored for stored in image.files}
        used = {stored.key for stored in self._stored.values()}
        self._store.delete([key for key in self._left if key not in used])  # of an owner that ended within a save
        return sum(stored.nbytes for stored in self._stored.values())

    def apply(self, core: SchedulerCore, loaded: LoadedImages | None, reread: Rereader | None) -> int:  # noqa: D102
        image = self.log.image
        number = 0 if image is None else image.sequence
        if (0 if loaded is None else loaded.sequence) != number or (loaded is not None and loaded.faults):
            raise SnapshotError(self.log.place, f"names an image that includes call {number}, and it is not that")
        for number in replay(core, self._calls, self.log.place, reread):  # noqa: B007
            pass
        self._calls = []
        return number

    def begin(self) -> GroupCommitLog:  # noqa: D102
        return self.log

    def release(self, directory: Path, saved: SavedImage, sequence: int, *, is_whole: bool, kept: int) -> None:
        """Store the files of the image `saved`, name them in the log, then delete what they replace. See `KeptLog`."""
        self.name_image(self.store_files(directory), saved.positions, sequence)
        if is_whole:
            drop_images(directory, kept)

    def store_files(self, directory: Path) -> list[StoredFile]:
        """Store the files of the newest image in `directory`, but those that are stored; return all. O(bytes)."""
        names = list_images(directory)
        chain = [name for name in names if name.number == names[-1].number]
        files: list[StoredFile] = []
        for path in (name.in_directory(directory) for name in chain):
            stored = self._stored.get(path.name)
            files.append(stored or self._store.put(path, f"{self._prefix}/{self._token}/{path.name}"))
            self._stored[path.name] = files[-1]
        return files + [self._store_copy(directory / name) for name in BESIDE if (directory / name).exists()]

    def _store_copy(self, path: Path) -> StoredFile:
        """Store a copy of the file at `path`, which may grow meanwhile, unless it is stored as it is. O(bytes)."""
        content = path.read_bytes()
        stored = self._stored.get(path.name)
        if stored is None or (stored.nbytes, stored.crc) != (len(content), crc32c(content)):
            with TemporaryDirectory(prefix="streamsched-") as folder:
                copy = Path(folder) / path.name
                copy.write_bytes(content)
                stored = self._store.put(copy, f"{self._prefix}/{self._token}/{crc32c(content):08x}-{path.name}")
        return stored

    def name_image(self, files: list[StoredFile], positions: dict[str, Any], sequence: int) -> None:
        """Name the stored image of `files` in the log, as one with the calls up to `sequence`; delete older ones."""
        topic = self.log.topic
        self.log.record_image(
            ImageRecord(
                group=topic.group,
                partition=self.log.partition,
                partitions=topic.partitions,
                sequence=sequence,
                positions=positions,
                files=files,
                saved_s=self._clock(),
            )
        )
        replaced = [stored.key for stored in self._stored.values() if stored not in files]
        self._stored = {stored.name: stored for stored in files}
        self._store.delete(replaced)
        self.log.drop_until(sequence)


class Shard(DurableScheduler):
    """The scheduler of one partition, opened by `open` with a `ShardLog`.

    If it has a feed, that holds the changes which are not written elsewhere yet. ``await_written``: returns once all
    changes up to a number are; raises SnapshotError if they cannot be. No image that has more changes
    is saved without it, so a new owner finds again all that its predecessor may not have written.
    """

    await_written: Callable[[int], object] | None = None

    @property
    def offers_changes(self) -> bool:
        """No: its feed has only what this owner has found."""
        return False

    @property
    def is_refused(self) -> bool:
        """Whether its log refuses all calls, for good."""
        return self._log.failure is not None

    def refuse(self, reason: SnapshotError) -> None:
        """Refuse every call from now on. For any thread; it waits for nothing."""
        assert isinstance(self._log, TopicLog)
        self._log.fail(reason)

    def disown(self) -> None:
        """Refuse every call from now on, and end; nothing is saved. A second call does nothing."""
        self.refuse(StateInUse(self._log.place, "is closed"))
        with suppress(SnapshotError):
            self.close(save=False)

    def _reach_instant(self) -> tuple[int, int]:
        if self.feed is not None and self._taken:
            self._append(encode_call({"call": TAKEN}))  # changes are written before the image counts
        return super()._reach_instant()

    def _keep_changes(self, number: int) -> None:
        super()._keep_changes(number)
        if self.feed is None or number <= self.feed.oldest.number:  # what it does not hold any more is written
            return
        if self.await_written is None:
            raise SnapshotError(str(self.directory), "is not saved: its changes are not written yet")
        self.feed.secure(number)  # the log has them
        self.await_written(number)


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
