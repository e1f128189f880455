"""One evolution for all shards: shard 0's owner learns from samples of all, and adds up what a trial shows in each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from msgspec import structs

from streamsched.api.views import TrialCounts, TrialView
from streamsched.client import Client
from streamsched.cluster.shard import LEADING
from streamsched.errors import ServiceError
from streamsched.evolution.data.change_history import ChangeHistory
from streamsched.evolution.data.training_data import tell_apart
from streamsched.evolution.exchange_files import unpack_exchange
from streamsched.evolution.plan import EvolutionPlan
from streamsched.evolution.records import DataSpan
from streamsched.evolution.sequential_test import weigh_evidence
from streamsched.formula.champion import Champion
from streamsched.records.trial_counts import ARMS, BLOCKS, ROUNDS
from streamsched.records.visit_journal import SAMPLE_PAGES
from streamsched.scheduler.durable import DurableScheduler
from streamsched.scheduler.evolver import Evolver, bound_draws

_LOOK_S: Final = 60.0  # between two looks at a trial
_SAMPLE_S: Final = 120.0  # in which a shard must answer with its sample


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
    """Evolves the formula of shard 0, `leading`, from samples of all `count` shards, whose owners `call` reaches.

    Records and elites are in the state directory of shard 0, and in its images. The log of the shard is what says
    which formula is in use: it has each one from the moment it ranks on.
    """

    def __init__(self, leading: DurableScheduler, plan: EvolutionPlan, call: Callable[..., Any], count: int) -> None:
        self._call = call
        self._shards = range(count)
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
            return view_trial(add_up_trials([self._call(shard, ask_trial) for shard in self._shards]))
        except ServiceError:
            return None

    def _gather(self, now: float, seed: int) -> tuple[Sequence[ChangeHistory], DataSpan]:
        """Return the histories of a sample of the pages of all shards. Raises ServiceError if a shard is silent."""
        pages = sum(self._call(shard, ask_trial).pages for shard in self._shards)
        # Each shard journals at least that share of its pages, whatever its size: the sample is uniform.
        share = min(1.0, SAMPLE_PAGES / 2.0 / max(pages, 1))
        draws = bound_draws(self.plan.draws, round(share * pages) * self.plan.history)
        samples = []
        for shard in self._shards:

            def ask(client: Client) -> bytes:
                return client.training(self.plan.history, now=now, share=share, draws=draws, seed=seed).data

            samples.append(unpack_exchange(self._call(shard, ask, _SAMPLE_S), f"sample of shard {shard}")[:2])
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
