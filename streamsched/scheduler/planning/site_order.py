"""The order in which to visit the pages of a batch, as WebFountain's crawler serves its queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streamsched.records.page_schema import VISITED
from streamsched.scheduler.planning.sequencers import Fifo, Priority, RoundRobin, Sequencer, Weighted

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bools, Ints
    from streamsched.scheduler.core import SchedulerCore
    from streamsched.scheduler.results import Batch

__all__ = ["arrange_batch", "order_by_site"]


def arrange_batch(core: SchedulerCore, batch: Batch, new_share: float, seed: int) -> Ints:
    """Return the places of the pages of `batch` in the order of visits: int64[m]. O(m log m).

    `new_share`: the weight of pages never visited beside the others; `seed`: of the draws between the two.
    """
    with core.lock:
        is_new = (core.pages.arrays.pages.records["flags"][batch.rows] & VISITED) == 0
    return order_by_site(batch, is_new, new_share, seed)


def order_by_site(batch: Batch, is_new: Bools, new_share: float, seed: int) -> Ints:
    """Return the places of the pages of `batch`: those asked for or overdue first, then the sites in turn: int64[m].

    Each site has a queue of pages never visited, the oldest first, and one of the others, the highest score first; one
    of the two is drawn, the first with the probability `new_share`.
    """
    first: Fifo[int] = Fifo()
    sites: dict[str, tuple[Fifo[int], Priority[int]]] = {}
    for place, host in enumerate(batch.hosts):
        if batch.tiers[place]:
            first.add(place)
            continue
        fresh, again = sites.setdefault(host, (Fifo(), Priority()))
        if is_new[place]:
            fresh.add(place)
        else:
            again.add(place, float(batch.scores[place]))
    weights = (new_share, 1.0 - new_share)
    joined: list[Sequencer[int]] = [Weighted(queues, weights, seed + i) for i, queues in enumerate(sites.values())]
    turns = RoundRobin(joined)
    return np.array([queue.take() for queue in (first, turns) for _ in range(len(queue))], np.int64)
