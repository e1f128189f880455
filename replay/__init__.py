"""Replays of change logs: the changes each policy would have found with its own choice of visits.

`report_replay` makes a report of the result, which `print_report`, `render_report` (HTML) and `to_json` show; so they
do those of `streamsched.replay.analysis`, `gp4c` and `optimisers`.
"""

from streamsched.replay.confidence_intervals import Estimate
from streamsched.replay.experiment import Progress, prepare_state, replay_log, run_replay
from streamsched.replay.ground_truth import ChangeLog, Window, write_changes
from streamsched.replay.log_reader import read_truth
from streamsched.replay.replay_results import METRICS, PolicyResult, ReplayResult
from streamsched.replay.replay_settings import ReplaySettings
from streamsched.replay.reporting.page import render_report
from streamsched.replay.reporting.replay_report import report_replay
from streamsched.replay.reporting.report import Report, to_json
from streamsched.replay.reporting.terminal import print_report
from streamsched.replay.simulation.policies import EVOLVING, POLICIES, STEADY, Setup
from streamsched.replay.simulation.signal_sources import SimulatedSource
from streamsched.replay.simulation.simulator import Evolution, Policy, PolicyQuery, Trace
from streamsched.replay.synthetic_corpus import SyntheticCorpus, synthesize, synthesize_corpus
from streamsched.replay.synthetic_settings import KINDS, SyntheticSettings

__all__ = [
    "EVOLVING",
    "KINDS",
    "METRICS",
    "POLICIES",
    "STEADY",
    "ChangeLog",
    "Estimate",
    "Evolution",
    "Policy",
    "PolicyQuery",
    "PolicyResult",
    "Progress",
    "ReplayResult",
    "ReplaySettings",
    "Report",
    "Setup",
    "SimulatedSource",
    "SyntheticCorpus",
    "SyntheticSettings",
    "Trace",
    "Window",
    "prepare_state",
    "print_report",
    "read_truth",
    "render_report",
    "replay_log",
    "report_replay",
    "run_replay",
    "synthesize",
    "synthesize_corpus",
    "to_json",
    "write_changes",
]
