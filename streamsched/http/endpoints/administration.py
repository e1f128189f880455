"""The endpoints of administrators and monitors: rules, blocks, the formula in use; health, metrics, OpenAPI."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cached_property
from http import HTTPStatus
from typing import Any, Final

import msgspec
from msgspec import UNSET, structs
from starlette.responses import Response

from streamsched.answers import Blocked, ChampionView, RulesSet
from streamsched.errors import SettingsError, shorten
from streamsched.evolution.records import EvolutionRecord, RecordBook
from streamsched.http.endpoints.messages import Block, ChampionChange, Health, RuleFields, Rules
from streamsched.http.endpoints.reading import show_champion
from streamsched.http.protocol.bodies import JSON, MessageBody
from streamsched.http.protocol.problems import HttpError, invalid
from streamsched.http.protocol.routes import Call, Route
from streamsched.http.service import Service
from streamsched.politeness.politeness_settings import HostRule, Rule
from streamsched.politeness.rule_targets import HOST, parse_target
from streamsched.service.open_state import set_formula, use_recorded_formula

_OF_HOSTS: Final = frozenset(("delay", "in_flight", "per_batch"))


class Administration:
    """Answers administrators."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._changing = asyncio.Lock()  # of the formula: a change takes seconds where there are many pages

    def routes(self) -> list[Route]:
        """Return the routes of these endpoints."""
        return [
            Route("PUT", "/v1/rules", self.set_rules, "admin", RulesSet, body=MessageBody(Rules)),
            Route("POST", "/v1/hosts/{host}/block", self.block, "admin", Blocked, body=MessageBody(Block)),
            Route("PUT", "/v1/champion", self.use, "admin", ChampionView, body=MessageBody(ChampionChange)),
        ]

    async def set_rules(self, call: Call) -> RulesSet:
        """Set or remove rules for hosts, URL patterns and pages."""
        given: Rules = call.body
        rules = {target: None if one is None else _make_rule(target, one) for target, one in given.rules.items()}
        return RulesSet(pages=await self._service.write(lambda scheduler: scheduler.set_rules(rules)))

    async def block(self, call: Call) -> Blocked:
        """Visit no page of a host for a while."""
        given: Block = call.body
        until_s = self._service.clock() + given.seconds
        host = call.path["host"]
        hosts = await self._service.write(lambda scheduler: scheduler.block(host, until_s))
        return Blocked(hosts=hosts, until=until_s)

    async def use(self, call: Call) -> ChampionView:
        """Set the formula, or return to a former one.

        The change is recorded. Crawlers are served meanwhile.
        """
        given: ChampionChange = call.body
        async with self._changing:
            await asyncio.to_thread(self._use, given.formula)
        return show_champion(self._service.scheduler.champion)

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


def _make_rule(target: str, given: RuleFields) -> Rule | HostRule:
    """Return the rule with the fields that are given. Raises HttpError if they do not make one for the target."""
    values = {name: value for name, value in structs.asdict(given).items() if value is not UNSET}
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
    """Answers monitors. `describe`: returns the OpenAPI document, made when it is first asked for."""

    def __init__(self, service: Service, describe: Callable[[], dict[str, Any]]) -> None:
        from streamsched.http.prometheus_metrics import PrometheusMetrics  # noqa: PLC0415  prometheus_client is an extra

        self._service = service
        self._metrics = PrometheusMetrics(service)
        self._describe = describe

    def routes(self) -> list[Route]:
        """Return the routes of these endpoints."""
        return [
            Route("GET", "/healthz", self.health, None, Health, while_stopping=True),
            Route("GET", "/readyz", self.readiness, None, Health, while_stopping=True),
            Route("GET", "/metrics", self.metrics, "read", media_type=self._metrics.media_type, while_stopping=True),
            Route("GET", "/openapi.json", self.openapi, None, media_type=JSON),
        ]

    async def health(self, call: Call) -> Health:  # noqa: ARG002  a handler, as the others
        """Tell whether the process answers."""
        return Health(status="ok")

    async def readiness(self, call: Call) -> Health:  # noqa: ARG002
        """Tell whether requests are served: 503 if not."""
        trouble = self._service.trouble()
        if trouble is not None:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "not_ready", trouble, headers={"retry-after": "1"})
        return Health(status="ok")

    async def metrics(self, call: Call) -> Response:  # noqa: ARG002
        """Return metrics for Prometheus."""
        return Response(self._metrics.write(), headers={"content-type": self._metrics.media_type})

    async def openapi(self, call: Call) -> Response:  # noqa: ARG002
        """Describe the service in OpenAPI."""
        return Response(self._document, media_type=JSON)

    @cached_property
    def _document(self) -> bytes:
        return msgspec.json.encode(self._describe())
