"""The report of an analysis: findings, figures with the numbers behind them, and what the log cannot show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from streamsched.replay.analysis.analysis import Analysis
from streamsched.replay.analysis.analysis_findings import (
    describe_scope,
    find_limits,
    find_near,
    find_page_types,
    find_rates,
    find_week,
    name_region,
)
from streamsched.replay.analysis.analysis_settings import DAY_S
from streamsched.replay.analysis.analysis_tables import (
    day_table,
    hour_table,
    interval_table,
    near_table,
    page_type_table,
    rate_table,
)
from streamsched.replay.analysis.intervals import THRESHOLDS_S, share_within
from streamsched.replay.analysis.page_types import UNTESTED, PageTypes
from streamsched.replay.analysis.week import WeekProfile
from streamsched.replay.replay_settings import format_time
from streamsched.replay.reporting.number_format import format_length
from streamsched.replay.reporting.report import Figures, Notes, Report, Section, Table, Text, drawn_by, pick
from streamsched.replay.reporting.sentences import Finding, describe, describe_all

_INTERVALS: Final = (
    "Cells count intervals between two changes of a page, by the page's mean interval (time observed over changes "
    "seen). On the dashed line an interval equals its page's mean. Poisson pages scatter widely around it, most below. "
    "A spot or streak at 1 h, 24 h or 1 wk (horizontal lines) shows pages with scheduled updates. Counts rise by equal "
    "factors from one colour to the next. After Grimes & O’Brien (2008), Figure 1."
)
_RATES: Final = (
    "Share of all pages with a mean interval up to a length. A line ends below 100 % if some pages never changed. The "
    "simple estimator divides the time observed by the changes seen. A visit sees several changes as one, so it "
    "overestimates the intervals of fast pages; the modified estimator (eq. 1) corrects for that. The two differ for "
    "pages that change about as often as they are visited."
)
_UNSHOWN: Final = "This log cannot show them: see above."


def report_analysis(result: Analysis) -> Report:
    """Return the report of an analysis. O(pages + bins)."""
    rejected = [Finding("rejected_records", {"count": result.rejected})] if result.rejected else []
    scope, limits = describe_all([describe_scope(result), *rejected]), find_limits(result)
    findings = [describe(finding) for finding in find_all(result)]
    notes = [Text(result.note, quiet=True)] if result.note else []
    numbers = [interval_table(result.heat)]
    chart = _chart(result, "intervals", _INTERVALS, numbers, "Too few changes for a figure.")
    return Report(
        title=f"How the pages of {Path(result.settings.log).name} change",
        lead=describe_all(find_page_types(result)),
        scope=scope,
        sections=[
            Section("", [Text(text, "terminal") for text in (scope, *findings)]),
            Section("Page types", [page_type_table(result), *_explain_page_types(result.page_types)]),
            Section("Intervals between changes", [chart]),
            _near_section(result),
            _week_section(result),
            _rate_section(result),
        ],
        content=_content(result),
        summary=[*notes, *([Notes([describe(limit) for limit in limits])] if limits else [])],
    )


def find_all(result: Analysis) -> list[Finding]:
    """Return all findings: page types, rates, intervals near one mean and the week. O(pages)."""
    return [*find_page_types(result), *find_rates(result), *find_near(result), *find_week(result)]


def _chart(
    result: Analysis, name: str, text: str, numbers: Sequence[Table], otherwise: str, findings: Sequence[Finding] = ()
) -> Figures:
    """Return a figure with its findings and its explanation beside it."""
    draw = drawn_by("streamsched.replay.analysis.analysis_figures", name, result)
    found = [Text(describe_all(findings))] if findings else []
    return Figures(draw, [*found, Text(text, quiet=True)], numbers, otherwise)


def _explain_page_types(types: PageTypes) -> list[Text]:
    unclear = ["* or more often: the steps are too long to distinguish them."] if types.unclear else []
    level = f"{100 * types.level:g} %"
    explanation = (
        "Each page's intervals are compared with those of a Poisson process with as many changes: four "
        "likelihood-ratio tests ask whether more intervals lie near each period (within an hour of 24 h, within a 24th "
        "of the others), and whether their distribution differs in any other way. A page is classified if a test "
        f"rejects at {level} over the four tests, so at most {level} of Poisson pages are misclassified. Its type is a "
        "period if at least a third of its intervals lie near it, else “other”: more regular than chance, or in "
        f"bursts. The last column classifies {types.drawn:,} simulated Poisson pages with the same numbers of changes "
        "and the same means."
    )
    return [Text(text, "page", quiet=True) for text in (*unclear, explanation)]


def _near_section(result: Analysis) -> Section:
    near, findings = result.near, find_near(result)
    band = " and ".join(format_length(edge_s) for edge_s in near.band_s) if near else ""
    text = (
        f"Bars: intervals of pages with a mean interval between {band}. Line: exponential intervals, those of a "
        "Poisson process, with each page's own mean. After Grimes & O’Brien, Figure 2."
    )
    length = format_length(near.near_s if near else result.settings.near_s or DAY_S)
    numbers = [near_table(near)] if near else []
    chart = _chart(result, "near", text, numbers, describe_all(findings) or _UNSHOWN, findings)
    return Section(f"Intervals near {length}", [chart])


def _week_section(result: Analysis) -> Section:
    week, hours = result.week, result.week_detail == "hours"
    unit = "hour" if hours else "day"
    smoothed = " Each point is the mean of five hours." if hours else ""
    regions = "; ".join(f"{name}: {', '.join(region.domains)}" for name, region in result.settings.regions.items())
    text = (
        f"Changes in each {unit} of the week per {unit} observed, relative to the region's average.{smoothed} If few "
        "pages change otherwise, a single bulk edit can make a peak. Regions are the top-level domains "
        f"{regions}. After Grimes & O’Brien, Figure 3."
    )
    numbers = [day_table(week)] if week else []
    if week and hours:
        numbers += [hour_table(region, name_region(region, len(week.regions) == 1)) for region in week.regions]
    otherwise = _UNSHOWN if result.changes else "No page changed."
    return Section("Changes over the week", [_chart(result, "week", text, numbers, otherwise, find_week(result))])


def _rate_section(result: Analysis) -> Section:
    counted = "" if result.rates.counted_s is None else " The log records all changes, so the dotted line is the truth."
    findings, table = find_rates(result), rate_table(result)
    chart = _chart(result, "rates", f"{_RATES}{counted}", [table], describe_all(findings), findings)
    return Section("Change rates", [chart, replace(table, medium="terminal")] if result.changing else [chart])


def _content(result: Analysis) -> dict[str, Any]:
    """Return the numbers for machines; all ``…_s`` are seconds.

    ``limits`` is what the log cannot show. ``kinds``, for each page type: ``pages``, their ``share`` of the tested
    pages, and ``poisson_share`` of simulated Poisson pages. ``periods``: intervals near each, ``seen`` and ``poisson``.
    ``rates``, for each estimator: the shares of pages with a mean interval of at most each of ``marks_s``, and
    ``quantiles_s`` (null: beyond, for pages without a change). ``near`` and ``week``: null if the log cannot show them.
    """
    types = result.page_types
    mean, interval = np.nonzero(result.heat.counts)
    cells = {"mean_bin": mean, "interval_bin": interval, "count": result.heat.counts[mean, interval]}
    return {
        "log": result.settings.log,
        "from": format_time(result.span[0]),
        "to": format_time(result.span[1]),
        **pick(result, "pages", "changes", "seen", "exact", "resolution_s", "step_s", "rejected", "note"),
        **pick(result, "near", "week_detail"),
        "changing_pages": result.changing,
        "limits": find_limits(result),
        "findings": find_all(result),
        "level": types.level,
        "kinds": _page_type_content(types),
        "periods": {
            name: {
                "intervals": types.intervals[name],
                "seen": types.near[name],
                "poisson": types.expected[name],
                "clear": name not in types.unclear and name not in types.untestable,
            }
            for name in types.near
        },
        "rates": _rate_content(result),
        "heat_map": {"edges_s": result.heat.edges_s, "pages": result.heat.pages, **cells},
        "week": None if result.week_detail == "none" or not result.week else _week_content(result.week),
    }


def _page_type_content(types: PageTypes) -> dict[str, Any]:
    tested = max(1, types.tested)
    return {
        name: {
            "pages": count,
            "share": None if name in UNTESTED else count / tested,
            "poisson_share": None if name in UNTESTED or not types.drawn else types.simulated[name],
        }
        for name, count in types.counts.items()
    }


def _rate_content(result: Analysis) -> dict[str, Any]:
    thresholds_s, deciles = np.array(list(THRESHOLDS_S.values())), np.arange(1, 10) / 10
    lines = {
        name: {
            "pages": intervals_s.size,
            "share_within": share_within(intervals_s, thresholds_s),
            "quantiles_s": np.quantile(intervals_s, deciles, method="inverted_cdf"),
        }
        for name, intervals_s in result.rates.lines().items()
        if intervals_s.size
    }
    return {"marks_s": thresholds_s, "quantiles": deciles, **lines}


def _week_content(week: WeekProfile) -> dict[str, Any]:
    regions = {
        region.region: {
            **pick(region, "pages", "changes", "changes_by_hour", "exposure_h"),
            "relative": region.relative(),
            "by_day": region.by_day(),
        }
        for region in week.regions
    }
    return {"zone": week.zone, "local": week.local, "regions": regions}
