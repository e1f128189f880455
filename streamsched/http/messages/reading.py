"""What readers ask for and get: the ranking, explanations, evolutions."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from streamsched.http.messages.fields import Count, Message, Url

__all__ = [
    "ChampionView",
    "EvolutionView",
    "Evolutions",
    "ExplainQuery",
    "Explained",
    "ExplainedReason",
    "HostLimits",
    "HostList",
    "HostState",
    "HostsQuery",
    "LastQuery",
    "PageState",
    "RankQuery",
    "RankedPage",
    "Ranking",
]


class RankQuery(Message):
    """How many pages to return."""

    k: Count = 100


class RankedPage(Message):
    """A page in the ranking; its fields are those of a leased one."""

    url: Url
    host: str
    score: float | None
    tier: int


class Ranking(Message):
    """The best pages that may be visited now, best first; none of them is leased."""

    pages: list[RankedPage]
    now: float


class ExplainQuery(Message):
    """A page, and the size of the batch that is asked about, leased for ten minutes."""

    url: Annotated[str, Meta(min_length=1)]
    k: Count = 1_000


class ChampionView(Message):
    """The formula in use and its origin; ``text`` says both in a sentence."""

    formula: str
    origin: str
    record: int | None
    since_s: float | None
    gain: float | None
    metric: str | None
    text: str


class ExplainedReason(Message):
    """A code of docs/reasons.md, its numbers, and the sentence that they make."""

    code: str
    fields: dict[str, Any]
    text: str


class Explained(Message):
    """A page, its score and place, and why it is where it is; see `streamsched.scheduler.explanation.Explanation`."""

    url: Url
    host: str
    pattern: str
    formula: str
    champion: ChampionView
    score: float | None
    eligible: bool
    eligible_from_s: float | None
    position: int | None
    of_eligible: int
    terminals: dict[str, float | None]
    prior_rate: float | None
    prior_pages: int
    first_visited: bool
    last_visit_s: float | None
    last_outcome_s: float | None
    failures: int
    leased_until_s: float | None
    reasons: list[ExplainedReason]
    in_batch: bool | None


class PageState(Message):
    """A page; see `streamsched.PageView`. ``held_back``: the code of why it may not be visited now, null if it may."""

    url: Url
    host: str
    pattern: str
    importance: float
    cost: float
    known_since_s: float | None
    last_visit_s: float | None
    last_outcome_s: float | None
    visits: int
    changes: int
    failures: int
    gone: int
    succeeded: bool
    rate: float | None
    asked_for: bool
    robots_denied: bool
    lease_until_s: float | None
    eligible_from_s: float | None
    reasons: list[ExplainedReason]
    held_back: str | None


class HostsQuery(Message):
    """A part of the list of hosts. ``start``: 0, or the ``next`` of the part before."""

    start: Annotated[int, Meta(ge=0, le=2**53)] = 0
    size: Annotated[int, Meta(ge=1, le=1_000)] = 100


class HostLimits(Message):
    """A rule for a host; null keeps a setting."""

    delay: float | None
    in_flight: int | None
    per_batch: int | None


class HostState(Message):
    """A host; see `streamsched.HostView`. ``held_back``: the code of why no page of it may be visited now."""

    host: str
    pages: int
    patterns: int
    leased: int
    rule: HostLimits | None
    delay_s: float
    in_flight: int | None
    per_batch: int | None
    resting_until_s: float | None
    cause: str | None
    backoffs: int
    refusals: int
    refusal: int | None
    probe: str | None
    stream: str | None
    held_back: str | None
    eligible_from_s: float | None


class HostList(Message):
    """Hosts in the order in which they became known. ``next``: the start of the next part, null after the last."""

    hosts: list[HostState]
    next: int | None


class LastQuery(Message):
    """How many of the newest records to return."""

    last: Count = 100


class EvolutionView(Message):
    """One evolution, or one formula set by hand; see `streamsched.evolution.records.EvolutionRecord`."""

    number: int
    when_s: float
    trigger: str
    decision: str
    why: str
    champion_before: ChampionView
    champion_after: ChampionView
    settings: dict[str, Any]
    seed: int | None
    data: dict[str, float | None] | None
    candidates: list[dict[str, Any]]
    challenger: str | None
    metric: str | None
    verdict: dict[str, Any] | None
    seconds: float | None


class Evolutions(Message):
    """The newest records, oldest first; ``faults``: how many lines of the file are no records."""

    evolutions: list[EvolutionView]
    faults: int
