"""The endpoints of readers: ranking, explanations, hosts, what was learned, evolutions, formulas, figures."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from itertools import groupby, islice
from typing import Any, Final

from streamsched.api.answers import (
    CalibrationView,
    Changes,
    Evolutions,
    EvolutionView,
    FormulaNode,
    FormulaTree,
    PolitenessSettings,
    Ranking,
    ReliabilityBin,
    SignalSources,
    Stats,
    Surges,
    TrainingSample,
)
from streamsched.api.operations import (
    ChangesQuery,
    ExplainQuery,
    FormulaQuery,
    HostsQuery,
    LastQuery,
    RankQuery,
    StatsQuery,
    SurgesQuery,
    TrainingQuery,
    WeekQuery,
)
from streamsched.api.views import (
    ChampionView,
    Explanation,
    HostPage,
    HostView,
    PageView,
    RulesView,
    SourceReliability,
    TrialCounts,
    WeekView,
)
from streamsched.errors import SettingsError, UnknownPage, shorten
from streamsched.evolution.records import EvolutionRecord, RecordBook
from streamsched.formula.champion import parse_provided
from streamsched.formula.syntax.nodes import Constant, Node, Terminal, fold
from streamsched.formula.syntax.printer import print_number
from streamsched.formula.terminal_table import TERMINALS
from streamsched.http.gate import may
from streamsched.http.protocol.problems import HttpError, invalid, unknown
from streamsched.http.service import Service, read_wait
from streamsched.http.tokens import SCOPES
from streamsched.scheduler.durable import DurableScheduler
from streamsched.scheduler.monitoring import BIN_EDGES, Reliability

MOST_SOURCES: Final = 100  # hosts of a kind in one answer
_SIGNS: Final = {"neg": "−", "-": "−", "*": "×", "/": "÷", "+": "+"}


class Reading:
    """Answers readers; changes nothing."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def rank(self, asked: RankQuery) -> Ranking:
        """Return the best pages without leasing them."""

        def look(scheduler: DurableScheduler, now: float) -> Ranking:
            return Ranking(pages=list(scheduler.rank(asked.k, now=now)), now=now)

        return await self._service.read(look)

    async def read_changes(self, asked: ChangesQuery) -> Changes:
        """Return the changes that were found after a position, or wait for one."""
        service, wait_s = self._service, read_wait(asked.wait)
        feed = service.scheduler.feed
        if feed is None or not service.scheduler.offers_changes:
            detail = "this service keeps no changes for readers: its setting changes.keep is 0, or it is a cluster's"
            raise HttpError(HTTPStatus.NOT_FOUND, "no_changes", detail)
        cursor = feed.find(asked.after)

        async def look() -> Changes:
            if feed.newest == cursor:
                return Changes(changes=[], cursor=str(cursor))
            return await asyncio.to_thread(service.scheduler.changes, str(cursor), asked.limit)

        return await service.found.first(look, lambda found: bool(found.changes) or service.is_stopping, wait_s)

    async def explain(self, asked: ExplainQuery) -> Explanation:
        """Explain the rank of a page."""
        return await self._service.read(lambda scheduler, now: scheduler.explain(asked.url, now=now, k=asked.k))

    async def page(self, url: str) -> PageView:
        """Return what is known of a page."""
        view = await self._service.read(lambda scheduler, now: scheduler.page(url, now=now))
        if view is None:
            raise UnknownPage(url)
        return view

    async def hosts(self, asked: HostsQuery) -> HostPage:
        """List hosts, their limits and what holds them back."""
        return await self._service.read(
            lambda scheduler, now: scheduler.hosts(asked.start, asked.size, now=now, order=asked.order)
        )

    async def host(self, host: str) -> HostView:
        """Return a host, its limits and what holds it back."""
        try:
            view = await self._service.read(lambda scheduler, now: scheduler.host(host, now=now))
        except SettingsError as error:
            raise invalid("host", shorten(error.found), error.expected) from None
        if view is None:
            raise unknown("unknown_host", "no page of this host is known", host)
        return view

    async def week(self, asked: WeekQuery) -> WeekView:
        """Return how busy each hour of the week is for a page, a host, a region or all pages."""
        view = await self._service.read(
            lambda scheduler, now: scheduler.week(now=now, url=asked.url, host=asked.host, region=asked.region)
        )
        if view is None:
            detail = "this page is not known" if asked.url else "no page of this host is known"
            raise unknown("unknown_target", detail, asked.url or asked.host)
        return view

    async def surges(self, asked: SurgesQuery) -> Surges:
        """List surges under way."""
        return Surges(surges=await asyncio.to_thread(self._service.scheduler.surges, asked.k))

    async def sources(self) -> SignalSources:
        """List the sources of change signals: each kind, and its hosts with the most signals."""
        found = await self._service.read(lambda scheduler, _: scheduler.sources())
        return SignalSources(sources=list(_shorten_kinds(found)))

    async def rules(self) -> RulesView:
        """Return the rules for hosts, URL patterns and pages."""
        return await asyncio.to_thread(lambda: self._service.scheduler.rules)

    async def politeness(self) -> PolitenessSettings:
        """Return the politeness settings."""
        return PolitenessSettings(**self._service.scheduler.politeness.to_json())

    async def champion(self) -> ChampionView:
        """Return the formula in use."""
        return self._service.scheduler.champion.view()

    async def formula(self, asked: FormulaQuery) -> FormulaTree:
        """Return a formula as a tree."""
        formula = self._service.scheduler.formula if asked.text is None else parse_provided(asked.text)
        root = fold(formula.root, _show_node)
        return FormulaTree(text=formula.text, size=formula.size, depth=formula.depth, root=root)

    async def evolutions(self, asked: LastQuery) -> Evolutions:
        """Return the records of evolutions.

        The newest ones. O(bytes of their file).
        """
        records, faults = await asyncio.to_thread(RecordBook(self._service.directory).read)
        trial = await self._service.read(lambda scheduler, _: scheduler.trial())
        shown = [_show_record(record) for record in records[-asked.last :]]
        return Evolutions(evolutions=shown, faults=len(faults), trial=trial)

    async def trial(self) -> TrialCounts:
        """Return the formula in use, the challenger on trial, and what the pages of both have shown."""
        return await self._service.read(lambda scheduler, _: scheduler.trial_counts())

    async def training(self, asked: TrainingQuery) -> TrainingSample:
        """Return in which cycles the pages of a uniform sample changed.

        What evolution learns from. O(pages); crawlers are served meanwhile.
        """
        return TrainingSample(data=await asyncio.to_thread(_pack_training, self._service.scheduler, asked))

    async def stats(self, asked: StatsQuery) -> Stats:
        """Return figures of the service and samples of them."""
        service, scheduler, figures = self._service, self._service.scheduler, self._service.figures
        return Stats(
            version=service.version,
            scopes=tuple(scope for scope in SCOPES if may(scope)),
            now=service.clock(),
            started_s=service.started_s,
            pages=len(scheduler),
            waiting=service.thread.length,
            cycle_s=scheduler.cycle_s,
            formula=scheduler.formula.text,
            refused_pages=scheduler.refused_pages,
            refused_patterns=scheduler.refused_patterns,
            unproven_share=scheduler.unproven_share,
            requests={str(status): count for status, count in sorted(service.statuses.items())},
            outcomes=figures.watch.observed.counts(),
            signals=figures.watch.noticed.counts(),
            batches=figures.watch.batches,
            handed_out=figures.watch.handed_out,
            trouble=service.trouble(),
            calibration=show_calibration(figures.calibration),
            sample_every_s=figures.every_s,
            latest=figures.latest,
            samples=figures.since(asked.since),
        )


