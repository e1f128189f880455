"""The answers of the HTTP service that are no views of the library: batches by page, counts, figures, formulas."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from streamsched.api.views import Answer, ChampionView, SourceReliability, SurgeView, TrialView


class RankedPage(Answer, frozen=True, kw_only=True):
    """A page in the ranking. ``score``: null if it is not finite; ``tier``: 2 if asked for, 1 if overdue, else 0.

    ``probability``: the calibrated probability that the page has changed since its last visit.
    """

    url: str
    host: str
    score: float | None
    tier: int
    probability: float


class Ranking(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """The best pages that may be visited at the time ``now``, best first; none of them is leased.

    ``missing``: the shards of a cluster that did not answer in time, left out if there is none.
    """

    pages: list[RankedPage]
    now: float
    missing: list[int] = msgspec.field(default_factory=list)


class LeasedPage(RankedPage, frozen=True, kw_only=True):
    """A page to visit until ``lease_until``, UTC epoch seconds. ``why``: an ``in_batch_*`` code of docs/reasons.md.

    ``etag``, ``last_modified``: of its content as last reported, null if not kept: what If-None-Match and
    If-Modified-Since send back.
    """

    lease_until: float
    why: str
    etag: str | None = None
    last_modified: str | None = None


class OfferedPage(RankedPage, frozen=True, kw_only=True):
    """A page that a batch would hold. ``why``, ``etag``, ``last_modified``: as of a `LeasedPage`.

    ``overdue_since``: of a page of tier 1, the longest overdue come first; ``tie``: orders pages of equal score, the
    smaller first; ``new``: whether it was never visited.
    """

    why: str
    tie: int
    overdue_since: float | None = None
    new: bool = False
    etag: str | None = None
    last_modified: str | None = None


class Offer(Answer, frozen=True, kw_only=True):
    """The pages that a batch would hold at ``now``, in its order; none of them is leased.

    - ``new_share``, ``explore_share``, ``panel_share``: of a batch, for pages never visited, drawn at random, and of
      the panel;
    - ``granted``: the pages leased under one of the keys asked about, null if these keys are not in use.
    """

    pages: list[OfferedPage]
    now: float
    new_share: float
    explore_share: float
    panel_share: float
    granted: list[LeasedPage] | None = None


class Grant(Answer, frozen=True, kw_only=True):
    """Pages were leased at ``now`` until ``lease_until``, all that were asked for but those ``refused``.

    ``refused``: why a page may not be leased now, by URL: a reason why a page is not eligible (docs/reasons.md),
    ``unknown``, or ``host_share_used``; ``repeated``: whether an earlier request with this key has leased them.
    """

    now: float
    lease_until: float
    refused: dict[str, str]
    repeated: bool


class Change(Answer, frozen=True, kw_only=True):
    """A change of a page that an outcome has shown.

    - ``cursor``: the position after it;
    - ``fetched_at``: when it was seen; ``unchanged_at``: the last visit before that showed the content as it had been;
    - ``significance``: how much changed, from 0 to 1, null if unknown;
    - ``gone``: whether the answer was 404 or 410; ``moved_to``: the URL that the outcome names, null if none;
    - ``content``: the exact hash of the new content, 16 hexadecimal digits, null if the outcome has none.
    """

    cursor: str
    url: str
    host: str
    fetched_at: float
    unchanged_at: float
    significance: float | None = None
    gone: bool = False
    moved_to: str | None = None
    content: str | None = None


class Changes(Answer, frozen=True, kw_only=True):
    """Changes in the order in which they were found. ``cursor``: the position after them: ask for those after it."""

    changes: list[Change]
    cursor: str

    def __len__(self) -> int:
        return len(self.changes)


class LeasedBatch(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """The pages in the order in which to visit them. ``now``: when they were leased, UTC epoch seconds.

    ``repeated``: whether an earlier request with the same key has already returned this batch; after a lost answer
    the client asks again with the same key, so it may be true in the first answer that arrives. ``missing``: as of a
    `Ranking`.
    """

    pages: list[LeasedPage]
    now: float
    repeated: bool
    missing: list[int] = msgspec.field(default_factory=list)

    def __len__(self) -> int:
        return len(self.pages)


class Released(Answer, frozen=True, kw_only=True):
    """``known``: how many of the pages are known."""

    known: int


class RulesSet(Answer, frozen=True, kw_only=True):
    """``pages``: how many pages the rules may concern."""

    pages: int


class Forgotten(Answer, frozen=True, kw_only=True):
    """``known``: how many of the pages were known."""

    known: int


class PolitenessSettings(Answer, frozen=True, kw_only=True):
    """The politeness settings in force, as `streamsched.Politeness` describes them; durations in seconds."""

    delay: float
    in_flight: int | None
    per_batch: int | None
    backoff: float
    backoff_most: float
    retire_after: int | None
    probe_every: float
    min_revisit: float
    max_revisit: float | None
    retry_after_most: float
    clock_skew: float
    host_backoff_429: int | None
    host_backoff_503: int | None


class Copied(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """A copy of the state as of ``now``. ``file``: its image, on the service's machine; ``size``: of that, in bytes.

    Of a cluster ``shards`` has the copy of each shard, on its host's machine, ``size`` is their sum, ``now`` the time
    of the oldest, and ``file`` null. It is left out otherwise.
    """

    file: str | None
    size: int
    now: float
    shards: list[Copied] = msgspec.field(default_factory=list)


class Blocked(Answer, frozen=True, kw_only=True):
    """``hosts``: how many known hosts are blocked; ``until``: UTC epoch seconds."""

    hosts: int
    until: float


class EvolutionView(Answer, frozen=True, kw_only=True):
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
    data: dict[str, int | float | None] | None
    candidates: list[dict[str, Any]]
    challenger: str | None
    metric: str | None
    verdict: dict[str, Any] | None
    seconds: float | None
    trial: TrialView | None


class Evolutions(Answer, frozen=True, kw_only=True):
    """The newest records, oldest first, and the trial under way.

    ``faults``: how many lines of the service's file are no records.
    """

    evolutions: list[EvolutionView]
    faults: int
    trial: TrialView | None = None


class TrainingSample(Answer, frozen=True, kw_only=True):
    """In which cycles the pages of a uniform sample changed: what evolution learns from.

    ``data``: the bytes of `streamsched.evolution.exchange_files.pack_exchange`; in JSON as base64.
    """

    data: bytes


class Surges(Answer, frozen=True, kw_only=True):
    """The surges that the most changed pages wait for, the largest first."""

    surges: list[SurgeView]


class SignalSources(Answer, frozen=True, kw_only=True):
    """Each kind of source, followed by its hosts with the most signals."""

    sources: list[SourceReliability]


class FormulaNode(Answer, frozen=True, kw_only=True):
    """A node of a formula. ``text``: an operator, a function, a terminal or a number; ``meaning``: of a terminal."""

    kind: Literal["operator", "function", "terminal", "constant"]
    text: str
    meaning: str | None
    children: list[FormulaNode]


class FormulaTree(Answer, frozen=True, kw_only=True):
    """A formula as a tree. ``size``: its nodes; ``depth``: its levels."""

    text: str
    size: int
    depth: int
    root: FormulaNode


class Health(Answer, frozen=True, kw_only=True):
    """``status``: "ok", or in a few words what keeps the service from answering."""

    status: str


class Readiness(Health, frozen=True, kw_only=True):
    """``lag``: messages that the stream is behind; ``behind_s``: the age of the outcomes that it reads, 0 at its end.

    None if that is not known, or there is no stream.
    """

    lag: int | None
    behind_s: float | None


class Sample(Answer, frozen=True, kw_only=True):
    """Figures at one time, ``at_s``. A figure that is not known is null.

    ``pages``: known pages; ``leased``: those that are leased; ``waiting``: requests that wait for the scheduler;
    ``lag``: messages of outcomes that the stream is behind; ``applied``, ``served``, ``hits``: outcomes since the
    start, see `streamsched.Observed`; ``fetches``: outcomes since the start by what their status says of the fetch,
    ``fetched`` or a kind of failure (docs/metrics.md); ``handed_out``: pages leased since the start;
    ``outcomes_per_s``, ``hit_rate``: since the sample before; ``freshness``: the expected share of pages whose copy
    is current; ``calibration_error``: see `CalibrationView`; ``image_age_s``: for how long there have been changes
    that no image holds; ``lock_wait_s``: how long this sample waited for the scheduler; ``drifted``: whether the
    hit rate has drifted since the last evolution, null if none is planned; ``state_bytes``: memory of the state.
    """

    at_s: float
    pages: int
    leased: int
    waiting: int
    lag: int | None
    applied: int
    served: int
    hits: int
    fetches: dict[str, int]
    handed_out: int
    outcomes_per_s: float | None
    hit_rate: float | None
    freshness: float | None
    calibration_error: float | None
    image_age_s: float
    lock_wait_s: float
    drifted: bool | None
    state_bytes: int


class ReliabilityBin(Answer, frozen=True, kw_only=True):
    """Visits to pages with a probability of a change from ``low`` to ``high`` when they were leased.

    ``predicted``: the sum of these probabilities; ``observed``: how many visits found a change.
    """

    low: float
    high: float
    visits: int
    predicted: float
    observed: int


class CalibrationView(Answer, frozen=True, kw_only=True):
    """Calibration over the newest visits: predicted change probabilities of leased pages against observed changes.

    ``error``: the mean of |predicted − observed| over the bins, per visit; ``predicted``: the mean probability;
    ``observed``: the share of visits that found a change; all null without visits; ``bins``: those with visits.
    """

    visits: int
    error: float | None
    predicted: float | None
    observed: float | None
    bins: list[ReliabilityBin]


class Stats(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """Figures of the service; times are UTC epoch seconds.

    ``version``: of streamsched; ``scopes``: of the token that asks, all if there are no tokens;
    ``now``, ``started_s``: the present time and that of the start; ``pages``: known
    pages; ``unproven_share``: of the newest visits, how many say nothing about a change, null before 100 visits;
    ``waiting``: requests that wait for the scheduler; ``requests``: answers since the start, by status;
    ``outcomes``, ``signals``: those since the start, from whichever source, by their fates; ``batches``,
    ``handed_out``: batches and pages leased since the start; ``trouble``: what keeps the service from its work, null if
    nothing does; ``sample_every_s``: seconds between two samples; ``samples``: oldest first, the last ones up to now;
    ``missing``: as of a `Ranking`, whose figures are not in the sums. docs/cluster.md has what a cluster's figures are.
    """

    version: str
    scopes: tuple[str, ...]
    now: float
    started_s: float
    pages: int
    waiting: int
    cycle_s: float
    formula: str
    refused_pages: int
    refused_patterns: int
    unproven_share: float | None
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
    missing: list[int] = msgspec.field(default_factory=list)
