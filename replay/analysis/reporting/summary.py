"""An analysis in the terminal: its findings in words, and two tables."""

from __future__ import annotations

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from streamsched.replay.analysis.reporting.analysis_wording import (
    ESTIMATORS,
    KIND_NAMES,
    describe,
    spell_few,
    spell_findings,
    spell_share,
)
from streamsched.replay.analysis.reporting.axis_limits import spell_limits
from streamsched.replay.analysis.statistics.analysis import Analysis
from streamsched.replay.analysis.statistics.page_types import PERIODS_S, UNTESTED
from streamsched.replay.analysis.statistics.rates import MARKS_S, share_within
from streamsched.replay.reporting.terminal import print_table

__all__ = ["kind_table", "print_summary", "rate_table"]


def print_summary(result: Analysis) -> None:
    """Print what was found to standard output: words first, then tables, at full width where that is no terminal."""
    rejected = f" {result.rejected:,} malformed records of the log were left out." if result.rejected else ""
    for text in (f"{describe(result)}.{rejected}", *spell_findings(result)):
        _say(text)
    print_table(kind_table(result))
    _say("")
    if result.changing:
        print_table(rate_table(result))
        _say("")
    for limit in spell_limits(result):
        _say(f"Note: {limit}")


def kind_table(result: Analysis) -> Table:
    """Return how many pages are of each kind, and what Poisson pages would be named."""
    kinds = result.kinds
    tested = kinds.tested
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), show_edge=False)
    table.add_column("Pages look", no_wrap=True)
    for head in ("pages", "share", "intervals near\n(if Poisson)", "Poisson pages\nso named"):
        table.add_column(head, justify="right", no_wrap=True)
    for kind, count in kinds.counts.items():
        if kind in kinds.untestable:
            table.add_row(KIND_NAMES[kind], "–", "–", "–", "–")
            continue
        known = kind not in UNTESTED and tested > 0
        near = "–"
        if kind in PERIODS_S and kinds.intervals[kind]:
            near = f"{kinds.near[kind]:,} ({spell_few(kinds.expected[kind])})"
        table.add_row(
            KIND_NAMES[kind] + ("*" if kind in kinds.unclear else ""),
            f"{count:,}",
            spell_share(count / tested) if known else "–",
            near,
            spell_share(kinds.simulated[kind]) if known else "–",
        )
    return table


def rate_table(result: Analysis) -> Table:
    """Return the share of pages with a mean interval of at most so long, by each estimator."""
    lines = result.rates.lines()
    marks_s = np.array(list(MARKS_S.values()))
    shares = [share_within(intervals_s, marks_s) for intervals_s in lines.values()]
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), show_edge=False)
    table.add_column("Mean interval", no_wrap=True)
    for name in lines:
        table.add_column(ESTIMATORS[name].replace(", ", "\n"), justify="right", no_wrap=True)
    for place, mark in enumerate(MARKS_S):
        cells = (f"{100 * float(share[place]):.1f} %" for share in shares)
        table.add_row(Text(f"{mark} or less"), *cells)
    return table


def _say(text: str) -> None:
    """Print `text` and an empty line, wrapped where that is a terminal."""
    grid = Table.grid()
    grid.add_row(Text(f"{text}\n" if text else " "))
    print_table(grid)
