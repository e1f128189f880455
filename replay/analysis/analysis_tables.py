"""Tables of an analysis: page types, change rates, and the numbers behind each figure."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from streamsched.numerics.arrays import Ints
from streamsched.replay.analysis.analysis import Analysis
from streamsched.replay.analysis.analysis_findings import name_region
from streamsched.replay.analysis.analysis_settings import DAY_S, HOUR_S
from streamsched.replay.analysis.intervals import THRESHOLDS_S, HeatMap, Histogram, share_within
from streamsched.replay.analysis.page_types import PERIODS_S, UNTESTED
from streamsched.replay.analysis.week import DAYS, HOURS, RegionWeek, WeekProfile, count_by_weekday
from streamsched.replay.reporting.number_format import (
    format_count,
    format_expected,
    format_length,
    format_relative,
    format_share,
)
from streamsched.replay.reporting.report import Cell, Column, Table

ESTIMATORS: Final = {"simple": "simple, T/X", "modified": "modified, eq. 1", "counted": "all changes counted"}
_PAGE_TYPE_TITLES: Final = {
    "poisson": "Poisson",
    "hourly": "hourly",
    "daily": "daily",
    "weekly": "weekly",
    "other": "other",
    "fast": "at every visit",
    "few": "too few changes",
}
_BAND_LIMITS: Final = ("4 h", "12 h", "2 d", "1 wk", "30 d", "90 d", "1 yr")


def page_type_table(result: Analysis) -> Table:
    """Return a row for each page type: pages, share, intervals near its period, and its share of Poisson pages."""
    columns = [
        Column("Type", "text"),
        *map(Column, ("Pages", "Share")),
        Column("Intervals near", note="if Poisson"),
        Column("Share of\nPoisson pages"),
    ]
    types = result.page_types
    rows = []
    for name, count in types.counts.items():
        title = _PAGE_TYPE_TITLES[name] + ("*" if name in types.unclear else "")
        if name in types.untestable:
            rows.append([Cell(title), *([Cell("–")] * 4)])
            continue
        tested = name not in UNTESTED and types.tested > 0
        near = Cell("–")
        if name in PERIODS_S and types.intervals[name]:
            near = Cell(format_count(types.near[name]), f"({format_expected(types.expected[name])})")
        share = format_share(count / types.tested) if tested else "–"
        poisson_share = format_share(types.simulated[name]) if tested else "–"
        rows.append([Cell(title), Cell(format_count(count)), Cell(share), near, Cell(poisson_share)])
    return Table(columns, rows)


def rate_table(result: Analysis) -> Table:
    """Return the share of pages with a mean interval of at most each threshold, a column for each estimator."""
    lines = result.rates.lines()
    thresholds_s = np.array(list(THRESHOLDS_S.values()))
    shares = [share_within(intervals_s, thresholds_s) for intervals_s in lines.values()]
    rows = [
        [Cell(f"{threshold} or less"), *(Cell(f"{100 * float(share[index]):.1f} %") for share in shares)]
        for index, threshold in enumerate(THRESHOLDS_S)
    ]
    titles = [ESTIMATORS[name].replace(", ", ",\n") for name in lines]
    return Table([Column("Mean interval", "text"), *map(Column, titles)], rows)


def interval_table(heat: HeatMap) -> Table:
    """Return the heat map by bands of the mean interval: pages, intervals, median, and shares at each period."""
    limits = [0.0, *(THRESHOLDS_S[name] for name in _BAND_LIMITS), np.inf]
    middles = (heat.edges_s[:-1] + heat.edges_s[1:]) / 2
    rows = []
    for low, high in pairwise(limits):
        band = (middles >= low) & (middles < high)
        counts = heat.counts[band].sum(axis=0)
        if not counts.sum():
            continue
        median_s = float(middles[np.searchsorted(np.cumsum(counts), counts.sum() / 2)])
        cells = [
            _format_band(low, high),
            format_count(int(heat.pages[band].sum())),
            format_count(int(counts.sum())),
            format_length(median_s),
            *(_share_at(heat, counts, period_s) for period_s in PERIODS_S.values()),
        ]
        rows.append([Cell(text) for text in cells])
    titles = ("Pages", "Intervals", "Median", "At 1 h, %", "At 24 h, %", "At 1 wk, %")
    return Table([Column("Mean interval", "text"), *map(Column, titles)], rows, compact=True)


def _format_band(low_s: float, high_s: float) -> str:
    if low_s == 0:
        return f"up to {format_length(high_s)}"
    return f"over {format_length(low_s)}" if np.isinf(high_s) else f"{format_length(low_s)} to {format_length(high_s)}"


def _share_at(heat: HeatMap, counts: Ints, period_s: float) -> str:
    """Return the share of the intervals in the bin of `period_s`, in per cent."""
    index = int(np.searchsorted(heat.edges_s, period_s, "right")) - 1
    return f"{100 * counts[index] / counts.sum():.1f}" if 0 <= index < counts.size else "–"


def near_table(near: Histogram) -> Table:
    """Return the histogram, a row for each bin."""
    unit_s, unit = (HOUR_S, "h") if near.near_s <= 2 * DAY_S else (DAY_S, "d")
    bins = zip(
        near.edges_s[:-1].tolist(),
        near.edges_s[1:].tolist(),
        near.observed.tolist(),
        near.expected.tolist(),
        strict=True,
    )
    rows = [
        [Cell(f"{low / unit_s:.3g}–{high / unit_s:.3g} {unit}"), Cell(format_count(seen)), Cell(f"{expected:,.1f}")]
        for low, high, seen, expected in bins
    ]
    rows.append([Cell("longer"), Cell(format_count(near.longer[0])), Cell(f"{near.longer[1]:,.1f}")])
    return Table([Column("Interval", "text"), Column("Observed"), Column("Exponential")], rows)


def day_table(week: WeekProfile) -> Table:
    """Return the changes on each weekday, and relative to the average day, a column for each region."""
    alone = len(week.regions) == 1
    counts = [count_by_weekday(region) for region in week.regions]
    rates = [region.by_day() for region in week.regions]
    rows = [
        [
            Cell(day),
            *(
                Cell(format_count(count[index]), format_relative(rate[index]))
                for count, rate in zip(counts, rates, strict=True)
            ),
        ]
        for index, day in enumerate(DAYS)
    ]
    columns = [Column("Day", "text"), *(Column(name_region(region, alone)) for region in week.regions)]
    return Table(columns, rows, caption="Changes by day, and relative to the average day.")


def hour_table(region: RegionWeek, name: str) -> Table:
    """Return the relative rates of a region that is called `name`: hours down, days across."""
    rates = region.relative()
    caption = f"{name}: relative changes by hour, as in the figure."
    rows = [
        [Cell(f"{hour:02}"), *(Cell(format_relative(rates[day * 24 + hour])) for day in range(HOURS // 24))]
        for hour in range(24)
    ]
    return Table([Column("Hour", "text"), *map(Column, DAYS)], rows, compact=True, caption=caption)
