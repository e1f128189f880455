"""The answers of the HTTP service: it encodes these types and makes OpenAPI of them, its client decodes them.

A decoder ignores unknown fields, so that a client understands a later service. Null in a message is None in Python.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Answer(msgspec.Struct, kw_only=True):
    """The base of all answers. Times are UTC epoch seconds; a number that is not finite is null."""


class Rejection(Answer):
    """A record that was not applied. ``record``: its place in the request, from 0; ``found``: as a text."""

    record: int
    field: str
    found: str
    expected: str


class RankedPage(Answer):
    """A page in the ranking. ``score``: null if it is not finite; ``tier``: 2 if asked for, 1 if overdue, else 0.

    ``probability``: the calibrated probability that the page has changed since its last visit.
    """

    url: str
    host: str
    score: float | None
    tier: int
    probability: float


class Ranking(Answer):
    """The best pages that may be visited at the time ``now``, best first; none of them is leased."""

    pages: list[RankedPage]
    now: float


class LeasedPage(RankedPage):
    """A page to visit until ``lease_until``, UTC epoch seconds. ``why``: an ``in_batch_*`` code of docs/reasons.md."""

    lease_until: float
    why: str


class LeasedBatch(Answer):
    """The pages in the order in which to visit them. ``now``: when they were leased, UTC epoch seconds.

    ``repeated``: whether an earlier request with the same key has already returned this batch; after a lost answer
    the client asks again with the same key, so it may be true in the first answer that arrives.
    """

    pages: list[LeasedPage]
    now: float
    repeated: bool

    def __len__(self) -> int:
        return len(self.pages)


class ObservedOutcomes(Answer):
    """How many outcomes had which fate: applied + duplicates + late + refused + rejected are all.

    ``changed``, ``first_visits``, ``failures``, ``robots_denied``, ``not_attempted``, ``moved``, ``served`` and
    ``hits`` are among ``applied``; ``rejections``: the first 100 that were rejected. An outcome that was sent twice,
    because the first answer was lost, counts as a duplicate or late.
    """

    applied: int
    duplicates: int
    late: int
    refused: int
    rejected: int
    changed: int
    first_visits: int
    failures: int
    robots_denied: int
    not_attempted: int
    moved: int
    served: int
    hits: int
    rejections: list[Rejection]


class NoticedSignals(Answer):
    """How many signals had which fate; each has one. ``rejections``: the first 100 that were rejected."""

    applied: int
    discovered: int
    repeated: int
    late: int
    refused: int
    rejected: int
    rejections: list[Rejection]


class Discovered(Answer):
    """``added``: how many were new; ``rejected``: how many are no URLs; ``rejections``: the first 100 of them."""

    added: int
    rejected: int
    rejections: list[Rejection]


class Released(Answer):
    """``known``: how many of the pages are known."""

    known: int


class ChampionView(Answer):
    """The formula in use and its origin; ``text`` says both in a sentence."""

    formula: str
    origin: str
    record: int | None
    since_s: float | None
    gain: float | None
    metric: str | None
    text: str


class ExplainedReason(Answer):
    """A code of docs/reasons.md, its numbers, and the sentence that they make."""

    code: str
    fields: dict[str, Any]
    text: str


class Explained(Answer):
    """A page, its score and place, and why it is where it is; see `streamsched.Explanation`."""

    url: str
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


class PageState(Answer):
    """A page; see `streamsched.PageView`. ``held_back``: the code of why it may not be visited now, null if it may."""

    url: str
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


class HostLimits(Answer):
    """A rule for a host; null keeps a setting."""

    delay: float | None
    in_flight: int | None
    per_batch: int | None


class HostState(Answer):
    """A host; see `streamsched.HostView`. ``held_back``: the code of why no page of it may be visited now, or null."""

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


class HostList(Answer):
    """Hosts in the order in which they became known. ``next``: the start of the next part, null after the last."""

    hosts: list[HostState]
    next: int | None


class RulesSet(Answer):
    """``pages``: how many pages the rules may concern."""

    pages: int


class Blocked(Answer):
    """``hosts``: how many known hosts are blocked; ``until``: UTC epoch seconds."""

    hosts: int
    until: float


class EvolutionView(Answer):
    """One evolution, or one formula set by hand; see docs/evolution.md."""

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


class Evolutions(Answer):
    """The newest records, oldest first; ``faults``: how many lines of the service's file are no records."""

    evolutions: list[EvolutionView]
    faults: int


class Sample(Answer):
    """Figures at one time, ``at_s``. A figure that is not known is null.

    ``pages``: known pages; ``leased``: those that are leased; ``waiting``: requests that wait for the scheduler;
    ``lag``: messages of outcomes that the stream is behind; ``applied``, ``served``, ``hits``: outcomes since the
    start, see `streamsched.Observed`; ``handed_out``: pages leased since the start; ``outcomes_per_s``, ``hit_rate``:
    since the sample before; ``freshness``: the expected share of pages whose copy is current; ``calibration_error``:
    see `CalibrationView`; ``image_age_s``: for how long there have been changes that no image holds; ``lock_wait_s``:
    how long this sample waited for the scheduler; ``drifted``: whether the hit rate has drifted since the last
    evolution, null if none is planned; ``state_bytes``: memory of the state.
    """

    at_s: float
    pages: int
    leased: int
    waiting: int
    lag: int | None
    applied: int
    served: int
    hits: int
    handed_out: int
    outcomes_per_s: float | None
    hit_rate: float | None
    freshness: float | None
    calibration_error: float | None
    image_age_s: float
    lock_wait_s: float
    drifted: bool | None
    state_bytes: int


class ReliabilityBin(Answer):
    """Visits to pages with a probability of a change from ``low`` to ``high`` when they were leased.

    ``predicted``: the sum of these probabilities; ``observed``: how many visits found a change.
    """

    low: float
    high: float
    visits: int
    predicted: float
    observed: int


class CalibrationView(Answer):
    """Calibration over the newest visits: predicted change probabilities of leased pages against observed changes.

    ``error``: the mean of |predicted − observed| over the bins, per visit; ``predicted``: the mean probability;
    ``observed``: the share of visits that found a change; all null without visits; ``bins``: those with visits.
    """

    visits: int
    error: float | None
    predicted: float | None
    observed: float | None
    bins: list[ReliabilityBin]


class Stats(Answer):
    """Figures of the service; times are UTC epoch seconds.

    ``now``, ``started_s``: the present time and that of the start; ``pages``: known pages;
    ``waiting``: requests that wait for the scheduler; ``requests``: answers since the start, by status;
    ``outcomes``, ``signals``: those since the start, from whichever source, by their fates; ``batches``,
    ``handed_out``: batches and pages leased since the start; ``trouble``: what keeps the service from its work, null if
    nothing does; ``sample_every_s``: seconds between two samples; ``samples``: oldest first, the last ones up to now.
    """

    now: float
    started_s: float
    pages: int
    waiting: int
    cycle_s: float
    formula: str
    refused_pages: int
    refused_patterns: int
    requests: dict[str, int]
    outcomes: dict[str, int]
    signals: dict[str, int]
    batches: int
    handed_out: int
    trouble: str | None
    calibration: CalibrationView
    sample_every_s: float
    latest: Sample
    samples: list[Sample]
