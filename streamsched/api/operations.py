"""The operations of the HTTP service, each described once: `OPERATIONS`.

The service makes its routes and its OpenAPI document of this table; the method of an endpoint with the operation's name
does the work. The client makes its requests of it (`client.calls`). So a new operation is an entry here, with the type
of what it asks, a method of an endpoint, and a method of the client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from http import HTTPStatus
from typing import Annotated, Any, Final, Generic, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from streamsched.api import answers, views
from streamsched.api.values import (
    CURSOR,
    DURATION,
    KEY,
    MOST_OF_A_HOST,
    MOST_RECORDS,
    Count,
    Duration,
    DurationOrZero,
    Host,
    InARow,
    Pages,
    Urls,
    Wait,
)
from streamsched.numerics.durations import LONGEST_LEASE_S
from streamsched.outcomes import OutcomeEvent
from streamsched.signals import SignalEvent

Lease: TypeAlias = (
    Annotated[str, Meta(pattern=DURATION, description="a number with a unit, such as 90s or 10m; at most 366 days")]
    | Annotated[float, Meta(gt=0.0, le=LONGEST_LEASE_S, description="seconds")]
)
Hosts: TypeAlias = Annotated[list[Host], Meta(max_length=1_000)]
Key: TypeAlias = Annotated[str, Meta(pattern=KEY, description="1 to 128 visible ASCII characters")]


class Message(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A body or a query: fields that it does not have are refused."""


class NextBatch(Message):
    """Asks for the best ``k`` pages, leased for ``lease``.

    ``key``: makes the request safe to repeat: within the lease, the same key returns the same batch, also after a
    restart. ``hosts``: only pages of these; ``per_host``: the most pages of each host. ``wait``: for how long to wait
    until there is a page to lease.
    """

    k: Count
    lease: Lease = "10m"
    hosts: Hosts | None = None
    per_host: Count | None = None
    key: Key | None = None
    wait: Wait = "0s"


class OfferQuestion(Message):
    """Asks which pages a batch of ``k`` would hold, without a lease; the other fields are those of `NextBatch`.

    ``keys``: what was granted under any of these is returned, too.
    """

    k: Count
    lease: Lease = "10m"
    hosts: Hosts | None = None
    per_host: Count | None = None
    keys: Annotated[list[Key], Meta(max_length=8)] = []  # msgspec copies it


class GrantDemand(Message):
    """Pages to lease for ``lease``, chosen from an offer; of a host's pages the first ones are leased, as it has room.

    ``key``: makes the request safe to repeat: within the lease, the same key is answered as the first time.
    """

    urls: Urls
    lease: Lease = "10m"
    key: Key | None = None


class Outcome(OutcomeEvent, forbid_unknown_fields=True, frozen=True, gc=False, omit_defaults=True):
    """One finished crawl of a page, as docs/outcomes.md describes it; times are UTC epoch seconds."""

    fetched_at: float
    not_before: float | None = None


class Outcomes(Message):
    """Outcomes in the order in which they happened."""

    outcomes: Annotated[list[Outcome], Meta(max_length=MOST_RECORDS)]


class OutcomesQuery(Message):
    """``positions``: whether the answer has those of the outcomes that were changes, and of those that were none."""

    positions: bool = False


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


class VisitRequests(Message):
    """Pages to visit once, before others. Those that are not known are added."""

    urls: Urls


class Releases(Message):
    """Leased pages that are given back unvisited."""

    urls: Urls


class RankQuery(Message):
    """How many pages to return."""

    k: Count = 100


class ChangesQuery(Message):
    """At most ``limit`` changes after the position ``after``: a cursor, ``oldest`` or ``newest``.

    ``wait``: for how long to wait until there is one.
    """

    after: Annotated[str, Meta(pattern=CURSOR)] = "oldest"
    limit: Count = 1_000
    wait: Wait = "0s"


