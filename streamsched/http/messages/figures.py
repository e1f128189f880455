"""Figures of the service, and samples of them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from streamsched.http.messages.fields import Message

__all__ = ["CalibrationView", "ReliabilityBin", "Sample", "Stats", "StatsQuery"]


class StatsQuery(Message):
    """Which samples are wanted: those later than ``since``, UTC epoch seconds."""

    since: Annotated[float, Meta(ge=-1e15, le=1e15)] = 0.0


class Sample(Message):
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


class ReliabilityBin(Message):
    """Visits to pages with a probability of a change from ``low`` to ``high`` when they were leased.

    ``foretold``: the sum of these probabilities; ``came``: how many visits found a change.
    """

    low: float
    high: float
    visits: int
    foretold: float
    came: int


class CalibrationView(Message):
    """How the probabilities of a change of leased pages came true, over the newest visits.

    ``error``: the mean of |foretold − came| over the bins, per visit; ``foretold``: the mean probability; ``came``: the
    share of visits that found a change; all null without visits; ``bins``: those with visits.
    """

    visits: int
    error: float | None
    foretold: float | None
    came: float | None
    bins: list[ReliabilityBin]


class Stats(Message):
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
