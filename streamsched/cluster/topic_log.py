"""The calls of one shard as records of its partition of a topic, behind a fence.

The producer has a transactional id of its partition. Whoever opens the log is its owner from then on: the broker
refuses whatever an earlier owner writes. A call is written once its transaction is committed. Records of another kind
name the files of an image; a record of that kind, and the calls after it, are all that a new owner needs, so everything
before is deleted.
"""

from __future__ import annotations

import struct
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

import confluent_kafka as library
import msgspec
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from crc32c import crc32c

from streamsched.cluster.image_store import StoredFile
from streamsched.connectors.kafka.clients.confluent import (
    Refusals,
    make_client,
    request_admin,
    request_bounds,
    request_metadata,
    show_id,
    translate_errors,
)
from streamsched.connectors.kafka.kafka_settings import KafkaSettings
from streamsched.errors import SettingsError, SnapshotError, SourceError, StateInUse, shorten
from streamsched.persistence.files import is_image_name
from streamsched.persistence.group_commit import GroupCommitLog
from streamsched.persistence.log_segments import LogName
from streamsched.service.state_copies import BESIDE

FORMAT: Final = 1  # of the records of the topic
_KEY: Final = struct.Struct(">QI")  # the number of a call, and the CRC-32C of its payload
_PART_BYTES: Final = 1 << 19  # of a call in one record: brokers accept 1 MiB unless set otherwise
_TRANSACTION_MS: Final = 10_000  # after which the broker ends a transaction whose owner is silent
_POLL_S: Final = 0.5
_INIT_S: Final = 5.0  # of one attempt to fence
_RETRY_S: Final = 0.05
_CALL: Final = b"call"
_PART: Final = b"part"  # of a call, but for its last
_IMAGE: Final = b"image"
_KIND: Final = "streamsched"
_FENCED: Final = (
    KafkaError._FENCED,  # noqa: SLF001  its API
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.PRODUCER_FENCED,
)
_FOREVER: Final = "-1"
_CONFIG: Final = {"cleanup.policy": "delete", "retention.ms": _FOREVER, "retention.bytes": _FOREVER}


class ImageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An image in the store: its files, the whole one first, and the number of the last call that it includes.

    ``positions``: of the streams, at its instant; ``group``, ``partition``, ``partitions``: whose it is.
    """

    format: int = FORMAT
    group: str
    partition: int
    partitions: int
    sequence: int
    positions: dict[str, Any]
    files: list[StoredFile]
    saved_s: float


@dataclass(frozen=True, slots=True)
class CallsTopic:
    """The topic of calls of the consumer group ``group``, with ``partitions`` partitions.

    ``identity``: of the topic, as the brokers know it; "" before `prepare_topic`. Another cluster's topic has another.
    """

    settings: KafkaSettings
    group: str
    partitions: int
    identity: str = ""

    def place(self, partition: int) -> str:
        """Return what errors name."""
        return f"kafka://{self.settings.topic}/{partition}"


def prepare_topic(topic: CallsTopic) -> CallsTopic:
    """Make the topic if it does not exist, check that it keeps its records, and return it with its identity.

    Raises SourceError if the brokers cannot be reached, SettingsError if the topic is not as it must be, SnapshotError
    if its shards are being split.
    """
    settings, refusals = topic.settings, Refusals(topic.settings)
    admin = make_client(AdminClient, settings, {}, refusals)
    found = request_metadata(admin, settings, refusals).topics.get(settings.topic)
    if found is None:
        new = NewTopic(settings.topic, topic.partitions, config=_CONFIG)
        try:
            request_admin(settings, lambda: admin.create_topics([new])[settings.topic])
        except SourceError as error:
            cause: Any = error.__cause__
            if cause is None or cause.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise  # else another host was faster, or an answer was lost
        found = _await_topic(admin, topic, refusals)
    if len(found.partitions) == 2 * topic.partitions:  # a split has begun: its last step is to add the same to outcomes
        for partition in range(topic.partitions):
            read_shard(topic, partition)
    elif len(found.partitions) != topic.partitions:
        expected = f"a topic with {topic.partitions} partitions, as that of the outcomes has"
        raise SettingsError("cluster.calls", f"{settings.topic} with {len(found.partitions)} partitions", expected)
    resource = ConfigResource(ResourceType.TOPIC, settings.topic)
    config = request_admin(settings, lambda: admin.describe_configs([resource])[resource])
    for name, expected in _CONFIG.items():
        value = config[name].value
        if value != expected:
            raise SettingsError("cluster.calls", f"{settings.topic} with {name}={value}", f"{name}={expected}")
    asked = TopicCollection([settings.topic])
    named = request_admin(settings, lambda: admin.describe_topics(asked)[settings.topic])
    return replace(topic, identity=show_id(named.topic_id))


def _await_topic(admin: Any, topic: CallsTopic, refusals: Refusals) -> Any:
    """Return the description of a topic that was just made."""
    deadline = time.monotonic() + topic.settings.patience_s
    while True:
        found = request_metadata(admin, topic.settings, refusals).topics.get(topic.settings.topic)
        if (found is not None and found.partitions) or time.monotonic() > deadline:
            return found
        time.sleep(_RETRY_S)


class TopicLog(GroupCommitLog):
    """The log of the shard `partition`, whose owner is whoever opened it last. See `GroupCommitLog`.

    After any error it refuses all calls for good: its scheduler is thrown away, and the log opened anew. `read` comes
    first. `wanted`: whether the partition is still to be taken over, as fencing may take long. Raises SourceError if
    the brokers cannot be reached.
    """

    def __init__(self, topic: CallsTopic, partition: int, wanted: Callable[[], bool] = lambda: True) -> None:
        super().__init__(0)
        self.topic = topic
        self.partition = partition
        self.image: ImageRecord | None = None
        self._offsets: deque[tuple[int, int]] = deque()  # number and first offset of each call after the image
        self._image_at = 0  # the offset of the newest image's record
        self._refusals = Refusals(topic.settings)
        self._admin: AdminClient | None = None
        own = {
            "transactional.id": f"{topic.group}-{partition}",
            "transaction.timeout.ms": str(_TRANSACTION_MS),
            "linger.ms": "0",
            "message.max.bytes": str(2 * _PART_BYTES),
        }
        self._producer = make_client(library.Producer, topic.settings, own, self._refusals)
        with suppress(KafkaException):  # to connect: a look for the coordinator without is repeated after half a second
            self._producer.list_topics(topic.settings.topic, _INIT_S)
        with self._as_source_errors():
            self._retrying(lambda: self._producer.init_transactions(_INIT_S), wanted)

    @property
    def place(self) -> str:
        """The partition."""
        return self.topic.place(self.partition)

    @property
    def name(self) -> LogName:
        """What an image saved now says about the log."""
        return LogName(f"{self.topic.group}/{self.partition}", 0)

    def read(self) -> list[tuple[int, bytes]]:
        """Return the calls after the newest image, in order, and set ``image`` and ``sequence``; see `read_shard`."""
        found = read_shard(self.topic, self.partition)
        self.image, self._image_at = found.image, found.image_at
        self._offsets = deque(zip((number for number, _ in found.calls), found.offsets, strict=True))
        self.sequence = self._on_disk = found.sequence
        return found.calls

    def record_image(self, image: ImageRecord) -> None:
        """Write that `image` is in the store: a new owner begins with it. Raises SnapshotError."""
        with self._changed:
            while self._writing:
                self._changed.wait()
            self.check()
            self._writing = True
        failure: SnapshotError | None = SnapshotError(self.place, "a write was interrupted")
        try:
            self._commit_records([(b"", msgspec.json.encode(image), _IMAGE)], self._note_image)
            failure = None
        except SnapshotError as error:
            failure = error
            raise
        finally:
            with self._changed:
                self._writing = False
                self._failure = self._failure or failure
                self._changed.notify_all()
        self.image = image

    def drop_until(self, sequence: int) -> None:
        """Delete the records before the first call after number `sequence`, which the newest image includes."""
        with self._changed:
            self._drop_offsets(sequence)
            before = min(self._offsets[0][1] if self._offsets else self._image_at, self._image_at)
        if self._admin is None:
            self._admin = make_client(AdminClient, self.topic.settings, {}, self._refusals)
        part = TopicPartition(self.topic.settings.topic, self.partition, before)
        admin = self._admin
        try:
            request_admin(self.topic.settings, lambda: admin.delete_records([part])[part])
        except SourceError as error:
            raise SnapshotError(self.place, f"old calls cannot be deleted: {error.reason}") from error

    def renew(self) -> None:
        """Raise SnapshotError: what an error has left in doubt is decided by reading the log anew."""
        self.check()

    def restart(self) -> None:
        """Do nothing, for the same reason."""

    def fail(self, failure: SnapshotError) -> None:
        """Refuse all calls from now on."""
        with self._changed:
            self._failure = self._failure or failure
            self._changed.notify_all()

    def close(self) -> None:
        """Refuse all calls from now on."""
        with self._changed:
            while self._writing:
                self._changed.wait()
            self._closed = True
            self._failure = SnapshotError(self.place, "is closed")

    def _write(self, calls: list[tuple[int, bytes]]) -> None:
        records: list[tuple[bytes, bytes, bytes]] = []
        for number, payload in calls:
            key, last = _KEY.pack(number, crc32c(payload)), max(len(payload) - 1, 0) // _PART_BYTES
            for part in range(last + 1):
                piece = payload[part * _PART_BYTES : (part + 1) * _PART_BYTES]
                records.append((key, piece, _CALL if part == last else _PART))
        if records:
            self._commit_records(records, self._note_call)
            self._on_disk = calls[-1][0]

    def _commit_records(self, records: list[tuple[bytes, bytes, bytes]], note: Callable[[Any, Any], None]) -> None:
        """Write `records` of key, value and kind in one transaction. For one thread at a time. Raises SnapshotError."""
        topic, patience_s = self.topic.settings.topic, self.topic.settings.patience_s
        try:
            self._producer.begin_transaction()
            for key, value, kind in records:
                while True:
                    try:
                        self._producer.produce(
                            topic, value, key, self.partition, headers=[(_KIND, kind)], on_delivery=note
                        )
                        break
                    except BufferError:
                        self._producer.poll(_RETRY_S)
            self._retrying(lambda: self._producer.commit_transaction(patience_s))
        except KafkaException as error:
            raise _explain_failure(self.place, error.args[0]) from error

    def _retrying(self, request: Callable[[], object], wanted: Callable[[], bool] = lambda: True) -> None:
        """Do `request`, again while brokers may be waited for and it is `wanted`. Raises KafkaException."""
        deadline = time.monotonic() + self.topic.settings.patience_s
        while True:
            try:
                request()
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline or not wanted():
                    raise
                time.sleep(_RETRY_S)

    def _note_call(self, error: Any, message: Any) -> None:
        """Note the offset of a call's first record. Called in the order of the records."""
        if error is None:
            number = _KEY.unpack(message.key())[0]
            if not self._offsets or self._offsets[-1][0] != number:
                self._offsets.append((number, message.offset()))

    def _note_image(self, error: Any, message: Any) -> None:
        if error is None:
            self._image_at = message.offset()

    def _drop_offsets(self, sequence: int) -> None:
        while self._offsets and self._offsets[0][0] <= sequence:
            self._offsets.popleft()

    @contextmanager
    def _as_source_errors(self) -> Iterator[None]:
        with translate_errors(self.topic.settings, self.place):
            yield


