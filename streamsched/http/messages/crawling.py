"""What crawlers send: requests for pages, outcomes, change signals, discoveries."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from streamsched.connectors.records.outcome_events import OutcomeEvent
from streamsched.connectors.records.signal_events import SignalEvent
from streamsched.http.messages.fields import Count, Duration, Host, Message, Urls
from streamsched.http.protocol.bodies import MOST_RECORDS
from streamsched.http.protocol.patterns import FINGERPRINT, KEY
from streamsched.outcomes import MAX_STATUS

__all__ = [
    "Discoveries",
    "NextBatch",
    "Outcome",
    "Outcomes",
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


class Signal(SignalEvent, kw_only=True, forbid_unknown_fields=True, gc=False, omit_defaults=True):
    """One change signal, as docs/signal-streams.md describes it; ``at``: UTC epoch seconds."""


class Signals(Message):
    """Change signals in the order in which they happened."""

    signals: Annotated[list[Signal], Meta(max_length=MOST_RECORDS)]


class Discoveries(Message):
    """Pages that are known but not visited yet. ``importance``: of each of them from now on."""

    urls: Urls
    importance: Annotated[float, Meta(ge=0.0, le=1e38)] | msgspec.UnsetType = msgspec.UNSET


class Releases(Message):
    """Leased pages that are given back unvisited."""

    urls: Urls
