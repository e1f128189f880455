"""Results of the scheduler: counts of applied outcomes, and batches of pages to visit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, TypeVar

from streamsched.errors import InvalidOutcome, InvalidSignal
from streamsched.numerics.arrays import Floats, Ints
from streamsched.politeness.priority import Tiers
from streamsched.reasons import ReasonCode

KEPT_REJECTIONS: Final = 100  # of one call, listed; the rest are only counted

_COUNTS: Final = (  # in the order of the positions of `streamsched.state.ingest`
    *("applied", "changed", "first_visits", "failures", "duplicates", "late", "unchanged", "served", "hits"),
    *("refused", "robots_denied", "not_attempted", "moved"),
)


@dataclass(frozen=True, slots=True)
class Observed:
    """Counts of the outcomes of one `Scheduler.observe` call.

    applied + duplicates + late + rejected + refused = all given. `changed`, `first_visits` and `failures` are among
    `applied`; `rejections` lists the first 100 of `rejected`; `refused`: outcomes of unknown pages that were not added,
    because of `max_pages` or `max_pages_per_host`.
    `served`: applied outcomes that show whether a page has changed which `Scheduler.next_batch` returned for its score,
    not for the panel; `hits`: those of them that show a change. `robots_denied` and `not_attempted`: applied outcomes
    with these statuses; `moved`: applied outcomes with `moved_to`.
    """

    applied: int = 0
    changed: int = 0
    first_visits: int = 0
    failures: int = 0
    robots_denied: int = 0
    not_attempted: int = 0
    moved: int = 0
    duplicates: int = 0
    late: int = 0
    refused: int = 0
    rejected: int = 0
    served: int = 0
    hits: int = 0
    rejections: tuple[InvalidOutcome, ...] = ()

    @classmethod
    def of(cls, counts: Sequence[int], problems: Sequence[InvalidOutcome]) -> Observed:
        """Return the result of a call by the `counts` of the ingest kernel and the outcomes that it did not get."""
        named = dict(zip(_COUNTS, counts, strict=True))
        named.pop("unchanged")
        return cls(**named, rejected=len(problems), rejections=tuple(problems[:KEPT_REJECTIONS]))

    def __add__(self, other: Observed) -> Observed:
        """Return the sums of both."""
        return _add(self, other)


@dataclass(frozen=True, slots=True)
class Noticed:
    """Counts of the signals of one `Scheduler.notice` call, by their fates: each signal has one.

    - ``applied``: moved the belief in a page;
    - ``discovered``: added an unknown page;
    - ``repeated``: not newer than the last signal of their source about the page;
    - ``late``: not newer than the page's last visit;
    - ``refused``: of an unknown page that a bound or the setting `signals_discover` keeps out, or of a kind of source
      beyond the eight that a state holds;
    - ``rejected``: break the format or lie in the future;
    - ``rejections``: the first 100 of them.
    """

    applied: int = 0
    discovered: int = 0
    repeated: int = 0
    late: int = 0
    refused: int = 0
    rejected: int = 0
    rejections: tuple[InvalidSignal, ...] = ()

    @classmethod
    def of(cls, fates: Sequence[int], problems: Sequence[InvalidSignal]) -> Noticed:
        """Return the result of a call by the `fates` that the kernel counted and the signals that it did not get."""
        applied, discovered, repeated, late, refused = fates
        kept = tuple(problems[:KEPT_REJECTIONS])
        return cls(applied, discovered, repeated, late, refused, len(problems), kept)

    def __add__(self, other: Noticed) -> Noticed:
        """Return the sums of both."""
        return _add(self, other)


_Counts = TypeVar("_Counts", Observed, Noticed)


def _add(one: _Counts, other: _Counts) -> _Counts:
    """Return the sums of the counts of two results, with the first rejections of both."""
    sums: dict[str, Any] = {each.name: getattr(one, each.name) + getattr(other, each.name) for each in fields(one)}
    return replace(one, **sums | {"rejections": sums["rejections"][:KEPT_REJECTIONS]})


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
    - ``lease_until_s``: when the leases of these pages expire, None where none was taken;
    - ``repeated``: whether an earlier call with the same key has already returned this batch.
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

    def __len__(self) -> int:
        return len(self.urls)

    @property
    def hosts(self) -> list[str]:
        """Host and port of each page, read when first asked for."""
        return self.name_hosts()

    @property
    def reasons(self) -> list[ReasonCode]:
        """Each page's reason when the batch was composed (an ``in_batch_*`` code), computed on first use."""
        return self.find_reasons()


@dataclass(frozen=True, slots=True)
class Granted:
    """The pages that `Scheduler.grant` leased.

    ``batch``: the leased pages, the panel's first, then in the order given; ``refused``: why each other page of the
    call may not be leased now: a reason of a page that is not eligible, ``unknown``, or ``host_share_used`` if pages
    before it took what its host may give.
    """

    batch: Batch
    refused: Mapping[str, ReasonCode]
