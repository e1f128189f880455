"""Analysis of a log: how its pages change, as far as its times can show it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np

from streamsched.connectors.opening import open_source
from streamsched.connectors.source import Delivery, Rejection
from streamsched.errors import ReplayError
from streamsched.outcomes import OutcomeBatch
from streamsched.replay.analysis.analysis_settings import DAY_S, HOUR_S, WEEK_S, AnalysisSettings, Span, choose_span
from streamsched.replay.analysis.intervals import HeatMap, Histogram, Rates, count_intervals, count_near, estimate_rates
from streamsched.replay.analysis.observation import (
    FINEST_S,
    Observation,
    find_grid,
    find_typical,
    observe_steps,
    observe_visits,
)
from streamsched.replay.analysis.page_types import PageTypes, count_page_types
from streamsched.replay.analysis.week import WeekProfile, count_week
from streamsched.replay.ground_truth import ChangeLog
from streamsched.replay.log_reader import read_outcomes, with_rejections

Progress: TypeAlias = Callable[[str], None]
"""Called with a description of each step as it begins."""

WeekDetail: TypeAlias = Literal["hours", "days", "none"]
"""The resolution at which a log's week can be shown."""

_MAX_HOURLY_STEP_S: Final = 6 * HOUR_S  # longest step that resolves hours of the day: about the five of the smoothing
_MAX_DAILY_STEP_S: Final = 36 * HOUR_S  # likewise for weekdays
_UNDATED: Final = "microsoft"  # a format whose first day is not published
_ALTERNATIVE_MEANS_S: Final = (
    HOUR_S,
    DAY_S,
    3 * DAY_S,
    WEEK_S,
    30 * DAY_S,
    90 * DAY_S,
)  # mean intervals offered instead of the one asked for
_PROGRESS_RECORDS: Final = 250_000  # outcomes between two progress messages


@dataclass(frozen=True, slots=True, eq=False)
class Analysis:
    """Results for a span of a log; times are seconds.

    ``pages`` existed, ``changing`` of them changed. ``changes``: all; ``seen``: those seen at steps of ``step_s``.
    ``exact``: the log records changes, at times on a grid of ``resolution_s``; else changes are placed at visits,
    ``resolution_s`` apart. ``near``: intervals of pages near the mean asked for, by default a day, or near another mean
    if none was asked for and no page is near a day; None if the steps are too long. ``alternative``: another mean with
    more intervals, and their number. ``dated``: whether the first day of the log is known. ``rejected``, ``rejections``
    and ``note`` are those of the `ChangeLog`.
    """

    settings: AnalysisSettings
    span: Span
    pages: int
    changing: int
    changes: int
    seen: int
    exact: bool
    dated: bool
    resolution_s: float
    step_s: float
    heat: HeatMap
    near: Histogram | None
    alternative: tuple[float, int] | None
    week: WeekProfile | None
    rates: Rates
    page_types: PageTypes
    rejected: int
    rejections: tuple[Rejection, ...]
    note: str

    @property
    def week_detail(self) -> WeekDetail:
        """The resolution at which the week can be shown."""
        if not self.dated or self.week is None or self.resolution_s > _MAX_DAILY_STEP_S:
            return "none"
        return "hours" if self.resolution_s <= _MAX_HOURLY_STEP_S else "days"


def run_analysis(settings: AnalysisSettings, progress: Progress | None = None) -> Analysis:
    """Read the log and analyze it; the same settings give the same result to the last bit.

    About 2 µs and 100 bytes per change. Raises ReplayError if the log holds nothing of the span, SourceError if it
    cannot be read.
    """
    report = progress or _ignore
    bounds = tuple(
        unbounded if edge is None else edge
        for edge, unbounded in ((settings.start_s, -np.inf), (settings.end_s, np.inf))
    )
    formats: set[str] = set()
    report("Reading the log")
    with open_source(settings.log) as source:
        deliveries = _watch(source, formats, report)
        log = with_rejections(source, lambda: read_outcomes(deliveries, span_s=(bounds[0], bounds[1])))
    return analyze_log(log, settings, dated=_UNDATED not in formats, progress=report)


