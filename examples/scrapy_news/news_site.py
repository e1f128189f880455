"""A local site: its pages change when those of a change log did, by a clock that goes fast."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np

from streamsched.content import content_hash, page_text
from streamsched.outcomes import Outcome
from streamsched.replay import read_truth
from tests.support.crawled_site import Reply, Site, html, serving
from tests.support.paths import ROOT

__all__ = ["NewsSite", "open_site"]

LOG: Final = ROOT / "data" / "scoop-extras.tsv.gz"
DAY_S: Final = 86_400.0


class NewsSite(Site):
    """``log``: what was visited, and when by the site's clock, in order.

    The site shows the pages that exist at `start_s`, `most` at most, in the version that they have at the moment.
    """

    def __init__(self, address: str, start_s: float, history: int, days: int, most: int) -> None:
        super().__init__(address)
        self._window = read_truth(LOG).window(start_s - history * DAY_S, DAY_S, history + days)
        self.pages = min(most, int(np.count_nonzero(self._window.appears_s <= start_s)))
        self.log: list[tuple[int, float]] = []
        self._start_s, self._history = start_s, history
        self._anchor = (start_s, time.monotonic(), 0.0)

    def set_clock(self, now: float, speed: float) -> None:
        """Let the site's clock show `now` and go on at `speed`."""
        self._anchor = (now, time.monotonic(), speed)

    @property
    def now(self) -> float:
        """The site's time."""
        now, at_s, speed = self._anchor
        return now + (time.monotonic() - at_s) * speed

    def versions(self, now: float) -> Sequence[int]:
        """Return the number of changes of each page until `now`."""
        found: list[int] = self._window.before(now)[: self.pages].tolist()
        return found

    def answer(self, path: str) -> Reply:
        """Return the page as it is now."""
        if not path[1:].isdigit() or int(path[1:]) >= self.pages:
            return Reply(404)
        page, now = int(path[1:]), self.now
        self.log.append((page, now))
        return self.show(page, self.versions(now)[page])

    def show(self, page: int, version: int) -> Reply:
        """Return a version of a page."""
        return html(f"package {page}, release {version}")

    def past(self) -> Iterator[list[Outcome]]:
        """Yield what visits of all pages every other day have found before the start, a day at a time, oldest first."""
        hashes: dict[tuple[int, int], int] = {}
        for day in range(self._history, 0, -2):
            now = self._start_s - day * DAY_S
            seen = list(enumerate(self.versions(now)))
            for page, version in seen:
                if (page, version) not in hashes:
                    hashes[page, version] = self._hash(page, version)
            yield [Outcome(self.url(f"/{page}"), now, content=hashes[page, version]) for page, version in seen]

    @property
    def _last_past_s(self) -> float:
        """The time of the last of the past visits."""
        return self._start_s - (2 - self._history % 2) * DAY_S

    def follow_rates(self, times: Sequence[float]) -> list[tuple[int, float]]:
        """Return visits at these times by a crawler that knows how often each page changes until the last of them."""
        rates = np.subtract(self.versions(times[-1]), self.versions(self._start_s - self._history * DAY_S))
        seen_s = np.full(self.pages, self._last_past_s)
        visits: list[tuple[int, float]] = []
        for now in times:
            page = int(np.argmax(rates * (now - seen_s)))
            seen_s[page] = now
            visits.append((page, now))
        return visits

    def _hash(self, page: int, version: int) -> int:
        body = self.show(page, version).body
        assert body is not None
        return content_hash(page_text(body))

    def count_hits(self, visits: Sequence[tuple[int, float]]) -> int:
        """Return how many of `visits` find a page that has changed since the visit before."""
        seen = list(self.versions(self._last_past_s))
        hits = 0
        for page, now in visits:
            version = self.versions(now)[page]
            hits += version > seen[page]
            seen[page] = version
        return hits


@contextmanager
def open_site(start_s: float, history: int, days: int, most: int) -> Iterator[NewsSite]:
    """Serve the site within the block."""
    with serving(lambda address: NewsSite(address, start_s, history, days, most)) as site:
        yield site
