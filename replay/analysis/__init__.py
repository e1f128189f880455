"""How the pages of a log really change: intervals, kinds, rates and the week, after Grimes & O'Brien (2008).

The report, the pictures and the terminal's summary, which need matplotlib and rich, stand in
`streamsched.replay.analysis.report`, `streamsched.replay.analysis.pictures` and `streamsched.replay.analysis.summary`.
"""

from streamsched.replay.analysis.analysis import Analysis, Progress, analyze_log, run_analysis
from streamsched.replay.analysis.kinds import KINDS, PERIODS_S
from streamsched.replay.analysis.regions import ZONES, GivenRegion, merge_regions, parse_region
from streamsched.replay.analysis.results import to_json
from streamsched.replay.analysis.settings import AnalysisSettings

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
