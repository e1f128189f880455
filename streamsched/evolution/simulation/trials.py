"""Trials: the conditions under which score functions are compared, and what of them can be worked out beforehand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from streamsched.estimation.page_update import update_page
from streamsched.evolution.simulation.arena import (
    READS_COST,
    READS_GROUP,
    READS_IMPORTANCE,
    READS_RATE,
    READS_RHYTHM,
    CrawlHistory,
    CrawlRules,
    CycleClocks,
    ProgramRoutine,
    WarmState,
    tie_offset,
)
from streamsched.evolution.simulation.simulated_seasonality import (
    SeasonalityInputs,
    set_quarters,
    update_class_seasonality,
)
from streamsched.evolution.simulation.simulated_surges import add_surge_counts, number_groups
from streamsched.numerics.jit import kernel, mix
from streamsched.records.page_init import assign_prior
from streamsched.records.page_schema import PAGE, TRACE
from streamsched.records.seasonality_schema import PROFILE, SCHEDULE, SEASONAL_LINK

if TYPE_CHECKING:
    from streamsched.evolution.data.change_history import ChangeHistory
    from streamsched.numerics.arrays import Floats, Hashes, Ints, Records, Rows

__all__ = ["Reading", "Trial", "TrialRunner", "visits_per_cycle"]

Reading: TypeAlias = Literal["since_visit", "that_day"]
_ROUNDING: Final = 1e-9  # of a page: 0.29 * 100 is 28.999999999999996 and means 29


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """One simulated crawl of `history` from its cycle number `first` on: `cycles` of them, None for all that follow.

    In the first `warmup` cycles every page is visited, in each later one the best share `budget` of them. `reading`
    says what a visit reports: a change since the last visit, or one within the cycle. `salt` orders equal scores.
    Raises ValueError where the history cannot hold it.
    """

    history: ChangeHistory
    first: int = 0
    cycles: int | None = None
    warmup: int = 2
    budget: float = 0.05
    reading: Reading = "since_visit"
    salt: int = 0

    def __post_init__(self) -> None:
        last = self.history.cycles if self.cycles is None else self.first + self.cycles
        if not 0 <= self.first < last <= self.history.cycles:
            raise ValueError(f"trial: expected cycles within {self.history.cycles}, found {self.first} to {last}")
        if not 1 <= self.warmup < self.length:
            raise ValueError(f"warmup: expected 1 to {self.length - 1} of {self.length} cycles, found {self.warmup}")
        if not 0.0 < self.budget <= 1.0 or self.history.pages < 1:
            raise ValueError(f"trial: expected pages and a budget above 0, at most 1; found {self.budget}")

    @property
    def length(self) -> int:
        """How many cycles, the warm-up's among them."""
        return self.history.cycles - self.first if self.cycles is None else self.cycles

    @property
    def ranked(self) -> int:
        """How many cycles are ranked: those after the warm-up."""
        return self.length - self.warmup

    @property
    def visits(self) -> int:
        """How many pages a ranked cycle visits."""
        return visits_per_cycle(self.budget, self.history.pages)


def visits_per_cycle(budget: float, pages: int) -> int:
    """Return how many of `pages` pages a cycle visits: max(1, ⌊budget · pages⌋), at most all.

    >>> visits_per_cycle(0.29, 100)
    29
    """
    return min(pages, max(1, math.floor(budget * pages + _ROUNDING)))


