"""The state of a policy at the end of a replay, for saving and queries."""

from __future__ import annotations

import numpy as np

from streamsched.errors import ReplayError
from streamsched.numerics.argument_checks import check_type
from streamsched.replay.replay_settings import ReplaySettings, choose_window
from streamsched.replay.simulation.policies import ReplayedSignals, ScheduledPolicy, deliver_signals, make_policy
from streamsched.replay.simulation.signals.recorded_signals import read_signals
from streamsched.replay.simulation.simulator import simulate
from streamsched.replay.truth.reader import read_truth

__all__ = ["prepare_state"]


def prepare_state(settings: ReplaySettings, policy: str) -> ScheduledPolicy:
    """Return `policy` after the replay of `settings` with their first seed.

    O(cycles · pages). Raises the errors of `run_replay`, and ReplayError for a policy without a scheduler.
    """
    check_type("settings", settings, ReplaySettings, "ReplaySettings")
    window = choose_window(read_truth(settings.log), settings)
    replayed = make_policy(policy, settings.cycle_s, settings.seeds[0], settings.schedule, settings.workers)
    if not isinstance(replayed, ScheduledPolicy):
        raise ReplayError(f"policy {policy!r} keeps no state: expected one that ranks by a formula")
    recorded = [batch for path in settings.signal_files for batch in read_signals(path).batches]
    signals = ReplayedSignals(settings.signals, tuple(recorded))
    listening, _ = deliver_signals(policy, replayed, window, signals, settings.seeds[0])
    simulate(window, listening, settings.schedule, np.zeros(window.pages, np.int64))
    return replayed
