"""The front: answers for the whole cluster at the paths at which a service answers for its scheduler.

A call about a page or a host goes to the owner of its partition, a call with many URLs to the owner of each, and what
concerns all hosts to every shard. What no sum or list of the shards' answers would be true of is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from heapq import merge
from http import HTTPStatus
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from msgspec import structs

from streamsched.api.answers import (
    Blocked,
    Copied,
    Evolutions,
    Forgotten,
    FormulaTree,
    PolitenessSettings,
    RankedPage,
    Ranking,
    Released,
    RulesSet,
    SignalSources,
    Stats,
    Surges,
)
from streamsched.api.operations import (
    ASK,
    BLOCK,
    CHAMPION,
    DISCOVER,
    EVOLUTIONS,
    EXPLAIN,
    FORGET,
    FORMULA,
    HOST,
    HOSTS,
    NEXT_BATCH,
    NOTICE,
    OBSERVE,
    OPERATIONS,
    PAGE,
    POLITENESS,
    RANK,
    READ_CHANGES,
    RELEASE,
    RULES,
    SET_POLITENESS,
    SET_RULES,
    SNAPSHOT,
    SOURCES,
    STATS,
    SURGES,
    TRIAL,
    USE,
    WEEK,
    Block,
    ChampionChange,
    Copy,
    Discoveries,
    ExplainQuery,
    Forget,
    FormulaQuery,
    HostsQuery,
    LastQuery,
    Operation,
    OutcomesQuery,
    PolitenessChange,
    RankQuery,
    Releases,
    Rules,
    StatsQuery,
    SurgesQuery,
    VisitRequests,
    WeekQuery,
)
from streamsched.api.views import (
    KEPT_REJECTIONS,
    ChampionView,
    Counts,
    Discovered,
    Explanation,
    HostPage,
    HostView,
    Noticed,
    Observed,
    PageView,
    RulesView,
    TrialCounts,
    WeekView,
)
from streamsched.cluster.batch_front import BatchFront
from streamsched.cluster.common_formula import add_up_trials, view_trial
from streamsched.cluster.foreign_pages import partitions_of, split_outcomes
from streamsched.cluster.merged_figures import LOOK_BACK, merge_sources, merge_stats
from streamsched.cluster.shard import LEADING
from streamsched.cluster.shard_calls import ShardCalls, ShardMissing, Shards
from streamsched.errors import UnknownPage
from streamsched.http.app import HttpApp
from streamsched.http.console import CONTENT_POLICY, Console, read_files
from streamsched.http.console.documentation import Documentation
from streamsched.http.endpoints.administration import Monitoring, given_fields
from streamsched.http.gate import may
from streamsched.http.open_http import open_routes
from streamsched.http.prometheus_metrics import RequestMetrics
from streamsched.http.protocol.openapi import describe_routes
from streamsched.http.protocol.problems import HttpError, unknown
from streamsched.http.protocol.routes import find_routes
from streamsched.http.service import ServiceState
from streamsched.http.tokens import SCOPES
from streamsched.numerics.arrays import Rows
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import OutcomeBatch
from streamsched.politeness.rule_targets import read_host
from streamsched.service.http_settings import HttpSettings
from streamsched.signals import SignalBatch

Answer = TypeVar("Answer")
Total = TypeVar("Total", bound=Counts)

DEADLINE_S: Final = 0.5
_MOST_HOSTS: Final = 1_000  # of one answer of a shard
_COPY_S: Final = 3_600.0  # in which a shard must have made a copy: O(pages)


class Front:
    """Answers crawlers, readers and administrators for all shards, but for their batches.

    `every_s`: seconds between two samples of figures. Operations for which it has no method are refused.
    """

    def __init__(self, calls: ShardCalls, state: ServiceState, every_s: float) -> None:
        self._calls = calls
        self._state = state
        self._every_s = every_s
        for operation in OPERATIONS:
            if operation is not NEXT_BATCH and not hasattr(self, operation.name):
                setattr(self, operation.name, _refuse(operation.name))

    # Of crawlers: each URL goes to the owner of its host.

    async def observe(self, outcomes: OutcomeBatch, options: OutcomesQuery) -> Observed:
        """Report finished crawls.

        The invalid ones are named, the others applied. Targets of redirects go to the shards of their hosts.
        """
        outcomes, parts, targets = split_outcomes(outcomes, len(self._shards))
        given = {shard: {"outcomes": outcomes.take(rows)} for shard, rows in parts.items()}
        answers = await self._each(OBSERVE, given, positions=options.positions)
        if len(targets):
            await self.discover(Discoveries(urls=list(targets)))
        observed = _add_up(Observed(), zip(parts.values(), answers, strict=True))
        if not options.positions:
            return observed
        places: dict[str, list[int]] = {}
        for name in ("positions", "unchanged"):
            found = [rows[getattr(answer, name)] for rows, answer in zip(parts.values(), answers, strict=True)]
            places[name] = np.sort(np.concatenate([*found, np.empty(0, np.intp)])).tolist()
        return structs.replace(observed, **places)

    async def notice(self, signals: SignalBatch) -> Noticed:
        """Report change signals, such as those of sitemaps and feeds.

        The invalid ones are named, the others applied.
        """
        parts = self._split(signals.urls)
        given = {shard: {"signals": signals.take(rows)} for shard, rows in parts.items()}
        return _add_up(Noticed(), zip(parts.values(), await self._each(NOTICE, given), strict=True))

    async def discover(self, found: Discoveries) -> Discovered:
        """Add pages that were found and not visited yet.

        The invalid ones are named, the others applied.
        """
        importance = found.importance if isinstance(found.importance, float) else None
        return await self._add_pages(DISCOVER, found.urls, importance=importance)

    async def ask(self, wanted: VisitRequests) -> Discovered:
        """Request one visit of each page, whatever its score.

        The invalid ones are named, the others applied.
        """
        return await self._add_pages(ASK, wanted.urls)

    async def release(self, given: Releases) -> Released:
        """Give leased pages back unvisited."""
        return Released(known=_sum("known", await self._each(RELEASE, self._split_texts(given.urls))))

    # Of readers.

    async def rank(self, asked: RankQuery) -> Ranking:
        """Return the best pages of all shards without leasing them.

        Shards that do not answer in time are left out, and named in ``missing``.
        """
        rankings = await self._calls.each_in_time(RANK, {shard: {"k": asked.k} for shard in self._shards})
        pages = list(merge(*(one.pages for one in rankings.values()), key=_rank))[: asked.k]
        now = max((one.now for one in rankings.values()), default=self._state.clock())
        return Ranking(pages=pages, now=now, missing=[shard for shard in self._shards if shard not in rankings])

    async def explain(self, asked: ExplainQuery) -> Explanation:
        """Explain the rank of a page among those of its shard."""
        return await self._calls.call(self._owner_of(asked.url), EXPLAIN, url=asked.url, k=asked.k)

    async def page(self, url: str) -> PageView:
        """Return what is known of a page."""
        view: PageView | None = await self._calls.call(self._owner_of(url), PAGE, url=url)
        if view is None:
            raise UnknownPage(url)
        return view

    async def hosts(self, asked: HostsQuery) -> HostPage:
        """List hosts shard by shard, or those of all shards by their failing pages."""
        return await (self._list_failing(asked) if asked.order == "failing" else self._list_known(asked))

    async def host(self, host: str) -> HostView:
        """Return a host, its limits and what holds it back."""
        view: HostView | None = await self._calls.call(self._owner_of_host(host), HOST, host=host)
        if view is None:
            raise unknown("unknown_host", "no page of this host is known", host)
        return view

    async def week(self, asked: WeekQuery) -> WeekView:
        """Return how busy each hour of the week is for a page or a host."""
        if asked.region is not None or (asked.url is None) == (asked.host is None):
            raise _not_merged("week of anything but a page or a host")
        owner = self._owner_of(asked.url) if asked.url is not None else self._owner_of_host(asked.host or "")
        view: WeekView | None = await self._calls.call(owner, WEEK, url=asked.url, host=asked.host)
        if view is None:
            detail = "this page is not known" if asked.url else "no page of this host is known"
            raise unknown("unknown_target", detail, asked.url or asked.host)
        return view

    async def surges(self, asked: SurgesQuery) -> Surges:
        """List surges under way."""
        answers = await self._all(SURGES, k=asked.k)
        found = [surge for answer in answers for surge in answer.surges]
        return Surges(surges=sorted(found, key=lambda one: -one.share * one.unvisited)[: asked.k])

    async def sources(self) -> SignalSources:
        """List the sources of change signals: each kind, and its hosts with the most signals."""
        return merge_sources(await self._all(SOURCES))

    async def stats(self, asked: StatsQuery) -> Stats:
        """Return figures of all shards and samples of them.

        Shards that do not answer in time are left out, and named in ``missing``.
        """
        since_s = max(asked.since, 0.0) - LOOK_BACK * self._every_s
        found = await self._calls.each_in_time(STATS, {shard: {"since": since_s} for shard in self._shards})
        if not found:
            raise ShardMissing(self._shards[0], "nor does any other")
        state, troubles = self._state, [f"shard {shard}: {one.trouble}" for shard, one in found.items() if one.trouble]
        return structs.replace(
            merge_stats(list(found.values()), self._every_s, asked.since),
            version=state.version,
            scopes=tuple(scope for scope in SCOPES if may(scope)),
            now=state.clock(),
            requests={str(status): count for status, count in sorted(state.statuses.items())},
            trouble=state.trouble() or "; ".join(troubles) or None,
            missing=[shard for shard in self._shards if shard not in found],
        )

    # What all shards have alike is read from any, and changed in each.

    async def rules(self) -> RulesView:
        """Return the rules for hosts, URL patterns and pages."""
        return await self._any(RULES)

    async def politeness(self) -> PolitenessSettings:
        """Return the politeness settings."""
        return await self._any(POLITENESS)

    async def champion(self) -> ChampionView:
        """Return the formula in use."""
        return await self._any(CHAMPION)

    async def formula(self, asked: FormulaQuery) -> FormulaTree:
        """Return a formula as a tree."""
        return await self._any(FORMULA, text=asked.text)

    async def set_rules(self, given: Rules) -> RulesSet:
        """Set or remove rules for hosts, URL patterns and pages."""
        rules = {target: None if rule is None else given_fields(rule) for target, rule in given.rules.items()}
        return RulesSet(pages=_sum("pages", await self._all(SET_RULES, rules=rules)))

    async def set_politeness(self, given: PolitenessChange) -> PolitenessSettings:
        """Change politeness settings."""
        return (await self._all(SET_POLITENESS, politeness=given_fields(given)))[0]

    async def use(self, given: ChampionChange) -> ChampionView:
        """Set the formula, or return to a former one.

        The change is recorded. Every shard ranks by it a second later, or when it is served again.
        """
        return await self._calls.call(LEADING, USE, formula=given.formula)

    async def trial(self) -> TrialCounts:
        """Return the formula in use, the challenger on trial, and what the pages of both have shown in all shards."""
        return add_up_trials(await self._all(TRIAL))

    async def evolutions(self, asked: LastQuery) -> Evolutions:
        """Return the records of evolutions.

        The newest ones, and what the pages of all shards have shown in the trial under way.
        """
        found: Evolutions = await self._calls.call(LEADING, EVOLUTIONS, last=asked.last)
        return found if found.trial is None else structs.replace(found, trial=view_trial(await self.trial()))

    async def block(self, given: Block, host: str) -> Blocked:
        """Visit no page of a host for a while."""
        answers = await self._of_host(BLOCK, host, host=host, seconds=given.seconds)
        return Blocked(hosts=_sum("hosts", answers), until=max(answer.until for answer in answers))

    async def forget(self, given: Forget) -> Forgotten:
        """Forget pages, or all pages of a host."""
        if given.urls is None or given.host is not None:
            answers = await self._of_host(FORGET, given.host or "*", urls=given.urls, host=given.host)
        else:
            answers = await self._each(FORGET, self._split_texts(given.urls))
        return Forgotten(known=_sum("known", answers))

    async def snapshot(self, given: Copy) -> Copied:  # noqa: ARG002  it has no fields
        """Make a checked copy of the state of each shard.

        Crawlers are served meanwhile.
        """
        copies = await self._all(SNAPSHOT, timeout_s=_COPY_S)
        return Copied(file=None, size=_sum("size", copies), now=min(one.now for one in copies), shards=copies)

    @property
    def _shards(self) -> range:
        return range(self._calls.shards.count)

    def _split(self, urls: PackedUrls) -> dict[int, Rows]:
        """Return the places of the URLs of each shard that has any. O(bytes)."""
        shards = partitions_of(urls, len(self._shards))
        return {shard: np.flatnonzero(shards == shard) for shard in np.unique(shards).tolist()}

    def _split_texts(self, urls: Sequence[str]) -> dict[int, dict[str, Any]]:
        parts = self._split(PackedUrls.pack(urls))
        return {shard: {"urls": [urls[row] for row in rows.tolist()]} for shard, rows in parts.items()}

    def _owner_of(self, url: str) -> int:
        (shard,) = self._split(PackedUrls.pack([url]))
        return shard

    def _owner_of_host(self, host: str) -> int:
        return self._owner_of(f"https://{read_host(host).key}/")

    async def _each(
        self, operation: Operation[Answer], given: Mapping[int, Mapping[str, Any]], **common: Any
    ) -> list[Answer]:
        return await self._calls.each(operation, {shard: {**own, **common} for shard, own in given.items()})

    async def _all(self, operation: Operation[Answer], **given: Any) -> list[Answer]:
        return await self._calls.each(operation, dict.fromkeys(self._shards, given))

    async def _of_host(self, operation: Operation[Answer], hosts: str, **given: Any) -> list[Answer]:
        """Call the owner of a host, or all shards if it has a ``*``."""
        if "*" in hosts:
            return await self._all(operation, **given)
        return await self._calls.each(operation, {self._owner_of_host(hosts): given})

    async def _any(self, operation: Operation[Answer], **given: Any) -> Answer:
        """Return the answer of the first shard that gives one. Raises ShardMissing if none does."""
        for shard in self._shards[:-1]:
            try:
                return await self._calls.call(shard, operation, **given)
            except ShardMissing:
                continue
        return await self._calls.call(self._shards[-1], operation, **given)

    async def _add_pages(self, operation: Operation[Discovered], urls: Sequence[str], **common: Any) -> Discovered:
        parts = self._split(PackedUrls.pack(urls))
        given = {shard: {"urls": [urls[row] for row in rows.tolist()]} for shard, rows in parts.items()}
        return _add_up(Discovered(), zip(parts.values(), await self._each(operation, given, **common), strict=True))

    async def _list_known(self, asked: HostsQuery) -> HostPage:
        """Return hosts from a start on, which is the start in a shard times the number of shards, plus the shard."""
        count, found = len(self._shards), list[HostView]()
        following: int | None = asked.start
        while following is not None and len(found) < asked.size:
            start, shard = divmod(following, count)
            part = await self._calls.call(shard, HOSTS, start=start, size=asked.size - len(found))
            found += part.hosts
            after = shard + 1 if shard + 1 < count else None
            following = after if part.next is None else part.next * count + shard
        return HostPage(tuple(found), following)

    async def _list_failing(self, asked: HostsQuery) -> HostPage:
        """Return the hosts with the most failing pages of all shards. O(start + size) for each shard."""
        end, found = asked.start + asked.size, list[HostView]()
        for shard in self._shards:
            start: int | None = 0
            while start is not None and start <= end:  # one more than is shown: whether there is a next part
                size = min(end + 1 - start, _MOST_HOSTS)
                part = await self._calls.call(shard, HOSTS, start=start, size=size, order="failing")
                found += part.hosts
                start = part.next
        found.sort(key=lambda view: -(view.failing or 0))
        return HostPage(tuple(found[asked.start : end]), end if len(found) > end else None)


def _rank(page: RankedPage) -> tuple[int, bool, float]:
    """Return the key by which rankings are merged; pages of higher tiers stay in the order of their shard."""
    return (-page.tier, False, 0.0) if page.tier else (0, page.score is None, -(page.score or 0.0))


def _sum(name: str, answers: Iterable[Any]) -> int:
    return sum(map(attrgetter(name), answers))


def _add_up(total: Total, parts: Iterable[tuple[Rows, Total]]) -> Total:
    """Return `total` with the counts of the answers to parts of a call; ``rows``: the places of a part's records."""
    rejections = []
    for rows, answer in parts:
        total += structs.replace(answer, rejections=())
        rejections += [structs.replace(one, record=int(rows[one.record])) for one in answer.rejections]
    rejections.sort(key=attrgetter("record"))
    return structs.replace(total, rejections=tuple(rejections[:KEPT_REJECTIONS]))


