"""A Kafka topic as a `Source` of crawl outcomes or of change signals.

::

    with open_source("kafka://localhost:9092/outcomes?group=crawl") as source:
        for delivery in source:
            scheduler.observe(delivery.records)
            ...  # from time to time: save the state with source.positions, then source.commit(those positions)

Reading never commits offsets. Only `commit` does, so that committed offsets always follow a saved state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from streamsched.connectors.kafka.clients.factory import open_consumer, open_producer
from streamsched.connectors.kafka.clients.protocol import Messages, OffsetOutOfRange, partition_path
from streamsched.connectors.kafka.dead_letters import DeadLetters
from streamsched.connectors.kafka.decoding import MessageDecoder
from streamsched.connectors.kafka.kafka_settings import SCHEME, KafkaSettings
from streamsched.connectors.kafka.partition_progress import (
    AssignedPartitions,
    Bounds,
    choose_partitions,
    choose_start,
    find_partition,
)
from streamsched.connectors.kafka.topic_watch import TopicWatch
from streamsched.connectors.records import RecordType
from streamsched.connectors.source import Delivery, Position, Records, Rejection, RevokeCallback, Source
from streamsched.errors import InvalidRecord, SettingsError, SourceError

BATCH: Final = 16_384  # most messages in one poll: small messages share the cost of one decode
_ROWS: Final = 8_192  # records to which small frames are merged: applying a delivery costs 50 µs beside its rows
_TICK_S: Final = 0.25  # interval at which a blocking iteration looks whether `stop` was called


class KafkaSource(Source[Records]):
    """A topic as a `Source`, opened by `streamsched.connectors.kafka.open_kafka`. For use by one thread.

    ``on_revoke(positions)`` is called before partitions are revoked: save the state with these positions and commit
    them, and the next reader neither misses nor repeats a message. It runs while the caller waits in `poll` or for the
    next delivery, possibly on another thread, after every earlier delivery has been processed.

    ``misplaced``, ``unkeyed``: delivered records whose message had a key other than their host, or no key.
    ``skipped``: messages that were deleted before they were read, if the settings allow that.
    """

    format = "kafka"
    is_partitioned = True

    def __init__(
        self,
        records: RecordType[Records],
        settings: KafkaSettings,
        *,
        batch: int = BATCH,
        dead_letters: str | Path | None = None,
    ) -> None:
        if batch < 1:
            raise SettingsError("batch", batch, "a whole number of 1 or more")
        self.settings = settings
        self.on_revoke: RevokeCallback | None = None
        self.misplaced = self.unkeyed = self.skipped = 0
        self._batch = batch
        self._kind = records.position_kind(self.format)
        self._decoder = MessageDecoder(records)
        self._assigned: AssignedPartitions[Records] = AssignedPartitions()
        self._saved: dict[int, Position] = {}  # where to start in partitions once they are assigned
        self._starts: dict[str, Position] = {}
        self._joined = self._stopped = self._closed = self._paused = False
        self._failures: dict[int | None, SourceError] = {}  # by partition; None: of the whole topic
        self._letters = DeadLetters(
            records, settings.topic, settings.dead_letters, partial(open_producer, settings), dead_letters
        )
        with ExitStack() as undo:
            undo.callback(self._letters.close)
            self._consumer = open_consumer(settings)
            undo.callback(self._consumer.close)
            self._numbers = choose_partitions(settings, self._consumer.partitions())
            self._watch = TopicWatch(settings, self._consumer)
            undo.pop_all()
        if settings.group is not None:
            self._consumer.subscribe(self)

    @property
    def rejected(self) -> int:
        """The number of records rejected since the source was opened."""
        return self._letters.rejections.count

    @property
    def rejections(self) -> Sequence[Rejection]:
        """The last rejections, at most 100, oldest first."""
        return tuple(self._letters.rejections.last)

    @property
    def positions(self) -> dict[str, Position]:
        """The position of each assigned partition by path, past delivered and rejected messages."""
        return self._assigned.positions()

    @property
    def starts(self) -> Mapping[str, Position]:
        """The position at which reading of each partition began last, by path."""
        return self._starts

    @property
    def ends(self) -> dict[str, int]:
        """The end that the log of each assigned partition had when it was assigned, by path."""
        return {part.delivered.path: part.log_end for part in self._assigned.values()}

    @property
    def lag(self) -> dict[str, int]:
        """The number of messages between each assigned partition's position and its last known end; gaps count."""
        ends = [(part, max(self._consumer.end(part.number) or 0, part.log_end)) for part in self._assigned.values()]
        return {part.delivered.path: max(0, end - part.delivered.offset) for part, end in ends}

    @property
    def ended(self) -> bool:
        """Whether `until_end` is set and everything up to the ends at the start has been delivered."""
        return self.settings.until_end and self._joined and not self._failures and self._assigned.are_done()

    def counts(self) -> dict[str, int]:
        """Return the counters ``rejected``, ``misplaced``, ``unkeyed`` and ``skipped``, and the total ``lag``."""
        names = ("rejected", "misplaced", "unkeyed", "skipped")
        return {name: getattr(self, name) for name in names} | {"lag": sum(self.lag.values())}

    def owns(self, path: str) -> bool:
        """Return whether `path` names a partition of this topic."""
        return path.startswith(SCHEME) and path.removeprefix(SCHEME).rpartition("/")[0] == self.settings.topic

    def seek(self, position: Position) -> None:
        """Continue at `position`, or start there once its partition is assigned; call it once for each partition.

        Raises SourceError if it belongs to another topic or its offset is not in the log (see ``KafkaSettings.lost``).
        """
        self._check_open()
        number = find_partition(self.settings, position, self._kind, self._numbers)
        self._saved[number] = position
        if number in self._assigned:
            self._watch.begin()
            bounds = self._consumer.bounds([number])[number]
            self._begin(number, bounds, None, self._assigned[number].log_end)
            self._consumer.seek(number, self._assigned[number].delivered.offset)
            self._consumer.resume([number])  # it may have been paused at its end
            self._failures.pop(number, None)
            self._failures.pop(None, None)

    def poll(self, timeout_s: float) -> Delivery[Records] | None:
        """Return the next delivery; None if none arrives within `timeout_s`, or if paused or at the end.

        Keeps the membership in the group alive, also while paused: call it at least every few minutes. Raises
        SourceError if the topic cannot be read further; unreachable brokers are waited for.
        """
        self._check_open()
        if not self._joined and self.settings.group is None:
            self._consumer.assign(self._begin_all(sorted(self._numbers.values())))
        delivery = self._next_delivery()
        if delivery is None and not self._failures and not self.ended:
            self._fetch(timeout_s)
            delivery = self._next_delivery()
        if delivery is None and self._failures:
            raise next(iter(self._failures.values()))
        return delivery

    def deliveries(self, timeout_s: float) -> Iterator[Delivery[Records] | None]:
        """Yield deliveries until the source ends, and None whenever none arrives within `timeout_s`."""
        while not self.ended:
            yield self.poll(timeout_s)

    def reject(self, delivery: Delivery[Records], problems: Sequence[InvalidRecord]) -> None:
        """Count records of the last `delivery` as rejected, and send them to the dead letters as JSON. O(bytes).

        Their place is the last message of the delivery.
        """
        self._letters.reject(self._numbers[delivery.position.path], delivery, problems)

    def commit(self, positions: Mapping[str, Position]) -> None:
        """Commit `positions` of assigned partitions for the group; only positions that a saved state holds.

        Does nothing without a group. Raises SourceError if the brokers do not accept it, `retriable` if they may accept
        it later; the next commit makes up for a failed one.
        """
        self._check_open()
        numbers = {self._numbers.get(path): position for path, position in positions.items()}
        offsets = {
            number: position.offset
            for number, position in numbers.items()
            if number is not None and number in self._assigned
        }
        if offsets and self.settings.group is not None:
            self._consumer.commit(offsets)

    def pause(self) -> None:
        """Fetch nothing until `resume`; messages that are already fetched are still delivered."""
        self._paused = True

    def resume(self) -> None:
        """Fetch again after `pause`."""
        self._paused = False
        self._consumer.resume([number for number, part in self._assigned.items() if not part.is_done()])

    def stop(self) -> None:
        """End the iteration after the current delivery; may be called by a signal handler or another thread."""
        self._stopped = True

    def close(self) -> None:
        """Leave the group and close connections, without a commit or a callback; a second call does nothing."""
        if not self._closed:
            self._closed = True
            try:
                self._letters.close()
            finally:
                self._consumer.close()

    def on_assigned(self, partitions: Sequence[int]) -> Mapping[int, int]:
        """Return the offset to start at in each of `partitions`. Called by the client."""
        try:
            return self._begin_all(partitions)
        except SourceError as error:
            self._failures[None] = error
            return dict.fromkeys(partitions, 0)  # none of them counts as assigned, so their messages are dropped

    def on_revoked(self, partitions: Sequence[int], *, lost: bool) -> None:
        """Call ``on_revoke`` for `partitions`, unless they are `lost`, and drop them. Called by the client."""
        revoked = self._assigned.positions(partitions)
        try:
            if revoked and self.on_revoke is not None and not lost and not self._closed:
                self.on_revoke(revoked)
        except SourceError as error:
            self._failures[None] = error
        finally:
            for number in partitions:
                self._failures.pop(number, None)
                position = self._assigned.drop(number)
                if position is not None:
                    self._saved[number] = position  # to continue there if the partition is assigned again

    def __next__(self) -> Delivery[Records]:
        """Return the next delivery, however long it takes, after the dead letters of records rejected before it."""
        while not self._stopped:
            delivery = self.poll(_TICK_S)
            if delivery is not None:
                return delivery
            if self.ended:
                break
        raise StopIteration

    def _begin_all(self, partitions: Sequence[int]) -> Mapping[int, int]:
        """Start `partitions` and return their first offsets; a lost offset is raised later, by `poll`."""
        self._watch.begin()
        bounds = self._consumer.bounds(partitions)
        committed = {} if self.settings.group is None else self._consumer.committed(partitions)
        for number in partitions:
            self._numbers.setdefault(partition_path(self.settings.topic, number), number)
            try:
                self._begin(number, bounds[number], committed.get(number), bounds[number][1])
            except SourceError as error:
                self._failures[number] = error
                lost = self._saved.get(number) or self._position(number, error.offset or 0)
                self._set_position(number, lost, bounds[number][1])
        self._joined = True
        return self._assigned.offsets_within({number: bounds[number] for number in partitions})

    def _begin(self, number: int, bounds: Bounds, committed: int | None, log_end: int) -> None:
        first = self._position(number)
        start = choose_start(self.settings, first, bounds, self._saved.get(number), committed)
        self._set_position(number, replace(first, offset=start.offset, records=start.records), log_end)
        self.skipped += start.skipped

    def _position(self, number: int, offset: int = 0) -> Position:
        return Position(self._kind, partition_path(self.settings.topic, number), offset, 0, self._watch.topic_id)

    def _set_position(self, number: int, position: Position, log_end: int) -> None:
        self._assigned.begin(number, position, log_end, stops=self.settings.until_end)
        self._starts[position.path] = position

    def _next_delivery(self) -> Delivery[Records] | None:
        """Return the next pending delivery, and count the messages rejected before it."""
        while (pending := self._assigned.take()) is not None:
            self._letters.count_all(pending.number, pending.rejected)
            if pending.decoded is not None:
                self.misplaced += pending.decoded.misplaced
                self.unkeyed += pending.decoded.unkeyed
                return Delivery(pending.decoded.records, pending.position)
        return None

    def _fetch(self, timeout_s: float) -> None:
        """Poll the client once and decode the messages."""
        try:
            held = [number for number, part in self._assigned.items() if self._paused or part.is_done()]
            if held:
                self._consumer.pause(held)
            chunks = self._consumer.poll(timeout_s, self._batch)
            if self._watch.is_other(has_read=bool(chunks)):
                self._begin_other()
                return
            # A failed partition keeps its position; its messages are read again after a seek.
            active = self._assigned.keys() - self._failures.keys()
            self._decode_all([chunk for chunk in chunks if chunk.partition in active])
            if not chunks:
                for number in self._assigned.keys() - self._failures.keys():
                    self._assigned.advance(number, self._consumer.position(number))
        except (OffsetOutOfRange, SourceError) as problem:
            self._recover(problem)

    def _recover(self, problem: OffsetOutOfRange | SourceError) -> None:
        """Continue after a `problem` of the consumer, if it is a loss that the settings allow."""
        try:
            if self._watch.is_other(has_read=True, at_once=True):
                self._begin_other()
            elif isinstance(problem, OffsetOutOfRange):
                self._restart(problem.partition)
            else:
                raise problem
        except SourceError as error:
            self._failures[None] = error

    def _decode_all(self, chunks: Sequence[Messages]) -> None:
        try:
            for messages in chunks:
                self._decode(messages)
            self._letters.flush()
        except SourceError as error:
            self._assigned.rewind()  # nothing after a dead letter that is not stored may be delivered
            self._failures |= dict.fromkeys(self._assigned, error)

    def _decode(self, messages: Messages) -> None:
        number = messages.partition
        part = self._assigned[number]
        messages = messages.before(part.log_end) if part.stops else messages
        result = self._decoder.decode(messages, min(self._batch, _ROWS))
        unknown = result.first_unknown_version()
        if unknown is not None and self.settings.versions == "stop":
            fault = unknown.fault
            reason = f"{fault.field}: {fault.reason}, found {fault.found}: update streamsched to read it"
            self._failures[number] = SourceError(partition_path(self.settings.topic, number), reason, unknown.offset)
            messages = messages.before(unknown.offset)
            result = self._decoder.decode(messages, min(self._batch, _ROWS))
        if not len(messages):
            return
        self._letters.send_all(messages, result.rejected)
        self._assigned.add(number, result, messages.offsets[-1] + 1, len(messages))

    def _begin_other(self) -> None:
        """Begin in the topic that has the name now, if the settings allow that what is left of the other is lost."""
        if self.settings.group is None and self.settings.partitions is None:
            found = len(self._watch.partitions)
            if found != len(self._numbers):
                reason = f"was deleted and made again with {found} partitions in place of {len(self._numbers)}"
                raise SourceError(f"kafka://{self.settings.topic}", f"{reason}: open it again")
        self._saved |= {number: part.read for number, part in self._assigned.items()}
        starts = self._begin_all(sorted(self._assigned))
        for number in starts.keys() - self._failures.keys():
            self._consumer.seek(number, starts[number])
            self._consumer.resume([number])

    def _restart(self, number: int) -> None:
        """Continue in a partition whose next offset was deleted before it was read, if the settings allow that."""
        if number not in self._assigned:
            return
        part = self._assigned[number]
        self._saved[number] = part.read
        try:
            self._begin(number, self._consumer.bounds([number])[number], None, part.log_end)
            self._consumer.seek(number, self._assigned[number].delivered.offset)
        except SourceError as error:
            self._failures[number] = error

    def _check_open(self) -> None:
        if self._closed:
            raise SourceError(f"kafka://{self.settings.topic}", "is closed: open it again")
