"""Profiles are close to the true intensities, as far as visits can show them.

The stated error: its root mean square is at most `_MARGIN` times that of the best unbiased estimate from the same
visits (`intensities.least_variance`) and a tenth of the pattern's own spread together, of single hours, of days and of
hours of the day. The tenth allows for counts that were spread by earlier, less accurate profiles, which decay within
eight weeks; it is a quarter if pages change so often that most intervals have a change.
"""

from __future__ import annotations

import numpy as np
import pytest

from streamsched import Scheduler
from streamsched.estimation.seasonality.group_profiles import most_profiles
from streamsched.estimation.seasonality.profile_fit import EARN_CHANGES
from streamsched.estimation.seasonality.regions import TimeRegion
from streamsched.numerics.arrays import Floats
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.records.seasonality_schema import NO_GROUP, WEEK_HOURS
from streamsched.records.url_patterns import group_names
from tests.reference.seasonality import utc
from tests.support.cases import how_many
from tests.support.intensities import (
    DAYS,
    HOURS,
    TIMES,
    Clock,
    least_variance,
    merge,
    office,
    phase,
    phase_error,
    published,
    size,
    tides,
    visit,
)

_MARGIN = 1.5  # of seven days' means, the root mean square alone varies by a quarter


SWITCHES = [  # a zone, when its clocks are changed, and hours ahead of UTC before and after
    ("Europe/Berlin", utc(2024, 3, 31, 1), 1.0, 2.0),
    ("America/New_York", utc(2024, 11, 3, 6), -4.0, -5.0),
    ("Australia/Sydney", utc(2024, 4, 6, 16), 11.0, 10.0),
    ("Asia/Kolkata", utc(2024, 10, 27, 1), 5.5, 5.5),
    ("Europe/Berlin", utc(2024, 10, 27, 1), 2.0, 1.0),
    ("America/New_York", utc(2024, 3, 10, 7), -5.0, -4.0),
    ("Australia/Sydney", utc(2024, 10, 5, 16), 10.0, 11.0),
    ("Asia/Shanghai", utc(2024, 3, 31, 1), 8.0, 8.0),
]


def urls_of(*hosts: str, pages: int) -> PackedUrls:
    return PackedUrls.pack([f"https://{hosts[i % len(hosts)]}/{i}" for i in range(pages)])


def rates(rng: np.random.Generator, pages: int, per_day: float) -> Floats:
    return np.asarray(rng.gamma(4.0, per_day / 4, pages))


def apart(hours: float, pages: int) -> Floats:
    """Hours between two visits of each page; 0 for a mix of 1, 6 and 24."""
    return np.resize([hours] if hours else [1.0, 6.0, 24.0], pages)


def errors(found: Floats, true: Floats, least: Floats, behind: float = 0.1) -> dict[str, float]:
    """Errors relative to the stated bounds."""
    parts = {"hours": HOURS, "days": DAYS, "times": TIMES}
    stated = {
        name: _MARGIN * np.sqrt(np.trace(part @ least @ part.T) / len(part) + (behind * size(part @ true - 1.0)) ** 2)
        for name, part in parts.items()
    }
    return {name: float(size(part @ (found - true)) / stated[name]) for name, part in parts.items()}


@pytest.mark.parametrize(
    ("true", "hours", "pages", "per_day", "behind"),
    [
        (office(), 1, 120, 1, 0.1),
        (office(), 6, 300, 1, 0.1),
        (office(), 0, 180, 1, 0.1),
        (office(), 6, 120, 4, 0.25),
        (tides(), 0, 180, 1, 0.1),
    ],
)
def test_hours_and_days_are_recovered(true: Floats, hours: int, pages: int, per_day: float, behind: float) -> None:
    """By visits an hour apart, six hours, an hour to a day, and six hours for pages that change as often."""
    rng = np.random.default_rng(3)
    per = rates(rng, pages, per_day)
    visits = visit(rng, true, per, apart(hours, pages))
    scheduler = Scheduler()
    scheduler.observe(visits.batch(urls_of("a.example", "b.example", pages=pages)))
    found = published(scheduler, 0)
    assert found.mean() == pytest.approx(1.0, abs=1e-3)
    assert max(errors(found, true, least_variance(visits, true, per), behind).values()) < 1.0


@pytest.mark.parametrize("true", [office(), tides()], ids=["office", "tides"])
def test_days_are_recovered_from_visits_a_day_apart(true: Floats) -> None:
    """Such visits say so little about hours of the day that none are learned."""
    rng = np.random.default_rng(4)
    pages = 600
    per = rates(rng, pages, 0.3)
    visits = visit(rng, true, per, apart(24, pages))
    scheduler = Scheduler()
    scheduler.observe(visits.batch(urls_of("a.example", pages=pages)))
    found, least = published(scheduler, 0), least_variance(visits, true, per)
    assert errors(found, true, least)["days"] < 1.0
    assert np.trace(TIMES @ least @ TIMES.T) / 24 > size(TIMES @ true - 1.0) ** 2  # nobody could
    assert size(TIMES @ found - 1.0) < 0.1 * size(TIMES @ true - 1.0)


def test_even_pages_have_an_even_profile() -> None:
    rng = np.random.default_rng(5)
    visits = visit(rng, np.ones(WEEK_HOURS), np.full(200, 0.5), apart(8, 200))
    scheduler = Scheduler()
    scheduler.observe(visits.batch(urls_of("a.example", pages=200)))
    assert np.abs(published(scheduler, 0) - 1.0).max() < 0.05


