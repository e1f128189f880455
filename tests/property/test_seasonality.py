"""Kernels of rhythms do what their slow twins do: hours weighed one by one, days as sets."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.estimation.seasonality.group_profiles import weighted_hours
from streamsched.estimation.seasonality.page_schedules import (
    ScheduleView,
    empty_by_day,
    empty_by_hour,
    schedule_scale,
    scheduled_factor,
    scheduled_hours,
)
from streamsched.estimation.seasonality.regions import TimeRegion, make_region_clocks, quarters_at
from streamsched.estimation.seasonality.schedule_update import count_change, update_schedule
from streamsched.estimation.seasonality.seasonal_terminals import (
    SeasonalityView,
    bound_seasonal_terminal,
    due_since,
    fill_seasonal_terminal,
    fill_seasonal_terminal_at,
    tau_since,
)
from streamsched.numerics.arrays import Records
from streamsched.records.page_schema import PAGE
from streamsched.records.seasonality_schema import PROFILE, SCHEDULE, SEASONAL_LINK, WEEK_HOURS
from tests.reference import seasonality
from tests.reference.seasonality import HOUR, Link, Profile, Published, Schedule, local_hours
from tests.support.cases import examples

DAY_S = 86_400.0
gaps = st.sampled_from([1e-6, 0.25, 0.5, 1.0, 1.0, 3.7, 12.0, 12.5, 24.0, 24.0, 30.25, 100.0, 167.9, 168.0, 400.0])
visits = st.lists(st.tuples(gaps, st.booleans()), max_size=12)
starts = st.sampled_from([0.0, 3.0, 23.75, 100.5, 167.999, 4e5, 480_000.25])
weights = st.lists(st.sampled_from([16, 16, 65_536, 200_000]), min_size=168, max_size=168)
misfits = st.sampled_from([0, 0, 3, 60, 255])
tolds = st.builds(
    Published,
    weights,
    st.sampled_from([0.05, 1.0, 20.0]),
    st.lists(misfits, min_size=127, max_size=127).map(lambda sets: [255, *sets]),
    st.lists(misfits, min_size=24, max_size=24),
)


def written(published: Published) -> Records:
    """A table of profiles, number 1 of which says that at age 1."""
    profiles = np.zeros(2, PROFILE)
    profiles["cumulative"][1][WEEK_HOURS + 1 :] = np.cumsum([0, *published.weights])
    profiles["odds"][1][1] = published.odds
    profiles["sets_rarity"][1][128:] = published.sets
    profiles["hours_rarity"][1][24:] = published.hours
    return profiles


def taught(published: Published, start: float, seen: list[tuple[float, bool]]) -> tuple[ScheduleView, Schedule, float]:
    """A schedule, and its twin, that learned from visits; the time of the last."""
    sheet, twin = ScheduleView(np.zeros(2, SCHEDULE), 1, written(published), 1, 1), Schedule()
    for number, (gap, changed) in enumerate(seen):
        end = start + gap
        counts = number, sum(one for _, one in seen[:number])
        update_schedule(sheet, start, end, changed, 0.3, *counts)
        seasonality.learn_schedule(twin, published, (start, end), changed, 0.3, counts)
        start = end
    return sheet, twin, start


def near(value: object) -> Any:
    return pytest.approx(value, rel=1e-9, abs=1e-12)


@examples(ordinary=6, whole=20)
@given(tolds, starts, visits)
def test_schedules_learn_as_their_twins(published: Published, start: float, seen: list[tuple[float, bool]]) -> None:
    sheet, twin, _ = taught(published, start, seen)
    found = sheet.schedules[1]
    assert np.abs(found["sets"].astype(int) - twin.sets).max() <= 1  # where a fit lies between two steps of the table
    assert np.abs(found["hours"].astype(int) - twin.hours).max() <= 1
    assert np.abs(found["parts"].astype(int) - twin.parts).max() <= 1
    assert (found["hours_updated"], found["hours_quiet"]) == (twin.hours_updated, twin.hours_quiet)
    for name in ("log_odds", "hourly_log_odds", "log_evidence", "hourly_log_evidence"):
        assert found[name] == pytest.approx(getattr(twin, name), rel=0.02, abs=0.02)


@examples(ordinary=6, whole=20)
@given(tolds, starts, visits, st.lists(gaps, min_size=1, max_size=5))
def test_chances_and_factors_are_those_of_the_twin(
    published: Published, start: float, seen: list[tuple[float, bool]], ahead: list[float]
) -> None:
    sheet, twin, now = taught(published, start, seen)
    twin.sets, twin.hours = sheet.schedules[1]["sets"].tolist(), sheet.schedules[1]["hours"].tolist()
    twin.parts = sheet.schedules[1]["parts"].tolist()
    factors = seasonality.own_factors(twin, published)
    for more in ahead:
        end = now + more
        assert empty_by_day(sheet, now, end) == near(seasonality.empty_by_day(twin, published, now, end))
        assert empty_by_hour(sheet.schedules[1], now, end) == near(seasonality.empty_by_hour(twin, now, end))
        expected = sum(factors[hour] * part for hour, part in seasonality.pieces(now, end))
        assert scheduled_hours(sheet, now, end) == pytest.approx(expected, rel=1e-9, abs=1e-6)
        assert weighted_hours(sheet.profiles[1], 1, now, end) == pytest.approx(
            seasonality.weighted(published, now, end), rel=1e-9, abs=1e-6
        )
        hour = int(end) % 168
        assert scheduled_factor(sheet, hour, schedule_scale(sheet)) == near(factors[hour])


@examples(ordinary=6, whole=20)
@given(tolds, visits, st.booleans(), st.integers(0, 400), st.sampled_from([-5.0, 0.0, 8.0]))
def test_terminals_are_those_of_the_twin(
    published: Published, seen: list[tuple[float, bool]], own: bool, hours: int, edge: float
) -> None:
    sheet, twin, _ = taught(published, 100.0, seen)
    sheet.schedules[1]["log_odds"] = twin.log_odds = edge
    twin.hourly_log_odds = float(sheet.schedules[1]["hourly_log_odds"])
    twin.sets, twin.hours = sheet.schedules[1]["sets"].tolist(), sheet.schedules[1]["hours"].tolist()
    twin.parts = sheet.schedules[1]["parts"].tolist()
    beats, pages = linked(sheet, own=own)
    since = float(pages[0]["last_visit_s"])
    now = since + hours * HOUR / 3
    link = Link(Profile(("a",), "", published=[Published(), published]), 1, twin if own else None)
    expected = seasonality.terminals(link, (2.0, 9.0), since, now, DAY_S)
    for name, code in (("tau", 12), ("rhythm", 13), ("due", 14)):
        out = np.empty(1)
        fill_seasonal_terminal(code, beats, pages, now, DAY_S, out)
        assert out[0] == pytest.approx(expected[name], rel=1e-6, abs=1e-9)


switches = st.sampled_from(
    [
        ("Europe/Berlin", seasonality.utc(2024, 3, 31, 1)),
        ("Europe/Berlin", seasonality.utc(2024, 10, 27, 1)),
        ("America/New_York", seasonality.utc(2024, 3, 10, 7)),
        ("America/New_York", seasonality.utc(2024, 11, 3, 6)),
        ("Australia/Sydney", seasonality.utc(2024, 4, 6, 16)),
        ("Australia/Sydney", seasonality.utc(2024, 10, 5, 16)),
        ("Australia/Lord_Howe", seasonality.utc(2024, 10, 5, 15) + 1_800),
        ("Asia/Shanghai", seasonality.utc(2024, 3, 31, 1)),
        ("Asia/Kolkata", seasonality.utc(2024, 3, 31, 1)),
    ]
)


@examples(ordinary=9, whole=30)
@given(tolds, switches, st.integers(-200, 30), st.integers(0, 800))
def test_time_is_weighed_across_changes_of_the_clock(
    published: Published, switch: tuple[str, float], first: int, quarters: int
) -> None:
    """By the clock of the last visit; so what lies behind a change is off by an hour's shift, never by more.

    Which comes to an hour of the busiest at most.
    """
    zone, switch_s = switch
    calendar = make_region_clocks({"there": TimeRegion(("example",), zone)})
    since, now = switch_s + 900.0 * first, switch_s + 900.0 * (first + quarters)
    beats, pages = linked(taught(published, 100.0, [])[0], own=False)
    pages["last_visit_s"] = since
    beats.links["quarters"] = quarters_at(calendar, 1, since)
    found = tau_since(beats, beats.links[0], since, now, HOUR)
    start = seasonality.zoned_hours(since, zone)
    assert found == near(seasonality.weighted(published, start, start + quarters / 4))
    mean = sum(published.weights) / 168
    lived = [seasonality.zoned_hours(since + 900.0 * i, zone) for i in range(quarters)]
    true = math.fsum(published.weights[int(hour) % 168] / mean / 4 for hour in lived)
    assert abs(found - true) <= max(published.weights) / mean + 1e-9
    if since >= switch_s or now <= switch_s:
        assert found == pytest.approx(true, rel=1e-9, abs=1e-9)


def linked(sheet: ScheduleView, *, own: bool) -> tuple[SeasonalityView, Records]:
    """One page that goes by the sheet's profile, and by its schedule if that is its `own`."""
    links, pages = np.zeros(1, SEASONAL_LINK), np.zeros(1, PAGE)
    links["profile"], links["schedule"], links["version"] = 1, int(own), 1
    pages["last_visit_s"], pages["prior_shape"], pages["prior_exposure"] = 1.7e9 + 1_234.5, 2.0, 9.0
    return SeasonalityView(links, sheet.schedules, sheet.profiles), pages