def _refuse(name: str) -> Callable[..., Any]:
    async def refuse(*_: Any, **__: Any) -> Any:
        """Refuse: shards answer this for themselves."""
        raise _not_merged(name)

    return refuse


def _not_merged(name: str) -> HttpError:
    ask = "" if name == READ_CHANGES.name else ": ask its shards, at /shards/NUMBER"
    detail = f"a cluster has no {name} as a whole{ask}"
    return HttpError(HTTPStatus.NOT_IMPLEMENTED, "not_merged", detail)


@contextmanager
def open_front(
    shards: Shards, settings: HttpSettings, wall: Callable[[], float], directory: Path, deadline_s: float = DEADLINE_S
) -> Iterator[HttpApp[ServiceState]]:
    """Yield the application that answers for all `shards`, for any ASGI server.

    `wall`: the present time, UTC epoch seconds; `directory`: of the audit log, unless `settings` name another file;
    `deadline_s`: in which a shard must answer a request for a batch or a ranking. Raises SettingsError for an invalid
    file of tokens, SnapshotError if the audit log cannot be written.
    """
    state, calls = ServiceState(wall), ShardCalls(shards, deadline_s)
    partitions_of(PackedUrls.pack(["https://a.example/"]), shards.count)  # compiled before requests
    routes = list(find_routes([BatchFront(calls, state), Front(calls, state, float(settings.sample_every))]))
    routes += Monitoring(state, RequestMetrics(state), lambda: describe_routes(routes, state.version)).routes()
    routes += Console(read_files()).routes() + Documentation(CONTENT_POLICY).routes()
    with open_routes(state, routes, settings, directory) as app:
        yield app
