"""Trials: the conditions under which score functions are compared, and their precomputed data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from streamsched.estimation.content import pack_expected
from streamsched.evolution.data.change_history import ChangeHistory
from streamsched.evolution.data.shared_changes import number_large_groups
from streamsched.evolution.simulation.arena import (
    OWN_BITS,
    READS_GROUP,
    READS_LINK,
    READS_OWN,
    READS_RATE,
    READS_SEASONALITY,
    READS_SIGNIFICANCE,
    CompiledProgram,
    CrawlHistory,
    CrawlRules,
    CycleClocks,
    WarmState,
    tie_offset,
)
from streamsched.evolution.simulation.simulated_events import (
    SeasonalityInputs,
    find_surges,
    set_quarters,
    update_class_seasonality,
    update_rate,
)
from streamsched.formula.terminal_table import OWN
from streamsched.numerics.arrays import Floats, Hashes, Ints, Records, Rows
from streamsched.numerics.jit import kernel, mix
from streamsched.records.page_schema import PAGE, TRACE, assign_prior
from streamsched.records.seasonality_schema import PROFILE, SCHEDULE, SEASONAL_LINK

Reading: TypeAlias = Literal["since_visit", "that_day"]
_DISTINGUISHING: Final = READS_RATE | READS_GROUP | READS_LINK | READS_OWN  # what differs between pages at the start
_ROUNDING: Final = 1e-9  # of a page: 0.29 * 100 is 28.999999999999996 and means 29


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """One simulated crawl of `history` from cycle `first` on, over `cycles` cycles, None for all that follow.

    Each of the first `warmup` cycles visits every page, each later one the best share `budget` of them. `reading`
    defines what a visit reports: a change since the last visit, or one within the cycle. `salt` orders equal scores.
    Raises ValueError if the history is too short.
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
        """Number of cycles, including the warm-up."""
        return self.history.cycles - self.first if self.cycles is None else self.cycles

    @property
    def ranked(self) -> int:
        """Number of ranked cycles: those after the warm-up."""
        return self.length - self.warmup

    @property
    def visits(self) -> int:
        """Number of pages that a ranked cycle visits."""
        return visits_per_cycle(self.budget, self.history.pages)


def visits_per_cycle(budget: float, pages: int) -> int:
    """Return the number of pages that a cycle visits: max(1, ⌊budget · pages⌋), at most all.

    >>> visits_per_cycle(0.29, 100)
    29
    """
    return min(pages, max(1, math.floor(budget * pages + _ROUNDING)))


