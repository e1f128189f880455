"""Synthetic corpora as change logs."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

import numpy as np
import pytest

from streamsched.numerics.arrays import Bools, Ints
from streamsched.replay import (
    KINDS,
    ChangeLog,
    ReplaySettings,
    SyntheticSettings,
    replay_log,
    synthesize,
    synthesize_corpus,
)
from streamsched.replay.replay_settings import choose_window
from streamsched.replay.synthetic_corpus import (
    CHANGE_PROCESSES,
    Changes,
    Sites,
    draw_bulk_edits,
    draw_rates,
    draw_sites,
    make_urls,
)

DAY: Final = 86_400
SETTINGS: Final = SyntheticSettings(pages=3_000, days=20)


def digest(log: ChangeLog) -> list[bytes]:
    return [part.tobytes() for part in (log.urls.blob, log.urls.offsets, log.times_s, log.offsets, log.gone)]


def changed_days(log: ChangeLog, days: int) -> Bools:
    """On which days of the log each page changed: bool[pages, days]."""
    changed = np.zeros((len(log.urls), days), np.bool_)
    pages = np.repeat(np.arange(len(log.urls)), np.diff(log.offsets))
    day = ((log.times_s - log.first_s) // DAY).astype(np.int64)
    counts = (log.times_s > log.first_s) & (day < days)
    changed[pages[counts], day[counts]] = True
    return changed


def test_a_log_is_sound_and_spans_its_days() -> None:
    log = synthesize(SETTINGS, 1)
    assert len(log.urls) == len(set(log.urls)) == SETTINGS.pages
    assert (log.first_s, log.last_s) == (SETTINGS.start_s, SETTINGS.start_s + 20 * DAY)
    assert np.array_equal(log.times_s[log.offsets[:-1]], np.full(SETTINGS.pages, SETTINGS.start_s))
    later = np.ones(log.times_s.size, np.bool_)
    later[log.offsets[:-1]] = False
    assert np.all(np.diff(log.times_s, prepend=0.0)[later] >= 1)
    assert np.array_equal(log.times_s, np.floor(log.times_s))
    assert not log.gone.any()
    assert np.count_nonzero(log.times_s == log.last_s) == 1
    window = choose_window(log, ReplaySettings("", ("age",)))
    assert (window.pages, window.cycles) == (SETTINGS.pages, 20)


def test_a_seed_gives_the_same_bytes() -> None:
    assert digest(synthesize(SETTINGS, 5)) == digest(synthesize(SETTINGS, 5)) != digest(synthesize(SETTINGS, 6))


def test_a_setting_of_one_kind_leaves_the_other_kinds_as_they_were() -> None:
    one = synthesize_corpus(SETTINGS, 5)
    other = synthesize_corpus(replace(SETTINGS, burst_rate=9.0), 5)
    assert list(one.log.urls) == list(other.log.urls)
    for kind in KINDS:
        alike = [
            np.array_equal(
                one.log.times_s[one.log.offsets[page] : one.log.offsets[page + 1]],
                other.log.times_s[other.log.offsets[page] : other.log.offsets[page + 1]],
            )
            for page in one.sites.pages(kind)[:20]
        ]
        assert all(alike) == (kind != "bursty")


def test_dead_pages_never_change_and_all_others_may() -> None:
    corpus = synthesize_corpus(replace(SETTINGS, rate_per_day=3.0, bulk_edits_per_day=0.1), 2)
    counts = np.diff(corpus.log.offsets) - 1
    assert counts[corpus.sites.pages("dead")].max() == 0
    for kind in KINDS[:-1]:
        assert np.mean(counts[corpus.sites.pages(kind)] > 0) > 0.5


def test_weekday_pages_of_a_log_never_change_on_weekends() -> None:
    settings = replace(SETTINGS, days=56)
    corpus = synthesize_corpus(settings, 3)
    log = corpus.log
    kinds = np.repeat(corpus.sites.kinds(), np.diff(log.offsets))
    inside = (log.times_s > log.first_s) & (log.times_s < log.last_s)
    local_days = (log.times_s - settings.start_s + settings.zone_hours * 3600) // DAY % 7
    weekends = inside & (local_days >= 5)
    assert not np.any(weekends & (kinds == KINDS.index("weekday")))
    assert np.any(weekends & (kinds == KINDS.index("bursty")))


@pytest.mark.parametrize("kind", KINDS)
def test_a_corpus_may_be_of_one_kind(kind: str) -> None:
    settings = SyntheticSettings(pages=60, days=9, **{**dict.fromkeys(KINDS, 0.0), kind: 1.0})  # type: ignore[arg-type]
    log = synthesize(settings)
    assert len(log.urls) == 60
    assert (log.times_s.size == 60) == (kind == "dead")


def test_one_page_for_one_day_is_a_corpus() -> None:
    log = synthesize(SyntheticSettings(pages=1, days=1))
    assert len(log.urls) == 1
    assert log.first_s == SyntheticSettings().start_s


def test_bulk_edits_come_on_top() -> None:
    plain, edited = (synthesize(replace(SETTINGS, bulk_edits_per_day=rate), 4) for rate in (0.0, 0.05))
    assert edited.times_s.size > plain.times_s.size + 0.02 * SETTINGS.pages * SETTINGS.days
    assert np.isin(plain.times_s[plain.times_s < plain.last_s], edited.times_s).all()


def test_simple_policies_fare_as_published() -> None:
    """GP4C, section 5: of the pages visited about 0.71 had changed under NAD, 0.667 under CG, far fewer by chance."""
    log = synthesize(SyntheticSettings(pages=4_000, days=19))
    settings = ReplaySettings("", ("rand", "age", "cg", "nad"), changed="that_day")
    rates = {policy.name: policy.figures["change_rate"].value or 0.0 for policy in replay_log(log, settings).policies}
    assert rates["nad"] == pytest.approx(0.71, abs=0.03)
    assert rates["cg"] == pytest.approx(0.667, abs=0.03)
    assert rates["nad"] > rates["cg"]
    assert max(rates["rand"], rates["age"]) < 0.42


def test_a_third_of_the_pages_changes_on_a_working_day() -> None:
    changed = changed_days(synthesize(SyntheticSettings(pages=10_000, days=28), 1), 28).mean(0)
    working = np.arange(28) % 7 < 5
    assert 0.34 < changed[working].mean() < 0.42
    assert changed[~working].max() < changed[working].min()


LARGE: Final = SyntheticSettings(pages=20_000)


@pytest.fixture(scope="module")
def sites() -> Sites:
    return draw_sites(LARGE, np.random.default_rng(3))


def test_every_host_has_pages_and_few_have_many(sites: Sites) -> None:
    assert np.array_equal(np.unique(sites.host), np.arange(LARGE.hosts))
    sizes = np.sort(np.bincount(sites.host[sites.prefix]))[::-1]
    assert sizes[-1] >= 1
    assert sizes[: LARGE.hosts // 10].sum() > LARGE.pages * 0.3
    assert np.median(sizes) < LARGE.pages_per_host / 1.5


def test_prefixes_are_runs_of_pages_within_a_host(sites: Sites) -> None:
    assert np.array_equal(np.repeat(np.arange(sites.host.size), np.diff(sites.offsets)), sites.prefix)
    assert np.all(np.diff(sites.host) >= 0)
    assert np.diff(sites.offsets).min() >= 1
    # A host begins a prefix too: so they are shorter than 24 pages, and never longer on average.
    assert 12 < LARGE.pages / sites.host.size < LARGE.pages_per_prefix


def test_shares_of_kinds_are_met_to_within_a_prefix_each(sites: Sites) -> None:
    counts = np.bincount(sites.kinds(), minlength=len(KINDS))
    longest = np.diff(sites.offsets).max()
    assert np.all(np.abs(counts - np.array(LARGE.shares) * LARGE.pages) <= longest)
    assert [sites.pages(kind).size for kind in KINDS] == counts.tolist()


def test_a_kind_without_a_share_has_no_page() -> None:
    settings = SyntheticSettings(pages=500, poisson=0, weekday=1, clock=0, bursty=0, dead=0)
    assert set(draw_sites(settings, np.random.default_rng(0)).kinds()) == {KINDS.index("weekday")}


@pytest.mark.parametrize(("accord", "least", "most"), [(0.0, 0.2, 0.4), (1.0, 0.95, 1.0)])
def test_prefixes_go_with_their_host_as_often_as_asked(accord: float, least: float, most: float) -> None:
    """Two prefixes of a host agree by chance with the sum of the squared shares, 0.3; in full accord but at a cut."""
    settings = SyntheticSettings(pages=20_000, host_accord=accord)
    sites = draw_sites(settings, np.random.default_rng(1))
    neighbours = np.flatnonzero(sites.host[1:] == sites.host[:-1])
    assert least < np.mean(sites.kind[neighbours] == sites.kind[neighbours + 1]) <= most


def test_urls_are_distinct_and_spell_host_and_prefix(sites: Sites) -> None:
    urls = list(make_urls(LARGE, sites, np.random.default_rng(0)))
    assert len(set(urls)) == LARGE.pages
    assert all(re.fullmatch(r"https://site\d{3}\.example/[a-z]{4}-\d+/\d+\.html", url) for url in urls)
    hosts = [url.split("/")[2] for url in urls]
    assert len(set(hosts)) == LARGE.hosts
    prefixes = ["/".join(url.split("/")[:4]) for url in urls]
    assert len(set(prefixes)) == sites.host.size
    spelled = np.unique(prefixes, return_inverse=True)[1]
    assert np.array_equal(spelled[1:] == spelled[:-1], np.diff(sites.prefix) == 0)


def test_one_page_makes_a_site() -> None:
    settings = SyntheticSettings(pages=1)
    sites = draw_sites(settings, np.random.default_rng(0))
    assert re.fullmatch(
        r"https://site0\.example/[a-z]{4}-0/0\.html", make_urls(settings, sites, np.random.default_rng(0))[0]
    )


HOUR: Final = 3_600
NONE: Final = dict.fromkeys(KINDS, 0.0)


def all_of(kind: str, pages: int = 4_000, days: int = 28, **settings: float) -> SyntheticSettings:
    return SyntheticSettings(pages=pages, days=days, **{**NONE, kind: 1.0, **settings})  # type: ignore[arg-type]


def draw(settings: SyntheticSettings, kind: str, seed: int = 0) -> tuple[Sites, Changes]:
    sites = draw_sites(settings, np.random.default_rng(seed))
    return sites, CHANGE_PROCESSES[kind](settings, sites, sites.pages(kind), np.random.default_rng(seed + 1))


def within(settings: SyntheticSettings, changes: Changes) -> Changes:
    pages, seconds = changes
    kept = (seconds >= 0) & (seconds < settings.span_s)
    return pages[kept], seconds[kept]


def local(settings: SyntheticSettings, seconds: Ints) -> Ints:
    """Local seconds since a Monday's midnight, where the log begins at one in UTC."""
    return seconds + int(settings.zone_hours * HOUR)


