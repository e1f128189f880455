"""What the scheduler returns to those who read it, in the library as over HTTP: the service encodes these very types.

A decoder ignores unknown fields, so that a client understands a later service. Null in a message is None in Python.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

import msgspec
from msgspec import Meta, structs

from streamsched.errors import InvalidRecord, shorten
from streamsched.reasons import Reason

KEPT_REJECTIONS: Final = 100  # of one call, listed; the rest are only counted
_LISTS: Final = frozenset({"rejections", "positions", "unchanged"})  # fields of `Counts` that are not counted


class Answer(msgspec.Struct, frozen=True):
    """The base of all views and answers. Times are UTC epoch seconds; a score that is not finite is None."""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain values for JSON. O(values)."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return fields


def finite(value: float) -> float | None:
    """Return `value`, None if it is not finite.

    >>> finite(0.5), finite(math.inf)
    (0.5, None)
    """
    return value if math.isfinite(value) else None


class Rejection(Answer, frozen=True):
    """A record that was not applied. ``record``: its place in the call, from 0; ``found``: as a text."""

    record: int
    field: str
    found: str
    expected: str

    @classmethod
    def of(cls, problems: Sequence[InvalidRecord]) -> tuple[Rejection, ...]:
        """Return the first `KEPT_REJECTIONS` of `problems`."""
        kept = problems[:KEPT_REJECTIONS]
        return tuple(cls(one.record, one.field, shorten(one.found), one.expected) for one in kept)


class Counts(Answer, frozen=True, kw_only=True):
    """Counts of the records of a call, and those that were rejected."""

    rejections: tuple[Rejection, ...] = ()

    def counts(self) -> dict[str, int]:
        """Return the counts by name."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name not in _LISTS}

    def __add__(self, other: Self) -> Self:
        """Return the sums of both, with the first rejections."""
        sums: dict[str, Any] = {name: count + getattr(other, name) for name, count in self.counts().items()}
        if "positions" in self.__struct_fields__:  # those of a sum would be of several calls
            sums |= {"positions": None, "unchanged": None}
        return structs.replace(self, **sums, rejections=(self.rejections + other.rejections)[:KEPT_REJECTIONS])


class Observed(Counts, frozen=True, kw_only=True):
    """How many outcomes of a call had which fate: applied + duplicates + late + refused + rejected are all.

    ``changed``, ``first_visits`` and ``failures`` are among ``applied``; ``refused``: outcomes of unknown pages that
    were not added, because of `max_pages` or `max_pages_per_host`; ``robots_denied``, ``not_attempted``: applied
    outcomes with these statuses; ``moved``: applied outcomes with `moved_to`; ``unproven``: applied outcomes that say
    nothing about a change; ``served``: applied outcomes that show whether a page has changed which
    `Scheduler.next_batch` returned for its score, not for the panel; ``hits``: those of them that show a change;
    ``rejections``: the first 100 of ``rejected``. An outcome that was sent twice, because the first answer was lost,
    counts as a duplicate or late.

    ``positions``: on request, those of the ``changed`` outcomes in the call, from 0; ``unchanged``: those of the
    outcomes that showed that their pages have not changed. The others of the call show neither: they were first visits,
    failures, ``unproven`` or not applied. A sum of results has no positions.
    """

    positions: list[int] | None = None
    unchanged: list[int] | None = None
    applied: int = 0
    changed: int = 0
    first_visits: int = 0
    failures: int = 0
    robots_denied: int = 0
    not_attempted: int = 0
    moved: int = 0
    unproven: int = 0
    duplicates: int = 0
    late: int = 0
    refused: int = 0
    rejected: int = 0
    served: int = 0
    hits: int = 0


class Noticed(Counts, frozen=True, kw_only=True):
    """How many signals of a call had which fate; each has one.

    - ``applied``: moved the belief in a page;
    - ``discovered``: added an unknown page;
    - ``repeated``: not newer than the last signal of their source about the page;
    - ``late``: not newer than the page's last visit;
    - ``refused``: of an unknown page that a bound or the setting `signals_discover` keeps out, or of a kind of source
      beyond the eight that a state holds;
    - ``rejected``: break the format or lie in the future;
    - ``rejections``: the first 100 of them.
    """

    applied: int = 0
    discovered: int = 0
    repeated: int = 0
    late: int = 0
    refused: int = 0
    rejected: int = 0


class Discovered(Counts, frozen=True, kw_only=True):
    """How many pages of a call were new, and how many URLs it rejected: they break the format or are not absolute.

    ``rejections``: the first 100 of ``rejected``.
    """

    added: int = 0
    rejected: int = 0


class ChampionView(Answer, frozen=True):
    """The formula in use and its origin; ``text`` says both in a sentence. See `streamsched.formula.champion`."""

    formula: str
    origin: str
    record: int | None
    since_s: float | None
    gain: float | None
    metric: str | None
    text: str


