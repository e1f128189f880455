"""Analysis of how the pages of a log change: intervals, page types, rates and the week; Grimes & O'Brien (2008)."""

from streamsched.replay.analysis.analysis import Analysis, Progress, analyze_log, run_analysis
from streamsched.replay.analysis.analysis_report import report_analysis
from streamsched.replay.analysis.analysis_settings import (
    ZONES,
    AnalysisSettings,
    GivenRegion,
    merge_regions,
    parse_region,
)
from streamsched.replay.analysis.page_types import PAGE_TYPES, PERIODS_S

__all__ = [
    "PAGE_TYPES",
    "PERIODS_S",
    "ZONES",
    "Analysis",
    "AnalysisSettings",
    "GivenRegion",
    "Progress",
    "analyze_log",
    "merge_regions",
    "parse_region",
    "report_analysis",
    "run_analysis",
]
