"""Training data of a running scheduler: its visit journal, imputed to a complete change history."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from streamsched.estimation.content.significance import expected_significances
from streamsched.evolution.data.change_history import ChangeHistory
from streamsched.evolution.data.cycle_times import CycleTimes, copy_cycle_times, cycle_activity
from streamsched.evolution.data.imputation import UNIFORM_ACTIVITY, PageVisits, impute_history
from streamsched.evolution.data.shared_changes import GroupVisits, draw_shared_changes
from streamsched.records.page_schema import LONGEST_INTERVAL, VISITED
from streamsched.records.visit_journal import find_sampled, read_visits, sample_bar

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bools, Floats, Hashes, Ints
    from streamsched.records.schema import ShardArrays

__all__ = ["Span", "Training", "TrainingInputs", "count_cycles", "gather_training", "impute_training"]

_APART: Final = np.uint64(0x9E3779B97F4A7C15)  # odd: multiples of it are all different
_ROUNDING: Final = 1e-6  # of a cycle: float64 error of epoch seconds if cycles are short


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
    ``newcomers``: number of sampled pages left out because their first visit came later.
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
    prior_mean: Floats
    importance: Floats
    cost: Floats
    groups: Ints
    significance: Floats
    crawl_rate: Floats
    timing: CycleTimes | None
    panel: Bools
    newcomers: int


def gather_training(shard: ShardArrays, span: Span, in_panel: Bools) -> TrainingInputs:
    """Return the data of the sampled pages that were visited before `span`. O(pages + v log v), v journal visits.

    Pages whose first visit came later are left out: a history that began with draws would reflect the prior more than
    the page. ``in_panel``: bool[pages], whether each page is in the panel.
    """
    journal = read_visits(shard.journal, shard.corpus)
    times = _as_cycles(journal.at_s, span)
    rows = find_sampled(0, int(shard.corpus["pages"][0]), sample_bar(shard.corpus))
    rows = rows[(shard.pages.records["flags"][rows] & VISITED) != 0]
    late = np.isin(rows, journal.rows[journal.first & (times > 0.0)])
    newcomers = int(np.count_nonzero(late))
    rows = rows[~late]
    relevant = np.isin(journal.rows, rows) & _relevant_visits(journal.rows, times)
    visited = journal.rows[relevant]
    pages = shard.pages.records[rows]
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
        prior_mean,
        pages["importance"].astype(np.float64),
        pages["cost"].astype(np.float64),
        pages["group"].astype(np.int64),
        expected_significances(shard.seasonality.links[rows]),
        shard.pages.traces["crawl_rate"][rows].astype(np.float64),
        timing,
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
        inputs.prior_shape,
        inputs.prior_mean,
        inputs.importance,
        inputs.cost,
        inputs.groups,
        inputs.significance,
        inputs.crawl_rate,
        inputs.timing,
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
