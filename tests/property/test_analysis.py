"""An analysis's numbers against those of the slow twin."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, timedelta, timezone
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from streamsched import OutcomeBatch, PackedUrls
from streamsched.connectors import Delivery, Position
from streamsched.errors import ReplayError
from streamsched.estimation.seasonality.regions import offsets_between
from streamsched.replay import ChangeLog
from streamsched.replay.analysis import AnalysisSettings, merge_regions, parse_region
from streamsched.replay.analysis.analysis_settings import find_domains
from streamsched.replay.analysis.intervals import count_intervals, count_near, estimate_rates
from streamsched.replay.analysis.observation import Observation, observe_steps, observe_visits
from streamsched.replay.analysis.page_types import binomial_tail, exceedance
from streamsched.replay.analysis.week import RegionWeek, _spread, count_week
from streamsched.replay.log_reader import read_outcomes
from tests.reference import analysis

Record = tuple[float, str, str]

PAGES = [f"https://{letter}.example/" for letter in "abcd"]
records = st.lists(
    st.tuples(st.integers(-20, 120).map(float), st.sampled_from("AMMMMMD"), st.sampled_from(PAGES)),
    min_size=1,
    max_size=80,
).map(lambda log: sorted(log, key=lambda record: record[0]))
START = 1_741_996_800  # 2025-03-15, a fortnight before Europe's clocks go forward


def collect(log: Sequence[Record]) -> ChangeLog:
    urls = list(dict.fromkeys(url for _, _, url in log))
    return ChangeLog.collect(
        PackedUrls.pack(urls),
        np.array([urls.index(url) for _, _, url in log]),
        np.array([when for when, _, _ in log]),
        np.array([op == "D" for _, op, _ in log]),
    )


def split(seen: Observation) -> list[list[int]]:
    return [part.tolist() for part in np.split(seen.steps, seen.offsets[1:-1])]


@given(records, st.integers(-10, 50), st.integers(1, 80), st.integers(1, 12))
@example([(0.0, "A", PAGES[0]), (1.0, "M", PAGES[0])], 0, 1, 3)  # a change at the end, which is none of the span's
def test_a_crawl_sees_what_visits_one_by_one_see(log: list[Record], start: int, length: int, step: int) -> None:
    """Whatever comes first: a page that appears with an M is there, one that vanishes unseen never was."""
    seen = observe_steps(collect(log), (start, start + length), float(step))
    pages = analysis.crawl(log, start, start + length, step)
    assert seen.visits.tolist() == [page.visits for page in pages.values()]
    assert seen.changes.tolist() == [page.changes for page in pages.values()]
    assert split(seen) == [page.intervals for page in pages.values()]
    assert np.all(seen.changes <= seen.visits)


visits = st.lists(
    st.fixed_dictionaries(
        {"url": st.sampled_from(PAGES[:2]), "fetched_at": st.integers(0, 40).map(lambda at: at * 900.0 + START)},
        optional={"status": st.sampled_from([200, 200, 304, 404, 503]), "changed": st.booleans()},
    ),
    min_size=1,
    max_size=40,
)


def read(outcomes: list[dict[str, Any]]) -> ChangeLog:
    given = [field for field in ("status", "changed") if any(field in outcome for outcome in outcomes)]
    columns: dict[str, Any] = {field: [outcome.get(field) for outcome in outcomes] for field in given}
    urls, times = [outcome["url"] for outcome in outcomes], [outcome["fetched_at"] for outcome in outcomes]
    return read_outcomes([Delivery(OutcomeBatch(urls, times, **columns), Position("jsonl", "/log", 0, 0))])


@given(visits)
def test_visits_that_were_made_are_read_as_they_are(outcomes: list[dict[str, Any]]) -> None:
    pages, changes = analysis.watch(outcomes, 6)
    try:
        log = read(outcomes)
    except ReplayError:
        assert not changes
        return
    assert log.crawls is not None
    seen = observe_visits(log, log.crawls)
    expected = [pages.get(url, analysis.Page()) for url in log.urls]
    assert seen.visits.tolist() == [page.visits for page in expected]
    assert seen.changes.tolist() == [page.changes for page in expected]
    assert seen.watched_s.tolist() == [page.watched for page in expected]
    assert split(seen) == [page.intervals for page in expected]
    week = count_week(log, (log.first_s, log.last_s + 1), AnalysisSettings("log"))
    hours = analysis.arrivals([(since, until) for _, since, until in changes], UTC)
    found = sum((part.changes_by_hour for part in week.regions), np.zeros(168))
    np.testing.assert_allclose(found, hours, atol=1e-9)


@given(records, st.integers(1, 5), st.sampled_from([12.0, 30.0, 60.0]))
@example([(0.0, "A", PAGES[0]), (1.0, "M", PAGES[0]), (2.0, "M", PAGES[0])], 1, 60.0)  # bins of two steps and a half
def test_intervals_are_counted_one_by_one(log: list[Record], step: int, mean: float) -> None:
    check_by_twin(log, step, mean)


@pytest.mark.parametrize(("step", "mean"), [(1, 12.0), (2, 12.0), (1, 15.0)])
def test_many_intervals_are_counted_one_by_one(step: int, mean: float) -> None:
    """Pages of the mean that is asked for, of others, and some of too few changes."""
    rng = np.random.default_rng(step)
    log: list[Record] = [(0.0, "A", page) for page in PAGES]
    for page, own in zip(PAGES, (mean, 0.9 * mean, 1.1 * mean, 5.0), strict=True):
        times = np.cumsum(rng.geometric(1 / own, 30)).tolist()
        log += [(float(at), "M", page) for at in times if at < 100]
    assert check_by_twin(sorted(log), step, mean) >= 4


def check_by_twin(log: list[Record], step: int, mean: float) -> int:
    """Compare both figures of intervals; return how many the second has."""
    scale = 600  # of a step, so that means are of hours
    wide = [(when * scale, op, url) for when, op, url in log]
    seen = observe_steps(collect(wide), (0, 100 * scale), float(step * scale))
    pages = list(analysis.crawl(wide, 0, 100 * scale, step * scale).values())
    heat = count_intervals(seen, float(step * scale))
    mean_bin, interval_bin = np.nonzero(heat.counts)
    cells = zip(mean_bin.tolist(), interval_bin.tolist(), strict=True)
    counted = dict(zip(cells, heat.counts[mean_bin, interval_bin].tolist(), strict=True))
    assert counted == analysis.heat(pages, step * scale, heat.edges_s.tolist())
    assert heat.pages.sum() == sum(bool(page.intervals) for page in pages)
    near = count_near(seen, float(step * scale), mean * scale)
    if mean < 6 * step:
        assert near is None
        return 0
    assert near is not None
    observed, expected = analysis.near(pages, step * scale, near.band_s, near.edges_s.tolist())
    assert near.observed.tolist() == observed
    np.testing.assert_allclose(near.expected, expected, atol=1e-6)
    assert near.intervals == sum(observed) + near.longer[0]
    assert near.expected.sum() + near.longer[1] == pytest.approx(near.intervals)
    assert sum(counted.values()) == seen.steps.size
    return near.intervals


@given(records, st.integers(1, 6))
def test_estimates_are_the_formulas(log: list[Record], step: int) -> None:
    seen = observe_steps(collect(log), (0, 100), float(step))
    pages = [page for page in analysis.crawl(log, 0, 100, step).values() if page.visits]
    rates = estimate_rates(seen, None)
    simple = sorted(page.watched / page.changes if page.changes else np.inf for page in pages)
    modified = sorted(
        -step / np.log((page.visits - page.changes + 0.5) / (page.visits + 0.5)) if page.changes else np.inf
        for page in pages
    )
    np.testing.assert_allclose(rates.simple_s, simple)
    np.testing.assert_allclose(rates.modified_s, modified)


@given(st.integers(1, 5), st.integers(0, 9), st.integers(0, 14))
def test_chances_are_those_of_all_ways_to_cut(count: int, more: int, steps: int) -> None:
    total = count + more
    assert exceedance(steps, count, total) == pytest.approx(float(analysis.exceedance(steps, count, total)), abs=1e-9)


@given(st.integers(1, 30), st.integers(0, 30), st.fractions(Fraction(1, 1000), Fraction(999, 1000)))
def test_tails_are_the_binomials(count: int, found: int, share: Fraction) -> None:
    assume(found <= count)
    expected = float(analysis.binomial_tail(found, count, share))
    assert binomial_tail(found, count, float(share)) == pytest.approx(expected, rel=1e-9)


zones = st.sampled_from(["UTC", "Europe/Paris", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "-03:30"])


def zone_of(name: str) -> Any:
    return timezone(-timedelta(hours=3, minutes=30)) if name == "-03:30" else ZoneInfo(name)


@given(zones, st.lists(st.integers(0, 40 * 24 * 60), min_size=1, max_size=30), st.integers(0, 5000))
def test_hours_of_the_week_are_the_clocks(name: str, minutes: list[int], begin: int) -> None:
    """Through the weeks in which clocks go forward in America and in Europe, and back in Australia."""
    log = [(START + 60.0 * minute, "M", "https://a.example/") for minute in sorted(minutes)]
    first = START - 900 * begin
    whole = collect([(first, "A", "https://a.example/"), *log])
    end = START + 60 * max(minutes) // 900 * 900 + 900
    week = count_week(whole, (first, end), AnalysisSettings("log", zone=name))
    (part,) = week.regions
    zone = zone_of(name)
    hours = analysis.arrivals([(when, when) for when, _, _ in log if when < end], zone)
    exposed = analysis.exposure(first, end, zone)
    np.testing.assert_allclose(part.changes_by_hour, hours)
    np.testing.assert_allclose(part.exposure_h, exposed, atol=1e-6)
    np.testing.assert_allclose(part.relative(), analysis.relative(hours, exposed), atol=1e-6)


@given(zones, st.lists(st.integers(-(2**31), 2**32), min_size=1, max_size=20))
def test_clocks_show_what_the_database_says(name: str, times: list[int]) -> None:
    times = [time // 60 * 60 for time in times if name != "Australia/Lord_Howe" or time > 0]
    assume(times)
    centre = times[0]
    times = [time for time in times if abs(time - centre) < 400 * 86400]
    shown = offsets_between(name, min(times), max(times)).read(np.array(times, np.float64))
    zone = zone_of(name)
    assert shown.tolist() == [time + analysis.utc_offset(time, zone).total_seconds() for time in times]


@given(st.integers(0, 2000), st.integers(0, 2500), st.integers(0, 700))
def test_a_change_is_spread_over_its_interval(begin: int, quarters: int, start: int) -> None:
    since = START + 900 * begin + start // 700
    until = since + 900 * quarters
    since, until = since // 900 * 900, until // 900 * 900
    found = _spread(np.array([float(since)]), np.array([float(until)]), np.ones(1))
    np.testing.assert_allclose(found, analysis.arrivals([(since, until)], UTC), atol=1e-9)
    assert found.sum() == pytest.approx(1.0)


hosts = st.sampled_from(
    ["a.jp", "A.JP", "x.b.de.", "jp", "[::1]", "127.0.0.1", "user@a.fr", "b.museum:8080", "a.", ".de"]
)
urls = st.builds(
    "{}{}{}".format, st.sampled_from(["http://", "https://", ""]), hosts, st.sampled_from(["", "/", "/x.jp", "?y.de/"])
)


@given(st.lists(urls, min_size=1, max_size=10))
def test_domains_are_the_hosts_last_labels(pages: list[str]) -> None:
    wanted = ["de", "fr", "jp", "museum"]
    assume(not any(":1]" in page and "://" not in page for page in pages))
    expected = [analysis.domain(page) for page in pages]
    found = find_domains(PackedUrls.pack(pages), wanted)
    assert found.tolist() == [wanted.index(one) if one in wanted else len(wanted) for one in expected]


def test_regions_share_out_all_changes() -> None:
    log: list[Record] = [
        (START, "A", url) for url in ("https://a.jp/", "https://a.cn/", "https://b.pt/", "https://c.com/")
    ]
    log += [(START + 3600.0 * hour, "M", f"https://a.{domain}/") for hour, domain in ((1, "jp"), (2, "cn"), (3, "jp"))]
    log += [(START + 3600.0 * 4, "M", "https://b.pt/"), (START + 3600.0 * 5, "M", "https://c.com/")]
    regions, zones = merge_regions([parse_region("PT=pt@-01:00")])
    settings = AnalysisSettings("log", regions=regions, zones=zones, local=True)
    week = count_week(collect(log), (START, START + 6 * 3600), settings)
    parts = {part.region: part for part in week.regions}
    assert {name: (part.pages, part.changes) for name, part in parts.items()} == {
        "CJK": (2, 3),
        "PT": (1, 1),
        "other": (1, 1),
    }
    monday = 5 * 24  # START is a Saturday's midnight
    assert np.flatnonzero(parts["CJK"].changes_by_hour).tolist() == [monday + hour for hour in (10, 12)]
    assert parts["CJK"].changes_by_hour[monday + 10] == 2  # 1 + 9 in Tokyo, 2 + 8 in Shanghai
    assert np.flatnonzero(parts["PT"].changes_by_hour).tolist() == [monday + 3]
    assert np.flatnonzero(parts["other"].changes_by_hour).tolist() == [monday + 5]


def test_a_flat_week_is_flat_by_every_clock() -> None:
    part = RegionWeek("all", 1, 168, np.ones(168), np.ones(168))
    np.testing.assert_allclose(part.relative(), 1.0)
    np.testing.assert_allclose(part.by_day(), 1.0)
