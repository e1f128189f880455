"""The endpoints of what the scheduler has learned: weeks, surges, sources of signals; and formulas as trees."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from itertools import groupby, islice
from typing import Final

from streamsched.errors import shorten
from streamsched.estimation.source_list import SourceReliability
from streamsched.formula.champion import parse_provided
from streamsched.formula.syntax.nodes import Constant, Node, Terminal, fold
from streamsched.formula.syntax.printer import print_number
from streamsched.formula.terminal_table import TERMINALS
from streamsched.http.endpoints.messages import (
    FormulaNode,
    FormulaQuery,
    FormulaTree,
    SignalSources,
    Surges,
    SurgesQuery,
    Week,
    WeekQuery,
)
from streamsched.http.protocol.problems import HttpError
from streamsched.http.protocol.routes import Call, Route
from streamsched.http.service import Service

_MOST_SOURCES: Final = 100  # hosts of a kind in one answer
_SIGNS: Final = {"neg": "−", "-": "−", "*": "×", "/": "÷", "+": "+"}


class Learned:
    """Answers readers; changes nothing."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[Route]:
        """Return the routes of these endpoints."""
        return [
            Route(
                "GET",
                "/v1/week",
                self.week,
                "read",
                Week,
                query=WeekQuery,
                errors={HTTPStatus.NOT_FOUND: "The page or the host is not known."},
            ),
            Route("GET", "/v1/surges", self.surges, "read", Surges, query=SurgesQuery),
            Route("GET", "/v1/signals/sources", self.sources, "read", SignalSources),
            Route("GET", "/v1/formula", self.formula, "read", FormulaTree, query=FormulaQuery),
        ]

    async def week(self, call: Call) -> Week:
        """Return how busy each hour of the week is for a page, a host, a region or all pages."""
        asked: WeekQuery = call.query
        now = self._service.clock
        view = await self._service.call(
            lambda scheduler: scheduler.week(now=now(), url=asked.url, host=asked.host, region=asked.region)
        )
        if view is None:
            found = shorten(asked.url or asked.host)
            detail = "this page is not known" if asked.url else "no page of this host is known"
            raise HttpError(HTTPStatus.NOT_FOUND, "unknown_target", detail, fields={"found": found})
        return Week(**view.as_dict(), regions=list(self._service.scheduler.regions))

    async def surges(self, call: Call) -> Surges:
        """List surges under way."""
        asked: SurgesQuery = call.query
        found = await asyncio.to_thread(self._service.scheduler.surges, asked.k)
        return Surges(surges=found)

    async def sources(self, call: Call) -> SignalSources:  # noqa: ARG002  a handler
        """List the sources of change signals: each kind, and its hosts with the most signals."""
        found = await self._service.call(lambda scheduler: scheduler.sources())
        return SignalSources(sources=list(_shorten_kinds(found)))

    async def formula(self, call: Call) -> FormulaTree:
        """Return a formula as a tree."""
        asked: FormulaQuery = call.query
        formula = self._service.scheduler.formula if asked.text is None else parse_provided(asked.text)
        return FormulaTree(
            text=formula.text, size=formula.size, depth=formula.depth, root=fold(formula.root, _show_node)
        )


def _shorten_kinds(sources: Sequence[SourceReliability]) -> Iterator[SourceReliability]:
    """Yield each kind and its first hosts."""
    for _, of_kind in groupby(sources, lambda source: source.kind):
        yield from islice(of_kind, 1 + _MOST_SOURCES)


def _show_node(node: Node, below: tuple[FormulaNode, ...]) -> FormulaNode:
    children = list(below)
    if isinstance(node, Constant):
        return FormulaNode(kind="constant", text=print_number(node.value), meaning=None, children=children)
    if isinstance(node, Terminal):
        return FormulaNode(kind="terminal", text=node.name, meaning=TERMINALS[node.name].text, children=children)
    is_function = node.op in ("log", "exp", "pow")
    text = node.op if is_function else _SIGNS[node.op]
    return FormulaNode(kind="function" if is_function else "operator", text=text, meaning=None, children=children)
