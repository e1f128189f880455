"""The operations of the HTTP service, each described once: `OPERATIONS`.

The service makes its routes and its OpenAPI document of this table; the method of an endpoint with the operation's name
does the work. The client makes its requests of it (`client.calls`). So a new operation is an entry here, with the types
of what it asks and answers, a method of an endpoint, and a method of the client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from http import HTTPStatus
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

import msgspec

from streamsched.api import answers, requests, views

Scope: TypeAlias = Literal["crawl", "read", "admin"]
"""What a token is for."""
Answer = TypeVar("Answer", covariant=True)  # noqa: PLC0105  it is what type checkers show of a call


@dataclass(frozen=True, slots=True)
class Operation(Generic[Answer]):
    """An operation of the service.

    - ``name``: of the methods that do it, in OpenAPI and in metrics;
    - ``route``: method and path; a name in braces stands for one segment;
    - ``scope``: that a token needs, None if everyone may call it;
    - ``answer``: the type of the message that is returned, None for a file of the type ``media_type``;
    - ``asked``: what it takes: the parameters of a GET, the body of the others; None for nothing;
    - ``records``: the field of ``asked`` that a body may also hold as one columnar frame;
    - ``is_repeatable``: whether it may be done twice, as happens if the first answer is lost;
    - ``absent``: the code of the refusal that means that there is no such thing: a client returns None;
    - ``errors``: further statuses, beside those that any operation may be answered with;
    - ``links``: of OpenAPI, from this answer to other operations;
    - ``while_stopping``: whether it is answered while the service stops;
    - ``is_described``: whether OpenAPI has it.
    """

    name: str
    route: str
    scope: Scope | None
    answer: type[Answer] | None
    asked: type[msgspec.Struct] | None = None
    _: KW_ONLY
    records: Literal["outcomes", "signals"] | None = None
    is_repeatable: bool = True
    absent: str | None = None
    errors: Mapping[HTTPStatus, str] = field(default_factory=dict)
    links: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    media_type: str = ""
    while_stopping: bool = False
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
    requests.NextBatch,
    errors={HTTPStatus.CONFLICT: "A request with this key is still running."},
    links={
        "explain": {"operationId": "explain", "parameters": {"query.url": _FIRST_URL}},
        "release": {"operationId": "release", "requestBody": {"urls": [_FIRST_URL]}},
    },
)
OBSERVE: Final = Operation(
    "observe", "POST /v1/outcomes", "crawl", views.Observed, requests.Outcomes, records="outcomes"
)
NOTICE: Final = Operation("notice", "POST /v1/signals", "crawl", views.Noticed, requests.Signals, records="signals")
DISCOVER: Final = Operation("discover", "POST /v1/discover", "crawl", answers.Discovered, requests.Discoveries)
RELEASE: Final = Operation(
    "release",
    "POST /v1/release",
    "crawl",
    answers.Released,
    requests.Releases,
    is_repeatable=False,  # another crawler may have got a page in between, whose lease would end
)

# Of readers.
RANK: Final = Operation("rank", "GET /v1/rank", "read", answers.Ranking, requests.RankQuery)
EXPLAIN: Final = Operation(
    "explain", "GET /v1/explain", "read", views.Explanation, requests.ExplainQuery, errors=_UNKNOWN_PAGE
)
PAGE: Final = Operation(
    "page", "GET /v1/pages/{url}", "read", views.PageView, absent="unknown_page", errors=_UNKNOWN_PAGE
)
HOSTS: Final = Operation(
    "hosts",
    "GET /v1/hosts",
    "read",
    views.HostPage,
    requests.HostsQuery,
    links={"host": {"operationId": "host", "parameters": {"host": "$response.body#/hosts/0/host"}}},
)
HOST: Final = Operation(
    "host", "GET /v1/hosts/{host}", "read", views.HostView, absent="unknown_host", errors=_UNKNOWN_HOST
)
CHAMPION: Final = Operation("champion", "GET /v1/champion", "read", views.ChampionView)
EVOLUTIONS: Final = Operation("evolutions", "GET /v1/evolutions", "read", answers.Evolutions, requests.LastQuery)
WEEK: Final = Operation(
    "week",
    "GET /v1/week",
    "read",
    views.WeekView,
    requests.WeekQuery,
    absent="unknown_target",
    errors={HTTPStatus.NOT_FOUND: "The page or the host is not known."},
)
SURGES: Final = Operation("surges", "GET /v1/surges", "read", answers.Surges, requests.SurgesQuery)
SOURCES: Final = Operation("sources", "GET /v1/signals/sources", "read", answers.SignalSources)
FORMULA: Final = Operation("formula", "GET /v1/formula", "read", answers.FormulaTree, requests.FormulaQuery)
STATS: Final = Operation("stats", "GET /v1/stats", "read", answers.Stats, requests.StatsQuery)

# Of administrators.
SET_RULES: Final = Operation("set_rules", "PUT /v1/rules", "admin", answers.RulesSet, requests.Rules)
BLOCK: Final = Operation("block", "POST /v1/hosts/{host}/block", "admin", answers.Blocked, requests.Block)
USE: Final = Operation(
    "use",
    "PUT /v1/champion",
    "admin",
    views.ChampionView,
    requests.ChampionChange,
    is_repeatable=False,  # each change is recorded
)

OPERATIONS: Final[tuple[Operation[Any], ...]] = tuple(one for one in vars().values() if isinstance(one, Operation))
"""All of them, in their order."""
