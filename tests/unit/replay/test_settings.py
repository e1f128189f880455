"""What replays, analyses and experiments refuse to be asked: each setting by its name, found and expected."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from streamsched import ReplayError, SettingsError
from streamsched.estimation.seasonality.regions import TimeRegion
from streamsched.replay import KINDS, ReplaySettings, SyntheticSettings
from streamsched.replay.analysis import AnalysisSettings
from streamsched.replay.gp4c import ProtocolSettings
from streamsched.replay.optimisers import CrawlSettings, PlanSettings, SyncPlan
from streamsched.replay.replay_settings import BUDGETS

DAY = 86_400.0
NOON = 20_000.5 * DAY  # 2024-10-04
NAN, INFINITE = float("nan"), float("inf")
NO_BUDGETS = (0.0, -0.05, -3.0, 1.5, 2.5, NAN, INFINITE)

WORDED: dict[partial[Any], Sequence[tuple[str, Any, str]]] = {
    partial(ReplaySettings, "log"): [
        ("policies", (), "policies: expected one or more"),
        ("policies", ("age", "age"), "policies: expected each once"),
        *(("budget", wrong, f"budget: expected {BUDGETS}, found {wrong}") for wrong in NO_BUDGETS),
        ("cycle_s", 0.0, "cycle: expected a number of seconds above 0"),
        ("warmup", -1, "warmup: expected 0 or more"),
        ("changed", "ever", "changed: expected since_visit or that_day, found 'ever'"),
        ("seeds", (), "seeds: expected one or more"),
        ("seeds", (1, 1), "seeds: expected each once"),
        ("seeds", (-1,), "seeds: expected whole numbers"),
        ("workers", 0, "workers: expected 1 or more"),
        ("start_s", NOON, "start: expected a UTC midnight, found '2024-10-04T12:00:00Z'"),
        ("start_s", NAN, "start: expected epoch seconds"),
        ("end_s", 1.7e12, "end: expected epoch seconds"),
        ("learn_from_s", NAN, "learn_from: expected epoch seconds"),
        ("learn_from_s", NOON, "learn_from: expected a UTC midnight, found '2024-10-04T12:00:00Z'"),
        ("learn_from_s", NOON + DAY / 2, "learn_from: expected the start of the measured period too, --from, found"),
        ("against", "nadd", "against: expected one of the policies rand, age"),
        ("against", 3, "against"),
        ("calibration", 1, "calibration"),
    ],
    partial(AnalysisSettings, "log"): [
        ("start_s", 1e15, "from: expected epoch seconds of the years 1 to 9999"),
        ("end_s", NAN, "to: expected epoch seconds"),
        ("step_s", 0.5, "step: expected a time from 1s to 1w, found 0.5"),
        ("step_s", 1e9, "step: expected a time from 1s to 1w, found 1000000000.0"),
        ("near_s", 60.0, "near: expected a time of 1h or more"),
        ("level", 0.0, "level: expected a share above 0"),
        ("level", NAN, "level: expected a share above 0 and below 0.5"),
        ("zone", "Mars/Olympus", "zone: expected a zone such as Europe/Paris"),
        ("zone", "../etc/passwd", "found '../etc/passwd'"),
        ("zone", "Europe", "found 'Europe'"),
        ("zone", "+15:00", "found '+15:00'"),
        (
            "regions",
            {"A": TimeRegion(("b",)), "C": TimeRegion(("d", "b"))},
            "regions: expected each domain in one region",
        ),
        ("zones", {"b": "Nowhere"}, "found 'Nowhere'"),
    ],
    partial(AnalysisSettings, "log", start_s=DAY): [
        ("end_s", DAY, "to: expected a time after --from, found '1970-01-02'"),
    ],
    partial(ProtocolSettings, "log"): [
        ("metrics", (), "metrics: expected some of change_rate, ndcg, each once"),
        ("metrics", ("ndcg", "ndcg"), "each once"),
        ("terminals", ("all",), "terminals: expected some of basic, paper, full"),
        ("cycle_s", 0.0, "cycle: expected a number of seconds above 0"),
        ("seed", -1, "seeds: expected whole numbers"),
        ("start_s", NOON, "start: expected a UTC midnight"),
        ("end_s", 1.7e12, "end: expected epoch seconds"),
    ],
}  # fmt: skip
NAMED: dict[Any, dict[str, Sequence[Any]]] = {
    CrawlSettings: dict.fromkeys(("pages", "runs", "epochs", "seed"), (-1,)),
    SyncPlan: dict.fromkeys(("runs", "arms", "rounds", "seed"), (-1,)),
    PlanSettings: dict.fromkeys(("starts", "buckets", "periods", "seed"), (-1,)),
    SyntheticSettings: {
        "pages": [0, 1.5, 2**31],
        "days": [0, 100_000],
        "start_s": [0.5, NAN, INFINITE, 1e300],
        "zone_hours": [15.0, NAN],
        "pages_per_host": [0.5],
        "host_tail": [0.0],
        "pages_per_prefix": [0.0],
        "host_accord": [1.1],
        "domain": ["", "exämple", "a b"],
        "rate_per_day": [-1.0, INFINITE],
        "prefix_shape": [0.0],
        "weekday_chance": [-0.1, NAN],
        "office_hours": [(18.0, 8.0), (8.0, 25.0)],
        "burst_days": [0.0],
        "burst_regularity": [0.0],
        "jitter_s": [3_600],
        "bulk_reach": [2.0],
        "bulk_s": [-1],
    },
}


@pytest.mark.parametrize(
    ("make", "setting", "value", "said"), [(make, *case) for make, cases in WORDED.items() for case in cases]
)
def test_settings_that_cannot_work_are_refused(make: partial[Any], setting: str, value: Any, said: str) -> None:
    with pytest.raises((ReplayError, SettingsError, TypeError)) as refused:
        make(**{setting: value})
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("make", "setting", "value"),
    [(make, name, value) for make, cases in NAMED.items() for name, values in cases.items() for value in values],
)
def test_numbers_that_cannot_work_are_refused_by_name(make: Any, setting: str, value: Any) -> None:
    with pytest.raises(SettingsError) as refused:
        make(**{setting: value})
    assert refused.value.setting == setting


@pytest.mark.parametrize("shares", [{"dead": 0.5}, {"poisson": 0.9}, dict.fromkeys(KINDS, 0.0)])
def test_shares_must_sum_to_one(shares: dict[str, float]) -> None:
    with pytest.raises(SettingsError, match=r"kinds: expected shares of poisson, weekday, .* that sum to 1"):
        SyntheticSettings(**shares)  # type: ignore[arg-type]