class TrialEvidence(Answer, frozen=True):
    """What a trial has shown so far. The pairs are the challenger's arm and the champion's.

    - ``state``: "better" or "worse" once the evidence says so, "open" before;
    - ``gain``: what the challenger found beyond the champion's finds at equal cost, as a share of these, and its
      standard error ``noise``; None before both found anything;
    - ``better``, ``worse``: e-values against "not better" and "not worse"; 20 decides;
    - ``finds``: importance of the pages found changed; ``costs``: of the visits counted.
    """

    state: Literal["better", "worse", "open"]
    gain: float | None
    noise: float | None
    better: float
    worse: float
    finds: tuple[float, float]
    costs: tuple[float, float]

    def __str__(self) -> str:
        known = self.gain is not None and self.noise is not None
        gain = f"gain {self.gain:+.1%} ± {self.noise:.1%} at equal cost".replace("%", " %") if known else "no finds yet"
        return f"{gain}, e-values {self.better:.3g} for better, {self.worse:.3g} for worse"


class TrialView(Answer, frozen=True, kw_only=True):
    """A trial of a challenger since a time, UTC epoch seconds; see docs/evolution.md."""

    challenger: str
    since_s: float
    evidence: TrialEvidence


class TrialCounts(Answer, frozen=True, kw_only=True):
    """The formula in use, the challenger on trial beside it, and what the pages of both have shown.

    - ``challenger``, and ``since_s``, UTC epoch seconds: None without a trial;
    - ``finds``, ``costs``: importance of the pages found changed, and cost of the visits counted, by round, arm (the
      challenger's first) and block of pages;
    - ``pages``: number of pages that are known.
    """

    champion: ChampionView
    challenger: ChampionView | None
    since_s: float | None
    finds: list[float]
    costs: list[float]
    pages: int


class PageView(Answer, frozen=True, kw_only=True):
    """A page at one time. Times are UTC epoch seconds, None if there is none.

    - ``pattern``: the deepest URL pattern, or the host, that its prior comes from;
    - ``known_since_s``: of a page that was never visited;
    - ``last_visit_s``: end of the last visit that showed the page's state;
    - ``last_outcome_s``: of the last outcome of any kind;
    - ``visits``: after the first, that could show a change; ``changes``: those that did;
    - ``failures``: failed visits in a row; ``gone``: answers of 404 or 410 in a row;
    - ``succeeded``: whether the last visit had a status below 400;
    - ``rate``: posterior mean of its change rate, changes per cycle;
    - ``etag``, ``last_modified``: of its content as last reported, None if not kept;
    - ``asked_for``: whether a visit was requested; ``robots_denied``: whether robots.txt forbids it;
    - ``lease_until_s``: None unless it is leased;
    - ``eligible_from_s``: the earliest time from now on at which it may be visited, None if the clock alone does not
      determine it;
    - ``reasons``: why it may not be visited now, then why it has priority;
    - ``held_back``: the first code of why it may not be visited now, None if it may.
    """

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
    rate: float
    etag: str | None
    last_modified: str | None
    asked_for: bool
    robots_denied: bool
    lease_until_s: float | None
    eligible_from_s: float | None
    reasons: tuple[Reason, ...]
    held_back: str | None


class HostLimits(Answer, frozen=True, kw_only=True):
    """A rule for a host, ``delay`` in seconds; None keeps a setting."""

    delay: float | None = None
    in_flight: int | None = None
    per_batch: int | None = None


class PageLimits(Answer, frozen=True, kw_only=True):
    """A rule for pages, times in seconds; None keeps a setting. ``never``: they are never visited."""

    min_revisit: float | None = None
    max_revisit: float | None = None
    never: bool = False


class RulesView(Answer, frozen=True, kw_only=True):
    """The rules in force by target: for hosts, and for pages. Each kind is in the order in which it was set.

    One target may have a rule of both kinds.
    """

    hosts: dict[str, HostLimits]
    pages: dict[str, PageLimits]


class HostView(Answer, frozen=True, kw_only=True):
    """A host at one time. Times are UTC epoch seconds, None if there is none.

    - ``pages``, ``patterns``: how many pages and URL patterns it has; ``leased``: pages in flight;
    - ``rule``: the rule in force, None for the settings;
    - ``delay_s``, ``in_flight``, ``per_batch``: the limits that follow, None for none;
    - ``resting_until_s``: when its rest ends;
    - ``cause``: of its last rest: ``delay``, ``too_many_requests``, ``unavailable``, ``retry_after`` or ``blocked``;
    - ``backoffs``: rests that it demanded in a row;
    - ``refusals``: pages that answered ``refusal``, 429 or 503, one after another;
    - ``probe``: the page whose visit decides whether it may be visited again;
    - ``held_back``: the code of why none of its pages may be visited now, None if one may;
    - ``eligible_from_s``: the earliest time from now on at which one may, None if the clock alone does not determine
      it;
    - ``failing``: pages whose last fetch failed, gone and denied ones included; None unless hosts are listed by it.
    """

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
    held_back: str | None
    eligible_from_s: float | None
    failing: int | None = None