@dataclass(slots=True)
class LoggedShard:
    """What the log of a shard holds: the newest image, None without one, and the ``calls`` after it, in order.

    ``offsets``: of the first record of each call; ``image_at``: that of the image's record.
    """

    image: ImageRecord | None = None
    image_at: int = 0
    calls: list[tuple[int, bytes]] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)

    @property
    def sequence(self) -> int:
        """The number of the last call."""
        return self.calls[-1][0] if self.calls else 0 if self.image is None else self.image.sequence


def read_shard(topic: CallsTopic, partition: int) -> LoggedShard:
    """Return what the log of shard `partition` holds up to the end that it has now. O(bytes). It fences nobody.

    Raises SourceError if the brokers cannot be reached, SnapshotError if the records are not those of this shard, or
    calls are missing.
    """
    found, place, parts, first = LoggedShard(), topic.place(partition), list[bytes](), 0
    for message in _messages(topic, partition):
        kind, key, value = _kind_of(message, place), message.key() or b"", message.value() or b""
        if kind == _IMAGE:
            found.image, found.image_at = _decode(value, place), message.offset()
            included = sum(1 for number, _ in found.calls if number <= found.image.sequence)
            found.calls, found.offsets = found.calls[included:], found.offsets[included:]
            continue
        first = first if parts else message.offset()
        parts.append(value)
        if kind == _CALL:
            number, crc = _KEY.unpack(key)
            payload, parts = b"".join(parts), []
            if crc32c(payload) != crc:
                raise SnapshotError(place, f"call {number} is damaged: it does not match its checksum")
            found.calls.append((number, payload))
            found.offsets.append(first)
    if found.image is not None:
        _check_image(found.image, topic, partition)
    after = 0 if found.image is None else found.image.sequence
    for expected, (number, _) in enumerate(found.calls, after + 1):
        if number != expected:
            raise SnapshotError(place, f"call {expected} is missing: the next one is {number}")
    if found.calls and found.image is None:
        raise SnapshotError(place, "has calls, and no record names an image that they follow")
    return found


