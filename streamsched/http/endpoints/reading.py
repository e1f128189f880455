"""The endpoints of readers: the ranking, explanations, evolutions, the formula in use, figures of the service."""

from __future__ import annotations

import asyncio
import math
from dataclasses import fields
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from streamsched.errors import SettingsError, UnknownPage, shorten
from streamsched.evolution.records import EvolutionRecord, RecordBook
from streamsched.http.messages.reading import (
    ChampionView,
    Evolutions,
    EvolutionView,
    Explained,
    ExplainedReason,
    ExplainQuery,
    HostLimits,
    HostList,
    HostsQuery,
    HostState,
    LastQuery,
    PageState,
    RankedPage,
    Ranking,
    RankQuery,
)
from streamsched.http.protocol.problems import HttpError, invalid
from streamsched.http.protocol.routes import Call, Handler, Route
from streamsched.scheduler.reason_text import describe_reason

if TYPE_CHECKING:
    from streamsched.formula.champion import Champion
    from streamsched.http.messages.fields import Message
    from streamsched.http.service import Service
    from streamsched.reasons import Reason
    from streamsched.scheduler.durable import DurableScheduler
    from streamsched.scheduler.explanation import Explanation
    from streamsched.scheduler.reading.host_view import HostView
    from streamsched.scheduler.results import Noticed, Observed

__all__ = ["Reading", "read_route", "show_champion", "show_counts"]


class Reading:
    """Answers readers; changes nothing."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[Route]:
        """Return the routes of these endpoints."""
        return [
            read_route("/v1/rank", self.rank, "Return the best pages without leasing them.", Ranking, RankQuery),
            read_route(
                "/v1/explain",
                self.explain,
                "Explain the rank of a page.",
                Explained,
                ExplainQuery,
                errors={HTTPStatus.NOT_FOUND: "The page is not known."},
            ),
            read_route(
                "/v1/pages/{url}",
                self.page,
                "Return what is known of a page.",
                PageState,
                errors={HTTPStatus.NOT_FOUND: "The page is not known."},
            ),
            read_route(
                "/v1/hosts",
                self.hosts,
                "List hosts, their limits and what holds them back.",
                HostList,
                HostsQuery,
                links={"host": {"operationId": "host", "parameters": {"host": "$response.body#/hosts/0/host"}}},
            ),
            read_route(
                "/v1/hosts/{host}",
                self.host,
                "Return a host, its limits and what holds it back.",
                HostState,
                errors={HTTPStatus.NOT_FOUND: "No page of the host is known."},
            ),
            read_route("/v1/champion", self.champion, "Return the formula in use.", ChampionView),
            read_route("/v1/evolutions", self.evolutions, "Return the records of evolutions.", Evolutions, LastQuery),
        ]

    async def rank(self, call: Call) -> Ranking:
        """Return the best pages that may be visited now."""
        asked: RankQuery = call.query

        def rank(scheduler: DurableScheduler) -> Ranking:
            batch = scheduler.rank(asked.k, now=self._service.clock())
            columns = zip(batch.urls, batch.hosts, batch.scores.tolist(), batch.tiers.tolist(), strict=True)
            pages = [
                RankedPage(url=url, host=host, score=_finite(score), tier=tier) for url, host, score, tier in columns
            ]
            return Ranking(pages=pages, now=batch.now)

        return await self._service.call(rank)

    async def explain(self, call: Call) -> Explained:
        """Return what is known of a page, its place, and why."""
        asked: ExplainQuery = call.query
        now = self._service.clock
        return await self._service.call(
            lambda scheduler: _show_explanation(scheduler.explain(asked.url, now=now(), k=asked.k))
        )

    async def page(self, call: Call) -> PageState:
        """Return a page by its URL, percent-encoded in the path."""
        url, now = call.path["url"], self._service.clock
        view = await self._service.call(lambda scheduler: scheduler.page(url, now=now()))
        if view is None:
            raise UnknownPage(url)
        content = view.as_dict()
        content["reasons"] = [_show_reason(reason) for reason in view.reasons]
        content["rate"] = _finite(view.rate)
        return PageState(**content)

    async def hosts(self, call: Call) -> HostList:
        """Return a part of the list of hosts."""
        asked: HostsQuery = call.query
        now = self._service.clock
        found = await self._service.call(lambda scheduler: scheduler.hosts(asked.start, asked.size, now=now()))
        return HostList(hosts=[_show_host(view) for view in found.hosts], next=found.next)

    async def host(self, call: Call) -> HostState:
        """Return a host by its name."""
        name, now = call.path["host"], self._service.clock
        try:
            view = await self._service.call(lambda scheduler: scheduler.host(name, now=now()))
        except SettingsError as error:
            raise invalid("host", shorten(error.found), error.expected) from None
        if view is None:
            detail = "no page of this host is known"
            raise HttpError(HTTPStatus.NOT_FOUND, "unknown_host", detail, fields={"found": shorten(name)})
        return _show_host(view)

    async def champion(self, call: Call) -> ChampionView:  # noqa: ARG002  a handler
        """Return the formula in use and its origin."""
        return show_champion(self._service.scheduler.champion)

    async def evolutions(self, call: Call) -> Evolutions:
        """Return the newest records. O(bytes of their file)."""
        asked: LastQuery = call.query
        records, faults = await asyncio.to_thread(RecordBook(self._service.directory).read)
        return Evolutions(evolutions=[_show_record(record) for record in records[-asked.last :]], faults=len(faults))


def read_route(
    path: str,
    handler: Handler,
    summary: str,
    answer: type[Message],
    query: type[Message] | None = None,
    **more: Any,
) -> Route:
    """Return a route that readers call. The arguments are those of a `Route`."""
    return Route(
        method="GET", path=path, handler=handler, summary=summary, permission="read", answer=answer, query=query, **more
    )


def show_champion(champion: Champion) -> ChampionView:
    """Return `champion` as a message."""
    return ChampionView(**champion.to_json(), text=str(champion))


def show_counts(result: Observed | Noticed) -> dict[str, int]:
    """Return the counts of `result` by name."""
    return {one.name: getattr(result, one.name) for one in fields(result) if one.name != "rejections"}


def _show_explanation(explanation: Explanation) -> Explained:
    content = explanation.as_dict()
    content["champion"] = show_champion(explanation.champion)
    content["terminals"] = {name: _finite(value) for name, value in explanation.terminals.items()}
    content["prior_rate"] = _finite(explanation.prior_rate)
    content["reasons"] = [_show_reason(reason) for reason in explanation.reasons]
    return Explained(**content)


def _show_reason(reason: Reason) -> ExplainedReason:
    shown = reason.to_json()
    return ExplainedReason(code=shown.pop("code"), fields=shown, text=describe_reason(reason))


def _show_host(view: HostView) -> HostState:
    content = view.as_dict()
    content["rule"] = None if view.rule is None else HostLimits(**content["rule"])
    return HostState(**content)


def _show_record(record: EvolutionRecord) -> EvolutionView:
    content = record.to_json()
    content["champion_before"] = show_champion(record.champion_before)
    content["champion_after"] = show_champion(record.champion_after)
    return EvolutionView(**content)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