def analyze_log(
    log: ChangeLog, settings: AnalysisSettings, *, dated: bool = True, progress: Progress | None = None
) -> Analysis:
    """Analyze `log`, already read; ``settings.log`` is used as its name. O(changes log changes).

    `dated`: whether the first day of the log is known. Raises ReplayError if the log holds nothing of the span that
    `settings` select.
    """
    report = progress or _ignore
    span = choose_span(log, settings)
    exact = log.crawls is None
    if not exact and settings.step_s is not None:
        raise ReplayError("--step is for logs of changes: this log holds crawl outcomes, whose visits are the steps")
    report("Counting intervals")
    truth = observe_steps(log, span, _find_resolution(log)) if log.crawls is None else observe_visits(log, log.crawls)
    resolution_s = float(truth.step_s[0]) if exact else find_typical(truth.step_s, truth.visits)
    step_s = max(settings.step_s or HOUR_S, resolution_s) if exact else resolution_s
    seen = observe_steps(log, span, step_s) if exact else truth
    if not truth.visits.any():
        raise ReplayError("nothing to analyze: no page was visited twice in this span of the log")
    heat = count_intervals(seen, step_s)
    near, alternative = _choose_mean(seen, step_s, settings.near_s)
    report("Counting changes by hour of the week")
    # Times at midnight of an unknown zone must not be shifted to another zone.
    clocks = replace(settings, local=settings.local and not (exact and resolution_s > _MAX_HOURLY_STEP_S))
    week = count_week(log, span, clocks) if dated else None
    rates = estimate_rates(seen, truth if exact and resolution_s < step_s else None)
    report("Testing pages")
    page_types = count_page_types(truth, settings.level)
    return Analysis(
        settings=settings,
        span=span,
        pages=int(np.count_nonzero(truth.visits)),
        changing=int(np.count_nonzero(truth.changes)),
        changes=int(truth.changes.sum()),
        seen=int(seen.changes.sum()),
        exact=exact,
        dated=dated,
        resolution_s=resolution_s,
        step_s=step_s,
        heat=heat,
        near=near,
        alternative=alternative,
        week=week,
        rates=rates,
        page_types=page_types,
        rejected=log.rejected,
        rejections=log.rejections,
        note=log.note,
    )


def _find_resolution(log: ChangeLog) -> float:
    """Return the time grid of the log's changes without first appearances, which may all be at the start of the log."""
    changes = np.ones(log.times_s.size, np.bool_)
    changes[log.offsets[:-1][np.diff(log.offsets) > 0]] = False
    return find_grid(log.times_s[changes]) if changes.any() else FINEST_S


def _choose_mean(
    seen: Observation, step_s: float, asked_s: float | None
) -> tuple[Histogram | None, tuple[float, int] | None]:
    """Return the histogram near a mean interval, and another mean with more intervals, if there is one."""
    near = count_near(seen, step_s, DAY_S if asked_s is None else asked_s)
    others = [other for mean_s in _ALTERNATIVE_MEANS_S if (other := count_near(seen, step_s, mean_s)) is not None]
    best = max(others, key=lambda other: other.intervals, default=None)
    if best is None or best.intervals <= (near.intervals if near else 0):
        return near, None
    if asked_s is None and (near is None or not near.intervals):
        return best, None
    return near, (best.near_s, best.intervals)


def _watch(
    deliveries: Iterable[Delivery[OutcomeBatch]], formats: set[str], report: Progress
) -> Iterator[Delivery[OutcomeBatch]]:
    """Yield `deliveries`, add their formats to `formats`, and report the number of outcomes regularly."""
    count, reported = 0, 0
    for delivery in deliveries:
        formats.add(delivery.position.kind)
        yield delivery
        count += len(delivery.records)
        if count - reported >= _PROGRESS_RECORDS:
            reported = count
            report(f"Reading the log: {count:,} records")


def _ignore(action: str) -> None:
    pass