class TrialRunner:
    """The data of a trial that do not depend on the score function.

    ``rows``: intp[pages], the history's rows by page number. O(pages · cycles) to create, O(pages log pages) for each
    warm state.
    """

    def __init__(self, trial: Trial, *, positions_matter: bool) -> None:
        self.trial = trial
        history = trial.history
        span = slice(trial.first, trial.first + trial.length)
        mixed = _mix_hashes(history.hashes, np.uint64(mix(np.uint64(trial.salt))))
        self.rows = np.argsort(mixed, kind="stable")
        self._changed = np.ascontiguousarray(history.changed[self.rows, span])
        self._groups = number_large_groups(history.groups[self.rows])
        self.crawl_history = self._build_history()
        self._warm_states: dict[int, WarmState] = {}
        self.timed = history.timing is not None
        self.rules = CrawlRules(
            trial.warmup, trial.length, trial.visits, trial.reading == "since_visit", positions_matter
        )

    def adapt(self, program: CompiledProgram) -> CompiledProgram:
        """Return `program` for this trial. O(groups).

        Without timing in the history, it does not read seasonality. With surges, a page's rate depends on its group.
        """
        reads = program.reads if self.timed else program.reads & ~READS_SEASONALITY
        if reads & READS_RATE and self.crawl_history.surge_hazard[-1].any():
            reads |= READS_GROUP
        return program._replace(reads=reads)

    def warm_state(self, reads: int) -> WarmState:
        """Return the classes after the warm-up for programs that read the state given by the bits `reads`."""
        distinguished = reads & _DISTINGUISHING
        if distinguished not in self._warm_states:
            self._warm_states[distinguished] = self._build_warm_state(distinguished)
        return self._warm_states[distinguished]

    def _build_history(self) -> CrawlHistory:
        trial = self.trial
        pages, cycles = self._changed.shape
        padded = np.zeros((cycles, 64 * (pages // 64 + 1)), np.bool_)
        padded[:, :pages] = self._changed.T
        bits = np.packbits(padded, axis=1, bitorder="little").view(np.uint64)
        offsets = np.array([tie_offset(trial.salt, cycle, pages) for cycle in range(cycles)], np.int64)
        discounts = 1.0 / np.maximum(1.0, np.log(np.arange(1, trial.visits + 1)))
        ideals = np.concatenate([[0.0], np.cumsum(discounts)])
        return CrawlHistory(
            bits,
            offsets,
            discounts,
            ideals,
            *find_surges(self._changed, self._groups),
            math.log(2.0) / trial.history.half_life,
            _cycle_clocks(trial),
        )

    def _build_warm_state(self, distinguished: int) -> WarmState:
        trial, history = self.trial, self.trial.history
        keys = [np.packbits(self._changed[:, 1 : trial.warmup], axis=1, bitorder="little")]
        page_records = np.zeros(history.pages, PAGE)
        _assign_priors(page_records, history.prior_shape, history.columns["prior_mean"][self.rows])
        page_records["group"] = self._groups
        trace_records = np.zeros(history.pages, TRACE)
        if distinguished & READS_RATE:
            keys.append(_as_keys(page_records["prior_exposure"]))
        own_keys = [np.zeros((history.pages, 0), np.uint8)]
        records = {"pages": page_records, "traces": trace_records}
        for name, own in OWN.items():
            column = records[own.records][name]
            column[:] = history.columns[name][self.rows]
            if distinguished & OWN_BITS[name]:
                own_keys.append(_as_keys(column))
        keys += own_keys
        page_records["url_hash"] = _number_rows(np.concatenate(own_keys, axis=1))
        if distinguished & READS_GROUP:
            keys.append(_as_keys(page_records["group"]))
        timing = history.timing if distinguished & READS_SEASONALITY else None
        link_records = np.zeros(history.pages, SEASONAL_LINK)
        if timing is not None:
            link_records["profile"] = timing.profile[self.rows]
        if distinguished & READS_SIGNIFICANCE:
            link_records["significance"] = pack_expected(history.columns["significance"][self.rows])
        if distinguished & READS_LINK:
            keys.append(_as_keys(link_records))
        first, members, starts = _group_rows(np.ascontiguousarray(np.concatenate(keys, axis=1)))
        pages, traces = page_records[first], trace_records[first]
        links, schedules = np.zeros(0, SEASONAL_LINK), np.zeros(0, SCHEDULE)
        if distinguished & READS_LINK:
            links, schedules = link_records[first], np.zeros(1 + first.size, SCHEDULE)
        warm_state = WarmState(members, starts, pages, traces, links, schedules)
        _warm_up(self._changed[first, : trial.warmup], warm_state, self.crawl_history, timing is not None)
        return warm_state


def _cycle_clocks(trial: Trial) -> CycleClocks:
    """Return the times of the trial's cycles; dummy values if the history has no timing."""
    if trial.history.timing is None:
        return CycleClocks(0.0, 1.0, np.zeros(0, PROFILE), np.zeros((0, 0), np.int64))
    timing = trial.history.timing.span(trial.first, trial.length)
    return CycleClocks(timing.start_s, timing.cycle_s, timing.profiles, np.ascontiguousarray(timing.quarters))


def _as_keys(column: Records) -> npt.NDArray[np.uint8]:
    """Return the bytes of each value: uint8[n, w]."""
    return np.ascontiguousarray(column).view(np.uint8).reshape(column.size, -1)


def _number_rows(keys: npt.NDArray[np.uint8]) -> Ints:
    """Return a number for each row of ``keys``: uint8[n, w], the same for equal rows. O(n log n)."""
    if keys.shape[1] == 0:
        return np.zeros(keys.shape[0], np.int64)
    return np.unique(keys.view(np.dtype((np.void, keys.shape[1]))).ravel(), return_inverse=True)[1].astype(np.int64)


def _group_rows(keys: npt.NDArray[np.uint8]) -> tuple[Rows, npt.NDArray[np.int32], Ints]:
    """Return groups of equal rows of ``keys``: uint8[n, w]: first row of each, all rows by group, group starts."""
    if keys.shape[1] == 0:
        return np.zeros(1, np.intp), np.arange(keys.shape[0], dtype=np.int32), np.array([0, keys.shape[0]])
    rows = keys.view(np.dtype((np.void, keys.shape[1]))).ravel()
    _, first, inverse, counts = np.unique(rows, return_index=True, return_inverse=True, return_counts=True)
    members = np.argsort(inverse, kind="stable").astype(np.int32)
    return first, members, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


@kernel
def _mix_hashes(hashes: Hashes, salt: int) -> Hashes:
    mixed = np.empty(hashes.size, np.uint64)
    for i in range(hashes.size):
        mixed[i] = mix(hashes[i] ^ salt)
    return mixed


@kernel
def _assign_priors(pages: Records, shape: float, means: Floats) -> None:
    for i in range(pages.size):
        assign_prior(pages[i], shape, means[i])


@kernel
def _warm_up(changed: npt.NDArray[np.bool_], warm_state: WarmState, history: CrawlHistory, timed: bool) -> None:
    """Visit a page of each class in each cycle of ``changed``: bool[g, warmup]; the first visit observes nothing.

    `timed`: whether the program reads seasonality.
    """
    for i in range(warm_state.pages.size):
        page = warm_state.pages[i]
        trace = warm_state.traces[i]
        if timed:
            set_quarters(warm_state.links[i], history.clock, 0)
        for cycle in range(1, changed.shape[1]):
            page.last_visit_s = cycle - 1
            if timed:
                seasonality = SeasonalityInputs(warm_state.links, warm_state.schedules, history.clock)
                update_class_seasonality(seasonality, i, page, cycle, changed[i, cycle])
            update_rate(page, trace, cycle, changed[i, cycle], history)
        page.last_visit_s = changed.shape[1] - 1