def test_poisson_rates_have_the_mean_asked_for() -> None:
    """Within 4 standard errors, of which the hosts' unequal sizes make the most."""
    settings = all_of("poisson", pages=40_000, rate_per_day=0.5)
    sites = draw_sites(settings, np.random.default_rng(0))
    rates = draw_rates(settings, sites, np.arange(settings.pages), np.random.default_rng(1))
    shares = np.bincount(sites.host[sites.prefix]) / settings.pages
    error = 0.5 * np.sqrt((np.exp(settings.host_spread**2) - 1) * np.sum(shares**2))
    assert error < 0.15
    assert rates.mean() == pytest.approx(0.5, abs=4 * error)


def test_poisson_pages_of_a_host_and_of_a_prefix_are_alike() -> None:
    settings = all_of("poisson", pages=40_000)
    sites = draw_sites(settings, np.random.default_rng(0))
    logs = np.log(draw_rates(settings, sites, np.arange(settings.pages), np.random.default_rng(1)))

    def correlation(apart: Ints) -> float:
        """Of pages next to each other, those at the places `apart`."""
        return float(np.corrcoef(logs[apart], logs[apart + 1])[0, 1])

    one_prefix = sites.prefix[1:] == sites.prefix[:-1]
    host = sites.host[sites.prefix]
    one_host = host[1:] == host[:-1]
    assert correlation(np.flatnonzero(one_prefix)) > correlation(np.flatnonzero(one_host & ~one_prefix)) + 0.1
    assert correlation(np.flatnonzero(one_host & ~one_prefix)) > correlation(np.flatnonzero(~one_host)) + 0.2
    assert abs(correlation(np.flatnonzero(~one_host))) < 0.1


