"""Results of the scheduler: batches of pages to visit, and how the counts of its kernels become results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streamsched.api.answers import Change, Changes, LeasedPage, RankedPage
from streamsched.api.views import Noticed, Observed, Rejection, finite
from streamsched.errors import InvalidOutcome, InvalidSignal
from streamsched.numerics.arrays import Bytes, Floats, Ints
from streamsched.outcomes import STATUSES
from streamsched.persistence.change_feed import Cursor
from streamsched.politeness.priority import Tiers
from streamsched.reasons import ReasonCode
from streamsched.records.url_patterns import hosts_of
from streamsched.state.found_changes import FoundChanges
from streamsched.state.ingest import CHANGES, UNCHANGED

SHOWN_PAGES: Final = 20  # of a batch, in a notebook

_COUNTS: Final = (  # in the order of the positions of `streamsched.state.ingest`
    *("applied", "changed", "first_visits", "failures", "duplicates", "late", "unchanged", "served", "hits"),
    *("refused", *STATUSES, "moved", "unproven", "wrong"),
)
_FATES: Final = ("applied", "discovered", "repeated", "late", "refused")  # likewise, of signals


def as_observed(
    counts: Sequence[int], problems: Sequence[InvalidOutcome], verdicts: Mapping[str, list[int]]
) -> Observed:
    """Return the result of a call by the `counts` of the ingest kernel and the `problems` of rejected outcomes.

    `verdicts`: from `find_verdicts`, if the caller wants them.
    """
    named: dict[str, Any] = dict(zip(_COUNTS, counts, strict=True))
    del named["unchanged"], named["wrong"]  # the latter are among the problems
    named.update(verdicts, rejected=len(problems), rejections=Rejection.of(problems))
    return Observed(**named)


def find_verdicts(verdicts: Bytes, given: int, problems: Sequence[InvalidOutcome]) -> dict[str, list[int]]:
    """Return the fields of `Observed` with positions in a call of `given` outcomes.

    `verdicts`: as in `state.ingest.IngestCounts`, of those that were not `problems`.
    """
    places = np.delete(np.arange(given), [problem.record for problem in problems])
    return {"positions": places[verdicts == CHANGES].tolist(), "unchanged": places[verdicts == UNCHANGED].tolist()}


def show_changes(found: FoundChanges | None, after: Cursor) -> Changes:
    """Return the changes `found` as messages; `after`: the position behind them. O(bytes)."""
    if found is None:
        return Changes(changes=[], cursor=str(after))
    first = after.number - found.size + 1
    hashes = zip(found.content.tolist(), found.has_content, strict=True)
    content = [f"{number:016x}" if has else None for number, has in hashes]
    columns = [found.urls, hosts_of(found.urls), *(column.tolist() for column in found[1:5]), found.moved_to, content]
    changes = [
        Change(
            cursor=str(Cursor(after.identity, number)),
            url=url,
            host=host,
            fetched_at=fetched_at,
            unchanged_at=unchanged_at,
            significance=finite(significance),
            gone=gone,
            moved_to=moved_to or None,
            content=hash_,
        )
        for number, (url, host, fetched_at, unchanged_at, significance, gone, moved_to, hash_) in enumerate(
            zip(*columns, strict=True), first
        )
    ]
    return Changes(changes=changes, cursor=str(after))


def as_noticed(fates: Sequence[int], problems: Sequence[InvalidSignal]) -> Noticed:
    """Return the result of a call by the `fates` that the kernel counted and the signals that it did not get."""
    named = dict(zip(_FATES, fates, strict=True))
    return Noticed(**named, rejected=len(problems), rejections=Rejection.of(problems))


@dataclass(frozen=True)
class Batch:
    """The `panel` pages that are due in the panel, then the others: m <= k in all.

    The order is by tier, then in `rank` by score, in `next_batch` by probability, whatever the formula.

    - ``urls``: their text;
    - ``scores``: float64[m], by the formula;
    - ``tiers``: uint8[m], why a page comes before better scores: 2 if it was asked for, 1 if it is overdue, else 0
      (always 0 for the panel's pages and for those added by quotas or as surge probes);
    - ``probabilities``: float64[m] from 0 to 1, the calibrated probability that the page has changed since its last
      visit, or since it became known if it was never visited;
    - ``rows``: int64[m], their rows;
    - ``now``: the time of the ranking;
    - ``etags``, ``last_modified``: of each page's content, as its crawler reported them, None where none is kept; for
      the headers If-None-Match and If-Modified-Since;
    - ``lease_until_s``: when the leases of these pages expire, None where none was taken;
    - ``repeated``: whether an earlier call with the same key has already returned this batch.

    Iterating yields each page as the HTTP service answers it: a `LeasedPage`, or a `RankedPage` without a lease.
    """

    urls: list[str]
    scores: Floats
    tiers: Tiers
    probabilities: Floats
    rows: Ints = field(repr=False)
    name_hosts: Callable[[], list[str]] = field(repr=False, compare=False)
    find_reasons: Callable[[], list[ReasonCode]] = field(repr=False, compare=False)
    now: float
    lease_until_s: float | None = None
    panel: int = 0
    repeated: bool = False
    etags: list[str | None] = field(default_factory=list, repr=False)
    last_modified: list[str | None] = field(default_factory=list, repr=False)

    def __len__(self) -> int:
        return len(self.urls)

    def __iter__(self) -> Iterator[RankedPage]:
        scores = map(finite, self.scores.tolist())
        ranked = zip(self.urls, self.hosts, scores, self.tiers.tolist(), self.probabilities.tolist(), strict=True)
        if self.lease_until_s is None:
            for url, host, score, tier, probability in ranked:
                yield RankedPage(url=url, host=host, score=score, tier=tier, probability=probability)
            return
        leased = zip(ranked, self.reasons, self.etags, self.last_modified, strict=True)
        for (url, host, score, tier, probability), why, etag, modified in leased:
            yield LeasedPage(
                url=url,
                host=host,
                score=score,
                tier=tier,
                probability=probability,
                lease_until=self.lease_until_s,
                why=why.value,
                etag=etag,
                last_modified=modified,
            )

    def to_table(self) -> dict[str, list[Any] | npt.NDArray[Any]]:
        """Return the pages as columns of length m, from which pandas and polars make frames. O(m).

        ``url``, ``host``: str; ``score``, ``probability``: float64; ``tier``: uint8; of leased pages also
        ``lease_until``: float64, UTC epoch seconds, ``why``: str, an ``in_batch_*`` code, and ``etag`` and
        ``last_modified``: str or None.
        """
        table: dict[str, list[Any] | npt.NDArray[Any]] = {
            "url": self.urls,
            "host": self.hosts,
            "score": self.scores,
            "tier": self.tiers,
            "probability": self.probabilities,
        }
        if self.lease_until_s is not None:
            table["lease_until"] = np.full(len(self), self.lease_until_s)
            table["why"] = [reason.value for reason in self.reasons]
            table |= {"etag": self.etags, "last_modified": self.last_modified}
        return table

    def _repr_html_(self) -> str:
        """Return the first pages as a table, for notebooks."""
        table = {name: column[:SHOWN_PAGES] for name, column in self.to_table().items()}
        rows = zip(*map(_as_list, table.values()), strict=True)
        head = "".join(f"<th>{name}</th>" for name in table)
        body = "".join(f"<tr>{''.join(map(_html_cell, row))}</tr>" for row in rows)
        return f"<table><caption>{len(self):,} pages</caption><tr>{head}</tr>{body}</table>"

    @property
    def hosts(self) -> list[str]:
        """Host and port of each page, read when first asked for."""
        return self.name_hosts()

    @property
    def reasons(self) -> list[ReasonCode]:
        """Each page's reason when the batch was composed (an ``in_batch_*`` code), computed on first use."""
        return self.find_reasons()


def _as_list(column: list[Any] | npt.NDArray[Any]) -> list[Any]:
    return column if isinstance(column, list) else column.tolist()


def _html_cell(value: object) -> str:
    """Return a cell; a URL is a stranger's, so nothing in it is markup."""
    text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    return f"<td>{escape(text)}</td>"


@dataclass(frozen=True, slots=True)
class Granted:
    """The pages that `Scheduler.grant` leased.

    ``batch``: the leased pages, the panel's first, then in the order given; ``refused``: why each other page of the
    call may not be leased now: a reason of a page that is not eligible, ``unknown``, or ``host_share_used`` if pages
    before it took what its host may give.
    """

    batch: Batch
    refused: Mapping[str, ReasonCode]
