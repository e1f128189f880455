"""Related pages, and pages that are independent although their names are related."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from streamsched import OutcomeBatch, PackedUrls, Scheduler
from streamsched.estimation.related_pages import WEAK_CLAIM
from streamsched.numerics.arrays import Bools, Floats, Ints
from streamsched.reasons import ReasonCode
from streamsched.records.related_schema import (
    AS_KIND,
    KEY_BITS,
    RESTING,
    SAME_DIRECTORY,
    SAME_NAME,
    SHARE_BITS,
    SHARE_UNIT,
)
from tests.support.intensities import HOUR, MONDAY_S
from tests.support.intensities import visit as visit_hourly

DAY = 86_400.0
VERSIONS = ("5.1", "7.4", "7.5", "7.6")
PAGES = 120


def visit(scheduler: Scheduler, urls: list[str], day: float, changed: object = False) -> None:
    flags = np.broadcast_to(np.asarray(changed, np.bool_), len(urls))
    scheduler.observe(OutcomeBatch(urls, np.full(len(urls), day * DAY + 1.0), changed=flags))


def claims(scheduler: Scheduler, urls: list[str]) -> Floats:
    """The probability of each page that it has followed a related page."""
    table = scheduler.core.pages
    found = table.arrays.seasonality.links["related"][table.find(PackedUrls.pack(urls))] & SHARE_BITS
    return np.asarray(1.0 - np.prod(1.0 - SHARE_UNIT * found.astype(np.float64), axis=1))


def keys_of(scheduler: Scheduler, urls: list[str]) -> list[list[bool]]:
    """Whether each page shares a name, a first token, a directory with others."""
    table = scheduler.core.pages
    rows = table.find(PackedUrls.pack(urls))
    members: list[list[bool]] = ((table.arrays.seasonality.links["related"][rows] & KEY_BITS) != 0).tolist()
    return members


def docs(names: int = 100) -> list[str]:
    """Pages of the same names in four versions, each version in a directory of many pages."""
    return [f"https://a.example/{version}/item{i}" for version in VERSIONS for i in range(names)]


def known(urls: list[str]) -> Scheduler:
    scheduler = Scheduler(cycle="1d", max_ahead=None)
    visit(scheduler, urls, 0.0)
    return scheduler


def test_change_concerns_pages_of_the_same_name_until_their_next_visits() -> None:
    urls = docs()
    scheduler = known(urls)
    scheduler.discover([f"https://a.example/8/item{i}" for i in range(100)], now=0.5 * DAY)
    visit(scheduler, [urls[7]], 1.0, changed=True)
    concerned = np.flatnonzero(claims(scheduler, urls)).tolist()
    assert concerned == [107, 207, 307]
    np.testing.assert_allclose(claims(scheduler, urls)[concerned], 0.1, atol=1e-4)
    assert claims(scheduler, ["https://a.example/8/item7"]) == 0.0  # never visited
    visit(scheduler, [urls[107]], 2.0)
    assert np.flatnonzero(claims(scheduler, urls)).tolist() == [207, 307]


def test_visit_without_change_and_failed_visits_make_no_claims() -> None:
    urls = docs()
    scheduler = known(urls)
    visit(scheduler, urls[:50], 1.0)
    scheduler.observe(OutcomeBatch([urls[7]], [2 * DAY], status=[503]))
    assert not np.any(claims(scheduler, urls))


def test_two_changes_claim_more_than_one_and_a_follower_claims_less() -> None:
    urls = docs()
    scheduler = known(urls)
    visit(scheduler, [urls[7]], 1.0, changed=True)
    one = claims(scheduler, urls)[207]
    visit(scheduler, [urls[107]], 1.0, changed=True)
    two = claims(scheduler, urls)[207]
    assert one < two < 1.0 - (1.0 - one) ** 2 + 0.05


def test_chance_is_learned_from_the_visits_that_follow() -> None:
    """A fifth of the names changes each week. The other pages show that neither their rates nor surges explain it."""
    urls = docs()
    names = np.tile(np.arange(100), 4)
    together, apart = known(urls), known(urls)
    for week in range(1, 30):
        hit = names % 5 == week * 2 % 5
        first = np.repeat(np.arange(4), 100) == week % 4
        for scheduler, follows in ((together, True), (apart, False)):
            visit(scheduler, urls[100 * (week % 4) : 100 * (week % 4 + 1)], 7.0 * week, hit[first])
            visit(scheduler, [urls[i] for i in np.flatnonzero(~first)], 7.0 * week + 1.0, hit[~first] & follows)
    for scheduler in (together, apart):
        visit(scheduler, [urls[7]], 300.0, changed=True)
    assert claims(together, urls)[107] > 0.6
    assert claims(apart, urls)[107] < 0.05


@pytest.mark.parametrize("share", [0.0, 0.2, 0.7, 0.95])
def test_what_is_predicted_with_claims_comes_true(share: float) -> None:
    """An edit changes each version of a page with probability `share`; versions also change by themselves.

    The probability predicted includes the page's own rate: a claim is a part of it. With 200 visits or more in a mean,
    0.06 is more than chance makes of it, and a fifth of what claims add where edits are shared.
    """
    rng = np.random.default_rng(3)
    urls = docs(300)
    scheduler = known(urls)
    rows = scheduler.core.pages.find(PackedUrls.pack(urls))
    current = np.ones(len(urls), np.bool_)
    found: list[tuple[float, float, bool]] = []
    for day in range(1, 300):
        edits = np.tile(rng.random(300) < 0.01, 4)
        current &= ~(edits & (rng.random(1200) < share)) & (rng.random(1200) >= 0.005)
        some = np.sort(rng.choice(1200, 120, replace=False))
        batch = [urls[i] for i in some]
        if day > 100:
            predicted = scheduler.core.batch_builder.change_probabilities(day * DAY, rows[some])
            found += zip(claims(scheduler, batch), predicted, ~current[some], strict=True)
        visit(scheduler, batch, float(day), ~current[some])
        current[some] = True
    claimed, predicted, came = map(np.array, zip(*found, strict=True))
    assert np.mean(came[claimed == 0.0]) == pytest.approx(np.mean(predicted[claimed == 0.0]), abs=0.02)
    order = np.argsort(np.where(claimed > 0.0, predicted, -1.0))[-np.count_nonzero(claimed) :]
    for part in np.array_split(order, 3 if share else 1):  # keys of pages that change apart hardly claim
        assert part.size > 200
        assert np.mean(came[part]) == pytest.approx(np.mean(predicted[part]), abs=0.06)
    if share >= 0.7:
        assert np.mean(came[order]) > np.mean(came[claimed == 0.0]) + 0.2


@pytest.mark.parametrize(("alone", "share"), [(0.1, 0.0), (0.005, 0.8)])
def test_keys_of_pages_that_change_apart_rest(alone: float, share: float) -> None:
    """A page changes by itself with probability `alone` a day; one day in ten, `share` of the pages of a name do.

    A page's own changes that no other follows let a key rest for a while, even if most pages follow most changes.
    """
    rng = np.random.default_rng(4)
    urls = [f"https://a.example/{part}/name{i}" for i in range(30) for part in range(20)]
    scheduler = known(urls)
    for day in range(1, 201):
        changed = rng.random(600) < alone
        changed |= np.repeat(rng.random(30) < 0.1, 20) & (rng.random(600) < share)
        order = rng.permutation(600)
        times = (day + np.sort(rng.random(600))) * DAY
        scheduler.observe(OutcomeBatch([urls[i] for i in order], times, changed=changed[order]))
    arrays = scheduler.core.pages.arrays
    known_keys = arrays.seasonality.links["related"][:600] & KEY_BITS
    state = arrays.related.state[0]
    kinds_rest = (1.0 + state["followed"]) / (10.0 + state["followed"] + state["failed"]) < WEAK_CLAIM
    resting = np.mean((known_keys == RESTING) | ((known_keys == AS_KIND) & kinds_rest), axis=0)
    assert resting[SAME_DIRECTORY] > 0.5
    assert resting[SAME_NAME] > 0.5 if share == 0.0 else resting[SAME_NAME] < 0.25


def test_names_of_more_than_64_pages_are_lengthened() -> None:
    recipes = [f"https://b.example/{part}/python-{i}/Makefile" for part in ("lang", "net") for i in range(30)]
    others = [f"https://b.example/libs/lib{i}/Makefile" for i in range(40)]
    scheduler = known(recipes)
    assert all(keys[0] for keys in keys_of(scheduler, recipes))
    visit(scheduler, others, 0.0)
    assert all(keys[0] for keys in keys_of(scheduler, recipes))  # lang/python-3/Makefile and net/python-3/Makefile
    assert all(keys[1] for keys in keys_of(scheduler, recipes))  # python
    assert not any(keys[0] or keys[1] for keys in keys_of(scheduler, others))
    visit(scheduler, recipes[3:4], 1.0, changed=True)
    assert np.all(claims(scheduler, recipes)[np.arange(60) != 3] > 0.0)
    assert scheduler.core.pages.faults() == []


def test_directories_of_up_to_64_pages_are_groups() -> None:
    small = [f"https://c.example/s/{i:03d}" for i in range(64)]
    large = [f"https://c.example/l/{1000 + i}" for i in range(65)]
    scheduler = known(small + large)
    visit(scheduler, [small[0], large[0]], 1.0, changed=True)
    assert np.all(claims(scheduler, small[1:]) > 0.0)
    assert not np.any(claims(scheduler, large))


def test_state_is_the_same_however_the_stream_is_cut_and_after_loading(tmp_path: Path) -> None:
    urls = docs(40)
    rng = np.random.default_rng(5)
    rows: Ints = np.concatenate([np.arange(160), rng.integers(0, 160, 600)])
    changed: Bools = rng.random(760) < 0.3
    times = np.sort(rng.random(760)) * 60 * DAY
    whole, cut = (Scheduler(cycle="1d", max_ahead=None) for _ in range(2))
    whole.observe(OutcomeBatch([urls[i] for i in rows], times, changed=changed))
    for at in range(0, 760, 37):
        part = slice(at, at + 37)
        for _ in range(2):  # repeated outcomes change nothing
            cut.observe(OutcomeBatch([urls[i] for i in rows[part]], times[part], changed=changed[part]))
    assert np.count_nonzero(claims(whole, urls)) > 20
    assert whole.digest() == cut.digest()
    cut.save(tmp_path)
    loaded = Scheduler.load(tmp_path)
    assert loaded.digest() == whole.digest()
    assert loaded.core.pages.faults() == []
    for scheduler in (whole, loaded):
        visit(scheduler, [*urls[5:9], "https://a.example/9/item5"], 70.0, changed=True)
    assert loaded.digest() == whole.digest()
    np.testing.assert_array_equal(loaded.rank(k=160, now=71 * DAY).rows, whole.rank(k=160, now=71 * DAY).rows)


def test_without_surges_nothing_is_claimed() -> None:
    urls = docs()
    scheduler = Scheduler(cycle="1d", surges=False, max_ahead=None)
    visit(scheduler, urls, 0.0)
    visit(scheduler, [urls[7]], 1.0, changed=True)
    assert not np.any(claims(scheduler, urls))


def test_explanation_names_the_keys() -> None:
    urls = docs()
    scheduler = known(urls)
    visit(scheduler, [urls[7]], 1.0, changed=True)
    reasons = {reason.code: reason.fields for reason in scheduler.explain(urls[107], now=2 * DAY).reasons}
    fields = reasons[ReasonCode.RELATED_CHANGED]
    assert fields["keys"] == ["name"]
    assert fields["probability"] == pytest.approx(0.1, abs=1e-4)
    assert ReasonCode.RELATED_CHANGED not in {one.code for one in scheduler.explain(urls[8], now=2 * DAY).reasons}


@pytest.mark.parametrize(("per_day", "hours"), [(4.0, 6.0), (4.0, 1.0), (1.0, 6.0), (0.3, 24.0)])
def test_rates_are_learned_beside_claims(per_day: float, hours: float) -> None:
    """Within a tenth on average: chance alone makes a hundredth or two, as there are 2,000 changes or more."""
    rng = np.random.default_rng(3)
    rates = rng.gamma(4.0, per_day / 4, PAGES)
    visits = visit_hourly(rng, np.ones(168), rates, np.full(PAGES, hours))
    urls = PackedUrls.pack([f"https://{'ab'[page % 2]}.example/{page}" for page in range(PAGES)])
    scheduler = Scheduler(formula="rate")
    scheduler.observe(visits.batch(urls))
    learned = scheduler.score(list(urls), now=MONDAY_S + 57 * 24 * HOUR)
    assert np.mean(learned) == pytest.approx(rates.mean(), rel=0.1)
    assert np.corrcoef(learned, rates)[0, 1] > 0.9
