"""The endpoints of readers: the ranking, explanations, hosts, evolutions, the formula in use, figures."""

from __future__ import annotations

import asyncio
import math
from dataclasses import fields
from http import HTTPStatus
from typing import Final

from streamsched.answers import (
    CalibrationView,
    ChampionView,
    Evolutions,
    EvolutionView,
    Explained,
    ExplainedReason,
    HostLimits,
    HostList,
    HostState,
    PageState,
    RankedPage,
    Ranking,
    ReliabilityBin,
    Stats,
)
from streamsched.errors import SettingsError, UnknownPage, shorten
from streamsched.evolution.records import EvolutionRecord, RecordBook
from streamsched.formula.champion import Champion
from streamsched.http.endpoints.messages import ExplainQuery, HostsQuery, LastQuery, RankQuery, StatsQuery
from streamsched.http.protocol.problems import HttpError, invalid
from streamsched.http.protocol.routes import Call, Route
from streamsched.http.service import Service
from streamsched.reasons import Reason
from streamsched.scheduler.durable import DurableScheduler
from streamsched.scheduler.explanation import Explanation
from streamsched.scheduler.monitoring import BIN_EDGES, Reliability
from streamsched.scheduler.reading.host_view import HostView
from streamsched.scheduler.reason_text import describe_reason
from streamsched.scheduler.results import Noticed, Observed

_UNKNOWN_PAGE: Final = {HTTPStatus.NOT_FOUND: "The page is not known."}
_UNKNOWN_HOST: Final = {HTTPStatus.NOT_FOUND: "No page of the host is known."}
_LINKS_OF_HOSTS: Final = {"host": {"operationId": "host", "parameters": {"host": "$response.body#/hosts/0/host"}}}


class Reading:
    """Answers readers; changes nothing."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[Route]:
        """Return the routes of these endpoints."""
        return [
            Route("GET", "/v1/rank", self.rank, "read", Ranking, query=RankQuery),
            Route("GET", "/v1/explain", self.explain, "read", Explained, query=ExplainQuery, errors=_UNKNOWN_PAGE),
            Route("GET", "/v1/pages/{url}", self.page, "read", PageState, errors=_UNKNOWN_PAGE),
            Route("GET", "/v1/hosts", self.hosts, "read", HostList, query=HostsQuery, links=_LINKS_OF_HOSTS),
            Route("GET", "/v1/hosts/{host}", self.host, "read", HostState, errors=_UNKNOWN_HOST),
            Route("GET", "/v1/champion", self.champion, "read", ChampionView),
            Route("GET", "/v1/evolutions", self.evolutions, "read", Evolutions, query=LastQuery),
        ]

    async def rank(self, call: Call) -> Ranking:
        """Return the best pages without leasing them."""
        asked: RankQuery = call.query

        def rank(scheduler: DurableScheduler) -> Ranking:
            batch = scheduler.rank(asked.k, now=self._service.clock())
            scores = map(_finite, batch.scores.tolist())
            columns = batch.urls, batch.hosts, scores, batch.tiers.tolist(), batch.probabilities.tolist()
            pages = [
                RankedPage(url=url, host=host, score=score, tier=tier, probability=probability)
                for url, host, score, tier, probability in zip(*columns, strict=True)
            ]
            return Ranking(pages=pages, now=batch.now)

        return await self._service.call(rank)

    async def explain(self, call: Call) -> Explained:
        """Explain the rank of a page."""
        asked: ExplainQuery = call.query
        now = self._service.clock
        return await self._service.call(
            lambda scheduler: _show_explanation(scheduler.explain(asked.url, now=now(), k=asked.k))
        )

    async def page(self, call: Call) -> PageState:
        """Return what is known of a page."""
        url, now = call.path["url"], self._service.clock
        view = await self._service.call(lambda scheduler: scheduler.page(url, now=now()))
        if view is None:
            raise UnknownPage(url)
        content = view.as_dict()
        content["reasons"] = [_show_reason(reason) for reason in view.reasons]
        content["rate"] = _finite(view.rate)
        return PageState(**content)

    async def hosts(self, call: Call) -> HostList:
        """List hosts, their limits and what holds them back."""
        asked: HostsQuery = call.query
        now = self._service.clock
        found = await self._service.call(lambda scheduler: scheduler.hosts(asked.start, asked.size, now=now()))
        return HostList(hosts=[_show_host(view) for view in found.hosts], next=found.next)

    async def host(self, call: Call) -> HostState:
        """Return a host, its limits and what holds it back."""
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
        """Return the formula in use."""
        return show_champion(self._service.scheduler.champion)

    async def evolutions(self, call: Call) -> Evolutions:
        """Return the records of evolutions.

        The newest ones. O(bytes of their file).
        """
        asked: LastQuery = call.query
        records, faults = await asyncio.to_thread(RecordBook(self._service.directory).read)
        return Evolutions(evolutions=[_show_record(record) for record in records[-asked.last :]], faults=len(faults))


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


class Figures:
    """Answers who watches the service, without waiting for the scheduler."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[Route]:
        """Return the routes of these endpoints."""
        return [Route("GET", "/v1/stats", self.stats, "read", Stats, query=StatsQuery)]

    async def stats(self, call: Call) -> Stats:
        """Return figures of the service and samples of them."""
        asked: StatsQuery = call.query
        service, scheduler, figures = self._service, self._service.scheduler, self._service.figures
        return Stats(
            now=service.clock(),
            started_s=service.started_s,
            pages=len(scheduler),
            waiting=service.thread.length,
            cycle_s=scheduler.cycle_s,
            formula=scheduler.formula.text,
            refused_pages=scheduler.refused_pages,
            refused_patterns=scheduler.refused_patterns,
            requests={str(status): count for status, count in sorted(service.statuses.items())},
            outcomes=show_counts(figures.watch.observed),
            signals=show_counts(figures.watch.noticed),
            batches=figures.watch.batches,
            handed_out=figures.watch.handed_out,
            trouble=service.trouble(),
            calibration=_show_calibration(figures.calibration),
            sample_every_s=figures.every_s,
            latest=figures.latest,
            samples=figures.since(asked.since),
        )


def _show_calibration(reliability: Reliability) -> CalibrationView:
    columns = BIN_EDGES[:-1], BIN_EDGES[1:], reliability.visits, reliability.predicted, reliability.observed
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return CalibrationView(
        visits=reliability.total,
        error=reliability.error,
        predicted=reliability.mean_predicted,
        observed=reliability.share_observed,
        bins=[
            ReliabilityBin(low=low, high=high, visits=visits, predicted=predicted, observed=observed)
            for low, high, visits, predicted, observed in rows
            if visits
        ],
    )