def test_regions_are_recovered_each_by_its_own_clock() -> None:
    """The same local hours in the east and in the west, so the corpus has them, too."""
    zones = {"east": TimeRegion(("jp", "in"), "Asia/Kolkata"), "west": TimeRegion(("us",), "America/New_York")}
    scheduler = Scheduler(regions=zones)
    rng = np.random.default_rng(6)
    per = rates(rng, 100, 1.0)
    clocks = {"a.in": Clock(5.5), "a.us": Clock(-5.0)}  # from January to February: no summer time
    of_both = {host: visit(rng, office(), per, apart(4, 100), clock=clock) for host, clock in clocks.items()}
    scheduler.observe(merge([(visits, urls_of(host, pages=100)) for host, visits in of_both.items()]))
    for number, (host, visits) in enumerate(of_both.items(), 1):
        least = least_variance(visits, office(), per, clocks[host])
        for found in (published(scheduler, number), published(scheduler, 0)):
            assert max(errors(found, office(), least).values()) < 1.0
            assert abs(phase(found) - phase(office())) < 3 * phase_error(office(), least) < 0.5


@pytest.mark.longer
@pytest.mark.parametrize(("zone", "switch_s", "ahead", "then"), SWITCHES[: how_many(4, 8)])
def test_local_hours_are_recovered_where_clocks_are_changed(
    zone: str, switch_s: float, ahead: float, then: float
) -> None:
    """From four weeks before to four after: without the change, or with it twice, all would be half an hour off."""
    start_s = utc(2024, 1, 1) + (switch_s - utc(2024, 1, 1)) // (7 * 86_400) * 7 * 86_400 - 28 * 86_400
    clock = Clock(ahead, (switch_s - start_s) / 3_600, then)
    rng = np.random.default_rng(10)
    per = rates(rng, 150, 1.0)
    visits = visit(rng, office(), per, apart(3, 150), clock=clock)
    scheduler = Scheduler(regions={"there": TimeRegion(("example",), zone)})
    scheduler.observe(visits.batch(urls_of("a.example", pages=150), start_s))
    found, least = published(scheduler, 1), least_variance(visits, office(), per, clock)
    assert max(errors(found, office(), least).values()) < 1.0
    assert abs(phase(found) - phase(office())) < 3 * phase_error(office(), least) < 0.3


def test_hosts_are_recovered_each_by_itself() -> None:
    scheduler = Scheduler()
    rng = np.random.default_rng(7)
    per = rates(rng, 120, 1.0)
    of_both = []
    for host, true in (("a.example", office()), ("b.example", np.roll(office(), 12))):
        visits = visit(rng, true, per, apart(6, 120))
        of_both.append((visits, urls_of(host, pages=120), true, least_variance(visits, true, per)))
    scheduler.observe(merge([(visits, urls) for visits, urls, _, _ in of_both]))
    for number, (_, _, true, least) in zip(profiles_of(scheduler, "ab"), of_both, strict=True):
        assert max(errors(published(scheduler, number), true, least).values()) < 1.0


def profiles_of(scheduler: Scheduler, letters: str) -> list[int]:
    """The profiles of the hosts that begin with each letter."""
    shard = scheduler.core.pages.arrays
    owners = shard.seasonality.profiles["group"][: int(shard.seasonality.state["profiles"][0])]
    assert np.all(shard.groups.records["changes"][owners[owners != NO_GROUP]] >= EARN_CHANGES)
    names = {
        group_names(shard.groups, np.array([owner]))[0][0]: number
        for number, owner in enumerate(owners)
        if owner != NO_GROUP
    }
    return [names[letter] for letter in letters]


def swayed(pages: int, true: Floats) -> tuple[float, Floats, Floats]:
    """How far a host's profile moves from the corpus' to its own, beside a host of 120 pages with office hours.

    And both profiles.
    """
    rng = np.random.default_rng(8)
    wide = visit(rng, office(), rates(rng, 120, 1.0), apart(6, 120))
    own = visit(rng, true, np.ones(pages), apart(6, pages))
    scheduler = Scheduler()
    scheduler.observe(merge([(wide, urls_of("a.example", pages=120)), (own, urls_of("b.example", pages=pages))]))
    above, found = published(scheduler, 0), published(scheduler, profiles_of(scheduler, "b")[0])
    return float((found - above) @ (true - above) / ((true - above) @ (true - above))), found, above


def test_a_host_of_few_changes_goes_by_what_is_above_it() -> None:
    """80 changes, half a change per hour: if they differ by chance alone, and even if not."""
    way, found, above = swayed(2, office())
    assert size(found - above) < 0.02
    way, found, above = swayed(2, np.roll(office(), 12))
    assert way < 0.05


def test_a_host_goes_its_own_way_as_far_as_its_changes_tell() -> None:
    ways = [swayed(pages, np.roll(office(), 12))[0] for pages in (2, 10, 40)]
    assert ways == sorted(ways)
    assert 0.05 < ways[1] < 0.5
    assert ways[2] > 0.5


def test_hosts_earn_profiles_below_their_regions() -> None:
    scheduler = Scheduler()
    rng = np.random.default_rng(9)
    visits = visit(rng, office(), np.ones(20), apart(6, 20))
    scheduler.observe(visits.batch(urls_of("a.jp", "b.fr", pages=20)))
    numbers = profiles_of(scheduler, "ab")
    assert scheduler.core.pages.arrays.seasonality.profiles["region"][numbers].tolist() == [1, 2]


def test_profiles_are_few_beside_pages() -> None:
    assert most_profiles(10_000_000) * 12_000 <= 6 * 10_000_000