def _messages(topic: CallsTopic, partition: int) -> Iterator[Any]:
    """Yield the committed records up to the end that the partition has now."""
    settings, place, refusals = topic.settings, topic.place(partition), Refusals(topic.settings)
    own = {
        "group.id": "streamsched-no-group",  # the client requires a name, though nothing is committed under it
        "enable.auto.commit": "false",
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "fetch.wait.max.ms": "10",  # at the end of the partition the broker waits so long for more
        "enable.partition.eof": "true",
    }
    with translate_errors(settings, place):
        consumer = make_client(library.Consumer, settings, own, refusals)
        try:
            part = TopicPartition(settings.topic, partition)
            first, end = request_bounds(consumer, part, settings)
            consumer.assign([TopicPartition(settings.topic, partition, first)])
            deadline = time.monotonic() + settings.patience_s
            while first < end:
                message = consumer.poll(_POLL_S)
                if message is None:
                    if time.monotonic() > deadline:
                        raise SourceError(place, "cannot be read to its end", retriable=True)
                    continue
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  its API
                    return
                if error is not None and not error.retriable():
                    raise SourceError(place, f"cannot be read: {error.str()}")
                if error is None:
                    deadline = time.monotonic() + settings.patience_s
                    yield message
        finally:
            consumer.close()


def _kind_of(message: Any, place: str) -> bytes:
    """Return the kind of a record. Raises SnapshotError if it is none of ours."""
    kind: bytes = dict(message.headers() or []).get(_KIND) or b""
    is_ours = len(message.key() or b"") == _KEY.size if kind in (_CALL, _PART) else kind == _IMAGE
    if not is_ours:
        found = f"the record at {message.offset()} with the header {_KIND}={kind!r}"
        raise SnapshotError(place, f"holds what no cluster host has written: {found}")
    return kind


def _decode(value: bytes, place: str) -> ImageRecord:
    """Return an image's record. Raises SnapshotError if it is none."""
    try:
        image = msgspec.json.decode(value, type=ImageRecord)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SnapshotError(place, f"has an image's record that cannot be read: {error}") from error
    for stored in image.files:
        if not is_image_name(stored.name) and stored.name not in BESIDE:  # a path could lead out of the local directory
            raise SnapshotError(place, f"has an image's record with a file {shorten(stored.name)}: expected an image")
    return image


def _check_image(image: ImageRecord, topic: CallsTopic, partition: int) -> None:
    """Raise SnapshotError if the newest image is not of this shard. Older ones are from before a split, maybe."""
    place = topic.place(partition)
    own = msgspec.structs.replace(
        image, format=FORMAT, group=topic.group, partition=partition, partitions=topic.partitions
    )
    if image == msgspec.structs.replace(own, partitions=2 * own.partitions):
        raise SnapshotError(
            place, f"a split into {image.partitions} partitions is unfinished: `streamsched cluster split` completes it"
        )
    if image != own:
        found = f"group {image.group}, partition {image.partition} of {image.partitions}, format {image.format}"
        expected = f"group {own.group}, partition {own.partition} of {own.partitions}, format {own.format}"
        raise SnapshotError(place, f"belongs to another cluster: found {found}, expected {expected}")


def _explain_failure(place: str, error: Any) -> SnapshotError:
    """Return why calls cannot be written; StateInUse if another host has taken the partition over."""
    if error.code() in _FENCED:
        return StateInUse(place, "another host owns this partition now")
    return SnapshotError(place, f"cannot be written: {error.str()}")
