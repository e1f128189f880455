"""What readers get of what the scheduler has learned: weeks, surges, sources of signals; and formulas as trees."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from streamsched.estimation.signals.source_list import SourceReliability
from streamsched.http.messages.fields import Host, Message
from streamsched.scheduler.reading.surge_view import SurgeView

__all__ = [
    "FormulaNode",
    "FormulaQuery",
    "FormulaTree",
    "SignalSources",
    "Surges",
    "SurgesQuery",
    "Week",
    "WeekQuery",
]


class WeekQuery(Message):
    """Whose week is wanted: that of a page, a host or a region; without any of them, that of all pages."""

    url: Annotated[str, Meta(min_length=1)] | None = None
    host: Host | None = None
    region: Annotated[str, Meta(min_length=1)] | None = None


class Week(Message):
    """How busy each hour of the week is; see `streamsched.WeekView`. ``regions``: the names that may be asked for."""

    hours: Annotated[list[float], Meta(min_length=168, max_length=168)]
    utc_offset_s: float
    profile: str | None
    region: str | None
    scheduled: bool
    regions: list[str]


class SurgesQuery(Message):
    """How many surges to return."""

    k: Annotated[int, Meta(ge=1, le=1_000)] = 100


class Surges(Message):
    """The surges that the most changed pages wait for, the largest first."""

    surges: list[SurgeView]


class SignalSources(Message):
    """Each kind of source, followed by its hosts with the most signals."""

    sources: list[SourceReliability]


class FormulaQuery(Message):
    """A formula, or the name of an objective; without it, the formula in use."""

    text: Annotated[str, Meta(min_length=1, max_length=4_000)] | None = None  # percent-encoded, 48,000 bytes


class FormulaNode(Message):
    """A node of a formula. ``text``: an operator, a function, a terminal or a number; ``meaning``: of a terminal."""

    kind: Literal["operator", "function", "terminal", "constant"]
    text: str
    meaning: str | None
    children: list[FormulaNode]


class FormulaTree(Message):
    """A formula as a tree. ``size``: its nodes; ``depth``: its levels."""

    text: str
    size: int
    depth: int
    root: FormulaNode
