"""An analysis as one HTML file that needs nothing else: its figures, the numbers behind each, and what they mean."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Final

from streamsched.replay.analysis.reporting.analysis_figures import Drawing, drawings
from streamsched.replay.analysis.reporting.analysis_wording import (
    KIND_NAMES,
    describe,
    spell_few,
    spell_kinds,
    spell_length,
    spell_near,
    spell_rates,
    spell_share,
    spell_week,
)
from streamsched.replay.analysis.reporting.axis_limits import spell_limits
from streamsched.replay.analysis.reporting.number_format import (
    spell_table,
    tabulate_days,
    tabulate_hours,
    tabulate_intervals,
    tabulate_near,
    tabulate_rates,
)
from streamsched.replay.analysis.reporting.plot_style import EMBEDDED, embed, spell_ramp
from streamsched.replay.analysis.statistics.analysis import Analysis
from streamsched.replay.analysis.statistics.analysis_settings import DAY_S
from streamsched.replay.analysis.statistics.page_types import PERIODS_S, UNTESTED
from streamsched.replay.reporting.stylesheet import spell_stylesheet

__all__ = ["render_analysis"]

_INTERVALS: Final = (
    "Each cell counts intervals between two changes of a page, sorted by the page’s mean interval (time watched over "
    "changes seen). On the dashed line an interval is its page’s mean. Poisson pages scatter widely around it, most "
    "below; a spot or a streak at 1 h, 24 h or 1 wk (the level lines) is pages that are updated by the clock. Counts "
    "rise by equal factors from one colour to the next. Grimes &amp; O’Brien (2008), Figure 1."
)
_NEAR: Final = (
    "Bars: intervals of pages whose mean lies between {low} and {high}. Line: what they would be if the time between "
    "changes were exponential, as a Poisson process has it, with each page’s own mean. Grimes &amp; O’Brien, Figure 2."
)
_WEEK: Final = (
    "Changes in each {unit}, 1 being the region’s average, over how often that {unit} came. {smooth}One bulk edit can "
    "make a peak where few pages change otherwise. Regions are the top-level domains {regions}. Grimes &amp; O’Brien, "
    "Figure 3."
)
_RATES: Final = (
    "The share of all pages whose mean interval is at most so long; a line ends below 100 % where pages did not change "
    "at all. The simple estimate divides the time watched by the changes seen. Of several changes between two visits "
    "one is seen, so it is too long for fast pages; the modified one (eq. 1) corrects for that. They part where pages "
    "change about as often as they are visited.{counted}"
)
_KINDS: Final = (
    "Each page’s intervals are tested against those of a Poisson process with as many changes: for each period, "
    "whether more lie near it (within an hour of 24 h, a 24th of the others), and whether they are spread in any other "
    "way. A page is named where a likelihood-ratio test rejects at {level:g} % over the four tests, so at most "
    "{level:g} % of Poisson pages are misnamed; after a period if a third of its intervals or more are near that. The "
    "last column is what became of {drawn:,} simulated Poisson pages with as many changes and the same means. “Other” "
    "is more even than chance, or comes in bursts."
)
_STYLE: Final = """
h2+p{margin-top:.2rem}
.limits{border-left:4px solid var(--orange);padding:.1rem 0 .1rem .9rem;margin:1rem 0}
.limits p{margin:.3rem 0}
.chart{display:grid;gap:.5rem 2rem;align-items:start;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr))}
.chart svg{max-width:36rem}
details{margin:.6rem 0}
summary{cursor:pointer;color:var(--quiet)}
details table{margin:.5rem 0;white-space:normal}
details th:first-child,details td:first-child{min-width:0}
.tight td,.tight th{padding:.3rem .5rem}
details thead th{white-space:normal}
@media (max-width:44rem){.tight td,.tight th{padding:.3rem .12rem;font-size:.8rem}}
"""


def render_analysis(result: Analysis) -> str:
    """Return the report as one HTML page without a reference to anything outside it. O(bins)."""
    title = f"How the pages of {escape(Path(result.settings.log).name)} change"
    shown = drawings(result)
    limits = "".join(f"<p>{escape(limit)}</p>" for limit in spell_limits(result))
    box = f'<div class="limits" role="note">{limits}</div>' if limits else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>{title}</title>
<style>{spell_stylesheet(0)}{spell_ramp()}{_STYLE}</style>
</head>
<body>
<main>
<h1>{title}</h1>
<p class="lead">{escape(spell_kinds(result))}</p>
<p class="quiet">{escape(describe(result))}.{_spell_rejected(result)}</p>
{box}
<h2>Which pages change by the clock</h2>
{_spell_kinds(result)}
<h2>Intervals between changes</h2>
{_frame(shown.get("intervals"), "", _INTERVALS, tabulate_intervals(result.heat), "Too few changes for a figure.")}
<h2>Intervals near {spell_length(result.near.near_s if result.near else result.settings.near_s or DAY_S)}</h2>
{_spell_near(result, shown.get("near"))}
<h2>Over the week</h2>
{_spell_week(result, shown.get("week"))}
<h2>How often pages change</h2>
{_spell_rates(result, shown.get("rates"))}
</main>
</body>
</html>
"""