def _pack_training(scheduler: DurableScheduler, asked: TrainingQuery) -> bytes:
    # Imported on demand: it needs what evolutions need.
    from streamsched.evolution.exchange_files import pack_exchange  # noqa: PLC0415
    from streamsched.scheduler.evolver import draw_histories  # noqa: PLC0415

    draws, data = draw_histories(scheduler.core, asked.cycles, asked.draws, asked.seed, asked.now, asked.share)
    return pack_exchange(draws, data, {})


def _shorten_kinds(sources: Sequence[SourceReliability]) -> Iterator[SourceReliability]:
    """Yield each kind and its first hosts."""
    for _, of_kind in groupby(sources, lambda source: source.kind):
        yield from islice(of_kind, 1 + MOST_SOURCES)


def _show_node(node: Node, below: tuple[FormulaNode, ...]) -> FormulaNode:
    children = list(below)
    if isinstance(node, Constant):
        return FormulaNode(kind="constant", text=print_number(node.value), meaning=None, children=children)
    if isinstance(node, Terminal):
        return FormulaNode(kind="terminal", text=node.name, meaning=TERMINALS[node.name].text, children=children)
    is_function = node.op in ("log", "exp", "pow")
    text = node.op if is_function else _SIGNS[node.op]
    return FormulaNode(kind="function" if is_function else "operator", text=text, meaning=None, children=children)


def _show_record(record: EvolutionRecord) -> EvolutionView:
    champions: dict[str, Any] = {
        "champion_before": record.champion_before.view(),
        "champion_after": record.champion_after.view(),
        "trial": record.trial,
    }
    return EvolutionView(**record.to_json() | champions)


def show_calibration(reliability: Reliability) -> CalibrationView:
    """Return the counts of visits as an answer has them. O(bins)."""
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
