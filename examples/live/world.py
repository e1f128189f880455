"""The web that is crawled: pages of a change log, which change when their log says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from streamsched.outcomes import OutcomeBatch
from streamsched.replay.simulation.metrics import freshness

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bools, Rows
    from streamsched.replay import ChangeLog, Window

__all__ = ["DAY_S", "Copies", "World"]

DAY_S = 86_400.0


class World:
    """The pages of `log` that exist at `start_s`, UTC epoch seconds, or appear in the `days` after it.

    ``urls``: by page, in the order of appearance. A page that disappears has changed, and is visited further on.
    """

    def __init__(self, log: ChangeLog, start_s: float, days: int) -> None:
        self.window: Window = log.window(start_s, DAY_S, days, later_pages=True)
        self.urls = list(self.window.urls)
        self._pages = {url: page for page, url in enumerate(self.urls)}

    def count(self, now: float) -> int:
        """Return how many pages have appeared by `now`: always the first ones."""
        return int(np.searchsorted(self.window.appears_s, now, "right"))

    def find(self, urls: list[str]) -> Rows:
        """Return the pages with these URLs: intp[k]."""
        return np.array([self._pages[url] for url in urls], np.intp)

    def daily_visits(self, days: int) -> Iterator[OutcomeBatch]:
        """Yield what a crawl finds that visits every known page at the end of each of the first `days`, day by day."""
        window = self.window
        copies = Copies(self, window.start_s)
        for day in range(1, days + 1):
            pages = np.arange(window.known(day))
            now = window.edge(day)
            yield OutcomeBatch(window.urls.take(pages), np.full(pages.size, now), changed=copies.visit(pages, now))


class Copies:
    """A crawler's copies of the pages of `world`, and what its visits have reached, from `start_s` on.

    It begins with current copies of all pages that have appeared.

    ``visited_s``: float64[n], by page, -inf without a copy; ``now``: the time of the last visits; ``visits``, ``hits``:
    how many visits there were, and how many found a change.
    """

    def __init__(self, world: World, start_s: float) -> None:
        self.now = start_s
        self.visits = self.hits = 0
        self._world = world
        self._window = world.window
        self._start_s = start_s
        self._unseen = self._window.before(start_s)  # by page, its first change that the copy lacks
        self.visited_s = np.where(np.arange(self._window.pages) < world.count(start_s), start_s, -np.inf)
        self._fresh_s = 0.0  # integral of the share of current copies over time

    @property
    def hit_rate(self) -> float:
        """The share of visits that found a change."""
        return self.hits / max(self.visits, 1)

    @property
    def freshness(self) -> float:
        """The share of known pages whose copy was current, averaged over time."""
        return self._fresh_s / max(self.now - self._start_s, 1e-9)

    def visit(self, pages: Rows, now: float) -> Bools:
        """Fetch `pages`: intp[k], at `now`, not before the last visits; return which have changed: bool[k].

        A first visit shows no change.
        """
        self._pass_time(now)
        unseen = self._window.before(now)[pages]
        changed = (unseen > self._unseen[pages]) & np.isfinite(self.visited_s[pages])
        self._unseen[pages], self.visited_s[pages] = unseen, now
        self.visits += pages.size
        self.hits += int(np.count_nonzero(changed))
        return np.asarray(changed)

    def _pass_time(self, now: float) -> None:
        """Add the freshness of the time until `now`, in which no copy is renewed."""
        if now > self.now:
            known = slice(self._world.count(now))
            first_unseen_s = np.where(np.isfinite(self.visited_s), self._window.change_at(self._unseen), -np.inf)
            self._fresh_s += freshness(first_unseen_s[known], self.now, now) * (now - self.now)
            self.now = now
