"""The experiments of the papers on optimal crawling, rerun: LambdaCrawl, MirrorSync and WebFountain.

Each has settings, a function that runs it, and one that makes a report of its result, beside the paper's figures. A
report is printed, or rendered as HTML or JSON; that needs rich, matplotlib and jinja2.
"""

from streamsched.replay.optimisers.experiment_report import ExperimentReport, print_report, render_report, to_json
from streamsched.replay.optimisers.lambdacrawl import CrawlExperiment, CrawlSettings, run_lambdacrawl
from streamsched.replay.optimisers.lambdacrawl_report import report_lambdacrawl
from streamsched.replay.optimisers.mirrorsync import SyncExperiments, SyncPlan, run_mirrorsync
from streamsched.replay.optimisers.mirrorsync_report import report_mirrorsync
from streamsched.replay.optimisers.webfountain import PlanSettings, WebExperiment, run_webfountain
from streamsched.replay.optimisers.webfountain_report import report_webfountain

__all__ = [
    "CrawlExperiment",
    "CrawlSettings",
    "ExperimentReport",
    "PlanSettings",
    "SyncExperiments",
    "SyncPlan",
    "WebExperiment",
    "print_report",
    "render_report",
    "report_lambdacrawl",
    "report_mirrorsync",
    "report_webfountain",
    "run_lambdacrawl",
    "run_mirrorsync",
    "run_webfountain",
    "to_json",
]
