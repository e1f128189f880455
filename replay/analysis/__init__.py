"""How the pages of a log really change: intervals, kinds, rates and the week, after Grimes & O'Brien (2008).

The report, the pictures and the terminal's summary, which need matplotlib and rich, stand in
`reporting.analysis_report`, `reporting.png_files` and `reporting.summary`.
"""

from streamsched.replay.analysis.reporting.analysis_json import to_json
from streamsched.replay.analysis.statistics.analysis import Analysis, Progress, analyze_log, run_analysis
from streamsched.replay.analysis.statistics.analysis_settings import AnalysisSettings
from streamsched.replay.analysis.statistics.page_types import KINDS, PERIODS_S
from streamsched.replay.analysis.statistics.site_regions import ZONES, GivenRegion, merge_regions, parse_region

__all__ = [
    "KINDS",
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