class ExplainQuery(Message):
    """A page, and the size of the batch that is asked about, leased for ten minutes."""

    url: Annotated[str, Meta(min_length=1)]
    k: Count = 1_000


class HostsQuery(Message):
    """A part of the list of hosts. ``start``: 0, or the ``next`` of the part before.

    ``order``: ``known``, in which they became known, or ``failing``, only hosts with failing pages, most first.
    """

    start: Annotated[int, Meta(ge=0, le=2**53)] = 0
    size: Annotated[int, Meta(ge=1, le=1_000)] = 100
    order: views.HostOrder = "known"


class LastQuery(Message):
    """How many of the newest records to return."""

    last: Count = 100


class TrainingQuery(Message):
    """Asks for the last ``cycles`` whole cycles up to ``now`` of a uniform sample of pages; fewer if fewer are known.

    ``now``: UTC epoch seconds; ``share``: the most of all pages; ``draws``: how many random completions of what no
    visit saw, with ``seed``.
    """

    cycles: Annotated[int, Meta(ge=1, le=100_000)]
    now: Annotated[float, Meta(gt=0.0, lt=1e11)]
    share: Annotated[float, Meta(gt=0.0, le=1.0)] = 1.0
    draws: Annotated[int, Meta(ge=1, le=1_000)] = 1
    seed: Annotated[int, Meta(ge=0, le=2**62)] = 0


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
    """A rule for a host (``delay``, ``in_flight``, ``per_batch``) or for pages (the others), as docs/run.md says.

    Null keeps a setting, as a field that is left out does.
    """

    delay: DurationOrZero | UnsetType | None = UNSET
    in_flight: Annotated[int, Meta(ge=1, le=MOST_OF_A_HOST)] | UnsetType | None = UNSET
    per_batch: Annotated[int, Meta(ge=1, le=MOST_OF_A_HOST)] | UnsetType | None = UNSET
    min_revisit: DurationOrZero | UnsetType | None = UNSET
    max_revisit: Duration | UnsetType | None = UNSET
    never: bool | UnsetType = UNSET


class Rules(Message):
    """Rules by target: a host, a URL pattern or a page; null removes what a target has. Others stay as they are."""

    rules: Annotated[dict[str, RuleFields | None], Meta(max_length=1_000)]


class PolitenessChange(Message):
    """Politeness settings, as docs/politeness.md describes them. Those that are left out stay as they are."""

    delay: DurationOrZero | UnsetType = UNSET
    in_flight: Pages | UnsetType | None = UNSET
    per_batch: Pages | UnsetType | None = UNSET
    backoff: DurationOrZero | UnsetType = UNSET
    backoff_most: Duration | UnsetType = UNSET
    retire_after: InARow | UnsetType | None = UNSET
    probe_every: Duration | UnsetType = UNSET
    min_revisit: DurationOrZero | UnsetType = UNSET
    max_revisit: Duration | UnsetType | None = UNSET
    retry_after_most: Duration | UnsetType = UNSET
    clock_skew: DurationOrZero | UnsetType = UNSET
    host_backoff_429: InARow | UnsetType | None = UNSET
    host_backoff_503: InARow | UnsetType | None = UNSET


class Forget(Message):
    """Pages to forget: ``urls``, or all pages of ``host``; ``*.example.org`` names several hosts."""

    urls: Urls | None = None
    host: Host | None = None


class Copy(Message):
    """Asks for a copy of the state. It has no fields; a body is required so that no web page can ask for copies."""


class Block(Message):
    """For how many seconds to visit no page of a host; 0 ends a block."""

    seconds: Annotated[float, Meta(ge=0.0, le=1e9)]


class ChampionChange(Message):
    """``formula``: a formula, an objective, or the number of a record whose champion is used again."""

    formula: Annotated[str, Meta(min_length=1, max_length=10_000)] | Annotated[int, Meta(ge=1, le=2**53)]


