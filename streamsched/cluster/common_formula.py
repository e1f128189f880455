"""One formula for all shards: that of shard 0, which one evolution for all of them may replace.

Shard 0's log says which formula is in use, and which challenger is on trial. Every host asks its owner again and again,
and lets its own shards rank alike; so does a shard that has been away. The owner of shard 0 evolves, from samples of
all shards, and judges a trial by what the pages of all shards have shown.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

import numpy as np
from msgspec import structs

from streamsched.api.views import ChampionView, TrialCounts, TrialView
from streamsched.client import Client
from streamsched.cluster.partition import Partition, ShardSettings
from streamsched.cluster.shard import LEADING, Shard
from streamsched.errors import FormulaError, ServiceError, SnapshotError, SourceError
from streamsched.evolution.data.change_history import ChangeHistory
from streamsched.evolution.data.training_data import tell_apart
from streamsched.evolution.exchange_files import unpack_exchange
from streamsched.evolution.plan import EvolutionPlan
from streamsched.evolution.records import RECORDS_NAME, DataSpan
from streamsched.evolution.sequential_test import weigh_evidence
from streamsched.formula.champion import Champion
from streamsched.records.trial_counts import ARMS, BLOCKS, ROUNDS
from streamsched.records.visit_journal import SAMPLE_PAGES
from streamsched.scheduler.batches.formula_trial import Trial
from streamsched.scheduler.durable import DurableScheduler
from streamsched.scheduler.evolver import Evolver, bound_draws
from streamsched.service.event_log import LOG
from streamsched.service.stream_hooks import LiveEvolution

_EVERY_S: Final = 1.0
_ANSWER_S: Final = 5.0
_LOOK_S: Final = 60.0  # between two looks at a trial
_SAMPLE_S: Final = 120.0  # in which a shard must answer with its sample


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
            wanted = self._settings.ask(LEADING, ask_trial, _ANSWER_S) if leading is None else leading.trial_counts()
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
            self._evolver = ClusterEvolver(leading, plan, self._settings)
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


def add_up_trials(shown: Sequence[TrialCounts]) -> TrialCounts:
    """Return the trial of the first shard with the counts of all; those that have another trial or none add none."""
    leading = shown[LEADING]
    alike = [one for one in shown if (one.challenger, one.since_s) == (leading.challenger, leading.since_s)]
    finds, costs = (np.sum([getattr(one, name) for one in alike], axis=0).tolist() for name in ("finds", "costs"))
    return structs.replace(leading, finds=finds, costs=costs, pages=sum(one.pages for one in shown))


def ask_trial(client: Client) -> TrialCounts:
    """Return the formula and the trial of a shard."""
    return client.trial()


def view_trial(shown: TrialCounts) -> TrialView | None:
    """Return a trial and its evidence, None without one. O(1)."""
    if shown.challenger is None or shown.since_s is None:
        return None
    finds, costs = (np.reshape(counts, (ROUNDS, ARMS, BLOCKS)) for counts in (shown.finds, shown.costs))
    return TrialView(challenger=shown.challenger.formula, since_s=shown.since_s, evidence=weigh_evidence(finds, costs))


class ClusterEvolver(Evolver):
    """Evolves the formula of shard 0, `leading`, from samples of all shards.

    Records and elites are in the state directory of shard 0, and in its images. The log of the shard is what says
    which formula is in use: it has each one from the moment it ranks on.
    """

    def __init__(self, leading: DurableScheduler, plan: EvolutionPlan, settings: ShardSettings) -> None:
        self._ask = settings.ask
        self._shards = range(settings.calls.partitions)
        self._looked_s: float | None = None
        super().__init__(leading, plan, leading.directory)

    def _catch_up(self, champion: Champion) -> None:
        """Keep the formula in use: records can be older than the log."""

    def _next_number(self) -> int:
        self._number = max(self._number, (self.scheduler.champion.record or 0) + 1)  # of a record that was not saved
        return super()._next_number()

    def _view_trial(self, now: float) -> TrialView | None:
        """Return the trial and the evidence of all shards; None if it was looked at a minute ago, or one is silent."""
        if self._looked_s is not None and 0.0 <= now - self._looked_s < _LOOK_S:
            return None
        self._looked_s = now
        try:
            return view_trial(add_up_trials([self._ask(shard, ask_trial, _ANSWER_S) for shard in self._shards]))
        except ServiceError:
            return None

    def _gather(self, now: float, seed: int) -> tuple[Sequence[ChangeHistory], DataSpan]:
        """Return the histories of a sample of the pages of all shards. Raises ServiceError if a shard is silent."""
        pages = sum(self._ask(shard, ask_trial, _ANSWER_S).pages for shard in self._shards)
        # Each shard journals at least that share of its pages, whatever its size: the sample is uniform.
        share = min(1.0, SAMPLE_PAGES / 2.0 / max(pages, 1))
        draws = bound_draws(self.plan.draws, round(share * pages) * self.plan.history)
        samples = []
        for shard in self._shards:

            def ask(client: Client) -> bytes:
                return client.training(self.plan.history, now=now, share=share, draws=draws, seed=seed).data

            samples.append(unpack_exchange(self._ask(shard, ask, _SAMPLE_S), f"sample of shard {shard}")[:2])
        return join_samples(samples)


def join_samples(samples: Sequence[tuple[list[ChangeHistory], DataSpan]]) -> tuple[list[ChangeHistory], DataSpan]:
    """Return the samples of shards as one, of the cycles that all with pages have. O(pages · cycles)."""
    some = [one for one in samples if one[1].pages] or samples[:1]
    cycles = min(data.cycles for _, data in some)
    draws = max(len(histories) for histories, _ in some)
    parts = [[one.span(one.cycles - cycles, cycles) for one in histories] for histories, _ in some]
    joined = [ChangeHistory.join([part[draw % len(part)] for part in parts]) for draw in range(draws)]
    hashes = tell_apart(joined[0].hashes)
    span = [data for _, data in some]
    pages = sum(data.pages for data in span)
    return [replace(history, hashes=hashes) for history in joined], DataSpan(
        max(data.start_s for data in span),
        cycles,
        pages,
        sum(data.observed * data.pages for data in span) / max(pages, 1),
        sum(data.panel for data in span),
        sum(data.newcomers for data in span),
    )
