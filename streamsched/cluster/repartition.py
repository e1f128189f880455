"""Makes shards of a state, and two of each shard: both cut a state by its hosts into images of partitions.

Nothing is changed before all images are in the store. Each is then named in the calls topic by an owner of its
partition, so whoever owned it before is fenced. What is interrupted is completed by the same command.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from streamsched.cluster.group import add_partitions, check_no_members, count_partitions
from streamsched.cluster.image_store import ImageStore, StoredFile
from streamsched.cluster.shard import LEADING, ShardLog
from streamsched.cluster.topic_log import CallsTopic, ImageRecord, LoggedShard, prepare_topic, read_shard
from streamsched.connectors.kafka.clients.factory import open_consumer
from streamsched.connectors.kafka.clients.protocol import partition_path
from streamsched.connectors.kafka.kafka_settings import KafkaSettings
from streamsched.connectors.kafka.message_keys import choose_partitions
from streamsched.errors import NOTHING, SettingsError, SnapshotError
from streamsched.numerics.arrays import Bools
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.persistence.image_reader import LoadedImages, load_images
from streamsched.persistence.image_writer import Closed, save_image
from streamsched.records.url_patterns import group_names
from streamsched.scheduler.compaction import compact
from streamsched.scheduler.core import SchedulerCore
from streamsched.service.state_copies import BESIDE

_log: Final = logging.getLogger("streamsched.cluster")
Positions = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """A cluster: its topics of outcomes, with the group, and of signals; the store; what time it is.

    ``topics``: the outcomes' first.
    """

    topics: Sequence[KafkaSettings]
    store: ImageStore
    clock: Callable[[], float]

    def paths(self, partition: int) -> list[str]:
        """Return the names of the streams of a partition."""
        return [partition_path(topic.topic, partition) for topic in self.topics]


@dataclass(frozen=True, slots=True)
class _Stored:
    """An image of a partition that is in the store and not named yet."""

    log: ShardLog
    files: list[StoredFile]
    positions: Positions
    sequence: int

    def name(self) -> None:
        self.log.name_image(self.files, self.positions, self.sequence)


def import_state(
    place: Place, calls: CallsTopic, core: SchedulerCore, directory: Path, report: Callable[[int, int], object]
) -> None:
    """Make `core`, the state in `directory`, without a cluster, the shards of a new one. O(pages) for each partition.

    Each partition gets the pages of its hosts, and keeps the positions of its own streams; partition 0 gets the records
    of evolutions. `report` is called with a
    partition and its pages once its image is stored. Raises SettingsError if the group has members, SnapshotError if
    a partition has an image or calls that are not those of an interrupted import of the same state.
    """
    check_no_members(place.topics[0])
    calls = prepare_topic(calls)
    stored: list[_Stored] = []
    for partition in range(calls.partitions):
        own = {path: core.reached.positions[path] for path in place.paths(partition) if path in core.reached.positions}
        cut = _cut(core, hosts_of_partition(core, partition, calls.partitions), own)
        if not _is_imported(place, calls, partition, cut):
            stored.append(_store(place, calls, partition, cut, directory if partition == LEADING else None))
        report(partition, len(cut.pages))
    check_no_members(place.topics[0])
    for one in stored:
        one.name()


def split(place: Place, calls: CallsTopic, partitions: int, report: Callable[[int, int], object]) -> None:
    """Double the partitions of all topics, to `partitions`, and make two shards of each. O(pages) for each.

    No host may run, and nothing may be written to the topics meanwhile. ``calls.partitions``: those
    that the topic of outcomes has now. Steps; a step that was interrupted is completed if the command is given again:

    1. the calls topic gets its partitions; until an image is named, hosts can still serve the old ones;
    2. the images of p and p + N are stored, each without the hosts of the other;
    3. they are named, that of p + N first; from now on hosts refuse to serve;
    4. the other topics get their partitions, that of the outcomes last: hosts can serve.

    Raises SettingsError if the group has members, or a topic has another number of partitions; SnapshotError if the
    image of a partition has not all of its calls and all that its streams hold.
    """
    outcomes, *signals = place.topics
    check_no_members(outcomes)
    after = replace(calls, partitions=partitions)
    if calls.partitions != partitions:
        _check_counts(place, calls, partitions)
        add_partitions(calls.settings, partitions)
    after = prepare_topic(after)
    if calls.partitions != partitions:
        before = replace(calls, identity=after.identity)
        waiting = [number for number in range(calls.partitions) if not _is_split(after, number)]
        check = _check_end if len(waiting) == calls.partitions else _warn_of_end
        images = {number: _newest_image(place, before, number) for number in waiting}
        check(place, images)
        stored = [one for number in waiting for one in _split(place, before, after, number, report)]
        check_no_members(outcomes)
        check(place, images)
        for one in stored:
            one.name()
        _warn_of_end(place, images)
        for topic in (*signals, outcomes):
            add_partitions(topic, partitions)
    for partition in range(partitions):
        if not _is_split(after, partition):
            raise SnapshotError(after.place(partition), "has no image: it is no shard of this cluster")


def _split(
    place: Place, before: CallsTopic, after: CallsTopic, partition: int, report: Callable[[int, int], object]
) -> Iterator[_Stored]:
    """Store the images of the two shards that `partition` becomes: first that of the new one, which is named first."""
    with _fetched(place, before, partition) as (log, directory, loaded):
        core = SchedulerCore.from_state(loaded.pages, loaded.state)
        found = core.reached.positions
        own = [(place.paths(partition)[at], path) for at, path in enumerate(place.paths(partition + before.partitions))]
        new = {path: found[old] | {"path": path, "offset": 0, "records": 0} for old, path in own if old in found}
        old = {path: found[path] for path in place.paths(partition) if path in found}
        moving = hosts_of_partition(core, partition + before.partitions, after.partitions)
        for number, hosts, positions in ((partition + before.partitions, moving, new), (partition, ~moving, old)):
            cut = _cut(core, hosts, positions)
            if number == partition:
                log.log.topic = after
                yield _store_with(log, directory, cut, loaded.sequence)
            else:
                yield _store(place, after, number, cut)
            report(number, len(cut.pages))


@contextmanager
def _fetched(place: Place, calls: CallsTopic, partition: int) -> Iterator[tuple[ShardLog, Path, LoadedImages]]:
    """Take a partition over, and fetch its image; yield its log, the image's directory, and the state in it."""
    with TemporaryDirectory(prefix="streamsched-") as folder:
        log = ShardLog(calls, partition, place.store, place.clock)
        log.fetch(Path(folder))
        yield log, Path(folder), load_images(Path(folder))


