"""What crawlers send and get: batches of pages, outcomes, change signals, discoveries."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from streamsched.connectors.records.outcome_events import OutcomeEvent
from streamsched.connectors.records.signal_events import SignalEvent
from streamsched.http.messages.fields import Count, Duration, Host, Message, Rejection, Url, Urls
from streamsched.http.protocol.bodies import MOST_RECORDS
from streamsched.http.protocol.patterns import FINGERPRINT, KEY
from streamsched.outcomes import MAX_STATUS

__all__ = [
    "Discovered",
    "Discoveries",
    "LeasedBatch",
    "LeasedPage",
    "NextBatch",
    "NoticedSignals",
    "ObservedOutcomes",
    "Outcome",
    "Outcomes",
    "Released",
    "Releases",
    "Signal",
    "Signals",
]

_MOST_FINGERPRINT: Final = 2**64 - 1


class NextBatch(Message):
    """Asks for the best ``k`` pages, leased for ``lease``.

    ``key``: makes the request safe to repeat: within the lease, the same key returns the same batch, also after a
    restart. ``hosts``: only pages of these; ``per_host``: the most pages of each host.
    """

    k: Count
    lease: Duration = "10m"
    hosts: Annotated[list[Host], Meta(max_length=1_000)] | None = None
    per_host: Count | None = None
    key: Annotated[str, Meta(pattern=KEY, description="1 to 128 visible ASCII characters")] | None = None


class LeasedPage(Message):
    """A page to visit. ``score``: null if it is not finite; ``why``: an ``in_batch_*`` code of docs/reasons.md.

    ``tier``: 2 if the page was asked for, 1 if it is overdue, else 0. ``lease_until``: UTC epoch seconds.
    """

    url: Url
    host: str
    score: float | None
    tier: int
    lease_until: float
    why: str


class LeasedBatch(Message):
    """The pages in the order in which to visit them. ``now``: when they were leased, UTC epoch seconds.

    ``repeated``: whether an earlier request with the same key has already returned this batch.
    """

    pages: list[LeasedPage]
    now: float
    repeated: bool


class Outcome(OutcomeEvent, kw_only=True, forbid_unknown_fields=True, gc=False, omit_defaults=True):
    """One finished crawl of a page, as docs/outcomes.md describes it; ``fetched_at``: UTC epoch seconds."""

    status: Annotated[int, Meta(ge=0, le=MAX_STATUS)] | Literal["robots_denied", "not_attempted"] | None = None
    fingerprint: (
        Annotated[int, Meta(ge=0, extra_json_schema={"maximum": _MOST_FINGERPRINT})]
        | Annotated[str, Meta(pattern=FINGERPRINT)]
        | None
    ) = None


class Outcomes(Message):
    """Outcomes in the order in which they happened."""

    outcomes: Annotated[list[Outcome], Meta(max_length=MOST_RECORDS)]


class ObservedOutcomes(Message):
    """How many outcomes had which fate: applied + duplicates + late + refused + rejected are all.

    ``changed``, ``first_visits``, ``failures``, ``robots_denied``, ``not_attempted``, ``moved``, ``served`` and
    ``hits`` are among ``applied``; ``rejections``: the first 100 that were rejected.
    """

    applied: int
    duplicates: int
    late: int
    refused: int
    rejected: int
    changed: int
    first_visits: int
    failures: int
    robots_denied: int
    not_attempted: int
    moved: int
    served: int
    hits: int
    rejections: list[Rejection]


class Signal(SignalEvent, kw_only=True, forbid_unknown_fields=True, gc=False, omit_defaults=True):
    """One change signal, as docs/signal-streams.md describes it; ``at``: UTC epoch seconds."""


class Signals(Message):
    """Change signals in the order in which they happened."""

    signals: Annotated[list[Signal], Meta(max_length=MOST_RECORDS)]


class NoticedSignals(Message):
    """How many signals had which fate; each has one. ``rejections``: the first 100 that were rejected."""

    applied: int
    discovered: int
    repeated: int
    late: int
    refused: int
    rejected: int
    rejections: list[Rejection]


class Discoveries(Message):
    """Pages that are known but not visited yet. ``importance``: of each of them from now on."""

    urls: Urls
    importance: Annotated[float, Meta(ge=0.0, le=1e38)] | msgspec.UnsetType = msgspec.UNSET


class Discovered(Message):
    """``added``: how many were new; ``rejected``: how many are no URLs; ``rejections``: the first 100 of them."""

    added: int
    rejected: int
    rejections: list[Rejection]


class Releases(Message):
    """Leased pages that are given back unvisited."""

    urls: Urls


class Released(Message):
    """``known``: how many of the pages are known."""

    known: int
