"""Render a report as one self-contained HTML page, without a request to anything outside it."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from streamsched.replay.palette import COLOURS
from streamsched.replay.reporting.report import Figures, Legend, Report, Section


def render_report(report: Report) -> str:
    """Return the report as one HTML page without a reference to anything outside it; equal reports give equal bytes."""
    sections = [Section("", report.summary), *report.sections]
    shown = [(one.title, [part for part in one.parts if part.medium != "terminal"]) for one in sections]
    lines = [line for _, parts in shown for part in parts if isinstance(part, Legend) for line in part.lines]
    return _template().render(colours=COLOURS, report=report, sections=[one for one in shown if one[1]], lines=lines)


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("streamsched.replay.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["draw"] = _draw  # pyright: ignore[reportArgumentType]  any function will do
    return environment.get_template("report.html.jinja")


def _draw(figures: Figures) -> list[Markup]:
    """Return the SVG elements, so that the template inserts them as they are."""
    return [Markup(svg) for svg in figures.draw()]
