"""The numbers behind an analysis's figures as tables of its report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise

import numpy as np

from streamsched.replay.analysis.reporting.analysis_wording import ESTIMATORS, name_region, spell_length
from streamsched.replay.analysis.statistics.analysis import Analysis
from streamsched.replay.analysis.statistics.analysis_settings import DAY_S, HOUR_S
from streamsched.replay.analysis.statistics.frequencies import HeatMap, Histogram
from streamsched.replay.analysis.statistics.page_types import PERIODS_S
from streamsched.replay.analysis.statistics.rates import MARKS_S, share_within
from streamsched.replay.analysis.statistics.week import DAYS, HOURS, Arrivals, count_by_weekday

__all__ = [
    "spell_table",
    "tabulate_days",
    "tabulate_hours",
    "tabulate_intervals",
    "tabulate_near",
    "tabulate_rates",
]


def tabulate_intervals(heat: HeatMap) -> str:
    """Return the heat map by bands of the mean: pages and intervals, and how many lie at an hour, a day and a week."""
    limits = [0.0, *(MARKS_S[mark] for mark in ("4 h", "12 h", "2 d", "1 wk", "30 d", "90 d", "1 yr")), np.inf]
    middles = (heat.edges_s[:-1] + heat.edges_s[1:]) / 2
    rows = []
    for low, high in pairwise(limits):
        band = (middles >= low) & (middles < high)
        counts = heat.counts[band].sum(axis=0)
        if not counts.sum():
            continue
        name = f"over {spell_length(low)}" if np.isinf(high) else f"{spell_length(low)} to {spell_length(high)}"
        name = f"up to {spell_length(high)}" if low == 0 else name
        middle = float(middles[np.searchsorted(np.cumsum(counts), counts.sum() / 2)])
        near = [_share_at(heat, counts, spot_s) for spot_s in PERIODS_S.values()]
        rows.append((name, f"{int(heat.pages[band].sum()):,}", f"{int(counts.sum()):,}", spell_length(middle), *near))
    heads = ("Mean interval", "Pages", "Inter&shy;vals", "Median", *(f"{at}, %" for at in ("At 1 h", "24 h", "1 wk")))
    return spell_table(heads, rows, "tight")


def _share_at(heat: HeatMap, counts: np.ndarray, spot_s: float) -> str:
    """Return which share of the intervals lies in the bin of `spot_s`."""
    place = int(np.searchsorted(heat.edges_s, spot_s, "right")) - 1
    return f"{100 * counts[place] / counts.sum():.1f}" if 0 <= place < counts.size else "–"


def tabulate_near(near: Histogram) -> str:
    """Return the histogram, a row for each bin."""
    unit_s, unit = (HOUR_S, "h") if near.near_s <= 2 * DAY_S else (DAY_S, "d")
    rows = [
        (f"{low / unit_s:.3g}–{high / unit_s:.3g} {unit}", f"{seen:,}", f"{hoped:,.1f}")
        for low, high, seen, hoped in zip(
            near.edges_s[:-1].tolist(),
            near.edges_s[1:].tolist(),
            near.observed.tolist(),
            near.expected.tolist(),
            strict=True,
        )
    ]
    rows.append(("longer", f"{near.longer[0]:,}", f"{near.longer[1]:,.1f}"))
    return spell_table(("Interval", "Seen", "Expo&shy;nential"), rows)


def tabulate_days(arrivals: Arrivals) -> str:
    """Return the changes on each weekday, a column for each region."""
    alone = len(arrivals.parts) == 1
    heads = ("Day", *(escape(name_region(part, alone)) for part in arrivals.parts))
    counts = [count_by_weekday(part) for part in arrivals.parts]
    shares = [part.by_day() for part in arrivals.parts]
    rows = [
        (
            day,
            *(
                f"{count[place]:,}<small>{_spell_relative(share[place])}</small>"
                for count, share in zip(counts, shares, strict=True)
            ),
        )
        for place, day in enumerate(DAYS)
    ]
    return f"<p class='quiet'>Changes by day, and relative to the average day.</p>{spell_table(heads, rows)}"


def tabulate_hours(arrivals: Arrivals) -> str:
    """Return a table for each region: hours down, days across."""
    alone = len(arrivals.parts) == 1
    tables = []
    for part in arrivals.parts:
        relative = part.relative()
        rows = [
            (f"{hour:02}", *(_spell_relative(relative[day * 24 + hour]) for day in range(HOURS // 24)))
            for hour in range(24)
        ]
        name = escape(name_region(part, alone))
        tables.append(f"<p class='quiet'>{name}: by hour, as drawn.</p>{spell_table(('Hour', *DAYS), rows, 'tight')}")
    return "".join(tables)


def _spell_relative(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.2f}"


def tabulate_rates(result: Analysis) -> str:
    """Return the shares of pages with a mean interval of at most so long, a column for each estimator."""
    lines = result.rates.lines()
    marks_s = np.array(list(MARKS_S.values()))
    shares = [share_within(intervals_s, marks_s) for intervals_s in lines.values()]
    rows = [
        (f"{mark} or less", *(_spell_per_cent(float(share[place])) for share in shares))
        for place, mark in enumerate(MARKS_S)
    ]
    return spell_table(("Mean interval", *(ESTIMATORS[name].split(",")[0].capitalize() for name in lines)), rows)


def _spell_per_cent(share: float) -> str:
    return f"{100 * share:.1f} %"


def spell_table(heads: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """Return a table; `heads` and cells are HTML."""
    columns = "".join(f"<th scope=col>{head}</th>" for head in heads)
    body = "".join(
        f"<tr><th scope=row>{row[0]}</th>{''.join(f'<td>{_hold(cell)}</td>' for cell in row[1:])}</tr>\n"
        for row in rows
    )
    looks = f' class="{kind}"' if kind else ""
    return f"<table{looks}><thead><tr>{columns}</tr></thead>\n<tbody>{body}</tbody></table>"


def _hold(cell: str) -> str:
    """Return a cell's text with its numbers and their units on one line."""
    return cell.replace(" ", "&nbsp;")
