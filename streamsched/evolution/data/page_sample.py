"""What evolution learns from: the change histories of a uniform sample of the pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from streamsched.evolution.data.training_data import Span, Training, count_cycles, gather_training, impute_training
from streamsched.numerics.argument_checks import check_part, check_time, check_whole
from streamsched.records.page_schema import FORGOTTEN
from streamsched.records.visit_journal import copy_sample, find_sampled, number_sample, sample_bar, sample_hashes

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bools
    from streamsched.records.schema import ShardArrays
    from streamsched.state.page_table import PageTable

__all__ = ["Sampled", "SampledPanel", "count_known_cycles", "draw_trainings"]

_MOST_CYCLES: Final = 10**9  # of a history: a page and cycle takes a byte


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


def draw_trainings(scheduler: Sampled, cycles: int, *, now: float, seeds: Iterable[int]) -> Iterator[Training]:
    """Yield `Scheduler.training` for each of `seeds`, all from one copy of the state. O(pages)."""
    count = check_whole("cycles", cycles, 1, f"1 to {_MOST_CYCLES:,} cycles", most=_MOST_CYCLES)
    span = Span.up_to(check_time(now), count, scheduler.pages.cycle_s)
    sample, in_panel = _copy_sample(scheduler)
    gathered = gather_training(sample, span, in_panel)
    for seed in seeds:
        yield impute_training(gathered, check_whole("seed", seed, None, "a whole number"))


def count_known_cycles(scheduler: Sampled, *, now: float, share: float = 0.5) -> float:
    """Return how many whole cycles up to `now` are known for at least `share` of the pages; inf if the journal no
    longer has their first visits. O(pages).
    """
    share = check_part("share", share)
    return count_cycles(_copy_sample(scheduler)[0], check_time(now), scheduler.pages.cycle_s, share)


def _copy_sample(scheduler: Sampled) -> tuple[ShardArrays, Bools]:
    """Return the journal's sample as a table of its own, and which of its pages are in the panel: bool[m].

    O(pages), O(m) of it locked. What is sampled follows from the rows, so the sample is found without the lock.
    """
    with scheduler.lock:
        pages, bar = len(scheduler.pages), sample_bar(scheduler.pages.arrays.corpus)
    rows = find_sampled(0, pages, bar)
    with scheduler.lock:
        rows = rows[scheduler.pages.arrays.pages.records["rule"][rows] != FORGOTTEN]
        copied, panel_bar = copy_sample(scheduler.pages.arrays, rows), scheduler.panel.bar
    in_panel = sample_hashes(rows) <= np.uint64(panel_bar) if panel_bar >= 0 else np.zeros(rows.size, np.bool_)
    return number_sample(copied, rows), in_panel