class TrialRunner:
    """A trial worked out as far as no score function matters. O(pages · cycles) to make, O(pages log pages) a kind.

    ``rows``: intp[pages], the history's rows by page number.
    """

    def __init__(self, trial: Trial, *, placed: bool) -> None:
        self.trial = trial
        history = trial.history
        span = slice(trial.first, trial.first + trial.length)
        mixed = _mix_all(history.hashes, np.uint64(mix(np.uint64(trial.salt))))
        self.rows = np.argsort(mixed, kind="stable")
        self._changed = np.ascontiguousarray(history.changed[self.rows, span])
        self._groups = number_groups(history.groups[self.rows])
        self.ground = self._survey()
        self._openings: dict[int, WarmState] = {}
        self.timed = history.timing is not None
        self.rules = CrawlRules(trial.warmup, trial.length, trial.visits, trial.reading == "since_visit", placed)

    def adapt(self, routine: ProgramRoutine) -> ProgramRoutine:
        """Return `routine` as it runs here: where nothing tells when cycles were, it reads no rhythm. O(1)."""
        return routine if self.timed else routine._replace(reads=routine.reads & ~READS_RHYTHM)

    def opening(self, reads: int) -> WarmState:
        """Return the classes that programs begin with which read what the bits `reads` say."""
        apart = reads & (READS_RATE | READS_IMPORTANCE | READS_COST | READS_GROUP | READS_RHYTHM)
        if apart not in self._openings:
            self._openings[apart] = self._open(apart)
        return self._openings[apart]

    def _survey(self) -> CrawlHistory:
        trial = self.trial
        pages, cycles = self._changed.shape
        padded = np.zeros((cycles, 64 * (pages // 64 + 1)), np.bool_)
        padded[:, :pages] = self._changed.T
        bits = np.packbits(padded, axis=1, bitorder="little").view(np.uint64)
        offsets = np.array([tie_offset(trial.salt, cycle, pages) for cycle in range(cycles)], np.int64)
        discounts = 1.0 / np.maximum(1.0, np.log(np.arange(1, trial.visits + 1)))
        ideals = np.concatenate([[0.0], np.cumsum(discounts)])
        return CrawlHistory(
            bits, offsets, discounts, ideals, add_surge_counts(self._changed, self._groups), _set_clock(trial)
        )

    def _open(self, apart: int) -> WarmState:
        trial, history = self.trial, self.trial.history
        keys = [np.packbits(self._changed[:, 1 : trial.warmup], axis=1, bitorder="little")]
        known = np.zeros(history.pages, PAGE)
        known["importance"], known["cost"] = history.importance[self.rows], history.cost[self.rows]
        _give_priors(known, history.prior_shape, history.prior_mean[self.rows])
        known["group"] = self._groups
        fields = {
            READS_RATE: "prior_exposure",
            READS_IMPORTANCE: "importance",
            READS_COST: "cost",
            READS_GROUP: "group",
        }
        for bit, field in fields.items():
            if apart & bit:
                keys.append(np.ascontiguousarray(known[field]).view(np.uint8).reshape(history.pages, -1))
        timing = history.timing if apart & READS_RHYTHM else None
        profile = None if timing is None else timing.profile[self.rows]
        if profile is not None:
            keys.append(profile.view(np.uint8).reshape(history.pages, -1))
        first, members, starts = _group(np.ascontiguousarray(np.concatenate(keys, axis=1)))
        pages, traces = known[first], np.zeros(first.size, TRACE)
        links, schedules = np.zeros(0, SEASONAL_LINK), np.zeros(0, SCHEDULE)
        if profile is not None:
            links, schedules = np.zeros(first.size, SEASONAL_LINK), np.zeros(1 + first.size, SCHEDULE)
            links["profile"] = profile[first]
        opening = WarmState(members, starts, pages, traces, links, schedules)
        _warm_up(self._changed[first, : trial.warmup], opening, self.ground.clock)
        return opening


def _set_clock(trial: Trial) -> CycleClocks:
    """Return when the trial's cycles are; where the history does not tell, at no particular time."""
    if trial.history.timing is None:
        return CycleClocks(0.0, 1.0, np.zeros(0, PROFILE), np.zeros((0, 0), np.int64))
    timing = trial.history.timing.span(trial.first, trial.length)
    return CycleClocks(timing.start_s, timing.cycle_s, timing.profiles, np.ascontiguousarray(timing.quarters))


def _group(keys: npt.NDArray[np.uint8]) -> tuple[Rows, npt.NDArray[np.int32], Ints]:
    """Return of groups of equal rows of ``keys``: uint8[n, w]: the first row of each, all rows in order, starts."""
    if keys.shape[1] == 0:
        return np.zeros(1, np.intp), np.arange(keys.shape[0], dtype=np.int32), np.array([0, keys.shape[0]])
    rows = keys.view(np.dtype((np.void, keys.shape[1]))).ravel()
    _, first, inverse, counts = np.unique(rows, return_index=True, return_inverse=True, return_counts=True)
    members = np.argsort(inverse, kind="stable").astype(np.int32)
    return first, members, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


@kernel
def _mix_all(hashes: Hashes, salt: int) -> Hashes:
    mixed = np.empty(hashes.size, np.uint64)
    for i in range(hashes.size):
        mixed[i] = mix(hashes[i] ^ salt)
    return mixed


@kernel
def _give_priors(pages: Records, shape: float, means: Floats) -> None:
    for i in range(pages.size):
        assign_prior(pages[i], shape, means[i])


@kernel
def _warm_up(changed: npt.NDArray[np.bool_], opening: WarmState, clock: CycleClocks) -> None:
    """Visit a page of each class in each cycle of ``changed``: bool[g, warmup]; the first visit shows nothing."""
    timed = opening.links.size > 0
    for i in range(opening.pages.size):
        page = opening.pages[i]
        trace = opening.traces[i]
        if timed:
            set_quarters(opening.links[i], clock, 0)
        for cycle in range(1, changed.shape[1]):
            page.last_visit_s = cycle - 1
            if timed:
                update_class_seasonality(
                    SeasonalityInputs(opening.links, opening.schedules, clock), i, page, cycle, changed[i, cycle]
                )
            update_page(page, trace, 1.0, changed[i, cycle], 1.0)
        page.last_visit_s = changed.shape[1] - 1
