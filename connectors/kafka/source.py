"""A Kafka topic as a `Source` of crawl outcomes.

::

    with open_source("kafka://localhost:9092/outcomes?group=crawl") as source:
        for delivery in source:
            scheduler.observe(delivery.outcomes)
            ...  # now and then: save the state together with source.positions, then source.commit(those positions)

Reading never commits: the group's offsets are what `commit` was told, so that they only ever follow a saved state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from streamsched.connectors.kafka.clients.factory import open_consumer, open_producer
from streamsched.connectors.kafka.clients.options import connection_options
from streamsched.connectors.kafka.clients.protocol import Messages, OffsetLost, part_path
from streamsched.connectors.kafka.dead_letters import DeadLetters
from streamsched.connectors.kafka.decoding import VERSION_FIELDS, decode_messages
from streamsched.connectors.kafka.kafka_settings import KafkaSettings
from streamsched.connectors.kafka.partition_progress import AssignedPartitions
from streamsched.connectors.kafka.start_offsets import Bounds, Start, check_place, choose_start
from streamsched.connectors.source import Delivery, Position, Rejection
from streamsched.errors import SettingsError, SourceError

__all__ = ["BATCH", "KafkaSource"]

BATCH: Final = 16_384  # messages taken at a time: one decode of small ones is shared by so many
_ROWS: Final = 8_192  # of a delivery, where its frames are small: applying one costs 50 µs beside its rows
_TICK_S: Final = 0.25  # after which a wait looks whether it is still wanted

Handover = Callable[[Mapping[str, Position]], None]


class KafkaSource:
    """A topic as a `Source`; see `streamsched.connectors.kafka.open_kafka`, which makes one. For one thread.

    ``on_revoke(positions)``: called before partitions are taken away, with where they stand: save the state with them
    and commit them, and whoever reads on misses and repeats nothing. It runs while the caller waits in `poll` or for
    the next delivery, perhaps on another thread, after everything delivered has been dealt with.

    ``starts``: where each partition was begun last, by path.
    ``misplaced``, ``unkeyed``: outcomes whose message had another key than their host, or none; they are delivered.
    ``skipped``: messages that were deleted before they were read, where the settings let that pass.
    """

    format: Final = "kafka"

    def __init__(self, settings: KafkaSettings, *, batch: int = BATCH, dead_letters: str | Path | None = None) -> None:
        if batch < 1:
            raise SettingsError("batch", batch, "a whole number of 1 or more")
        self.settings = settings
        self.on_revoke: Handover | None = None
        self.misplaced = self.unkeyed = self.skipped = 0
        self._batch = batch
        self._parts = AssignedPartitions()
        self._saved: dict[int, Position] = {}  # to start at, once a partition is ours
        self.starts: dict[str, Position] = {}
        self._joined = self._stopped = self._closed = self._paused = False
        self._failures: dict[int | None, SourceError] = {}  # by partition; None: of the topic
        sender = replace(settings, options=connection_options(settings.options))
        self._letters = DeadLetters(settings.topic, settings.dead_letters, partial(open_producer, sender), dead_letters)
        with ExitStack() as undo:
            undo.callback(self._letters.close)
            self._consumer = open_consumer(settings)
            undo.callback(self._consumer.close)
            self._numbers = self._choose_numbers()
            undo.pop_all()
        if settings.group is not None:
            self._consumer.subscribe(self)

    @property
    def rejected(self) -> int:
        """Return how many records were rejected since the source was opened."""
        return self._letters.book.count

    @property
    def rejections(self) -> Sequence[Rejection]:
        """Return the last rejections, at most 100, oldest first."""
        return tuple(self._letters.book.last)

    @property
    def positions(self) -> dict[str, Position]:
        """Return where each partition that is ours stands after what was delivered and rejected, by path."""
        return self._parts.positions()

    @property
    def lag(self) -> dict[str, int]:
        """Return how many messages each partition that is ours is behind its end, as last heard; gaps count too."""
        ends = [(part, max(self._consumer.end(part.number) or 0, part.log_end)) for part in self._parts.values()]
        return {part.given.path: max(0, end - part.given.offset) for part, end in ends}

    @property
    def ended(self) -> bool:
        """Whether all was delivered up to the ends that the partitions had, where the settings say to stop there."""
        return self.settings.until_end and self._joined and not self._failures and self._parts.are_done()

    def seek(self, position: Position) -> None:
        """Go to `position`, or begin there once its partition is ours; call it once for each partition.

        Raises SourceError where it is of another topic or no longer in the log (see ``KafkaSettings.lost``).
        """
        self._check_open()
        number = check_place(self.settings, position, self._numbers)
        self._saved[number] = position
        if number in self._parts:
            bounds = self._consumer.bounds([number])[number]
            self._begin(number, bounds, None, self._parts[number].log_end)
            self._consumer.seek(number, self._parts[number].given.offset)
            self._consumer.resume([number])  # it may have been held at its end
            self._failures.pop(number, None)
            self._failures.pop(None, None)

    def poll(self, timeout_s: float) -> Delivery | None:
        """Return the next delivery, None where none comes for `timeout_s`, the source is paused or it is at its end.

        Keeps the membership in the group, also while paused: call it at least every few minutes. Raises SourceError
        where the topic cannot be read on; while brokers are away it waits for them.
        """
        self._check_open()
        if not self._joined and self.settings.group is None:
            self._consumer.assign(self._begin_all(sorted(self._numbers.values())))
        delivery = self._take()
        if delivery is None and not self._failures and not self.ended:
            self._fetch(timeout_s)
            delivery = self._take()
        if delivery is None and self._failures:
            raise next(iter(self._failures.values()))
        return delivery

    def commit(self, positions: Mapping[str, Position]) -> None:
        """Commit `positions` for the group, those of partitions that are ours: only once a saved state holds them.

        Does nothing without a group. Raises SourceError where the brokers do not take it, `retriable` where they may
        take it later; nothing is lost by that, for the next commit makes up for it.
        """
        self._check_open()
        numbers = {self._numbers.get(path): position for path, position in positions.items()}
        offsets = {one: position.offset for one, position in numbers.items() if one is not None and one in self._parts}
        if offsets and self.settings.group is not None:
            self._consumer.commit(offsets)

    def pause(self) -> None:
        """Fetch nothing until `resume`; what is fetched already is still delivered."""
        self._paused = True

    def resume(self) -> None:
        """Fetch again."""
        self._paused = False
        self._consumer.resume([one for one, part in self._parts.items() if not part.is_done()])

    def stop(self) -> None:
        """End the iteration after the delivery at hand; a signal handler or another thread may call it."""
        self._stopped = True

    def close(self) -> None:
        """Leave the group and let go of connections; commits nothing, calls nobody. A second call does nothing."""
        if not self._closed:
            self._closed = True
            try:
                self._letters.close()
            finally:
                self._consumer.close()

    def on_assigned(self, partitions: Sequence[int]) -> Mapping[int, int]:
        """Return where to start in `partitions`; the client calls it."""
        try:
            return self._begin_all(partitions)
        except SourceError as error:
            self._failures[None] = error
            return dict.fromkeys(partitions, 0)  # none of them is ours yet, and what comes from there is dropped

    def on_revoked(self, partitions: Sequence[int], *, lost: bool) -> None:
        """Hand `partitions` over; the client calls it."""
        gone = self._parts.positions(partitions)
        try:
            if gone and self.on_revoke is not None and not lost and not self._closed:
                self.on_revoke(gone)
        except SourceError as error:
            self._failures[None] = error
        finally:
            for one in partitions:
                self._failures.pop(one, None)
                stood = self._parts.drop(one)
                if stood is not None:
                    self._saved[one] = stood  # the state goes on from there, should the partition come back

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Delivery:
        """Return the next delivery, however long it takes; what was rejected before it is in the dead letters."""
        while not self._stopped:
            delivery = self.poll(_TICK_S)
            if delivery is not None:
                return delivery
            if self.ended:
                break
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _choose_numbers(self) -> dict[str, int]:
        """Return the partitions to read, or in a group those there are, by path."""
        there = self._consumer.partitions()
        asked = self.settings.partitions
        if asked is not None and (self.settings.group is not None or not set(asked) <= set(there)):
            expected = f"some of the topic's, 0 to {there[-1]}, and no group"
            raise SettingsError("partitions", asked, expected)
        return {part_path(self.settings.topic, one): one for one in (there if asked is None else asked)}

    def _begin_all(self, partitions: Sequence[int]) -> Mapping[int, int]:
        """Let `partitions` begin, and return where; a failure to be raised later where an offset is gone."""
        bounds = self._consumer.bounds(partitions)
        committed = {} if self.settings.group is None else self._consumer.committed(partitions)
        for one in partitions:
            self._numbers.setdefault(part_path(self.settings.topic, one), one)
            try:
                self._begin(one, bounds[one], committed.get(one), bounds[one][1])
            except SourceError as error:
                self._failures[one] = error
                self._stand(one, Start(error.offset or 0), bounds[one][1])
        self._joined = True
        return {one: min(max(self._parts[one].given.offset, bounds[one][0]), bounds[one][1]) for one in partitions}

    def _begin(self, number: int, bounds: Bounds, committed: int | None, log_end: int) -> None:
        start = choose_start(self.settings, number, bounds, self._saved.get(number), committed)
        self._stand(number, start, log_end)
        self.skipped += start.skipped

    def _stand(self, number: int, start: Start, log_end: int) -> None:
        position = Position(self.format, part_path(self.settings.topic, number), start.offset, start.records)
        self._parts.begin(number, position, log_end, stops=self.settings.until_end)
        self.starts[position.path] = position

    def _take(self) -> Delivery | None:
        """Hand out the next delivery that waits; what was rejected before it counts from now on."""
        while (entry := self._parts.take()) is not None:
            for faulty in entry.faults:
                self._letters.count(entry.number, faulty)
            if entry.faults:
                self._letters.book.flush()
            if entry.run is not None:
                self.misplaced += entry.run.misplaced
                self.unkeyed += entry.run.unkeyed
                return Delivery(entry.run.outcomes, entry.position)
        return None

    def _fetch(self, timeout_s: float) -> None:
        """Take what the client has and decode it."""
        try:
            held = [one for one, part in self._parts.items() if self._paused or part.is_done()]
            if held:
                self._consumer.pause(held)
            chunks = self._consumer.poll(timeout_s, self._batch)
            # What has failed stays where it stands; what comes from there is read again after a seek.
            self._read_all([chunk for chunk in chunks if chunk.partition in self._parts.keys() - self._failures.keys()])
            if not chunks:
                for one in self._parts.keys() - self._failures.keys():
                    self._parts.advance(one, self._consumer.position(one))
        except OffsetLost as lost:
            self._recover(lost.partition)
        except SourceError as error:
            self._failures[None] = error

    def _read_all(self, chunks: Sequence[Messages]) -> None:
        try:
            for messages in chunks:
                self._read(messages)
            self._letters.flush()
        except SourceError as error:
            self._parts.rewind()  # nothing after a letter that is not stored may be dealt with
            self._failures |= dict.fromkeys(self._parts, error)

    def _read(self, messages: Messages) -> None:
        part = self._parts[messages.partition]
        messages = messages.before(part.log_end) if part.stops else messages
        decoded = decode_messages(messages, min(self._batch, _ROWS))
        strange = [faulty for faulty in decoded.faults if faulty.fault.field in VERSION_FIELDS]
        if strange and self.settings.versions == "stop":
            first = min(strange)
            reason = (
                f"{first.fault.field}: {first.fault.reason}, found {first.fault.found}: update streamsched to go on"
            )
            path = part_path(self.settings.topic, messages.partition)
            self._failures[messages.partition] = SourceError(path, reason, first.offset)
            messages = messages.before(first.offset)
            decoded = decode_messages(messages, min(self._batch, _ROWS))
        if not len(messages):
            return
        keys = dict(zip(messages.offsets, messages.keys, strict=True)) if decoded.faults else {}
        for faulty in decoded.faults:
            self._letters.send(messages.partition, keys[faulty.offset], faulty)
        self._parts.add(messages.partition, decoded, messages.offsets[-1] + 1, len(messages))

    def _recover(self, number: int) -> None:
        """Go on in a partition whose next offset was deleted before it was read, if the settings let that pass."""
        if number not in self._parts:
            return
        part = self._parts[number]
        self._saved[number] = part.read
        try:
            self._begin(number, self._consumer.bounds([number])[number], None, part.log_end)
            self._consumer.seek(number, self._parts[number].given.offset)
        except SourceError as error:
            self._failures[number] = error

    def _check_open(self) -> None:
        if self._closed:
            raise SourceError(f"kafka://{self.settings.topic}", "is closed: open it again")
