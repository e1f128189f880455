"""Training data of a running scheduler: its visit journal, imputed to complete change histories of a uniform sample."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np

from streamsched.estimation.content import expected_significances
from streamsched.evolution.data.change_history import ChangeHistory, CycleTimes, copy_cycle_times, cycle_activity
from streamsched.evolution.data.imputation import UNIFORM_ACTIVITY, PageVisits, impute_history
from streamsched.evolution.data.shared_changes import GroupVisits, draw_shared_changes
from streamsched.formula.terminal_table import OWN
from streamsched.numerics.argument_checks import check_part, check_time, check_whole
from streamsched.numerics.arrays import Bools, Floats, Hashes, Ints
from streamsched.records.page_schema import FORGOTTEN, LONGEST_INTERVAL, VISITED
from streamsched.records.schema import ShardArrays
from streamsched.records.visit_journal import (
    copy_sample,
    find_sampled,
    number_sample,
    read_visits,
    sample_bar,
    sample_hashes,
)
from streamsched.state.page_table import PageTable

_DAY_S: Final = 86_400.0
_APART: Final = np.uint64(0x9E3779B97F4A7C15)  # odd: multiples of it are all different
_ROUNDING: Final = 1e-6  # of a cycle: float64 error of epoch seconds if cycles are short
_MOST_CYCLES: Final = 10**9  # of a history: a page and cycle takes a byte


class Span(NamedTuple):
    """A number of whole cycles from ``start_s`` on, UTC epoch seconds."""

    start_s: float
    cycles: int
    cycle_s: float

    @classmethod
    def up_to(cls, now: float, cycles: int, cycle_s: float) -> Span:
        """Return the last `cycles` cycles that are complete at `now`.

        >>> Span.up_to(10.5, 3, 2.0)
        Span(start_s=4.0, cycles=3, cycle_s=2.0)
        """
        return cls((math.floor(now / cycle_s) - cycles) * cycle_s, cycles, cycle_s)

    @property
    def end_s(self) -> float:
        """End of the last cycle."""
        return self.start_s + self.cycles * self.cycle_s


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """Change history of n sampled pages over `span`: observed by visits where possible, imputed elsewhere.

    The pages are a uniform sample of those visited before the span began. ``observed``: bool[n, cycles], True if
    ``history.changed`` is what visits observed; elsewhere it is a draw from the page's Gamma posterior and the surges
    of its group given the visits, with the activity of its profile's hours. ``panel``: bool[n], pages of the panel,
    visited every cycle.
    ``newcomers``: number of sampled pages left out because their first visit was later.
    """

    history: ChangeHistory
    span: Span
    observed: Bools
    panel: Bools
    newcomers: int

    @property
    def observed_share(self) -> float:
        """The share of page-cycles that visits observed, 0 if there are none; the rest is imputed."""
        return float(self.observed.mean()) if self.observed.size else 0.0

    @property
    def panel_pages(self) -> int:
        """Number of pages of the panel."""
        return int(np.count_nonzero(self.panel))

    def __str__(self) -> str:
        pages, cycles = (
            f"{count} {unit}{'s' if count != 1 else ''}"
            for count, unit in zip(self.observed.shape, ("page", "cycle"), strict=True)
        )
        share = f"{self.observed_share:.1%} of page-cycles observed, the rest drawn from the posterior"
        return f"{pages} × {cycles}, {share}; {self.panel_pages} in the panel"


class TrainingInputs(NamedTuple):
    """Copies of the scheduler's data that `impute_training` needs, unaffected by later changes of the scheduler."""

    span: Span
    visits: PageVisits
    prior_shape: float
    groups: Ints
    columns: dict[str, Floats]  # by name: those of `change_history.DEFAULTS`
    timing: CycleTimes | None
    half_life: float
    panel: Bools
    newcomers: int