def _frame(drawing: Drawing | None, found: str, meaning: str, table: str, missing: str) -> str:
    """Return a figure with what was found, what it means and its numbers; what is `missing` where there is none."""
    if drawing is None:
        return f"<p>{escape(found or missing)}</p>"
    svg = embed(drawing.draw(EMBEDDED), drawing.name, drawing.title, drawing.description)
    said = f"<p>{escape(found)}</p>" if found else ""
    numbers = f'<details><summary>The numbers behind this figure</summary><div class="scroll">{table}</div></details>'
    return f'<div class="chart"><figure>{svg}</figure><div>{said}<p class="quiet">{meaning}</p>{numbers}</div></div>'


def _spell_near(result: Analysis, drawing: Drawing | None) -> str:
    near = result.near
    if near is None or drawing is None:
        missing = "This log cannot show them: see above." if near is None else ""
        return f"<p>{escape(spell_near(result) or missing)}</p>"
    low, high = map(spell_length, near.band_s)
    return _frame(drawing, spell_near(result), _NEAR.format(low=low, high=high), tabulate_near(near), "")


def _spell_week(result: Analysis, drawing: Drawing | None) -> str:
    if drawing is None or result.arrivals is None:
        return "<p>This log cannot show them: see above.</p>" if result.changes else "<p>No page changed.</p>"
    hours = result.week_detail == "hours"
    regions = "; ".join(f"{name}: {', '.join(region.domains)}" for name, region in result.settings.regions.items())
    meaning = _WEEK.format(
        unit="hour of the week" if hours else "day of the week",
        smooth="Each point is the mean of the five hours around it. " if hours else "",
        regions=escape(regions),
    )
    table = tabulate_days(result.arrivals) + (tabulate_hours(result.arrivals) if hours else "")
    return _frame(drawing, spell_week(result), meaning, table, "")


def _spell_rates(result: Analysis, drawing: Drawing | None) -> str:
    counted = (
        " The log tells of all changes, so the dotted line is the truth." if result.rates.counted_s is not None else ""
    )
    table = tabulate_rates(result)
    return _frame(drawing, spell_rates(result), _RATES.format(counted=counted), table, "No page changed.")


def _spell_kinds(result: Analysis) -> str:
    kinds = result.kinds
    tested = kinds.tested
    rows = []
    for kind, count in kinds.counts.items():
        known = kind not in UNTESTED and tested > 0
        hidden = kind in kinds.untestable
        near = ""
        if kind in PERIODS_S and kinds.intervals[kind]:
            near = f"{kinds.near[kind]:,}<small>{spell_few(kinds.expected[kind])}</small>"
        cells = (
            "–" if hidden else f"{count:,}",
            spell_share(count / tested) if known and not hidden else "–",
            near or "–",
            spell_share(kinds.simulated[kind]) if known and not hidden else "–",
        )
        mark = "*" if kind in kinds.unclear else ""
        rows.append((f"{KIND_NAMES[kind]}{mark}", *cells))
    heads = ("Pages look", "Pages", "Share", "Intervals near<small>if Poisson</small>", "Poisson so named")
    note = "<p class='quiet'>* or more often: the steps are too long to tell.</p>" if kinds.unclear else ""
    meaning = _KINDS.format(level=100 * kinds.level, drawn=kinds.drawn)
    return f'<div class="scroll">{spell_table(heads, rows)}</div>{note}<p class="quiet">{meaning}</p>'


def _spell_rejected(result: Analysis) -> str:
    rejected = f" {result.rejected:,} malformed records were left out." if result.rejected else ""
    return f"{rejected} {escape(result.note)}".rstrip()
