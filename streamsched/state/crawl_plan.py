"""The plan of an optimiser in a shard: the crawl rate that it gives each page, and how it was made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streamsched.records.dirty_tracking import mark_dirty_rows
from streamsched.state.page_table import PageTable


@dataclass(frozen=True, slots=True)
class CrawlPlan:
    """How the crawl rates in use were planned.

    - ``number``: 1 for a shard's first plan; ``policy``: of the optimiser; ``planned_at_s``: when, UTC epoch seconds;
    - ``budget``: the setting; ``visits_per_s``: what it amounts to; ``pages``: how many were known, the first rows;
    - ``new_share``: of the visits, the share that goes to pages never visited, None if the policy does not plan it;
    - ``probe_share``: of each batch, the share drawn at random, from which the policy learns.
    """

    number: int
    policy: str
    planned_at_s: float
    budget: str
    visits_per_s: float
    pages: int
    new_share: float | None = None
    probe_share: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> CrawlPlan:
        """Return the plan that `to_json` returned as `fields`."""
        return cls(**fields)


def write_crawl_rates(table: PageTable, rates: npt.NDArray[np.float32]) -> None:
    """Give the first pages of `table` these rates: float32[m], visits per cycle, finite and 0 or more. O(m).

    Later pages have no plan yet, and keep 0.
    """
    shard = table.arrays
    rows = np.flatnonzero(shard.pages.traces["crawl_rate"][: rates.size] != rates)
    mark_dirty_rows(shard.dirty, shard.pages, shard.seasonality, rows)
    shard.pages.traces["crawl_rate"][rows] = rates[rows]
    if table.touched is not None:
        table.touched.add(rows)
