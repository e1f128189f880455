"""The endpoints of administrators and monitors: rules, blocks, the formula in use; health, metrics, OpenAPI."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from functools import cached_property
from http import HTTPStatus
from typing import Any, Final

import msgspec
from msgspec import UNSET, structs
from starlette.responses import Response

from streamsched.api.answers import Blocked, Copied, Forgotten, Health, PolitenessSettings, Readiness, RulesSet
from streamsched.api.operations import (
    Block,
    ChampionChange,
    Copy,
    Forget,
    Message,
    Operation,
    PolitenessChange,
    RuleFields,
    Rules,
)
from streamsched.api.views import ChampionView
from streamsched.errors import SettingsError, StateInUse, shorten
from streamsched.evolution.records import EvolutionRecord, RecordBook
from streamsched.http.prometheus_metrics import RequestMetrics
from streamsched.http.protocol.bodies import JSON
from streamsched.http.protocol.problems import HttpError, invalid
from streamsched.http.protocol.routes import Route
from streamsched.http.service import Service, ServiceState
from streamsched.politeness.politeness_settings import HostRule, Rule
from streamsched.politeness.rule_targets import HOST, parse_target
from streamsched.scheduler.durable import DurableScheduler
from streamsched.service.open_state import set_formula, use_recorded_formula
from streamsched.service.state_copies import add_copy

_OF_HOSTS: Final = frozenset(("delay", "in_flight", "per_batch"))


class Administration:
    """Answers administrators."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._changing = asyncio.Lock()  # of the formula: a change takes seconds where there are many pages

    async def set_rules(self, given: Rules) -> RulesSet:
        """Set or remove rules for hosts, URL patterns and pages."""
        rules = {target: None if one is None else _make_rule(target, one) for target, one in given.rules.items()}
        return RulesSet(pages=await self._service.call(lambda scheduler, _: scheduler.set_rules(rules)))

    async def set_politeness(self, given: PolitenessChange) -> PolitenessSettings:
        """Change politeness settings."""
        values = given_fields(given)

        def change(scheduler: DurableScheduler, _: float) -> PolitenessSettings:
            scheduler.set_politeness(dataclasses.replace(scheduler.politeness, **values))
            return PolitenessSettings(**scheduler.politeness.to_json())

        return await self._service.call(change)

    async def forget(self, given: Forget) -> Forgotten:
        """Forget pages, or all pages of a host."""
        known = await self._service.call(lambda scheduler, _: scheduler.forget(given.urls, host=given.host))
        return Forgotten(known=known)

    async def block(self, given: Block, host: str) -> Blocked:
        """Visit no page of a host for a while."""
        until_s = self._service.clock() + given.seconds
        hosts = await self._service.call(lambda scheduler, _: scheduler.block(host, until_s))
        return Blocked(hosts=hosts, until=until_s)

    async def snapshot(self, given: Copy) -> Copied:  # noqa: ARG002  it has no fields
        """Make a checked copy of the state.

        Crawlers are served meanwhile.
        """
        folder, now = self._service.snapshots, self._service.clock()
        if folder is None:
            detail = "the setting http.snapshots names no directory for copies"
            raise HttpError(HTTPStatus.NOT_FOUND, "no_snapshots", detail)
        try:
            path = await asyncio.to_thread(add_copy, self._service.scheduler, self._service.directory, folder, now)
        except StateInUse:
            headers = {"retry-after": "1"}
            raise HttpError(
                HTTPStatus.CONFLICT, "snapshot_running", "another copy is being made", headers=headers
            ) from None
        return Copied(file=str(path), size=path.stat().st_size, now=now)

    async def use(self, given: ChampionChange) -> ChampionView:
        """Set the formula, or return to a former one.

        The change is recorded. Crawlers are served meanwhile.
        """
        async with self._changing:
            await asyncio.to_thread(self._use, given.formula)
        return self._service.scheduler.champion.view()

    def _use(self, choice: str | int) -> None:
        service, now = self._service, self._service.clock()
        book = RecordBook(service.directory)
        if isinstance(choice, str):
            set_formula(service.scheduler, book, now, choice)
            return
        former = book.find(choice)
        if former is None:
            raise invalid("formula", str(choice), "the number of a record that GET /v1/evolutions returns")
        champion, before = former.champion_after, service.scheduler.champion
        why = f"asked to go back to the champion of record {choice}"
        record = EvolutionRecord(book.next_number(), now, "asked", "set", why, before, champion)
        use_recorded_formula(service.scheduler, book, record)


def given_fields(message: Message) -> dict[str, Any]:
    """Return the fields that a message has."""
    return {name: value for name, value in structs.asdict(message).items() if value is not UNSET}


def _make_rule(target: str, given: RuleFields) -> Rule | HostRule:
    """Return the rule with the fields that are given. Raises HttpError if they do not make one for the target."""
    values = given_fields(given)
    of_host = values.keys() & _OF_HOSTS
    if of_host and values.keys() - _OF_HOSTS:
        raise invalid(f"rules.{target}", ", ".join(sorted(values)), "fields of a host or of pages, not both")
    if of_host and parse_target(target).kind != HOST:
        raise invalid(f"rules.{target}", ", ".join(sorted(values)), "fields of pages: it is no host")
    try:
        return HostRule(**values) if of_host else Rule(**values)
    except SettingsError as error:
        raise invalid(f"rules.{target}.{error.setting}", shorten(error.found), error.expected) from None


class Monitoring:
    """Answers monitors. `metrics`: of the service; `describe`: returns the OpenAPI document, once it is asked for."""

    def __init__(self, service: ServiceState, metrics: RequestMetrics, describe: Callable[[], dict[str, Any]]) -> None:
        self._service = service
        self._metrics = metrics
        self._describe = describe

    def routes(self) -> list[Route]:
        """Return the routes of these endpoints, which clients do not call."""
        media_type = self._metrics.media_type
        return [
            Route.of(Operation("health", "GET /healthz", None, Health, for_monitors=True), self.health),
            Route.of(Operation("readiness", "GET /readyz", None, Readiness, for_monitors=True), self.readiness),
            Route.of(
                Operation("metrics", "GET /metrics", "read", None, media_type=media_type, for_monitors=True),
                self.metrics,
            ),
            Route.of(Operation("openapi", "GET /openapi.json", None, None, media_type=JSON), self.openapi),
        ]

    async def health(self) -> Health:
        """Tell whether the process answers."""
        return Health(status="ok")

    async def readiness(self) -> Readiness:
        """Tell whether requests are served, and how far behind the stream is: 503 if not.

        Also 503 until the stream has caught up for the first time since the start.
        """
        trouble = self._service.trouble()
        if trouble is not None:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "not_ready", trouble, headers={"retry-after": "1"})
        lag, behind_s = self._service.progress
        return Readiness(status="ok", lag=lag, behind_s=behind_s)

    async def metrics(self) -> Response:
        """Return metrics for Prometheus."""
        return Response(self._metrics.write(), headers={"content-type": self._metrics.media_type})

    async def openapi(self) -> Response:
        """Describe the service in OpenAPI."""
        return Response(self._document, media_type=JSON)

    @cached_property
    def _document(self) -> bytes:
        return msgspec.json.encode(self._describe())
