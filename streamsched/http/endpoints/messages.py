"""What requests hold, and some answers: the types that decode bodies and queries and make OpenAPI's schemas."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from streamsched.estimation.source_list import SourceReliability
from streamsched.http.protocol.bodies import MOST_RECORDS
from streamsched.http.protocol.problems import DURATION, DURATION_OR_ZERO, KEY
from streamsched.outcomes import OutcomeEvent
from streamsched.politeness.politeness_settings import MOST_OF_A_HOST
from streamsched.scheduler.reading.surge_view import SurgeView
from streamsched.signals import SignalEvent

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
    """A body of a request or an answer: fields that it does not have are refused."""


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


class Week(Message):
    """How busy each hour of the week is; see `streamsched.WeekView`. ``regions``: the names that may be asked for."""

    hours: Annotated[list[float], Meta(min_length=168, max_length=168)]
    utc_offset_s: float
    profile: str | None
    region: str | None
    scheduled: bool
    regions: list[str]


class SurgesQuery(Message):
    """How many surges to return."""

    k: Annotated[int, Meta(ge=1, le=1_000)] = 100


class Surges(Message):
    """The surges that the most changed pages wait for, the largest first."""

    surges: list[SurgeView]


class SignalSources(Message):
    """Each kind of source, followed by its hosts with the most signals."""

    sources: list[SourceReliability]


class FormulaQuery(Message):
    """A formula, or the name of an objective; without it, the formula in use."""

    text: Annotated[str, Meta(min_length=1, max_length=4_000)] | None = None  # percent-encoded, 48,000 bytes


class FormulaNode(Message):
    """A node of a formula. ``text``: an operator, a function, a terminal or a number; ``meaning``: of a terminal."""

    kind: Literal["operator", "function", "terminal", "constant"]
    text: str
    meaning: str | None
    children: list[FormulaNode]


class FormulaTree(Message):
    """A formula as a tree. ``size``: its nodes; ``depth``: its levels."""

    text: str
    size: int
    depth: int
    root: FormulaNode


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


class Health(Message):
    """``status``: "ok", or in a few words what keeps the service from answering."""

    status: str