@examples(ordinary=9, whole=30)
@given(tolds, visits, st.booleans(), st.lists(st.floats(0.0, 1e6), min_size=2, max_size=8))
def test_what_is_due_and_weighted_time_rise_with_the_clock(
    published: Published, seen: list[tuple[float, bool]], own: bool, ahead: list[float]
) -> None:
    beats, pages = linked(taught(published, 100.0, seen)[0], own=own)
    since = float(pages[0]["last_visit_s"])
    times = sorted([since + more for more in ahead] + [np.ceil((since + more) / HOUR) * HOUR for more in ahead])
    taus = [tau_since(beats, beats.links[0], since, at, DAY_S) for at in times]
    dues = [due_since(beats, beats.links[0], pages[0], since, at, DAY_S) for at in times]
    assert all(later >= earlier * (1.0 - 2e-15) for earlier, later in pairwise(taus))
    assert all(later >= earlier - 1e-12 for earlier, later in pairwise(dues))
    assert all(0.0 <= due <= 1.0 + 1e-9 for due in dues)


@examples(ordinary=6, whole=20)
@given(tolds, visits, st.integers(0, 2**32), st.integers(1, 60), st.sampled_from([1.0, HOUR, DAY_S, 1e-300]))
def test_columns_hold_the_values_of_single_pages(
    published: Published, seen: list[tuple[float, bool]], seed: int, count: int, cycle_s: float
) -> None:
    """To the last bit, in whatever order profiles, versions, UTC offsets and pages with schedules come."""
    sheet, rng = taught(published, 100.0, seen)[0], np.random.default_rng(seed)
    sheet.profiles["cumulative"] = np.cumsum(rng.integers(1, 90_000, (2, 2, WEEK_HOURS + 1)), axis=2).reshape(2, -1)
    links, pages = np.zeros(count, SEASONAL_LINK), np.zeros(count, PAGE)
    for name, values in {"profile": [0, 1], "schedule": [0, 0, 1], "quarters": [-48, 0, 23], "version": [0, 1]}.items():
        links[name] = np.repeat(rng.choice(values, count), rng.integers(1, 5))[:count]
    now = 1.7e9 + rng.random() * 1e6
    ages = rng.choice([0.0, 1e-9, 1.0, HOUR, 168 * HOUR, 1e7, -1.0, -1e6, 1e300, 1e12], count)
    pages["last_visit_s"] = now - ages * rng.choice([1.0, rng.random()], count)
    pages["own_shape"], pages["own_exposure"] = rng.choice([0.0, 0.3, 1e5], count), rng.choice([0.0, 7.0, 1e9], count)
    pages["prior_shape"], pages["prior_exposure"] = rng.choice([0.05, 50.0], count), rng.choice([1e-6, 9.0], count)
    view, out, out_at = SeasonalityView(links, sheet.schedules, sheet.profiles), np.empty(count), np.empty(count)
    times = now + rng.choice([0.0, 0.0, HOUR / 3, 1e7], count)
    for code in (12, 14):
        fill_seasonal_terminal(code, view, pages, now, cycle_s, out)
        fill_seasonal_terminal_at(code, view, pages, times, cycle_s, out_at)
        for i in range(count):
            for found, at_s in ((out[i], now), (out_at[i], float(times[i]))):
                since = float(pages[i]["last_visit_s"])
                if code == 12:
                    assert found == tau_since(view, links[i], since, at_s, cycle_s)
                else:
                    assert found == due_since(view, links[i], pages[i], since, at_s, cycle_s)


