"""Synthetic corpora as change logs."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import pytest

from streamsched.numerics.arrays import Bools
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
