"""The trial of a challenger: a share of the pages is ranked by it, until what both arms found says which is better.

`records.trial_counts` says which pages those are, and counts; `evolution.sequential_test` weighs the counts. Each batch
has as large a share of the challenger's arm as that arm has of the pages. Its best pages are merged with those of the
champion's arm by their places in either list, so that hosts with few slots give them to both arms alike. Pages with
priority, the panel's, those of the quotas and surge probes come first or replace others as without a trial.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from streamsched.api.views import TrialEvidence
from streamsched.evolution.sequential_test import weigh_evidence
from streamsched.formula.champion import Champion
from streamsched.numerics.arrays import Bools, Floats, Ints
from streamsched.politeness.priority import BY_SCORE
from streamsched.ranking.full_scan import FullScan, HostPages, Query, Ranked, fill_slots
from streamsched.ranking.host_slots import HostSlots
from streamsched.reasons import Reason, ReasonCode
from streamsched.records.schema import ShardArrays
from streamsched.records.trial_counts import ARMS, BLOCKS, ROUNDS, find_in_arm, start_counting

ROUND_CYCLES: Final = 14  # cycles of a round: two weeks, so that each has all days of the week
_SHARE: Final = 0.1  # of the pages in the challenger's arm ...
_MOST_PAGES: Final = 1 << 16  # ... but no more than these, as each query scores them all
_WIDER: Final = 1.5  # factor by which more pages are asked for if too few were not the challenger's
_FEW: Final = 16
_NO_ROWS: Final = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial: the `challenger`, its origin as it would be the champion's, and when it began, UTC epoch seconds."""

    challenger: Champion
    start_s: float


