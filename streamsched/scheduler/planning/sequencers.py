"""Sequencers: queues that decide which item comes next, and queues of queues, as in WebFountain's crawler.

Edwards, McCurley and Tomlin (2001), section 3: each site has a queue of pages never crawled and one of pages to crawl
again, joined with given weights; the sites take turns. `arrange_batch` orders the visits of a batch so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Generic, Protocol, TypeVar

import numpy as np

from streamsched.errors import SettingsError
from streamsched.numerics.arrays import Bools, Ints
from streamsched.optimal.array_checks import check_values
from streamsched.records.page_schema import VISITED
from streamsched.scheduler.core import SchedulerCore
from streamsched.scheduler.results import Batch

Item = TypeVar("Item")
Taken_co = TypeVar("Taken_co", covariant=True)


class Sequencer(Protocol[Taken_co]):
    """Gives its items one by one. `len`: how many are left."""

    def __len__(self) -> int: ...

    def take(self) -> Taken_co:
        """Remove the next item and return it. Raises IndexError if none is left."""
        ...


class Fifo(Generic[Item]):
    """The oldest item first. O(1).

    >>> queue = Fifo("ab")
    >>> queue.add("c")
    >>> queue.take(), len(queue)
    ('a', 2)
    """

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._items = deque(items)

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: Item) -> None:
        """Append an item."""
        self._items.append(item)

    def take(self) -> Item:
        """Remove the oldest item and return it. Raises IndexError if none is left."""
        return self._items.popleft()


class Priority(Generic[Item]):
    """The item of the highest priority first, the older of equal ones. O(log n).

    >>> queue = Priority([("a", 1.0), ("b", 2.0), ("c", 2.0)])
    >>> [queue.take() for _ in range(len(queue))]
    ['b', 'c', 'a']
    """

    def __init__(self, items: Iterable[tuple[Item, float]] = ()) -> None:
        self._heap: list[tuple[float, int, Item]] = []
        self._numbers = count()
        for item, priority in items:
            self.add(item, priority)

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, item: Item, priority: float) -> None:
        """Add an item; a priority that is NaN is the lowest."""
        heappush(self._heap, (np.inf if np.isnan(priority) else -priority, next(self._numbers), item))

    def take(self) -> Item:
        """Remove the item of the highest priority and return it. Raises IndexError if none is left."""
        return heappop(self._heap)[2]


class RoundRobin(Generic[Item]):
    """Sequencers that take turns; an empty one is left out from then on. O(1) and the sequencer's own.

    >>> queue = RoundRobin([Fifo("abc"), Fifo("x")])
    >>> [queue.take() for _ in range(len(queue))]
    ['a', 'x', 'b', 'c']
    """

    def __init__(self, sequencers: Iterable[Sequencer[Item]]) -> None:
        self._turns = deque(one for one in sequencers if len(one))

    def __len__(self) -> int:
        return sum(len(one) for one in self._turns)

    def take(self) -> Item:
        """Remove the next item of the sequencer whose turn it is. Raises IndexError if none is left."""
        first = self._turns.popleft()
        item = first.take()
        if len(first):
            self._turns.append(first)
        return item


class Weighted(Generic[Item]):
    """Sequencers drawn at random, in proportion to their weights among those that are not empty. O(sequencers).

    Where only weights of 0 are left they are drawn alike. `seed` gives the same order again. Raises SettingsError for
    weights that are negative, not finite, or not one for each sequencer.

    >>> queue = Weighted([Fifo("ab"), Fifo("x")], [1.0, 0.0])
    >>> [queue.take() for _ in range(len(queue))]
    ['a', 'b', 'x']
    """

    def __init__(self, sequencers: Sequence[Sequencer[Item]], weights: Sequence[float], seed: int = 0) -> None:
        self._weights = check_values("weights", weights)
        if self._weights.size != len(sequencers):
            raise SettingsError("weights", f"{self._weights.size} values", f"{len(sequencers)}, one for each sequencer")
        self._sequencers = sequencers
        self._rng = np.random.default_rng(seed)

    def __len__(self) -> int:
        return sum(len(one) for one in self._sequencers)

    def take(self) -> Item:
        """Remove the next item of a sequencer that is drawn. Raises IndexError if none is left."""
        left = np.array([len(one) > 0 for one in self._sequencers])
        if not left.any():
            raise IndexError("all sequencers are empty")
        weights = np.where(left, self._weights, 0.0)
        sums = np.cumsum(weights if weights.any() else left)
        drawn = int(np.searchsorted(sums, self._rng.random() * sums[-1], "right"))
        return self._sequencers[min(drawn, len(self._sequencers) - 1)].take()


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
