"""One formula for all shards: that of shard 0, which one evolution for all of them may replace.

Shard 0's log says which formula is in use, and which challenger is on trial. Every host asks its owner again and again,
and lets its own shards rank alike; so does a shard that has been away. The owner of shard 0 evolves, from samples of
all shards, and judges a trial by what the pages of all shards have shown.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, TypeVar

from msgspec import structs

from streamsched.api.views import ChampionView, TrialCounts
from streamsched.client import Client, RetryPolicy
from streamsched.cluster.cluster_evolver import ClusterEvolver, ask_trial
from streamsched.cluster.partition import Partition, ShardSettings
from streamsched.cluster.shard import LEADING, Shard
from streamsched.errors import FormulaError, ServiceError, SnapshotError, SourceError
from streamsched.evolution.records import RECORDS_NAME
from streamsched.formula.champion import Champion
from streamsched.scheduler.batches.formula_trial import Trial
from streamsched.scheduler.durable import DurableScheduler
from streamsched.service.event_log import LOG
from streamsched.service.stream_hooks import LiveEvolution

_EVERY_S: Final = 1.0
_ANSWER_S: Final = 5.0
_Answer = TypeVar("_Answer")


class CommonFormula:
    """Keeps the formula of the open `partitions` of a host, in a thread, until `close`."""

    def __init__(self, settings: ShardSettings, partitions: Mapping[int, Partition]) -> None:
        self._settings = settings
        self._partitions = partitions
        self._evolution: LiveEvolution | None = None
        self._evolver: ClusterEvolver | None = None
        self._saved: tuple[Shard, int] | None = None  # shard 0, and the bytes of its records at the last look
        self._trouble = ""  # why the last look came to nothing
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="streamsched formula", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End; an evolution under way is given up. Waits a second at most: a shard may be slow to answer."""
        self._stopping.set()
        self._thread.join(_EVERY_S)

    def _run(self) -> None:
        while not self._stopping.wait(_EVERY_S):
            try:
                self._look()
                self._trouble = ""
            except (ServiceError, SnapshotError, SourceError) as error:  # a shard that moves is asked again
                if str(error) != self._trouble:
                    self._trouble = str(error)
                    LOG.info("formula not followed", reason=self._trouble)
            except Exception as error:  # noqa: BLE001  a thread has nobody to raise to
                LOG.error("formula not kept", exc_info=error)
        self._end_evolution()

    def _look(self) -> None:
        """Do what is due: evolve if shard 0 is here, and let the other shards here rank as it does."""
        shards = {number: one.shard for number, one in sorted(self._partitions.items())}
        own = {number: shard for number, shard in shards.items() if shard is not None and not shard.is_refused}
        leading = own.pop(LEADING, None)
        self._evolve(leading)
        if leading is not None:
            self._save_records(leading)
        if own:
            wanted = self._call(LEADING, ask_trial) if leading is None else leading.trial_counts()
            for shard in own.values():
                with suppress(SnapshotError):  # it is given up
                    follow(shard, wanted)

    def _evolve(self, leading: Shard | None) -> None:
        plan = self._settings.run.evolution
        if self._evolver is not None and self._evolver.scheduler is not leading:
            self._end_evolution()
        if plan is None or leading is None or leading.core.catching_up is not None:
            return
        if self._evolution is None:
            self._evolver = ClusterEvolver(leading, plan, self._call, self._settings.calls.partitions)
            self._evolution = LiveEvolution(self._evolver, self._settings.wall)
        self._evolution.tick()

    def _save_records(self, leading: Shard) -> None:
        """Save `leading` if it has new records, of an evolution or of a formula set by hand: its images hold them."""
        path = leading.directory / RECORDS_NAME
        known = (leading, path.stat().st_size if path.exists() else 0)
        if self._saved is not None and self._saved[0] is leading and self._saved != known:
            leading.snapshot()
        self._saved = known

    def _end_evolution(self) -> None:
        if self._evolver is not None:
            self._evolver.close()
        self._evolution = self._evolver = None

    def _call(self, shard: int, call: Callable[[Client], _Answer], timeout_s: float = _ANSWER_S) -> _Answer:
        """Return the answer of the owner of `shard`. Raises ServiceError without one."""
        url = self._settings.owner(shard)
        if url is None:
            raise ServiceError(f"shard {shard}", "nobody owns it")
        token = self._settings.token
        with Client(url, token=token, timeout_s=timeout_s, retries=RetryPolicy(attempts=1)) as client:
            return call(client)


def follow(shard: DurableScheduler, wanted: TrialCounts) -> None:
    """Let `shard` rank by the champion of another shard, and by the challenger on trial there. O(1) if it does."""
    try:
        champion = read_champion(wanted.champion)
        challenger = None if wanted.challenger is None else read_champion(wanted.challenger)
    except FormulaError as error:
        LOG.error("formula of another version", reason=str(error))
        return
    if shard.champion != champion:
        shard.use(champion)
        LOG.info("formula followed", formula=champion.formula.text)
    if challenger is None or wanted.since_s is None:
        if shard.core.trial.current is not None:
            shard.end_trial()
    elif shard.core.trial.current != Trial(challenger, wanted.since_s):
        shard.begin_trial(challenger, now=wanted.since_s)


def read_champion(view: ChampionView) -> Champion:
    """Return the champion that a service shows. Raises FormulaError for a formula of another version."""
    fields = structs.asdict(view)
    del fields["text"]
    return Champion.from_json(fields)
