"""Render a report from its template: one self-contained HTML page, without a request to anything outside it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from streamsched.replay.reporting.palette import COLOURS
from streamsched.replay.reporting.sentences import describe

if TYPE_CHECKING:
    from streamsched.replay.findings import Finding

__all__ = ["mark_safe", "render_page"]


def render_page(template: str, **context: Any) -> str:
    """Return the page that ``templates/TEMPLATE.html.jinja`` makes of `context`; equal context gives equal bytes.

    Values are escaped unless they went through `mark_safe`. Raises jinja2.UndefinedError if the template uses a name
    that `context` lacks.
    """
    return _environment().get_template(f"{template}.html.jinja").render(colours=COLOURS, **context)


def mark_safe(svg: str) -> Markup:
    """Return an SVG element of `streamsched.replay.reporting.svg` so that templates insert it as it is."""
    return Markup(svg)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("streamsched.replay.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["sentences"] = _describe_all
    return environment


def _describe_all(findings: Iterable[Finding | str]) -> str:
    return " ".join(finding if isinstance(finding, str) else describe(finding) for finding in findings)
