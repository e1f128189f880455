"""What can be read of when pages change: the week of a page, a host or a region, and surges under way."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched import Outcome, OutcomeBatch, Scheduler, SettingsError, SurgeView, WeekView
from streamsched.estimation.seasonality.regions import TimeRegion
from streamsched.records.group_schema import GROUP
from streamsched.scheduler.reading import views
from streamsched.scheduler.reading.views import FoundSurges, find_surges

HOUR, DAY = 3_600.0, 86_400.0
MONDAY = 345_600.0  # 1970-01-05, a Monday
NOW = MONDAY + 70 * DAY
PAGES = [f"https://a.jp/news/{i}" for i in range(30)]


def week_of(scheduler: Scheduler, **target: str) -> WeekView:
    view = scheduler.week(now=NOW, **target)
    assert view is not None
    return view


@pytest.fixture(scope="module")
def office() -> Scheduler:
    """Pages that change at nine o'clock in Tokyo, visited every three hours for ten weeks."""
    scheduler = Scheduler(formula="rhythm", regions={"Japan": TimeRegion(("jp",), 9), "France": TimeRegion(("fr",))})
    for at in np.arange(MONDAY, NOW, 3 * HOUR):
        changed = (at + 9 * HOUR) % DAY == 9 * HOUR
        scheduler.observe(OutcomeBatch(PAGES, at + np.arange(len(PAGES)), changed=np.full(len(PAGES), changed)))
    return scheduler


@pytest.mark.parametrize("target", [{}, {"url": PAGES[3]}, {"host": "a.jp"}, {"region": "Japan"}])
def test_a_week_has_the_mean_1(office: Scheduler, target: dict[str, str]) -> None:
    view = week_of(office, **target)
    assert len(view.hours) == 168
    assert np.mean(view.hours) == pytest.approx(1.0)
    assert min(view.hours) >= 0.0
    assert json.loads(json.dumps(view.as_dict()))["hours"] == list(view.hours)


def test_busy_hours_are_local_ones(office: Scheduler) -> None:
    for target in ({"url": PAGES[3]}, {"region": "Japan"}):
        hours = np.reshape(week_of(office, **target).hours, (7, 24)).mean(0)
        assert 6 <= int(hours.argmax()) <= 8  # changes are seen at nine, and happened since six
        assert hours.max() > 2.0
    assert week_of(office, region="Japan").utc_offset_s == 9 * HOUR


@pytest.mark.parametrize("hour", [0, 8, 9, 100, 167])
def test_the_week_of_a_page_is_its_rhythm(office: Scheduler, hour: int) -> None:
    view = week_of(office, url=PAGES[3])
    at_s = MONDAY + 63 * DAY + hour * HOUR - view.utc_offset_s + 1.0
    assert view.hours[hour] == office.score([PAGES[3]], now=at_s)[0]


def test_whose_profile_a_week_is(office: Scheduler) -> None:
    assert (week_of(office).profile, week_of(office).region, week_of(office).utc_offset_s) == (None, None, 0.0)
    assert (week_of(office, region="France").profile, week_of(office, region="France").region) == (None, "France")
    assert week_of(office, url=PAGES[0]).region == "Japan"
    assert office.regions == ("Japan", "France")


def test_a_page_with_a_schedule_of_its_own(office: Scheduler) -> None:
    assert week_of(office, url=PAGES[0]).scheduled
    assert not week_of(office, host="a.jp").scheduled


def test_weeks_of_what_is_not_known(office: Scheduler) -> None:
    assert office.week(now=NOW, url="https://b.example/") is None
    assert office.week(now=NOW, host="b.example") is None
    with pytest.raises(SettingsError, match="region"):
        office.week(now=NOW, region="Atlantis")
    with pytest.raises(SettingsError, match="at most one"):
        office.week(now=NOW, url=PAGES[0], host="a.jp")


def test_without_seasonality_all_hours_are_alike() -> None:
    scheduler = Scheduler(regions=None)
    scheduler.discover(PAGES, now=0.0)
    assert set(week_of(scheduler, url=PAGES[0]).hours) == {1.0}
    assert scheduler.regions == ()


def test_a_bulk_change_is_a_surge() -> None:
    scheduler = Scheduler()
    for day in range(40):
        scheduler.observe([Outcome(url, MONDAY + day * DAY + i, 304) for i, url in enumerate(PAGES)])
    assert scheduler.surges() == []
    begin = MONDAY + 41.5 * DAY  # more than a day after the last window began
    scheduler.observe([Outcome(url, begin + i, changed=True) for i, url in enumerate(PAGES[:12])])
    (surge,) = scheduler.surges()
    assert (surge.group, surge.pages, surge.unvisited) == ("a.jp/news/", 30, 18)
    assert surge.share > 0.5
    assert surge.since_s == begin
    assert isinstance(surge, SurgeView)
    assert json.loads(json.dumps(surge.as_dict()))["group"] == "a.jp/news/"
    assert scheduler.surges(0) == []
    scheduler.observe([Outcome(url, begin + 100.0 + i, changed=True) for i, url in enumerate(PAGES[12:])])
    assert scheduler.surges() == []  # every page has been visited since


shares = st.sampled_from([0.0, 0.0, 0.25, 0.5, 1.0])
windows = st.tuples(shares, st.integers(0, 9), shares, st.integers(0, 9))


@given(st.lists(windows, max_size=12), st.integers(0, 6), st.integers(1, 5))
def test_the_largest_surges_come_first(found: list[tuple[float, int, float, int]], k: int, part: int) -> None:
    groups = np.zeros(len(found), GROUP)
    for number, one in enumerate(found):
        groups[["open_share", "open_unvisited", "kept_share", "kept_unvisited"]][number] = one
    joined = FoundSurges.none()
    for start in range(0, len(found), part):
        joined = joined.joined(find_surges(groups[start : start + part], start)).first(k)
    slow = [
        (-one[2 * kept] * one[2 * kept + 1], group, kept)
        for group, one in enumerate(found)
        for kept in (0, 1)
        if one[2 * kept] * one[2 * kept + 1] > 0.0
    ]
    assert list(zip(*joined, strict=True)) == [(group, kept, -waiting) for waiting, group, kept in sorted(slow)[:k]]


def test_surges_are_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = Scheduler()
    urls = [f"https://h{host}.example/{i}" for host in range(5) for i in range(20)]
    for day in range(40):
        changed = [day == 39] * len(urls)
        scheduler.observe(OutcomeBatch(urls, MONDAY + day * DAY + np.arange(len(urls)), changed=changed))
    scheduler.observe([Outcome(urls[0], MONDAY + 39.1 * DAY)])
    whole = scheduler.surges()
    monkeypatch.setattr(views, "_GROUPS_READ", 2)
    assert scheduler.surges() == whole