HostOrder: TypeAlias = Literal["known", "failing"]
"""The order of a list of hosts: in which they became known, or by their failing pages."""


class HostPage(Answer, frozen=True):
    """Hosts in the order asked for. ``next``: the start of the next part, None after the last."""

    hosts: tuple[HostView, ...]
    next: int | None


class SurgeView(Answer, frozen=True):
    """A bulk change of a group of pages.

    ``group``: a host or a URL pattern; ``pages``: how many belong to it and to no longer pattern; ``since_s``: when the
    window began in which the surge was found, UTC epoch seconds; ``share``: of these pages, that the surge has changed,
    as an estimate; ``unvisited``: those not visited since, whose scores the share raises.
    """

    group: str
    pages: int
    since_s: float
    share: float
    unvisited: int


class WeekView(Answer, frozen=True):
    """How busy each hour of the week is, in local time; 1 is the mean hour.

    ``hours``: 168 factors from Monday 00:00 on; ``utc_offset_s``: of the local time, east of UTC; ``profile``: the
    host or URL pattern whose pages the factors were learned from, None if from all pages of ``region``; ``region``: its
    name, None for pages of no region; ``scheduled``: whether the page has a schedule of its own, which the factors then
    contain as far as its visits confirm it; ``regions``: all names of regions.
    """

    hours: Annotated[tuple[float, ...], Meta(min_length=168, max_length=168)]
    utc_offset_s: float
    profile: str | None
    region: str | None
    scheduled: bool
    regions: tuple[str, ...]


class SourceReliability(Answer, frozen=True):
    """Reliability of a source as visits have shown it: of a kind on a host, or of the whole kind if ``host`` is None.

    ``signals``: applied; ``pages``: that they were about; ``precision``: the part of the signals that was true, None
    before a visit has checked one; ``checked``: the signals that it rests on; ``recall``: the part of the changes that
    was announced, None before one was seen; ``changes``: those that it rests on; ``lateness_s``: mean seconds from a
    change to its signal. Old visits count less, so ``checked`` and ``changes`` are no whole numbers.
    """

    kind: str
    host: str | None
    signals: int
    pages: int
    precision: float | None
    checked: float
    recall: float | None
    changes: float
    lateness_s: float


class Cause(Answer, frozen=True, kw_only=True):
    """A cause of changes: how many it makes ``expected`` of a page since its last visit, and its learned ``weight``."""

    expected: float
    weight: float


class Explanation(Answer, frozen=True, kw_only=True):
    """A page at one time. Times are UTC epoch seconds, None if there is none yet; rates are changes per cycle.

    - ``pattern``: the URL pattern that its prior comes from;
    - ``champion``: the formula in use and how it was chosen, of a page in a trial the challenger's; ``score``: by it,
      None if that is not finite;
    - ``eligible_from_s``: the earliest time from now on at which the page is eligible, None if the clock alone does not
      determine it;
    - ``position``: its place among the eligible pages, 1 the best (pages asked for or overdue precede all others), None
      while it is not eligible; ``of_eligible``: how many these are; ``is_estimate``: whether both are estimates, as of
      more than 65,536 pages;
    - ``probability``: that it has changed since its last visit, 1 - exp(-sum of weight · expected) over ``causes``;
    - ``terminals``: every terminal's value, whether the formula reads it or not;
    - ``prior_rate``: the mean of the prior it was last given;
    - ``reasons``: why the page is ranked and selected as it is, as codes with numbers (see ``docs/reasons.md``);
    - ``in_batch``: whether the next batch would contain it, None if that was not asked.
    """

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
    is_estimate: bool
    probability: float
    causes: dict[str, Cause]
    terminals: dict[str, float]
    prior_rate: float
    prior_pages: int
    first_visited: bool
    last_visit_s: float | None
    last_outcome_s: float | None
    failures: int
    leased_until_s: float | None
    reasons: tuple[Reason, ...]
    in_batch: bool | None = None

    def __str__(self) -> str:
        about = "about " if self.is_estimate else ""
        place = f"{about}{self.position} of {self.of_eligible} eligible pages " if self.position else "not "
        score = "not finite" if self.score is None else f"{self.score:.6g}"
        lines = [
            self.url,
            f"  score      {score} = {self.formula}",
            f"  formula    {self.champion.text}",
            f"  place      {place}in the ranking",
        ]
        lines += [f"  because    {reason.text}" for reason in self.reasons]
        lines.append(f"  changed    with probability {self.probability:.3f}, expected changes by cause:")
        lines += [f"    {name:<12} {one.expected:.4f} · {one.weight:.3f}" for name, one in self.causes.items()]
        lines += [f"  {name:<10} {value:.6g}" for name, value in self.terminals.items()]
        return "\n".join(lines)
