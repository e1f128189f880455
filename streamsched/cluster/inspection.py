"""What a cluster holds, seen from outside: owners, positions, images, and a check of every byte; nothing is changed."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import httpx
import msgspec

from streamsched.cluster.foreign_pages import rereading_own
from streamsched.cluster.group import GroupOwners
from streamsched.cluster.host import SHARDS
from streamsched.cluster.image_store import ImageStore
from streamsched.cluster.topic_log import CallsTopic, read_shard
from streamsched.connectors.kafka.clients.factory import open_consumer
from streamsched.connectors.kafka.clients.protocol import partition_path
from streamsched.connectors.kafka.kafka_settings import KafkaSettings
from streamsched.errors import SnapshotError
from streamsched.persistence.call_codec import Rereader
from streamsched.persistence.image_reader import load_images
from streamsched.scheduler.core import SchedulerCore
from streamsched.scheduler.recovered_state import replay

_ANSWER_S: Final = 2.0


class PartitionStatus(msgspec.Struct, kw_only=True):
    """A partition: its ``owner``, None without one; the ``position`` of its stream in the newest image, and its end.

    ``serves``: whether the owner answers for it; ``lag``: messages that the image has not; ``saved_s``: when it was
    saved, None without an image; ``image_bytes``, in ``files``; ``calls``: since then.
    """

    partition: int
    owner: str | None
    serves: bool
    position: int
    end: int
    lag: int
    saved_s: float | None
    image_bytes: int
    files: int
    calls: int


class PartitionCheck(msgspec.Struct, kw_only=True):
    """A partition that was read: ``digest``, ``pages``, ``calls`` since the image; or an ``error``."""

    partition: int
    digest: str | None = None
    pages: int = 0
    calls: int = 0
    error: str | None = None


def read_status(topic: KafkaSettings, calls: CallsTopic) -> list[PartitionStatus]:
    """Return the status of each partition. O(bytes of the calls). Raises SourceError, SettingsError, SnapshotError."""
    owners = GroupOwners(topic, calls.partitions).look()
    consumer = open_consumer(topic)
    try:
        bounds = consumer.bounds(range(calls.partitions))
    finally:
        consumer.close()
    found = []
    for number in range(calls.partitions):
        logged, (first, end) = read_shard(calls, number), bounds[number]
        image = logged.image
        reached = {} if image is None else image.positions.get(partition_path(topic.topic, number), {})
        position = int(reached.get("offset", first))
        found.append(
            PartitionStatus(
                partition=number,
                owner=owners.get(number),
                serves=number in owners and _serves(owners[number], number),
                position=position,
                end=end,
                lag=max(0, end - position),
                saved_s=None if image is None else image.saved_s,
                image_bytes=0 if image is None else sum(one.nbytes for one in image.files),
                files=0 if image is None else len(image.files),
                calls=len(logged.calls),
            )
        )
    return found


def _serves(owner: str, partition: int) -> bool:
    try:
        return httpx.get(f"http://{owner}{SHARDS}{partition}/readyz", timeout=_ANSWER_S).is_success
    except httpx.HTTPError:
        return False


def check_partition(calls: CallsTopic, number: int, store: ImageStore, reread: Rereader) -> PartitionCheck:
    """Fetch the image of a partition, read every byte, and apply the calls since. O(bytes). It fences nobody."""
    try:
        while True:
            logged = read_shard(calls, number)
            if logged.image is None:
                return PartitionCheck(partition=number)
            with TemporaryDirectory(prefix="streamsched-") as folder:
                try:
                    for stored in logged.image.files:
                        store.fetch(stored, Path(folder))
                except SnapshotError:
                    if read_shard(calls, number).image == logged.image:
                        raise
                    continue  # its owner has saved a newer one meanwhile
                loaded = load_images(Path(folder))
            core = SchedulerCore.from_state(loaded.pages, loaded.state)
            own = rereading_own(reread, number, calls.partitions)
            for _ in replay(core, logged.calls, calls.place(number), own):
                pass
            return PartitionCheck(
                partition=number, digest=core.digest(), pages=len(core.pages), calls=len(logged.calls)
            )
    except SnapshotError as error:
        return PartitionCheck(partition=number, error=str(error))
