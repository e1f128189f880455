"""Profiles recover the intensities that pages change by, from visits that see only whether there was a change."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched import Scheduler
from streamsched.arrays import Floats
from streamsched.outcomes import OutcomeBatch
from streamsched.packed import PackedUrls
from streamsched.profiles import EARN_CHANGES, most_profiles
from streamsched.tables import ANYONE, WEEK_HOURS

HOUR = 3_600.0
MONDAY_S = 1_704_067_200.0  # 2024-01-01
WEEKS = 8


def office() -> Floats:
    """Three times as busy from 8 to 18 on working days, of mean 1."""
    hours = np.arange(WEEK_HOURS)
    busy = np.where((hours % 24 >= 8) & (hours % 24 < 18) & (hours // 24 < 5), 3.0, 0.6)
    return np.asarray(busy / busy.mean())


def crawl(scheduler: Scheduler, pages: int, profile: Floats, *, per_day: float, every_h: float, domain: str) -> None:
    """Visits at random times, `every_h` apart on average, to pages that change by `profile`."""
    rng = np.random.default_rng(3)
    urls = PackedUrls.pack([f"https://h{i % 4}.{domain}/{i}" for i in range(pages)])
    changes = rng.random((pages, WEEKS * WEEK_HOURS)) < -np.expm1(-per_day / 24 * np.tile(profile, WEEKS))
    total = np.concatenate([np.zeros((pages, 1), np.int64), np.cumsum(changes, axis=1)], axis=1)
    seen = np.zeros(pages, np.int64)
    for hour in range(0, WEEKS * WEEK_HOURS, 2):
        rows = np.flatnonzero(rng.random(pages) < 2 / every_h)
        at_s = np.full(rows.size, MONDAY_S + hour * HOUR)
        changed = total[rows, hour] > seen[rows]
        seen[rows] = total[rows, hour]
        scheduler.observe(OutcomeBatch(urls.take(rows), at_s, changed=changed))


def factors(scheduler: Scheduler, number: int) -> Floats:
    """What a profile has published last."""
    tables = scheduler.pages.tables
    age = int(tables.corpus["sweep"][0]) & 1
    told = tables.rhythm.profiles["told"][number].reshape(2, -1)[age].astype(np.float64)
    return np.asarray(np.diff(told) * WEEK_HOURS / told[-1])


@pytest.mark.parametrize(("per_day", "every_h"), [(1.0, 6.0), (6.0, 4.0)])
def test_profiles_recover_intensities(per_day: float, every_h: float) -> None:
    """Within a quarter of the mean on average, where visits are hours apart."""
    scheduler = Scheduler()
    crawl(scheduler, 400, office(), per_day=per_day, every_h=every_h, domain="example")
    found = factors(scheduler, 0)
    assert found.mean() == pytest.approx(1.0, abs=1e-3)
    assert np.abs(found - office()).mean() < 0.25
    busy = office() > 1.0
    assert found[busy].mean() > 2.0 * found[~busy].mean()


def test_weekdays_are_recovered_from_visits_a_day_apart() -> None:
    """Of the hours of the day such visits say little."""
    scheduler = Scheduler()
    crawl(scheduler, 400, office(), per_day=0.3, every_h=24.0, domain="example")
    found, true = (profile.reshape(7, 24).mean(axis=1) for profile in (factors(scheduler, 0), office()))
    assert np.abs(found - true).mean() < 0.35
    assert found[:5].min() > 1.5 * found[5:].max()


def test_even_pages_have_an_even_profile() -> None:
    scheduler = Scheduler()
    crawl(scheduler, 200, np.ones(WEEK_HOURS), per_day=0.5, every_h=8.0, domain="example")
    assert np.abs(factors(scheduler, 0) - 1.0).max() < 0.25


def test_regions_differ_and_hosts_earn_their_own() -> None:
    scheduler = Scheduler()
    crawl(scheduler, 100, office(), per_day=1.0, every_h=6.0, domain="jp")
    crawl(scheduler, 100, np.roll(office(), 9), per_day=1.0, every_h=6.0, domain="fr")
    tables = scheduler.pages.tables
    shifts = [
        int(np.argmax([np.dot(np.roll(office(), by), factors(scheduler, one)) for by in range(24)])) for one in (1, 2)
    ]
    assert shifts[0] in (23, 0, 1)
    assert shifts[1] in (8, 9, 10)
    owners = tables.rhythm.profiles["group"][: int(tables.rhythm.tempo["profiles"][0])]
    assert owners[:3].tolist() == [ANYONE] * 3
    assert np.all(tables.groups["changes"][owners[3:]] >= EARN_CHANGES)
    assert owners.size == 3 + 8  # the hosts


def test_profiles_are_few_beside_pages() -> None:
    assert most_profiles(10_000_000) * 12_000 <= 12 * 10_000_000
