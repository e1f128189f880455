"""Change histories and the times of their cycles."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from streamsched import OutcomeBatch, Scheduler
from streamsched.errors import SnapshotError
from streamsched.estimation.seasonality.regions import TimeRegion
from streamsched.evolution.data.change_history import ChangeHistory, CycleTimes, cycle_activity
from streamsched.evolution.exchange_files import pack_exchange, read_exchange, unpack_exchange, write_exchange
from streamsched.evolution.records import DataSpan
from streamsched.records.seasonality_schema import PROFILE, WEEK_HOURS

HOUR = 3_600.0
DAY = 86_400.0
MONDAY = 1_699_833_600.0  # 2023-11-13, 00:00
DATA = DataSpan(0.0, 4, 3, 1.0, 0, 0)


@given(st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=20))
def test_rounding_is_close_and_monotonic(values: list[float]) -> None:
    history = ChangeHistory.of([[True]] * len(values), prior_mean=values, importance=values, cost=values)
    coarse = history.coarsen()
    for name in ("prior_mean", "importance", "cost"):
        column = coarse.columns[name]
        assert column.tolist() == pytest.approx(values, rel=1 / 32)
        assert (np.diff(column[np.argsort(values)]) >= 0.0).all()
    assert history.columns["prior_mean"].tolist() == values
    assert coarse.coarsen().columns["prior_mean"].tolist() == coarse.columns["prior_mean"].tolist()


def test_an_octave_has_sixteen_rounded_values() -> None:
    means = np.linspace(1.0, 2.0, 10_000, endpoint=False)
    coarse = ChangeHistory.of([[True]] * means.size, prior_mean=means).coarsen()
    assert np.unique(coarse.columns["prior_mean"]).tolist() == [1.0 + i / 16 for i in range(17)]


def test_zero_weights_and_other_fields_are_unchanged() -> None:
    history = ChangeHistory.of([[True, False], [False, True]], importance=[0.0, 0.3], cost=0.0, prior_shape=0.7)
    coarse = history.coarsen()
    assert coarse.columns["importance"].tolist() == [0.0, 0.296875]
    assert coarse.columns["cost"].tolist() == [0.0, 0.0]
    assert coarse.prior_shape == 0.7
    assert coarse.changed is history.changed
    assert coarse.hashes is history.hashes


@pytest.mark.parametrize(("first", "cycles"), [(-1, 2), (0, 4), (3, 1)])
def test_spans_lie_within(first: int, cycles: int) -> None:
    history = ChangeHistory.of([[True, False, True]])
    assert history.span(1, 2).changed.tolist() == [[False, True]]
    with pytest.raises(ValueError, match="expected cycles within 3"):
        history.span(first, cycles)


def uniform_timing(kinds: int, cycles: int, profile: list[int], cycle_s: float = DAY) -> CycleTimes:
    profiles = np.zeros(kinds, PROFILE)
    profiles["cumulative"][:, : WEEK_HOURS + 1] = 65_536 * np.arange(WEEK_HOURS + 1)
    quarters = np.arange(kinds * (cycles + 1)).reshape(kinds, -1)
    return CycleTimes(MONDAY, cycle_s, profiles, quarters, np.array(profile, np.int64))


def test_timing_is_sliced_with_its_history() -> None:
    history = ChangeHistory.of(np.zeros((3, 4), np.bool_), timing=uniform_timing(2, 4, [0, 1, 1]))
    timing = history.take(np.array([2, 0])).span(1, 2).timing
    assert timing is not None
    assert timing.profile.tolist() == [1, 0]
    assert (timing.start_s, timing.cycles) == (MONDAY + DAY, 2)
    assert timing.quarters.tolist() == [[1, 2, 3], [6, 7, 8]]


def test_timing_of_other_pages_or_cycles_is_refused() -> None:
    for changed in (np.zeros((3, 5), np.bool_), np.zeros((2, 4), np.bool_)):
        with pytest.raises(ValueError, match="timing"):
            ChangeHistory.of(changed, timing=uniform_timing(2, 4, [0, 1, 1]))
    with pytest.raises(ValueError, match="expected pages of 2 profiles"):
        uniform_timing(2, 4, [0, 2])
    with pytest.raises(ValueError, match="a length above 0"):
        replace(uniform_timing(1, 1, [0]), cycle_s=0.0)
    with pytest.raises(ValueError, match="UTC offsets for each profile"):
        replace(uniform_timing(1, 1, [0]), quarters=np.zeros((2, 2), np.int64))


def test_active_cycles_weigh_more() -> None:
    timing = uniform_timing(1, 28, [0], 6 * HOUR)
    timing.quarters[:] = 0
    assert cycle_activity(timing).tolist() == [[1.0] * 28]
    weights = np.where(np.arange(WEEK_HOURS) % 24 < 6, 40_000, 20_000)  # activity doubles at night
    timing.profiles["cumulative"][0, : WEEK_HOURS + 1] = np.append(0, np.cumsum(weights))
    assert cycle_activity(timing)[0] == pytest.approx([1.6, 0.8, 0.8, 0.8] * 7)
    timing.quarters[:] = 24  # six hours further east
    assert cycle_activity(timing)[0] == pytest.approx([0.8, 0.8, 0.8, 1.6] * 7)


def nightly(regions: dict[str, TimeRegion] | None) -> Scheduler:
    """300 pages each with and without a region, visited hourly for two weeks, that change at night in UTC."""
    scheduler = Scheduler(cycle=HOUR, regions=regions)
    rng = np.random.default_rng(0)
    urls = [f"https://{('a.example', 'b.jp')[i % 2]}/{i}" for i in range(600)]
    for hour in range(336):
        changed = (rng.random(600) < 0.02) & (hour % 24 < 6)
        scheduler.observe(OutcomeBatch(urls, np.full(600, MONDAY + (hour + 1) * HOUR), changed=changed))
    return scheduler


def test_training_has_the_profiles_of_its_pages() -> None:
    scheduler = nightly({"JP": TimeRegion(("jp",), "Asia/Tokyo")})
    timing = scheduler.training(48, now=MONDAY + 336 * HOUR).history.timing
    assert timing is not None
    assert (timing.start_s, timing.cycle_s, timing.cycles) == (MONDAY + 288 * HOUR, HOUR, 48)
    assert timing.profile.tolist() == [int(timing.profile[0]), int(timing.profile[1])] * 300
    clocks = timing.quarters[timing.profile[:2]]
    assert clocks.tolist() == [[0] * 49, [36] * 49]
    activity = cycle_activity(timing)[timing.profile]
    assert activity[:, np.arange(48) % 24 < 6].min() > 3.0
    assert activity[:, np.arange(48) % 24 >= 6].max() < 0.5


def test_without_seasonality_there_is_no_timing() -> None:
    assert nightly(None).training(4, now=MONDAY + 336 * HOUR).history.timing is None


def test_training_is_a_snapshot() -> None:
    """Profiles published between two copies of one state change neither copy."""
    scheduler = nightly({})
    drawn = scheduler.core.trainings(24, now=MONDAY + 336 * HOUR, seeds=[0, 1])
    before = next(drawn).history.timing
    assert before is not None
    content = before.profiles.tobytes()
    urls = [f"https://a.example/{i}" for i in range(0, 600, 2)]
    for hour in range(336, 400):
        scheduler.observe(OutcomeBatch(urls, np.full(300, MONDAY + (hour + 1) * HOUR), changed=np.full(300, True)))
    after = next(drawn).history.timing
    assert after is not None
    assert (before.profiles.tobytes(), after.profiles.tobytes()) == (content, content)


@pytest.mark.parametrize("timing", [None, uniform_timing(2, 4, [0, 1, 1])])
def test_exchange_files_contain_it(tmp_path: Path, timing: CycleTimes | None) -> None:
    half_life = 60.5 if timing is None else math.inf
    history = ChangeHistory.of(np.eye(3, 4, dtype=np.bool_), timing=timing, half_life=half_life)
    write_exchange(tmp_path, [history, history], DATA, {})
    for read in read_exchange(tmp_path)[0]:
        assert read.half_life == read.take(np.array([1])).half_life == half_life
        assert (read.timing is None) is (timing is None)
        if read.timing is not None and timing is not None:
            assert read.timing.profiles.tobytes() == timing.profiles.tobytes()
            assert read.timing.quarters.tolist() == timing.quarters.tolist()
            assert read.timing.profile.tolist() == timing.profile.tolist()
            assert (read.timing.start_s, read.timing.cycle_s) == (timing.start_s, timing.cycle_s)


def test_damaged_training_data_is_refused(tmp_path: Path) -> None:
    history = ChangeHistory.of(np.eye(3, 4, dtype=np.bool_), timing=uniform_timing(2, 4, [0, 1, 1]))
    write_exchange(tmp_path, [history], DATA, {})
    path = tmp_path / "exchange.npz"
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    with pytest.raises(SnapshotError, match="damaged"):
        read_exchange(tmp_path)


def test_changed_training_data_is_read_or_refused() -> None:
    """With a right checksum, as a foreign program could send it."""
    history = ChangeHistory.of(np.eye(3, 4, dtype=np.bool_), timing=uniform_timing(2, 4, [0, 1, 1]))
    content = pack_exchange([history], DATA, {})[4:]
    rng = np.random.default_rng(5)
    refused = 0
    for _ in range(1_000):
        changed = bytearray(content[: rng.integers(1, len(content) + 1)] if rng.random() < 0.2 else content)
        for place in rng.integers(0, len(changed), rng.integers(1, 4)):
            changed[place] = rng.integers(256)
        try:
            unpack_exchange(crc32c(changed).to_bytes(4, "little") + changed, "a shard")
        except SnapshotError:
            refused += 1
    assert refused > 200
