"""A replay as one self-contained HTML page: findings, a table, and figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from streamsched.errors import ReplayError
from streamsched.replay.reporting.page import mark_safe, render_page
from streamsched.replay.reporting.palette import choose_line_styles
from streamsched.replay.reporting.replay_figures import (
    FEWEST_VISITS,
    SMOOTHED_CYCLES,
    draw_deciles,
    draw_reliability,
    draw_series,
    draw_waits,
)
from streamsched.replay.reporting.replay_findings import (
    describe_scope,
    describe_signals,
    explain_calibration,
    explain_comparison,
    explain_figures,
    explain_sources,
    find_best,
    find_identical,
)
from streamsched.replay.reporting.replay_tables import (
    calibration_table,
    comparison_table,
    evolution_table,
    policy_table,
    source_table,
)

if TYPE_CHECKING:
    from markupsafe import Markup

    from streamsched.replay.replay_results import ReplayResult

__all__ = ["render_report", "write_report"]


def write_report(result: ReplayResult, path: str | Path) -> None:
    """Write the report to the file `path`; the same replay gives the same bytes. Raises ReplayError if it cannot."""
    try:
        Path(path).write_text(render_report(result), encoding="utf-8", newline="\n")
    except OSError as error:
        raise ReplayError(f"{path}: cannot write the report: {error.strerror}") from error


def render_report(result: ReplayResult) -> str:
    """Return the report as one HTML page without a reference to anything outside it. O(policies · cycles)."""
    names = [policy.name for policy in result.policies]
    counted = result.measured.counted
    panels = (
        draw_series(result, "ChangeRate", lambda trace: trace.change_rate, np.ones_like(counted)),
        draw_series(result, "NDCG", lambda trace: trace.ndcg, counted),
        draw_series(result, "Freshness", lambda trace: trace.freshness, np.ones_like(counted)),
    )
    return render_page(
        "replay",
        title=f"Replay of {Path(result.settings.log).name}",
        findings=find_best(result),
        scope=[describe_scope(result), *describe_signals(result)],
        policies=policy_table(result),
        explanations=explain_figures(result),
        differences=comparison_table(result),
        comparison=explain_comparison(result),
        note=result.note,
        lines=list(enumerate(zip(names, choose_line_styles(names), strict=True))),
        panels=[mark_safe(panel) for panel in panels],
        identical=find_identical(result),
        width=SMOOTHED_CYCLES,
        weighted=result.window.importance is not None,
        waits=mark_safe(draw_waits(result)),
        deciles=mark_safe(draw_deciles(result)),
        calibration=calibration_table(result),
        reliability=_draw_calibration(result),
        uncalibrated=explain_calibration(result),
        fewest=FEWEST_VISITS,
        sources=source_table(result),
        learned=explain_sources(result),
        evolutions=evolution_table(result),
    )


def _draw_calibration(result: ReplayResult) -> list[Markup]:
    """Return the reliability diagrams: all visits, and those without and with a surge shown if there are both."""
    found = [policy.calibration for policy in result.policies if policy.calibration is not None]
    if not found:
        return []
    diagrams = [draw_reliability(result, "All visits", lambda one: one.all_visits)]
    if any(one.with_surge.total for one in found):
        diagrams.append(draw_reliability(result, "No surge shown", lambda one: one.without_surge))
        diagrams.append(draw_reliability(result, "Surge shown", lambda one: one.with_surge))
    return [mark_safe(diagram) for diagram in diagrams]