def gather_training(shard: ShardArrays, span: Span, in_panel: Bools) -> TrainingInputs:
    """Return the data of the sampled pages that were visited before `span`. O(pages + v log v), v journal visits.

    Pages whose first visit was later are left out: a history that began with draws would reflect the prior more than
    the page. ``in_panel``: bool[pages], whether each page is in the panel.
    """
    journal = read_visits(shard.journal, shard.corpus).proven()
    times = _as_cycles(journal.at_s, span)
    rows = find_sampled(0, int(shard.corpus["pages"][0]), sample_bar(shard.corpus))
    rows = rows[(shard.pages.records["flags"][rows] & VISITED) != 0]
    late = np.isin(rows, journal.rows[journal.first & (times > 0.0)])
    newcomers = int(np.count_nonzero(late))
    rows = rows[~late]
    relevant = np.isin(journal.rows, rows) & _relevant_visits(journal.rows, times)
    visited = journal.rows[relevant]
    pages = shard.pages.records[rows]
    records = {"pages": pages, "traces": shard.pages.traces[rows]}
    prior_shape, prior_mean = float(shard.corpus["shape"][0]), shard.groups.records["mean"][pages["group"]]
    timing = _cycle_times(shard, pages["group"], span)
    visits = PageVisits(
        np.searchsorted(visited, np.append(rows, len(shard.pages.records))),
        times[relevant],
        journal.changed[relevant],
        prior_shape + pages["own_shape"],
        prior_shape / prior_mean + pages["own_exposure"],
        tell_apart(pages["url_hash"]),
        *(UNIFORM_ACTIVITY if timing is None else (cycle_activity(timing), timing.profile)),
    )
    return TrainingInputs(
        span,
        visits,
        prior_shape,
        pages["group"].astype(np.int64),
        {
            "prior_mean": prior_mean,
            "significance": expected_significances(shard.seasonality.links[rows]),
            **{name: records[own.records][name].astype(np.float64) for name, own in OWN.items()},
        },
        timing,
        float(shard.corpus["half_life"][0]) * (_DAY_S / span.cycle_s),
        in_panel[rows],
        newcomers,
    )


def tell_apart(hashes: Hashes) -> Hashes:
    """Return ``hashes``: uint64[n] with all but the first of equal ones replaced by others. O(n log n).

    URLs can be made up whose hashes collide. Their pages must not be imputed with the same random numbers.

    >>> tell_apart(np.array([7, 3, 7], np.uint64))[:2].tolist()
    [7, 3]
    """
    order = np.argsort(hashes, kind="stable")
    place = np.arange(hashes.size)
    first = np.concatenate([[True], np.diff(hashes[order]) != 0])[: hashes.size]
    nth = place - np.maximum.accumulate(np.where(first, place, 0))
    apart = hashes.copy()
    apart[order] += nth.astype(np.uint64) * _APART
    return apart


def count_cycles(shard: ShardArrays, now: float, cycle_s: float, share: float) -> float:
    """Return the number of whole cycles up to `now` that began after `share` of the sampled pages had been visited.

    It is the maximum length of a history with that share of the pages. Inf if the journal no longer has their first
    visits, 0 if there is no page. O(pages + v log v), v journal visits.
    """
    rows = find_sampled(0, int(shard.corpus["pages"][0]), sample_bar(shard.corpus))
    rows = rows[(shard.pages.records["flags"][rows] & VISITED) != 0]
    if rows.size == 0:
        return 0.0
    visits = read_visits(shard.journal, shard.corpus)
    begun_s = np.full(rows.size, -np.inf)
    begun_s[np.searchsorted(rows, visits.rows[visits.first])] = visits.at_s[visits.first]
    latest = np.sort(begun_s)[math.ceil(share * rows.size) - 1]
    cycles = float(math.floor(now / cycle_s) - latest / cycle_s)
    return max(0.0, float(np.floor(cycles + _ROUNDING)))


def impute_training(inputs: TrainingInputs, seed: int) -> Training:
    """Return `inputs` with gaps imputed by the `seed`. O(n cycles + visits), and what `draw_shared_changes` takes."""
    visits, cycles = inputs.visits, inputs.span.cycles
    seen = GroupVisits(visits.offsets, visits.times, visits.changed, visits.shape / visits.exposure, inputs.groups)
    changed, observed = impute_history(visits, cycles, seed, draw_shared_changes(seen, cycles, seed))
    history = ChangeHistory(
        changed,
        visits.hashes,
        inputs.groups,
        inputs.prior_shape,
        inputs.columns,
        inputs.timing,
        inputs.half_life,
    )
    return Training(history, inputs.span, observed, inputs.panel, inputs.newcomers)


