"""An analysis in the terminal: its findings as sentences, two tables, and what the log cannot show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsched.replay.analysis.reporting.analysis_findings import describe_scope, find_all, find_limits
from streamsched.replay.analysis.reporting.analysis_tables import page_type_table, rate_table
from streamsched.replay.findings import Finding
from streamsched.replay.reporting.sentences import describe
from streamsched.replay.reporting.terminal import print_paragraph, print_table, to_rich

if TYPE_CHECKING:
    from streamsched.replay.analysis.statistics.analysis import Analysis

__all__ = ["print_summary"]


def print_summary(result: Analysis) -> None:
    """Print the findings to standard output: sentences first, then tables."""
    scope = [describe_scope(result)]
    if result.rejected:
        scope.append(Finding("rejected_records", {"count": result.rejected}))
    print_paragraph(" ".join(map(describe, scope)))
    for finding in find_all(result):
        print_paragraph(describe(finding))
    print_table(to_rich(page_type_table(result)))
    print_paragraph("")
    if result.changing:
        print_table(to_rich(rate_table(result)))
        print_paragraph("")
    for limit in find_limits(result):
        print_paragraph(f"Note: {describe(limit)}")