@examples(ordinary=6, whole=20)
@given(tolds, visits, st.booleans(), st.floats(0.0, 1e6), st.floats(0.0, 4e5), st.integers(0, 200))
def test_factors_of_a_span_are_bounded(
    published: Published, seen: list[tuple[float, bool]], own: bool, since: float, span: float, part: int
) -> None:
    """Whatever time of the span is asked for, its very ends too."""
    beats, pages = linked(taught(published, 100.0, seen)[0], own=own)
    begin, low, high, out = 1.7e9 + since, np.empty(1), np.empty(1), np.empty(1)
    end = begin + span
    bound_seasonal_terminal(beats, begin, np.array([end]), False, low)
    bound_seasonal_terminal(beats, begin, np.array([end]), True, high)
    for now in (begin, end, begin + span * part / 200, min(np.ceil(begin / HOUR) * HOUR, end)):
        fill_seasonal_terminal(13, beats, pages, now, DAY_S, out)
        assert low[0] <= out[0] <= high[0]


@examples(ordinary=4, whole=15)
@given(st.lists(st.tuples(st.floats(0.01, 300.0), st.floats(0.0, 1.0)), max_size=60))
def test_gaps_between_changes_are_counted_as_by_the_twin(seen: list[tuple[float, float]]) -> None:
    schedules, twin = np.zeros(1, SCHEDULE), Schedule()
    now = 1.7e9
    for gap, part in seen:
        now += gap * HOUR
        count_change(schedules[0], now, gap * part)
        seasonality.note_change(twin, now, gap * part)
    found = schedules[0]
    assert (found["first_change_s"], found["last_change_s"]) == (twin.first_change_s, twin.last_change_s)
    assert found["gaps"] == len(twin.gaps)
    for name, hours in (("near_hour", 1.0), ("near_day", 24.0), ("near_week", 168.0)):
        assert found[name] == seasonality.count_near(twin, hours)


def test_local_hours_begin_on_mondays() -> None:
    assert local_hours(seasonality.utc(2024, 1, 1)) % 168 == 0.0  # a Monday
    assert local_hours(seasonality.utc(2024, 1, 7, 23), quarters=4) % 168 == 0.0  # in Paris


def test_schedules_that_nothing_fits_stay_numbers() -> None:
    """Where visits rule out all that is common, and what they leave is most uncommon, all weighs alike."""
    published = Published([65_536] * 168, 1.0, [255] * 128, [255] * 24)
    sheet, _, end = taught(published, 100.5, [(12.0, True), (30.25, False), (24.0, True), (100.0, False)])
    schedule = sheet.schedules[1]
    names = ("log_odds", "hourly_log_odds", "log_evidence", "hourly_log_evidence")
    assert all(np.isfinite(float(schedule[name])) for name in names)
    assert 0.0 < empty_by_day(sheet, end, end + 30.0) < 1.0
    assert scheduled_hours(sheet, end, end + 168.0) == pytest.approx(168.0)
    assert scheduled_factor(sheet, 30, schedule_scale(sheet)) == pytest.approx(1.0)