def test_poisson_changes_come_at_the_rates_drawn_and_at_any_time() -> None:
    settings = all_of("poisson", rate_per_day=2.0)
    sites = draw_sites(settings, np.random.default_rng(0))
    rates = draw_rates(settings, sites, np.arange(settings.pages), np.random.default_rng(1))
    pages, seconds = CHANGE_PROCESSES["poisson"](settings, sites, np.arange(settings.pages), np.random.default_rng(1))
    counts = np.bincount(pages, minlength=settings.pages)
    excess = (counts - rates * settings.days) / np.sqrt(rates * settings.days)
    assert abs(excess.mean()) < 4 / np.sqrt(settings.pages)
    assert np.var(excess) == pytest.approx(1, abs=0.15)
    hours = np.bincount(seconds // HOUR % 24, minlength=24)
    assert np.all(np.abs(hours - hours.mean()) < 5 * np.sqrt(hours.mean()))


@pytest.mark.parametrize("zone", [-3.0, 0.0, 5.5, 14.0])
def test_weekday_pages_never_change_on_weekends(zone: float) -> None:
    settings = all_of("weekday", zone_hours=zone)
    pages, seconds = within(settings, draw(settings, "weekday")[1])
    weekdays = np.bincount(local(settings, seconds) // DAY % 7, minlength=7)
    assert np.all(weekdays[:5] > 0.1 * pages.size)
    assert weekdays[5:].tolist() == [0, 0]


def test_weekday_pages_change_at_most_once_a_day_with_the_chance_asked_for() -> None:
    settings = all_of("weekday", office_share=1.0, weekday_chance=0.7, zone_hours=0.0)
    pages, seconds = within(settings, draw(settings, "weekday")[1])
    days = pages * settings.days + seconds // DAY
    assert np.unique(days).size == days.size
    working_days = settings.pages * settings.days * 5 / 7
    assert days.size / working_days == pytest.approx(0.7, abs=4 * np.sqrt(0.7 * 0.3 / working_days))


def test_weekday_pages_change_in_office_hours_or_at_their_prefix_hour() -> None:
    settings = all_of("weekday", fixed_hour_share=0.0)
    _, seconds = within(settings, draw(settings, "weekday")[1])
    hours = local(settings, seconds) % DAY / HOUR
    assert 8 <= hours.min() < 8.1
    assert 18.9 < hours.max() < 19

    fixed = replace(settings, fixed_hour_share=1.0)
    sites, changes = draw(fixed, "weekday")
    pages, seconds = changes
    clock = local(fixed, seconds) % DAY
    first = np.full(sites.host.size, DAY)
    last = np.zeros(sites.host.size, np.int64)
    np.minimum.at(first, sites.prefix[pages], clock)
    np.maximum.at(last, sites.prefix[pages], clock)
    assert np.all(last - first <= fixed.jitter_s)
    assert np.unique(first // HOUR).size == 24


def test_pages_off_office_weeks_keep_to_their_prefix_days() -> None:
    settings = all_of("weekday", office_share=0.0)
    sites, changes = draw(settings, "weekday")
    pages, seconds = within(settings, changes)
    seen = np.zeros((sites.host.size, 7), np.bool_)
    seen[sites.prefix[pages], local(settings, seconds) // DAY % 7] = True
    assert set(seen.sum(1)) == {1, 2, 3}


def test_clock_pages_change_daily_or_hourly_at_their_minute() -> None:
    settings = all_of("clock", hourly_share=0.5, clock_chance=0.9, jitter_s=60)
    sites, changes = draw(settings, "clock")
    pages, seconds = within(settings, changes)
    counts = np.bincount(pages, minlength=settings.pages)
    hourly = counts > 2 * settings.days
    assert 0.3 < np.mean(hourly[sites.offsets[:-1]]) < 0.7
    assert np.mean(counts[~hourly]) == pytest.approx(0.9 * settings.days, rel=0.01)
    assert np.mean(counts[hourly]) == pytest.approx(0.9 * settings.days * 24, rel=0.01)
    for kind, period in ((hourly, HOUR), (~hourly, DAY)):
        page = np.flatnonzero(kind)[0]
        own = np.sort(seconds[pages == page])
        late = (own - own[0]) % period
        assert np.all((late <= 60) | (late >= period - 60))
        assert {round(gap) for gap in np.diff(own) / period} <= set(range(1, 8))


def stretches(busy: Bools, state: bool) -> Ints:
    """How long each whole stretch of days in `state` is: those that touch no edge of the log."""
    padded = np.full((busy.shape[0], busy.shape[1] + 2), not state)
    padded[:, 1:-1] = busy
    row, edge = np.nonzero(padded[:, 1:] != padded[:, :-1])
    begin, end = edge[:-1], edge[1:]
    whole = (row[:-1] == row[1:]) & (begin > 0) & (end < busy.shape[1])
    whole &= busy[row[:-1], np.minimum(begin, busy.shape[1] - 1)] == state
    return np.asarray(end[whole] - begin[whole])


@pytest.mark.parametrize(("regularity", "spread"), [(1.0, 0.87), (400.0, 0.05)])
def test_bursts_and_quiet_stretches_take_turns(regularity: float, spread: float) -> None:
    """At 20 changes a day in a burst, a day without one is quiet: lengths can be read off."""
    settings = all_of(
        "bursty", days=400, pages=500, burst_days=8.0, quiet_days=12.0, burst_rate=20.0, burst_regularity=regularity
    )
    pages, seconds = draw(settings, "bursty")[1]
    busy = np.zeros((settings.pages, settings.days), np.bool_)
    busy[pages, seconds // DAY] = True
    assert busy.mean() == pytest.approx(0.4, abs=0.02)
    assert pages.size / busy.sum() == pytest.approx(20, rel=0.01)
    for state, mean in ((True, 8.0), (False, 12.0)):
        lengths = stretches(busy, state)
        assert lengths.mean() == pytest.approx(mean, rel=0.05)
        assert lengths.std() / mean == pytest.approx(spread, abs=0.06)


def test_bursts_have_any_age_where_the_log_begins() -> None:
    settings = all_of("bursty", pages=20_000, days=10, burst_days=4.8, quiet_days=1.2, burst_rate=20.0)
    pages, seconds = draw(settings, "bursty")[1]
    busy = np.zeros((settings.pages, settings.days), np.bool_)
    busy[pages, seconds // DAY] = True
    assert np.all(np.abs(busy.mean(0) - 0.8) < 0.02)


def test_bulk_edits_hit_most_pages_of_a_living_prefix_at_once() -> None:
    settings = SyntheticSettings(pages=4_000, days=100, bulk_edits_per_day=0.02, bulk_reach=0.8, bulk_s=600)
    sites = draw_sites(settings, np.random.default_rng(0))
    pages, seconds = draw_bulk_edits(settings, sites, np.random.default_rng(1))
    dead = KINDS.index("dead")
    assert not np.any(sites.kinds()[pages] == dead)
    living = np.flatnonzero(sites.kind != dead)
    expected = np.diff(sites.offsets)[living].sum() * 0.02 * 100 * 0.8
    assert pages.size == pytest.approx(expected, rel=0.15)
    prefix = np.diff(sites.offsets).argmax()
    own = np.sort(seconds[sites.prefix[pages] == prefix])
    assert own.size > 20
    gaps = np.diff(own)
    assert np.count_nonzero(gaps > 600) <= 8


def test_no_bulk_edits_unless_asked_for() -> None:
    settings = SyntheticSettings(pages=500)
    sites = draw_sites(settings, np.random.default_rng(0))
    pages, seconds = draw_bulk_edits(settings, sites, np.random.default_rng(1))
    assert (pages.size, seconds.size) == (0, 0)
