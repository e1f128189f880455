"""The pages of LambdaCrawl's experiments: Microsoft's files, or pages drawn at random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from streamsched.connectors.formats.microsoft import read_page_histories
from streamsched.connectors.reading.rejections import Rejections
from streamsched.errors import SourceError
from streamsched.optimal import learn_rates

if TYPE_CHECKING:
    from streamsched.connectors.formats.microsoft import PageHistories
    from streamsched.connectors.source import Rejection
    from streamsched.numerics.arrays import Bools, Floats, Rows

__all__ = ["CrawlPages", "PageFile", "generate_pages", "read_pages", "sample_pages"]

_COMPLETE: Final = 25  # one page in 25 has complete observations, as in the published data
_IMPORTANCE: Final = (1, 1000)
_RATES: Final = (0.0005, 7.0)  # changes a day; the bounds of the authors' estimates
_LOG_RATE: Final = (-2.0, 1.2)  # mean and standard deviation of the rates' logarithms


@dataclass(frozen=True, slots=True, eq=False)
class CrawlPages:
    """Pages: ``importance``, ``change_rate``: float64[n]; ``complete``: bool[n], whether a signal announces changes."""

    importance: Floats
    change_rate: Floats
    complete: Bools

    def take(self, rows: Rows | Bools) -> CrawlPages:
        """Return the pages at `rows`. O(n)."""
        return CrawlPages(self.importance[rows], self.change_rate[rows], self.complete[rows])


@dataclass(frozen=True, slots=True, eq=False)
class PageFile:
    """Pages of Microsoft's files; ``unknown``: how many were left out because they have no importance."""

    pages: CrawlPages
    unknown: int
    rejected: int
    rejections: Sequence[Rejection]


def generate_pages(count: int, seed: int | Sequence[int]) -> CrawlPages:
    """Return `count` random pages, the first 4 % with complete observations. O(count).

    Importances are uniform from 1 to 1000, change rates log-normal from 0.0005 to 7 a day. The same seed gives the same
    pages; those of seed 0 are the ones that the authors' code was run on.
    """
    rng = np.random.default_rng(seed)
    importance = rng.integers(_IMPORTANCE[0], _IMPORTANCE[1] + 1, count).astype(np.float64)
    change_rate = np.clip(rng.lognormal(*_LOG_RATE, count), *_RATES)
    return CrawlPages(importance, change_rate, np.arange(count) < count // _COMPLETE)


def sample_pages(pages: CrawlPages, count: int, seed: int | Sequence[int]) -> CrawlPages:
    """Return at most `count` of the pages, as large a share of those with complete observations as of the others. O(n).

    >>> sampled = sample_pages(generate_pages(1000, 0), 100, 1)
    >>> sampled.complete.size, int(sampled.complete.sum())
    (100, 4)
    """
    rng = np.random.default_rng(seed)
    share = min(1.0, count / pages.complete.size)
    kinds = [np.flatnonzero(pages.complete == kind) for kind in (False, True)]
    return pages.take(np.concatenate([rng.choice(rows, int(share * rows.size), replace=False) for rows in kinds]))


def read_pages(path: str) -> PageFile:
    """Read Microsoft's ``urlid_offset_history.txt`` and its companions; learn change rates as the authors do. O(bytes).

    Pages without a published change rate have the most likely one of their visits. Raises SourceError if a file cannot
    be read, and if no page has an importance.
    """
    rejections, chunks, unknown = Rejections(), [], 0
    for histories in read_page_histories(path, rejections):
        pages = _learn(histories)
        known = ~np.isnan(pages.importance)
        unknown += int(np.count_nonzero(~known))
        chunks.append(pages.take(known))
    if not any(chunk.complete.size for chunk in chunks):
        raise SourceError(path, "expected one page or more with an importance, found none")
    columns = zip(*((one.importance, one.change_rate, one.complete) for one in chunks), strict=True)
    return PageFile(CrawlPages(*map(np.concatenate, columns)), unknown, rejections.count, tuple(rejections.last))


def _learn(histories: PageHistories) -> CrawlPages:
    complete = ~np.isnan(histories.change_rate)
    if not complete.size:
        return CrawlPages(histories.importance, histories.change_rate, complete)
    seen = learn_rates(histories.times, histories.changed, histories.offsets)
    return CrawlPages(histories.importance, np.where(complete, histories.change_rate, seen), complete)
