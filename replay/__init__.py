"""Replays of change logs: the changes each policy would have found with its own choice of visits.

`streamsched.replay.reporting.replay_report` writes the HTML report and `streamsched.replay.reporting.terminal` prints
the table and the progress bar; they need matplotlib, jinja2 and rich.
"""

from streamsched.replay.confidence_intervals import Estimate
from streamsched.replay.experiment import Progress, replay_log, run_replay
from streamsched.replay.replay_results import METRICS, PolicyResult, ReplayResult
from streamsched.replay.replay_settings import ReplaySettings
from streamsched.replay.reporting.replay_json import to_json
from streamsched.replay.saved_state import prepare_state
from streamsched.replay.simulation.policy_names import EVOLVING, POLICIES, STEADY
from streamsched.replay.simulation.promotions import Evolution
from streamsched.replay.simulation.signals.simulated_source import SimulatedSource
from streamsched.replay.simulation.simulator import Trace
from streamsched.replay.synthetic.generator import SyntheticCorpus, synthesize, synthesize_corpus
from streamsched.replay.synthetic.synthetic_settings import KINDS, SyntheticSettings
from streamsched.replay.truth.change_file import write_changes
from streamsched.replay.truth.ground_truth import ChangeLog, Window
from streamsched.replay.truth.reader import read_truth

__all__ = [
    "EVOLVING",
    "KINDS",
    "METRICS",
    "POLICIES",
    "STEADY",
    "ChangeLog",
    "Estimate",
    "Evolution",
    "PolicyResult",
    "Progress",
    "ReplayResult",
    "ReplaySettings",
    "SimulatedSource",
    "SyntheticCorpus",
    "SyntheticSettings",
    "Trace",
    "Window",
    "prepare_state",
    "read_truth",
    "replay_log",
    "run_replay",
    "synthesize",
    "synthesize_corpus",
    "to_json",
    "write_changes",
]