class FormulaTrial:
    """The trial of one scheduler, if there is one. For one call at a time, under the scheduler's lock.

    ``round_s``: the length of a round.
    """

    def __init__(self, seed: int, cycle_s: float, threads: int | None) -> None:
        self.current: Trial | None = None
        self._seed = seed
        self.round_s = ROUND_CYCLES * cycle_s
        self._threads = threads
        self._scan: FullScan | None = None
        self._slots = HostSlots()
        self._width = 1.0 + 2.0 * _SHARE  # pages that the champion is asked for, times those wanted
        self._round = -1  # of `_arm`: the rows of its pages, of those before row `_searched`
        self._arm = _NO_ROWS
        self._searched = 0

    def begin(self, shard: ShardArrays, trial: Trial) -> None:
        """Begin `trial`, in place of another. O(1)."""
        text = f"{self._seed} {trial.challenger.record} {trial.start_s!r}"
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        share = min(_SHARE, _MOST_PAGES / max(int(shard.corpus["pages"][0]), 1))
        start_counting(
            shard.corpus,
            salt=int.from_bytes(digest, "little"),
            bar=int(share * 2.0**64),
            start_s=trial.start_s,
            round_s=self.round_s,
        )
        self._use(trial)

    def end(self, shard: ShardArrays) -> None:
        """End the trial, and forget its counts. O(1)."""
        start_counting(shard.corpus, salt=0, bar=0, start_s=0.0, round_s=1.0)
        self._use(None)

    def state(self) -> dict[str, Any] | None:
        """Return what the page table does not hold, as plain values for JSON; `restore` takes it."""
        trial = self.current
        if trial is None:
            return None
        return {"challenger": trial.challenger.to_json(), "start_s": trial.start_s}

    def restore(self, state: dict[str, Any] | None) -> None:
        """Continue from what `state` returned. Raises FormulaError if this version cannot use the challenger."""
        self._use(None if state is None else Trial(Champion.from_json(state["challenger"]), state["start_s"]))

    def evidence(self, shard: ShardArrays) -> TrialEvidence:
        """Return what the trial has shown so far. O(1)."""
        finds, costs = (
            shard.corpus[name][0].reshape(ROUNDS, ARMS, BLOCKS).copy() for name in ("trial_finds", "trial_costs")
        )
        return weigh_evidence(finds, costs)

    def is_over(self, now: float) -> bool:
        """Return whether the last round has ended by `now`."""
        return self.current is not None and now >= self.current.start_s + ROUNDS * self.round_s

    def ranking_of(self, shard: ShardArrays, row: int, now: float) -> tuple[Champion, FullScan] | None:
        """Return the challenger and its ranking if the page of `row` is in its arm at `now`, else None. O(1)."""
        trial, number = self.current, self._number(now)
        if trial is None or self._scan is None or number is None:
            return None
        return (trial.challenger, self._scan) if self._is_inside(shard, np.array([row]), number)[0] else None

    def reason(self) -> Reason:
        """Return the reason of a page that the challenger ranks: its formula, and since when. O(1)."""
        if self.current is None:
            raise ValueError("reason: expected a trial, found none")
        text = self.current.challenger.formula.text
        return Reason(ReasonCode.IN_TRIAL, {"formula": text, "since_s": self.current.start_s})

    def choose(
        self, shard: ShardArrays, query: Query, rank: Callable[[Query], tuple[Query, Ranked]]
    ) -> tuple[Query, Ranked]:
        """Return what `rank` returns for `query`, with the pages that `join` needs beyond those of the arm.

        Pages that the challenger leaves alone come to the top of the champion's list: it is asked for ever more pages
        until enough are not the challenger's. O(k + arm) at most.
        """
        number = self._number(query.now)
        if number is None:
            return rank(query)
        most = int(shard.corpus["pages"][0])
        while True:
            asked = min(math.ceil(query.k * self._width) + _FEW, most)
            ranked, best = rank(replace(query, k=asked))
            others = int(np.count_nonzero(~self._is_inside(shard, best.rows, number)))
            if others >= query.k or best.rows.size < asked or asked == most:
                return replace(ranked, k=query.k), best
            self._width *= _WIDER

    def join(
        self, shard: ShardArrays, query: Query, best: Ranked, score: Callable[[Ints], Floats]
    ) -> tuple[Ranked, Ints]:
        """Return the batch of `query` with the challenger's share, and the rows of that: int64[m]. O(arm).

        ``best``: of the champion, as `choose` returned it; ``score``: returns the champion's scores of some rows.
        """
        number = self._number(query.now)
        if number is None or self._scan is None:
            return best, _NO_ROWS
        self._renew(shard, number)
        stays = (best.tiers != BY_SCORE) | np.isin(best.rows, query.first)
        priority, others = np.flatnonzero(stays)[: query.k], np.flatnonzero(~stays)
        others = others[~self._is_inside(shard, best.rows[others], number)]
        room = query.k - priority.size
        wanted = math.floor(room * self._share(shard) + self._draw(shard, query.now))
        theirs = self._rank_arm(shard, query, 2 * wanted + _FEW) if wanted else _NO_ROWS
        rows = np.concatenate([best.rows[priority], _merge(best.rows[others], theirs, room - wanted, wanted)])
        joined = Ranked(rows, -np.arange(float(rows.size)), np.full(rows.size, BY_SCORE, np.uint8))
        joined.tiers[: priority.size] = best.tiers[priority]
        filled = fill_slots(self._slots, shard, query, joined)
        self._slots.clear(shard)
        tried = filled.rows[np.isin(filled.rows, theirs)]
        return Ranked(filled.rows, score(filled.rows), filled.tiers), tried

    def _use(self, trial: Trial | None) -> None:
        self.current = trial
        self._width = 1.0 + 2.0 * _SHARE
        self._scan = None if trial is None else FullScan(trial.challenger.formula.compile(), self._threads)
        self._round = -1

    def _number(self, now: float) -> int | None:
        """Return the round at `now`, None outside a trial."""
        if self.current is None or now < self.current.start_s or self.is_over(now):
            return None
        return math.floor((now - self.current.start_s) / self.round_s)

    def _share(self, shard: ShardArrays) -> float:
        return int(shard.corpus["trial_bar"][0]) / 2.0**64

    def _draw(self, shard: ShardArrays, now: float) -> float:
        """Return a number from 0 to 1 that differs from batch to batch: a share of few pages is rounded at random."""
        text = f"{int(shard.corpus['trial_salt'][0])} {now!r} {int(shard.corpus['day_visits'][0])}"
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest(), "little") / 2.0**48

    def _is_inside(self, shard: ShardArrays, rows: Ints, number: int) -> Bools:
        inside = np.empty(rows.size, np.bool_)
        salt, bar = shard.corpus["trial_salt"][0], shard.corpus["trial_bar"][0]
        find_in_arm(shard.pages.records["url_hash"][rows], salt, bar, number, inside)
        return inside

    def _renew(self, shard: ShardArrays, number: int) -> None:
        """Find the pages of the challenger's arm. O(new pages), O(pages) once a round."""
        if number != self._round:
            self._round, self._arm, self._searched = number, _NO_ROWS, 0
        pages = int(shard.corpus["pages"][0])
        if self._searched < pages:
            rows = np.arange(self._searched, pages)
            self._arm = np.concatenate([self._arm, rows[self._is_inside(shard, rows, number)]])
            self._searched = pages

    def _rank_arm(self, shard: ShardArrays, query: Query, k: int) -> Ints:
        """Return the best `k` pages of the challenger's arm that have no priority, best first: int64[m]. O(arm)."""
        assert self._scan is not None
        arm = self._arm if query.among is None else np.intersect1d(self._arm, query.among.rows)
        arm = arm[~np.isin(arm, query.first)]
        query = replace(query, k=k, first=_NO_ROWS, among=HostPages(_NO_ROWS, arm))
        ranked = self._scan.rank(shard, query)
        rows: Ints = ranked.rows[ranked.tiers == BY_SCORE]
        return rows


def _merge(champions: Ints, challengers: Ints, first: int, second: int) -> Ints:
    """Return both lists in one, by the places of pages in the first `first` and `second` of them; the rest follows."""
    places = [
        (np.arange(rows.size) + 0.5) / max(count, 1) + (np.arange(rows.size) >= count)
        for rows, count in ((champions, first), (challengers, second))
    ]
    return np.concatenate([champions, challengers])[np.argsort(np.concatenate(places), kind="stable")]
