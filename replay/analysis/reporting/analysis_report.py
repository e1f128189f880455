"""An analysis as one self-contained HTML page: findings, figures, and the numbers behind each figure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from streamsched.replay.analysis.reporting.analysis_figures import Drawing, drawings
from streamsched.replay.analysis.reporting.analysis_findings import (
    describe_scope,
    find_limits,
    find_near,
    find_page_types,
    find_rates,
    find_week,
    name_region,
)
from streamsched.replay.analysis.reporting.analysis_tables import (
    day_table,
    hour_table,
    interval_table,
    near_table,
    page_type_table,
    rate_table,
)
from streamsched.replay.analysis.reporting.plot_style import EMBEDDED
from streamsched.replay.analysis.statistics.analysis_settings import DAY_S
from streamsched.replay.findings import Finding
from streamsched.replay.reporting.number_format import format_length
from streamsched.replay.reporting.page import mark_safe, render_page
from streamsched.replay.reporting.svg import to_svg

if TYPE_CHECKING:
    from streamsched.replay.analysis.statistics.analysis import Analysis
    from streamsched.replay.reporting.tables import Table

__all__ = ["render_analysis"]


@dataclass(frozen=True, slots=True)
class _Chart:
    """A figure with its findings and the tables behind it; ``tables`` are pairs of caption and table."""

    svg: Markup
    findings: list[Finding]
    tables: list[tuple[str, Table]]


def render_analysis(result: Analysis) -> str:
    """Return the report as one HTML page without a reference to anything outside it. O(bins)."""
    near = result.near
    rejected = [Finding("rejected_records", {"count": result.rejected})] if result.rejected else []
    return render_page(
        "analysis",
        title=f"How the pages of {Path(result.settings.log).name} change",
        findings=find_page_types(result),
        scope=[describe_scope(result), *rejected],
        note=result.note,
        lines=[],
        limits=[[limit] for limit in find_limits(result)],
        types=result.page_types,
        type_table=page_type_table(result),
        charts=_make_charts(result),
        near_length=format_length(near.near_s if near else result.settings.near_s or DAY_S),
        near_band=[format_length(edge_s) for edge_s in near.band_s] if near else [],
        near_findings=find_near(result),
        rate_findings=find_rates(result),
        changed=result.changes > 0,
        hours=result.week_detail == "hours",
        regions="; ".join(f"{name}: {', '.join(region.domains)}" for name, region in result.settings.regions.items()),
        counted=result.rates.counted_s is not None,
    )


def _make_charts(result: Analysis) -> dict[str, _Chart]:
    """Return the figures that the log can show, by name."""
    findings = {"near": find_near(result), "week": find_week(result), "rates": find_rates(result)}
    return {
        name: _Chart(_embed(drawing), findings.get(name, []), _tables_behind(result, name))
        for name, drawing in drawings(result).items()
    }


def _tables_behind(result: Analysis, name: str) -> list[tuple[str, Table]]:
    if name == "intervals":
        return [("", interval_table(result.heat))]
    if name == "near" and result.near is not None:
        return [("", near_table(result.near))]
    if name == "rates" or result.week is None:
        return [("", rate_table(result))]
    tables = [("Changes by day, and relative to the average day.", day_table(result.week))]
    if result.week_detail == "hours":
        alone = len(result.week.regions) == 1
        tables += [
            (f"{name_region(region, alone)}: relative changes by hour, as in the figure.", hour_table(region))
            for region in result.week.regions
        ]
    return tables


def _embed(drawing: Drawing) -> Markup:
    return mark_safe(to_svg(drawing.draw(EMBEDDED), drawing.name, drawing.title, drawing.description))
