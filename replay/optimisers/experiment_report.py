"""An experiment's tables, claims and figures, built once: printed to the terminal, rendered as HTML, or as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from streamsched.replay.reporting.page import mark_safe, render_page
from streamsched.replay.reporting.tables import Cell, Column, Table
from streamsched.replay.reporting.terminal import print_paragraph, print_table, to_rich

__all__ = ["Claim", "Drawing", "ExperimentReport", "Section", "print_report", "render_report", "to_json"]


class Claim(NamedTuple):
    """A statement, what is expected of it, by the paper or by its authors' code, and what was found here."""

    statement: str
    expected: str
    found: str
    holds: bool


class Drawing(NamedTuple):
    """A figure that is drawn only for the HTML page; ``draw`` returns its SVG."""

    draw: Callable[[], str]


@dataclass(frozen=True, slots=True)
class Section:
    """A table and what explains it, and figures with their caption."""

    title: str
    table: Table
    note: str
    drawings: Sequence[Drawing] = ()
    caption: str = ""


@dataclass(frozen=True, slots=True)
class ExperimentReport:
    """A report: its lead says how many claims hold; ``scope``: what was run; ``content``: the figures for machines."""

    title: str
    scope: str
    claims: Sequence[Claim]
    sections: Sequence[Section]
    remarks: str
    content: Mapping[str, Any] = field(default_factory=dict)

    @property
    def lead(self) -> str:
        """How many of the claims hold."""
        return f"{sum(claim.holds for claim in self.claims)} of {len(self.claims)} claims hold here."


def print_report(report: ExperimentReport) -> None:
    """Print the scope, all tables and the claims to standard output."""
    print_paragraph(f"{report.title}. {report.scope}")
    for section in report.sections:
        print_paragraph(section.title)
        print_table(to_rich(section.table))
        print_paragraph(section.note)
    print_paragraph(report.lead)
    print_table(to_rich(_claim_table(report.claims)))
    print_paragraph(report.remarks)


def render_report(report: ExperimentReport) -> str:
    """Return the report as one HTML page without a reference to anything outside it."""
    drawn = [[mark_safe(drawing.draw()) for drawing in section.drawings] for section in report.sections]
    return render_page(
        "experiment",
        title=report.title,
        findings=[report.lead],
        scope=[report.scope],
        lines=[],
        claims=_claim_table(report.claims),
        sections=list(zip(report.sections, drawn, strict=True)),
        remarks=report.remarks,
    )


def to_json(report: ExperimentReport) -> str:
    """Return the figures and the claims as JSON, null for a cost that is infinite; equal results give equal bytes."""
    content = {**report.content, "claims": [claim._asdict() for claim in report.claims]}
    return json.dumps(_finite(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _claim_table(claims: Sequence[Claim]) -> Table:
    columns = [Column(title, "text") for title in ("Claim", "Expected", "Here", "Holds")]
    rows = [
        [*map(Cell, (claim.statement, claim.expected, claim.found)), Cell("yes" if claim.holds else "no")]
        for claim in claims
    ]
    return Table(columns, rows)


def _finite(content: Any) -> Any:
    if isinstance(content, Mapping):
        return {name: _finite(one) for name, one in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(one) for one in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