Scope: TypeAlias = Literal["crawl", "read", "admin"]
"""What a token is for."""
Answer = TypeVar("Answer", covariant=True)  # noqa: PLC0105  it is what type checkers show of a call


@dataclass(frozen=True, slots=True)
class Operation(Generic[Answer]):
    """An operation of the service.

    - ``name``: of the methods that do it, in OpenAPI and in metrics;
    - ``route``: method and path; a name in braces is one segment;
    - ``scope``: that a token needs, None if everyone may call it;
    - ``answer``: the type of the message that is returned, None for a file of the type ``media_type``;
    - ``asked``: what it takes: the parameters of a GET, the body of the others; None for nothing;
    - ``options``: the parameters of an operation that has a body too; None for none;
    - ``records``: the field of ``asked`` that a body may also hold as one columnar frame;
    - ``lines``: the list of the answer that may also be sent as NDJSON, an item a line; the other fields follow in a
      line of their own;
    - ``is_repeatable``: whether it may be done twice, as happens if the first answer is lost;
    - ``absent``: the code of the refusal that means that there is no such thing: a client returns None;
    - ``errors``: further statuses, beside those that any operation may be answered with;
    - ``links``: of OpenAPI, from this answer to other operations;
    - ``for_monitors``: whether it is answered while the service starts or stops;
    - ``is_described``: whether OpenAPI has it.
    """

    name: str
    route: str
    scope: Scope | None
    answer: type[Answer] | None
    asked: type[msgspec.Struct] | None = None
    _: KW_ONLY
    options: type[msgspec.Struct] | None = None
    records: Literal["outcomes", "signals"] | None = None
    lines: str | None = None
    is_repeatable: bool = True
    absent: str | None = None
    errors: Mapping[HTTPStatus, str] = field(default_factory=dict)
    links: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    media_type: str = ""
    for_monitors: bool = False
    is_described: bool = True

    @property
    def method(self) -> str:
        """The method of HTTP."""
        return self.route.partition(" ")[0]

    @property
    def path(self) -> str:
        """The path, with names in braces."""
        return self.route.partition(" ")[2]


_UNKNOWN_PAGE: Final = {HTTPStatus.NOT_FOUND: "The page is not known."}
_UNKNOWN_HOST: Final = {HTTPStatus.NOT_FOUND: "No page of the host is known."}
_FIRST_URL: Final[Any] = "$response.body#/pages/0/url"

# Of crawlers.
NEXT_BATCH: Final = Operation(
    "next_batch",
    "POST /v1/next",
    "crawl",
    answers.LeasedBatch,
    NextBatch,
    errors={HTTPStatus.CONFLICT: "A request with this key is still running."},
    links={
        "explain": {"operationId": "explain", "parameters": {"query.url": _FIRST_URL}},
        "release": {"operationId": "release", "requestBody": {"urls": [_FIRST_URL]}},
    },
)
OFFER: Final = Operation("offer", "POST /v1/offer", "crawl", answers.Offer, OfferQuestion)
GRANT: Final = Operation("grant", "POST /v1/grant", "crawl", answers.Grant, GrantDemand)
OBSERVE: Final = Operation(
    "observe", "POST /v1/outcomes", "crawl", views.Observed, Outcomes, options=OutcomesQuery, records="outcomes"
)
NOTICE: Final = Operation("notice", "POST /v1/signals", "crawl", views.Noticed, Signals, records="signals")
DISCOVER: Final = Operation("discover", "POST /v1/discover", "crawl", views.Discovered, Discoveries)
ASK: Final = Operation("ask", "POST /v1/ask", "crawl", views.Discovered, VisitRequests)
RELEASE: Final = Operation(
    "release",
    "POST /v1/release",
    "crawl",
    answers.Released,
    Releases,
    is_repeatable=False,  # another crawler may have got a page in between, whose lease would end
)

