"""Analysis of how the pages of a log change: intervals, page types, rates and the week; Grimes & O'Brien (2008).

`reporting.analysis_report` writes the HTML report, `reporting.png_files` the figures and `reporting.summary` prints the
findings; they need matplotlib, jinja2 and rich.
"""

from streamsched.replay.analysis.reporting.analysis_json import to_json
from streamsched.replay.analysis.statistics.analysis import Analysis, Progress, analyze_log, run_analysis
from streamsched.replay.analysis.statistics.analysis_settings import AnalysisSettings
from streamsched.replay.analysis.statistics.page_types import PAGE_TYPES, PERIODS_S
from streamsched.replay.analysis.statistics.site_regions import ZONES, GivenRegion, merge_regions, parse_region

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
    "run_analysis",
    "to_json",
]
