"""Reports of the experiments: which claims hold, the tables beside the paper's figures, and curves or bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streamsched.replay.reporting.report import Cell, Column, Figures, Report, Section, Table, Text


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement, what is expected of it, by the paper or by its authors' code, and what was found here."""

    statement: str
    expected: str
    found: str
    holds: bool


def report_experiment(
    title: str,
    scope: str,
    claims: Sequence[Claim],
    sections: Sequence[Section],
    remarks: str,
    content: Mapping[str, Any],
) -> Report:
    """Return the report of an experiment; its lead says how many claims hold."""
    lead = f"{sum(claim.holds for claim in claims)} of {len(claims)} claims hold here."
    columns = [Column(head, "text") for head in ("Claim", "Expected", "Here", "Holds")]
    rows = [
        [*map(Cell, (claim.statement, claim.expected, claim.found)), Cell("yes" if claim.holds else "no")]
        for claim in claims
    ]
    return Report(
        title=title,
        lead=lead,
        scope=scope,
        sections=[Section("", [Text(f"{title}. {scope}", "terminal")]), *sections],
        content={**content, "claims": claims},
        summary=[Text(lead, "terminal"), Table(columns, rows, caption=remarks)],
    )


def section(title: str, table: Table, drawings: Sequence[Callable[[], str]], caption: str) -> Section:
    """Return a section: a table, and figures with their caption."""
    return Section(title, [table, Figures(lambda: [draw() for draw in drawings]), Text(caption, "page")], title)
