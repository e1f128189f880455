"""The experiment as one self-contained HTML page: the verdict, the paper's tables, and its figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from streamsched.replay.gp4c.protocol_figures import (
    draw_curves,
    draw_methods,
    draw_new_pages,
    draw_selections,
    draw_sweep,
)
from streamsched.replay.gp4c.protocol_findings import describe_scope, find_new_pages, find_top_of_list, find_verdict
from streamsched.replay.gp4c.protocol_settings import FOLDS, METRICS
from streamsched.replay.gp4c.protocol_tables import (
    OMITTED,
    choose_method_styles,
    claim_table,
    contest_table,
    formula_table,
    method_table,
)
from streamsched.replay.reporting.page import mark_safe, render_page
from streamsched.replay.reporting.sentences import method_title

if TYPE_CHECKING:
    from streamsched.evolution.gp.evolution_settings import Metric
    from streamsched.replay.gp4c.protocol_results import ProtocolResult

__all__ = ["render_protocol"]


def render_protocol(result: ProtocolResult) -> str:
    """Return the report as one HTML page without a reference to anything outside it. O(methods · cycles)."""
    fitnesses: list[Metric] = [metric for metric in METRICS if result.shown(metric)]
    shown = next(one for metric in fitnesses if (one := result.shown(metric)))
    methods = enumerate(zip(result.methods(), choose_method_styles(result), strict=True))

    def draw(figure: Callable[[ProtocolResult, Metric], str], metrics: list[Metric]) -> list[Markup]:
        return [mark_safe(figure(result, metric)) for metric in metrics]

    return render_page(
        "protocol",
        title=f"GP4C’s experiment on {Path(result.settings.log).name}",
        findings=find_verdict(result),
        scope=[describe_scope(result)],
        note=result.note,
        lines=[(index, (method_title(name), style)) for index, (name, style) in methods if name not in OMITTED],
        folds=FOLDS,
        ranked=result.ranked,
        shown=shown.name,
        claims=claim_table(result),
        methods=method_table(result),
        contests=[contest_table(result, [metric]) for metric in fitnesses],
        formulas=formula_table(result),
        top_of_list=find_top_of_list(result),
        new_pages=find_new_pages(result),
        method_panels=draw(draw_methods, [*METRICS]),
        selection_panels=draw(draw_selections, fitnesses),
        sweep_panels=draw(draw_sweep, [*METRICS]),
        new_page_panel=mark_safe(draw_new_pages(result)),
        curve_panels=draw(draw_curves, fitnesses),
    )
