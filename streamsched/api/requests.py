"""What requests hold: the types that decode bodies and queries and make OpenAPI's schemas."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from streamsched.outcomes import OutcomeEvent
from streamsched.signals import SignalEvent

MOST_RECORDS: Final = 10_000  # of a request; the scheduler applies them in some 5 ms
MOST_OF_A_HOST: Final = 0xFFFE  # pages in flight or in a batch that a host's rule can allow: its record holds 16 bits
DURATION: Final = r"^(0*[1-9][0-9]{0,8}(\.[0-9]{1,6})?|[0-9]{1,9}\.[0-9]{0,5}[1-9]0*)(ms|s|m|h|d|w)$"
DURATION_OR_ZERO: Final = r"^[0-9]{1,9}(\.[0-9]{1,6})?(ms|s|m|h|d|w)$"
KEY: Final = "^[!-~]{1,128}$"
_LONGEST_S: Final = 1e9
_DESCRIPTION: Final = "a number with a unit, such as 500ms, 90s, 10m, 1h, 1d or 1w"

Duration: TypeAlias = (
    Annotated[str, Meta(pattern=DURATION, description=_DESCRIPTION)]
    | Annotated[float, Meta(gt=0.0, le=_LONGEST_S, description="seconds")]
)
DurationOrZero: TypeAlias = (
    Annotated[str, Meta(pattern=DURATION_OR_ZERO, description=_DESCRIPTION)]
    | Annotated[float, Meta(ge=0.0, le=_LONGEST_S, description="seconds")]
)
Count: TypeAlias = Annotated[int, Meta(ge=1, le=MOST_RECORDS)]
Urls: TypeAlias = Annotated[list[str], Meta(max_length=MOST_RECORDS)]
Host: TypeAlias = Annotated[str, Meta(min_length=1, max_length=300, description="a host, with its port if it has one")]


class Message(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A body or a query: fields that it does not have are refused."""


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


class Outcome(OutcomeEvent, forbid_unknown_fields=True, frozen=True, gc=False, omit_defaults=True):
    """One finished crawl of a page, as docs/outcomes.md describes it; ``fetched_at``: UTC epoch seconds."""

    fetched_at: float


class Outcomes(Message):
    """Outcomes in the order in which they happened."""

    outcomes: Annotated[list[Outcome], Meta(max_length=MOST_RECORDS)]


class Signal(SignalEvent, forbid_unknown_fields=True, frozen=True, gc=False, omit_defaults=True):
    """One change signal, as docs/signal-streams.md describes it; ``at``: UTC epoch seconds."""

    at: float


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


class RankQuery(Message):
    """How many pages to return."""

    k: Count = 100


class ExplainQuery(Message):
    """A page, and the size of the batch that is asked about, leased for ten minutes."""

    url: Annotated[str, Meta(min_length=1)]
    k: Count = 1_000


class HostsQuery(Message):
    """A part of the list of hosts. ``start``: 0, or the ``next`` of the part before."""

    start: Annotated[int, Meta(ge=0, le=2**53)] = 0
    size: Annotated[int, Meta(ge=1, le=1_000)] = 100


class LastQuery(Message):
    """How many of the newest records to return."""

    last: Count = 100


class StatsQuery(Message):
    """Which samples are wanted: those later than ``since``, UTC epoch seconds."""

    since: Annotated[float, Meta(ge=-1e15, le=1e15)] = 0.0


class WeekQuery(Message):
    """Whose week is wanted: that of a page, a host or a region; without any of them, that of all pages."""

    url: Annotated[str, Meta(min_length=1)] | None = None
    host: Host | None = None
    region: Annotated[str, Meta(min_length=1)] | None = None


class SurgesQuery(Message):
    """How many surges to return."""

    k: Annotated[int, Meta(ge=1, le=1_000)] = 100


class FormulaQuery(Message):
    """A formula, or the name of an objective; without it, the formula in use."""

    text: Annotated[str, Meta(min_length=1, max_length=4_000)] | None = None  # percent-encoded, 48,000 bytes


class RuleFields(Message):
    """A rule for a host (``delay``, ``in_flight``, ``per_batch``) or for pages (the others), as docs/run.md says."""

    delay: DurationOrZero | UnsetType = UNSET
    in_flight: Annotated[int, Meta(ge=1, le=MOST_OF_A_HOST)] | UnsetType = UNSET
    per_batch: Annotated[int, Meta(ge=1, le=MOST_OF_A_HOST)] | UnsetType = UNSET
    min_revisit: DurationOrZero | UnsetType = UNSET
    max_revisit: Duration | UnsetType = UNSET
    never: bool | UnsetType = UNSET


class Rules(Message):
    """Rules by target: a host, a URL pattern or a page; null removes a rule. Others stay as they are."""

    rules: Annotated[dict[str, RuleFields | None], Meta(max_length=1_000)]


class Block(Message):
    """For how many seconds to visit no page of a host; 0 ends a block."""

    seconds: Annotated[float, Meta(ge=0.0, le=1e9)]


class ChampionChange(Message):
    """``formula``: a formula, an objective, or the number of a record whose champion is used again."""

    formula: Annotated[str, Meta(min_length=1, max_length=10_000)] | Annotated[int, Meta(ge=1, le=2**53)]
