"""What readers get of what the scheduler has learned: weeks, surges, sources of signals; and formulas as trees."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from streamsched.http.messages.fields import Host, Message

__all__ = [
    "FormulaNode",
    "FormulaQuery",
    "FormulaTree",
    "SignalSource",
    "SignalSources",
    "Surge",
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


class Surge(Message):
    """A bulk change of a group of pages; see `streamsched.SurgeView`."""

    group: str
    pages: int
    since_s: float
    share: float
    unvisited: int


class Surges(Message):
    """The surges that the most changed pages wait for, the largest first."""

    surges: list[Surge]


class SignalSource(Message):
    """What visits have shown of a source of change signals; see `streamsched.SourceReliability`."""

    kind: str
    host: str | None
    signals: int
    pages: int
    precision: float | None
    checked: float
    recall: float | None
    changes: float
    lateness_s: float


class SignalSources(Message):
    """Each kind of source, followed by its hosts with the most signals."""

    sources: list[SignalSource]


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
