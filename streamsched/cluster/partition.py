"""A partition that a host owns: taken over, served, and given up, on a thread of its own."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar

from streamsched.client import Client, RetryPolicy
from streamsched.cluster.foreign_pages import ForeignPages, rereading_own
from streamsched.cluster.image_store import ImageStore
from streamsched.cluster.shard import KEPT, Shard, ShardLog, write_shard_changes
from streamsched.cluster.topic_log import CallsTopic
from streamsched.connectors.kafka.clients.protocol import partition_path
from streamsched.connectors.kafka.kafka_settings import read_settings
from streamsched.connectors.kafka.source import KafkaSource
from streamsched.connectors.records import OUTCOMES, SIGNALS
from streamsched.connectors.source import AnySource
from streamsched.errors import ServiceError, SettingsError, SnapshotError, SourceError, StateInUse
from streamsched.http.app import HttpApp
from streamsched.http.open_http import open_app
from streamsched.http.service import Service
from streamsched.outcomes import OutcomeBatch
from streamsched.persistence.call_codec import Rereader
from streamsched.service.arrivals import Arrival, arrivals
from streamsched.service.event_log import LOG
from streamsched.service.http_settings import HttpSettings
from streamsched.service.ingest_loop import IngestLoop
from streamsched.service.run_settings import RunSettings
from streamsched.service.setup import open_run_state, resume_source

_TICK_S: Final = 0.25  # most time of a wait for messages before a stop is noticed
_RETRY_S: Final = 1.0  # before a partition is opened again after an error
_LONGEST_RETRY_S: Final = 16.0  # after several errors
_FENCED_S: Final = 10.0  # before it is opened again after another host has taken it: by then the group has decided
_LOCAL: Final = "partition-{}"
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """What the shards of a host share: its settings, the topic of calls, the store of images and the clock.

    ``owner``: returns the URL at which a shard is served now, None if it is not; ``token``: by which hosts call others.
    """

    run: RunSettings
    http: HttpSettings
    calls: CallsTopic
    store: ImageStore
    wall: Callable[[], float]
    owner: Callable[[int], str | None]
    token: str | None

    def ask(self, shard: int, call: Callable[[Client], Answer], timeout_s: float) -> Answer:
        """Return what `call` returns of a client of the owner of `shard`. Raises ServiceError without an answer."""
        url = self.owner(shard)
        if url is None:
            raise ServiceError(f"shard {shard}", "nobody owns it")
        with Client(url, token=self.token, timeout_s=timeout_s, retries=RetryPolicy(attempts=1)) as client:
            return call(client)


def remove_left(directory: Path) -> None:
    """Remove what partitions that were open in a process before have left in the local `directory`."""
    for left in directory.glob(_LOCAL.format("*-*")):
        shutil.rmtree(left, ignore_errors=True)


class Partition:
    """Partition `number`, opened and served by a thread until `give_up`, or `lose` if another host has it.

    ``shard``, ``app``: its scheduler, and the application that answers for it; None while it is not open.
    """

    def __init__(self, settings: ShardSettings, number: int) -> None:
        self.number = number
        self.shard: Shard | None = None
        self.app: HttpApp[Service] | None = None
        self._settings = settings
        self._stopping = threading.Event()
        self._keeps = True  # whether it is saved at its end
        self._thread = threading.Thread(target=self._run, name=f"streamsched partition {number}", daemon=True)
        self._thread.start()

    def begin_to_give_up(self) -> None:
        """Refuse new requests, finish those under way, save, and end; see `wait`."""
        if self.app is not None:
            self.app.refuse_requests()
        self._stopping.set()

    def wait(self, timeout_s: float) -> bool:
        """Return whether it has ended; after `timeout_s` it is abandoned, and its next owner replays more."""
        self._thread.join(max(timeout_s, 0.0))
        if not self._thread.is_alive():
            return True
        LOG.warning("partition abandoned: it could not be saved in time", partition=self.number)
        self.lose()
        return False

    def lose(self) -> None:
        """Refuse every call from now on: the partition belongs to another host. Waits for nothing."""
        self._keeps = False
        self._stopping.set()
        shard = self.shard
        if self.app is not None:
            self.app.refuse_requests()
        if shard is not None:
            shard.refuse(StateInUse(self._path, "the partition was taken away from this host"))

    @property
    def position(self) -> int | None:
        """The offset of the stream in the newest image, None without one."""
        shard = self.shard
        found = None if shard is None else shard.saved.positions.get(self._path)
        return None if found is None else int(found["offset"])

    @property
    def _path(self) -> str:
        return partition_path(read_settings(self._settings.run.source).topic, self.number)

    def _run(self) -> None:
        """Open and serve it, again after errors, until it is given up or lost."""
        pause_s = _RETRY_S
        while not self._stopping.is_set():
            try:
                self._serve()
                pause_s = _RETRY_S
            except (SnapshotError, SourceError, SettingsError) as error:
                pause_s = _FENCED_S if isinstance(error, StateInUse) else min(2.0 * pause_s, _LONGEST_RETRY_S)
                if self._keeps:
                    LOG.error("partition failed", partition=self.number, reason=str(error))
            except Exception as error:  # noqa: BLE001  a thread has nobody to raise to; other partitions go on
                pause_s = min(2.0 * pause_s, _LONGEST_RETRY_S)
                LOG.error("partition failed", partition=self.number, exc_info=error)
            finally:
                self.app = self.shard = None
            self._stopping.wait(pause_s)

    def _serve(self) -> None:
        """Take the partition over and serve it until it is given up or lost. Raises what ends it."""
        settings, begun = self._settings, time.monotonic()
        if self.number >= settings.calls.partitions:
            found = f"{self.number + 1} or more, since the host was started"
            raise SettingsError(
                "partitions", found, f"{settings.calls.partitions}: `streamsched cluster split` adds some"
            )
        with ExitStack() as stack:
            # A directory of its own: a thread that has lost the partition before may still be busy with it.
            prefix = f"{_LOCAL.format(self.number)}-"
            opened = TemporaryDirectory(prefix=prefix, dir=settings.run.state, ignore_cleanup_errors=True)
            own = replace(settings.run, state=Path(stack.enter_context(opened)))
            if own.changes.to is not None:
                own = replace(own, changes=replace(own.changes, keep=KEPT))
            # 1. Fence the owner before, and fetch what it has left.
            log = ShardLog(settings.calls, self.number, settings.store, settings.wall, self._is_wanted)
            nbytes = log.fetch(own.state)
            # 2. Open it: the images, the calls since, with the turns of outcomes between them.
            shard = open_run_state(own, settings.wall, is_live=True, opening=partial(self._open_shard, log))
            assert isinstance(shard, Shard)
            stack.callback(shard.disown)
            if own.changes.to is not None:
                writer = stack.enter_context(write_shard_changes(own, shard, self.number))
                shard.await_written = writer.await_written
            outcomes = stack.enter_context(self._open_source(own.source, OUTCOMES))
            sources: list[AnySource] = [outcomes]
            if own.signals.source is not None:
                sources.append(stack.enter_context(self._open_source(own.signals.source, SIGNALS)))
            for one in sources:
                resume_source(one, shard, own)
            # 3. Serve it while it reads on.
            shard.core.catching_up = self._path
            # The directory ends with the block, which must not cost the audit log.
            http = replace(settings.http, audit=settings.run.state / f"audit-{self.number}.jsonl")
            if http.snapshots is not None:
                http = replace(http, snapshots=Path(http.snapshots) / _LOCAL.format(self.number))
            app = stack.enter_context(open_app(shard, http, settings.wall))
            loop = IngestLoop(
                shard,
                outcomes,
                signals=sources[1] if len(sources) > 1 else None,
                hooks=[
                    ForeignPages(self.number, settings.calls.partitions, settings.ask, partial(self._goes_on, shard))
                ],
                pause=app.service.thread.let_pass,
                about={"partition": self.number},
            )
            self.shard, self.app = shard, app
            seconds = round(time.monotonic() - begun, 3)
            LOG.info("partition taken", partition=self.number, pages=len(shard), bytes=nbytes, seconds=seconds)
            failure = loop.run(self._arrivals(loop, shard), partial(self._look, shard, outcomes))
            app.refuse_requests()
            if self._stopping.is_set() and self._keeps:
                begun = time.monotonic()
                loop.finish()
                shard.close()
                seconds = round(time.monotonic() - begun, 3)
                LOG.info("partition given up", partition=self.number, pages=len(shard), seconds=seconds)
            elif shard.trouble is not None:
                raise shard.trouble
            elif failure is not None:
                raise failure

    def _is_wanted(self) -> bool:
        return not self._stopping.is_set()

    def _goes_on(self, shard: Shard) -> bool:
        return not (self._stopping.is_set() or shard.is_refused)

    def _open_shard(self, log: ShardLog, *args: Any, reread: Rereader, **given: Any) -> Shard:
        own = rereading_own(reread, self.number, self._settings.calls.partitions)
        return Shard.open(*args, reread=own, log=log, **given)

    def _open_source(self, url: str, records: Any) -> KafkaSource[Any]:
        run = self._settings.run
        topic = read_settings(url, run.kafka)
        letters = run.dead_letters if records is OUTCOMES else run.signals.dead_letters
        if letters is not None:
            letters = letters.with_name(f"{letters.name}.{self.number}")
        alone = replace(topic, group=None, partitions=(self.number,), client="confluent", until_end=False)
        return KafkaSource(records, alone, dead_letters=letters)

    def _arrivals(self, loop: IngestLoop, shard: Shard) -> Iterator[Arrival | None]:
        """Yield what arrives until it is given up or lost, or its log refuses calls."""
        for arrival in arrivals(loop.streams, shard.core.reached.beyond, shard.latest_time, _TICK_S):
            yield arrival  # the source's position is past it: it must be applied before the positions are saved
            if not self._goes_on(shard):
                return

    def _look(self, shard: Shard, source: KafkaSource[OutcomeBatch], loop: IngestLoop) -> None:  # noqa: ARG002
        """Note whether the end is reached that the partition had when it was taken over."""
        if shard.core.catching_up is None:
            return
        applied = shard.positions
        if all(applied.get(path, {"offset": 0})["offset"] >= end for path, end in source.ends.items()) and source.ends:
            LOG.info("partition caught up", partition=self.number)
            shard.core.catching_up = None