def _store(
    place: Place, calls: CallsTopic, partition: int, core: SchedulerCore, records: Path | None = None
) -> _Stored:
    """Take a partition over, and store `core` as the first image of a shard; `records`: the directory of some."""
    log = ShardLog(calls, partition, place.store, place.clock)
    log.log.read()
    with TemporaryDirectory(prefix="streamsched-") as folder:
        if records is not None:
            for name in BESIDE:
                with suppress(FileNotFoundError):
                    shutil.copy(records / name, folder)
        return _store_with(log, Path(folder), core, 0)


def _store_with(log: ShardLog, directory: Path, core: SchedulerCore, sequence: int) -> _Stored:
    """Store `core` as an image that has the calls up to `sequence`. In `directory` are the files before it, if any."""
    saved = save_image(directory, core, None, Closed(sequence, log.log.name), marking=False)
    return _Stored(log, log.store_files(directory), saved.positions, sequence)


def _cut(core: SchedulerCore, hosts: Bools, positions: Positions) -> SchedulerCore:
    """Return the part of `core` with ``hosts``: bool[groups], at these positions of its streams."""
    cut = compact(core, hosts)
    cut.reached.positions, cut.reached.beyond = positions, {}
    return cut


def hosts_of_partition(core: SchedulerCore, partition: int, partitions: int) -> Bools:
    """Return which groups are hosts whose messages go to `partition` of `partitions`: bool[groups]. O(groups)."""
    shard = core.pages.arrays
    count = int(shard.corpus["groups"][0])
    hosts = np.flatnonzero(shard.groups.records["depth"][:count] == 0)
    chosen = choose_partitions(PackedUrls.pack(group_names(shard.groups, hosts)), partitions)
    found = np.zeros(count, np.bool_)
    found[hosts[chosen == partition]] = True
    return found


