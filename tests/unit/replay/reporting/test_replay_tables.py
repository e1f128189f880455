"""Tables of a replay: what their captions name."""

from __future__ import annotations

from dataclasses import replace

from streamsched.replay import ReplaySettings, run_replay
from streamsched.replay.reporting.replay_tables import calibration_table, comparison_table
from tests.support.paths import LOGS

LOG = LOGS / "scoop-extras.tsv.gz"
START_S = 1_755_820_800.0


def test_what_is_compared_and_what_has_no_calibration_is_named() -> None:
    policies = ("age", "default", "nad", "oracle")
    result = run_replay(ReplaySettings(str(LOG), policies=policies, start_s=START_S, end_s=START_S + 30 * 86400))
    assert comparison_table(result).caption.startswith("Differences from age, in per cent of its figures")
    alone = replace(result, settings=replace(result.settings, policies=("nad",)))
    assert comparison_table(alone).caption == ""
    assert calibration_table(result).caption == ""
    asked = replace(result, settings=replace(result.settings, calibration=True))
    assert calibration_table(asked).caption.startswith("No calibration for age, default, nad and oracle:")