def _cycle_times(shard: ShardArrays, groups: Ints, span: Span) -> CycleTimes | None:
    """Return the times of the cycles and the current profiles of the pages of ``groups``: uint32[n]."""
    age = int(shard.corpus["sweep"][0]) & 1
    return copy_cycle_times(shard.seasonality, groups, age, span.start_s, span.cycle_s, span.cycles)


def _as_cycles(at_s: Floats, span: Span) -> Floats:
    """Return times in cycles from the span's start, rounded at cycle boundaries."""
    with np.errstate(over="ignore"):
        times = (at_s - span.start_s) / span.cycle_s
    times = np.clip(times, -LONGEST_INTERVAL, LONGEST_INTERVAL)
    edges = np.rint(times)
    return np.where(np.abs(times - edges) < _ROUNDING, edges, times)


def _relevant_visits(rows: Ints, times: Floats) -> Bools:
    """Return which visits matter after time 0: all later ones, and each page's last one before. O(v)."""
    last = np.ones(rows.size, np.bool_)
    last[:-1] = (rows[1:] != rows[:-1]) | (times[1:] > 0.0)
    return (times > 0.0) | last


class SampledPanel(Protocol):
    """A panel of a scheduler. ``bar``: the largest sample hash of its members, below 0 for none."""

    bar: int


class Sampled(Protocol):
    """A scheduler whose pages are sampled. ``lock``: held while they change."""

    lock: AbstractContextManager[object]
    pages: PageTable

    @property
    def panel(self) -> SampledPanel:
        """Its panel."""
        ...


def draw_trainings(
    scheduler: Sampled, cycles: int, *, now: float, seeds: Iterable[int], share: float = 1.0
) -> Iterator[Training]:
    """Yield `Scheduler.training` for each of `seeds`, all from one copy of the state. O(pages).

    `share`: the most of all pages that are sampled.
    """
    count = check_whole("cycles", cycles, 1, f"1 to {_MOST_CYCLES:,} cycles", most=_MOST_CYCLES)
    span = Span.up_to(check_time(now), count, scheduler.pages.cycle_s)
    sample, in_panel = _copy_sample(scheduler, check_part("share", share))
    gathered = gather_training(sample, span, in_panel)
    for seed in seeds:
        yield impute_training(gathered, check_whole("seed", seed, None, "a whole number"))


def count_known_cycles(scheduler: Sampled, *, now: float, share: float = 0.5) -> float:
    """Return how many whole cycles up to `now` are known for at least `share` of the pages; inf if the journal no
    longer has their first visits. O(pages).
    """
    share = check_part("share", share)
    return count_cycles(_copy_sample(scheduler)[0], check_time(now), scheduler.pages.cycle_s, share)


def _copy_sample(scheduler: Sampled, share: float = 1.0) -> tuple[ShardArrays, Bools]:
    """Return the journal's sample as a table of its own, and which of its pages are in the panel: bool[m].

    `share`: the most of all pages. O(pages), O(m) of it locked. What is sampled follows from the rows, so the sample is
    found without the lock.
    """
    with scheduler.lock:
        pages, bar = len(scheduler.pages), sample_bar(scheduler.pages.arrays.corpus)
    bar = min(bar, int(share * 2.0**64))
    rows = find_sampled(0, pages, bar)
    with scheduler.lock:
        rows = rows[scheduler.pages.arrays.pages.records["rule"][rows] != FORGOTTEN]
        copied, panel_bar = copy_sample(scheduler.pages.arrays, rows), scheduler.panel.bar
    in_panel = sample_hashes(rows) <= np.uint64(panel_bar) if panel_bar >= 0 else np.zeros(rows.size, np.bool_)
    return number_sample(copied, rows), in_panel
