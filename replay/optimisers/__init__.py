"""The experiments of the papers on optimal crawling, rerun: LambdaCrawl, MirrorSync, GREEDY-NCIS, WebFountain.

Each has settings, a function that runs it, and one that makes a report of its result, beside the paper's figures;
`streamsched.replay.reporting` shows reports.
"""

from streamsched.replay.optimisers.lambdacrawl import CrawlExperiment, CrawlSettings, run_lambdacrawl
from streamsched.replay.optimisers.lambdacrawl_report import report_lambdacrawl
from streamsched.replay.optimisers.mirrorsync import SyncExperiments, SyncPlan, run_mirrorsync
from streamsched.replay.optimisers.mirrorsync_report import report_mirrorsync
from streamsched.replay.optimisers.noisy_signals import NoisyExperiments, NoisySettings, run_noisy_signals
from streamsched.replay.optimisers.noisy_signals_report import report_noisy_signals
from streamsched.replay.optimisers.webfountain import PlanSettings, WebExperiment, run_webfountain
from streamsched.replay.optimisers.webfountain_report import report_webfountain

__all__ = [
    "CrawlExperiment",
    "CrawlSettings",
    "NoisyExperiments",
    "NoisySettings",
    "PlanSettings",
    "SyncExperiments",
    "SyncPlan",
    "WebExperiment",
    "report_lambdacrawl",
    "report_mirrorsync",
    "report_noisy_signals",
    "report_webfountain",
    "run_lambdacrawl",
    "run_mirrorsync",
    "run_noisy_signals",
    "run_webfountain",
]
