"""Replays of change logs: what each policy would have found, had it decided what to visit (SPEC 6).

The report and the terminal's table and progress bar, which need matplotlib and rich, stand in
`streamsched.replay.report` and `streamsched.replay.terminal`.
"""

from streamsched.replay.changefile import write_changes
from streamsched.replay.experiment import Progress, replay_log, run_replay
from streamsched.replay.intervals import Estimate
from streamsched.replay.policies import EVOLVING, POLICIES, STEADY
from streamsched.replay.promotions import Evolution
from streamsched.replay.reader import read_truth
from streamsched.replay.rehearsal import rehearse
from streamsched.replay.results import METRICS, PolicyResult, ReplayResult, to_json
from streamsched.replay.settings import ReplaySettings
from streamsched.replay.simulator import Trace
from streamsched.replay.synthetic import SyntheticCorpus, synthesize, synthesize_corpus
from streamsched.replay.synthetic_settings import KINDS, SyntheticSettings
from streamsched.replay.truth import ChangeLog, Window

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
    "SyntheticCorpus",
    "SyntheticSettings",
    "Trace",
    "Window",
    "read_truth",
    "rehearse",
    "replay_log",
    "run_replay",
    "synthesize",
    "synthesize_corpus",
    "to_json",
    "write_changes",
]