# Of readers.
RANK: Final = Operation("rank", "GET /v1/rank", "read", answers.Ranking, RankQuery)
READ_CHANGES: Final = Operation(
    "read_changes",
    "GET /v1/changes",
    "read",
    answers.Changes,
    ChangesQuery,
    lines="changes",
    errors={
        HTTPStatus.NOT_FOUND: "The service keeps no changes.",
        HTTPStatus.GONE: "The changes after the cursor are not kept; `expected` has the oldest position that is.",
    },
)
EXPLAIN: Final = Operation("explain", "GET /v1/explain", "read", views.Explanation, ExplainQuery, errors=_UNKNOWN_PAGE)
PAGE: Final = Operation(
    "page", "GET /v1/pages/{url}", "read", views.PageView, absent="unknown_page", errors=_UNKNOWN_PAGE
)
HOSTS: Final = Operation(
    "hosts",
    "GET /v1/hosts",
    "read",
    views.HostPage,
    HostsQuery,
    links={"host": {"operationId": "host", "parameters": {"host": "$response.body#/hosts/0/host"}}},
)
HOST: Final = Operation(
    "host", "GET /v1/hosts/{host}", "read", views.HostView, absent="unknown_host", errors=_UNKNOWN_HOST
)
CHAMPION: Final = Operation("champion", "GET /v1/champion", "read", views.ChampionView)
EVOLUTIONS: Final = Operation("evolutions", "GET /v1/evolutions", "read", answers.Evolutions, LastQuery)
TRIAL: Final = Operation("trial", "GET /v1/trial", "read", views.TrialCounts)
WEEK: Final = Operation(
    "week",
    "GET /v1/week",
    "read",
    views.WeekView,
    WeekQuery,
    absent="unknown_target",
    errors={HTTPStatus.NOT_FOUND: "The page or the host is not known."},
)
SURGES: Final = Operation("surges", "GET /v1/surges", "read", answers.Surges, SurgesQuery)
SOURCES: Final = Operation("sources", "GET /v1/signals/sources", "read", answers.SignalSources)
RULES: Final = Operation("rules", "GET /v1/rules", "read", views.RulesView)
POLITENESS: Final = Operation("politeness", "GET /v1/politeness", "read", answers.PolitenessSettings)
FORMULA: Final = Operation("formula", "GET /v1/formula", "read", answers.FormulaTree, FormulaQuery)
STATS: Final = Operation("stats", "GET /v1/stats", "read", answers.Stats, StatsQuery)

# Of administrators.
SET_RULES: Final = Operation("set_rules", "PUT /v1/rules", "admin", answers.RulesSet, Rules)
SET_POLITENESS: Final = Operation(
    "set_politeness", "PUT /v1/politeness", "admin", answers.PolitenessSettings, PolitenessChange
)
BLOCK: Final = Operation("block", "POST /v1/hosts/{host}/block", "admin", answers.Blocked, Block)
FORGET: Final = Operation(
    "forget",
    "POST /v1/forget",
    "admin",
    answers.Forgotten,
    Forget,
    is_repeatable=False,  # a page may have been discovered in between, which would be forgotten
)
SNAPSHOT: Final = Operation(
    "snapshot",
    "POST /v1/snapshot",
    "admin",
    answers.Copied,
    Copy,
    is_repeatable=False,  # each makes a copy
    errors={
        HTTPStatus.NOT_FOUND: "The setting http.snapshots names no directory.",
        HTTPStatus.CONFLICT: "Another copy is being made.",
    },
)
TRAINING: Final = Operation("training", "GET /v1/training", "admin", answers.TrainingSample, TrainingQuery)
USE: Final = Operation(
    "use",
    "PUT /v1/champion",
    "admin",
    views.ChampionView,
    ChampionChange,
    is_repeatable=False,  # each change is recorded
)

OPERATIONS: Final[tuple[Operation[Any], ...]] = tuple(one for one in vars().values() if isinstance(one, Operation))
"""All of them, in their order."""
