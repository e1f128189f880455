"""What readers ask for: the ranking, explanations, hosts, evolutions, figures."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from streamsched.http.messages.fields import Count, Message

__all__ = [
    "ExplainQuery",
    "HostsQuery",
    "LastQuery",
    "RankQuery",
    "StatsQuery",
]


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
