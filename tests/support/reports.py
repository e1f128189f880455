"""Looks into reports."""

from __future__ import annotations

from streamsched.replay.reporting.report import Report, Table


def find_tables(report: Report) -> list[Table]:
    """The tables of a report's sections, those of its summary left out."""
    return [part for section in report.sections for part in section.parts if isinstance(part, Table)]
