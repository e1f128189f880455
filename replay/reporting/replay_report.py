"""A replay as one self-contained HTML page: findings, a table, and figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from streamsched.errors import ReplayError
from streamsched.replay.confidence_intervals import BATCH_CYCLES
from streamsched.replay.reporting.page import mark_safe, render_page
from streamsched.replay.reporting.palette import choose_line_styles
from streamsched.replay.reporting.replay_figures import draw_deciles, draw_series, draw_waits
from streamsched.replay.reporting.replay_findings import describe_scope, explain_figures, find_best, find_identical
from streamsched.replay.reporting.replay_tables import evolution_table, policy_table

if TYPE_CHECKING:
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
    panels = (
        draw_series(result, "ChangeRate", lambda trace: trace.change_rate, all_cycles=False),
        draw_series(result, "NDCG", lambda trace: trace.ndcg, all_cycles=False),
        draw_series(result, "Freshness", lambda trace: trace.freshness, all_cycles=True),
    )
    return render_page(
        "replay",
        title=f"Replay of {Path(result.settings.log).name}",
        findings=find_best(result),
        scope=[describe_scope(result)],
        policies=policy_table(result),
        explanations=explain_figures(result),
        note=result.note,
        lines=list(enumerate(zip(names, choose_line_styles(names), strict=True))),
        panels=[mark_safe(panel) for panel in panels],
        identical=find_identical(result),
        width=BATCH_CYCLES,
        weighted=result.window.importance is not None,
        waits=mark_safe(draw_waits(result)),
        deciles=mark_safe(draw_deciles(result)),
        evolutions=evolution_table(result),
    )