def _is_imported(place: Place, calls: CallsTopic, partition: int, core: SchedulerCore) -> bool:
    """Return whether `core` is the image of the partition already. Raises SnapshotError if that has another state."""
    logged = read_shard(calls, partition)
    if logged.image is None and not logged.calls:
        return False
    if logged.sequence == 0:
        with _fetched(place, calls, partition) as (_, _, loaded):
            found = SchedulerCore.from_state(loaded.pages, loaded.state)
            if found.digest() == core.digest() and found.reached.positions == core.reached.positions:
                return True
    raise SnapshotError(calls.place(partition), "has an image or calls already: import into a new topic of calls")


def _is_split(after: CallsTopic, partition: int) -> bool:
    """Return whether the newest image of `partition` is one of a shard of `after`."""
    try:
        return read_shard(after, partition).image is not None
    except SnapshotError:
        read_shard(replace(after, partitions=after.partitions // 2), partition)
        return False


def _newest_image(place: Place, calls: CallsTopic, partition: int) -> ImageRecord:
    """Return the image of a partition, which has all of its calls, and reads the topics of `place` only.

    Raises SnapshotError, SettingsError.
    """
    logged: LoggedShard = read_shard(calls, partition)
    if logged.image is None:
        raise SnapshotError(calls.place(partition), "has no image: let hosts serve it first, and stop them")
    if logged.calls:
        found = f"{len(logged.calls)} calls after its image: let hosts serve it, and stop them with SIGTERM"
        raise SnapshotError(calls.place(partition), found)
    others = sorted(logged.image.positions.keys() - set(place.paths(partition)))
    if others:
        raise SettingsError("--signals", NOTHING, f"the topic of signals that hosts read: shards stand at {others[0]}")
    return logged.image


def _behind(place: Place, images: Mapping[int, ImageRecord]) -> Iterator[tuple[str, int]]:
    """Yield the streams that hold records after their images, and how many."""
    for topic in place.topics:
        consumer = open_consumer(replace(topic, group=None))
        try:
            bounds = consumer.bounds(images)
        finally:
            consumer.close()
        for number, image in images.items():
            path, (first, end) = partition_path(topic.topic, number), bounds[number]
            position = int(image.positions.get(path, {}).get("offset", first))
            if position < end:
                yield path, end - position


def _check_end(place: Place, images: Mapping[int, ImageRecord]) -> None:
    """Raise SnapshotError if a stream holds records that its image has not."""
    for path, count in _behind(place, images):
        found = f"holds {count} records that no image has: let hosts read them, then stop hosts and all that writes"
        raise SnapshotError(path, found)


def _warn_of_end(place: Place, images: Mapping[int, ImageRecord]) -> None:
    """Log a warning if a stream holds records that its image has not: their hosts' pages may get two shards."""
    for path, count in _behind(place, images):
        _log.warning("%s: %d records were written during the split; the old shard will read all of them", path, count)


def _check_counts(place: Place, calls: CallsTopic, partitions: int) -> None:
    """Raise SettingsError if `partitions` is not twice what the topics have."""
    if partitions != 2 * calls.partitions:
        raise SettingsError("partitions", partitions, f"{2 * calls.partitions}: twice those of {place.topics[0].topic}")
    counts: Iterable[tuple[KafkaSettings, int]] = (
        (one, count_partitions(one)) for one in (*place.topics, calls.settings)
    )
    for topic, count in counts:
        if count not in (calls.partitions, partitions):
            expected = f"{calls.partitions}, as {place.topics[0].topic} has"
            raise SettingsError(topic.topic, f"{count} partitions", expected)
