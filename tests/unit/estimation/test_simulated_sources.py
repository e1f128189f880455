"""Sources of known precision and recall, on a simulated corpus whose visits the default formula chooses itself."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from streamsched import OutcomeBatch, Scheduler, SignalBatch, SourceReliability
from streamsched.numerics.arrays import Bools, Floats, Ints
from tests.support.outcome_streams import DAY

PAGES, DAYS, BATCH = 1_200, 150, 15  # four batches a day: 5 % of the pages
RECALL, LATE_DAYS = 0.7, 0.25
URLS = np.array([f"https://h{i % 3}.example/d{i % 7}/p{i}" for i in range(PAGES)])


@dataclass(frozen=True)
class Crawled:
    """What came of a crawl: stale pages, what batches predicted of their pages and what came, and the rows of kinds."""

    stale: float
    predicted: Floats
    came: Bools
    signalled: Bools
    kinds: tuple[SourceReliability, ...]

    @property
    def kind(self) -> SourceReliability | None:
        return self.kinds[0] if self.kinds else None


class World:
    """Pages with Poisson changes, half of them covered by a source."""

    def __init__(self, precision: float | None, *, floods: bool = False) -> None:
        self.rng = np.random.default_rng(11)
        self.rates = np.minimum(self.rng.gamma(0.5, 0.1, PAGES), 2.0)
        self.changes = [np.sort(self.rng.uniform(0, DAYS, self.rng.poisson(rate * DAYS))) for rate in self.rates]
        covered = np.flatnonzero(self.rng.random(PAGES) < 0.5)
        self.announced: list[tuple[float, int]] = []
        if floods:
            self.announced += [(day + 0.3, page) for day in range(DAYS) for page in covered.tolist()]
        elif precision is not None:
            self.announce(covered, float(self.rates[covered].mean()) * RECALL * (1.0 / precision - 1.0))
        self.announced.sort()

    def announce(self, covered: Ints, false_per_day: float) -> None:
        for page in covered.tolist():
            announced = self.changes[page][self.rng.random(self.changes[page].size) < RECALL]
            late = announced + self.rng.exponential(LATE_DAYS, announced.size)
            false = self.rng.uniform(0, DAYS, self.rng.poisson(false_per_day * DAYS))
            self.announced += [(at, page) for at in np.concatenate([late, false]).tolist()]

    def changed(self, pages: Ints, last: Floats, now: float) -> Bools:
        changes = [self.changes[page] for page in pages]
        return np.array([np.any((at > last[page]) & (at <= now)) for at, page in zip(changes, pages, strict=True)])


@cache
def crawl(precision: float | None, *, floods: bool = False, kinds: tuple[str, ...] = ("sitemap",)) -> Crawled:
    """Crawl a world; each signal comes at one time from each of `kinds`."""
    world, scheduler = World(precision, floods=floods), Scheduler(seed=3, host_share=None)
    scheduler.observe(OutcomeBatch(list(URLS), 1e-3 * np.arange(PAGES)))
    order, last = {url: page for page, url in enumerate(URLS.tolist())}, np.zeros(PAGES)
    at = np.repeat([at for at, _ in world.announced], len(kinds))
    about = np.repeat(np.array([about for _, about in world.announced], np.int64), len(kinds))
    kind = np.tile(kinds, len(world.announced))
    predicted, came, signalled, stale = list[Floats](), list[Bools](), list[Bools](), list[float]()
    for now in np.arange(1.0, DAYS, 0.25).tolist():
        new = (at > now - 0.25) & (at <= now)
        if np.any(new):
            scheduler.notice(SignalBatch(URLS[about[new]].tolist(), at[new] * DAY, kind[new].tolist()))
        batch = scheduler.next_batch(BATCH, now=now * DAY)
        pages = np.array([order[url] for url in batch.urls])
        found = world.changed(pages, last, now)
        if now > DAYS / 3:
            arrays = scheduler.core.pages.arrays
            predicted.append(scheduler.core.batch_builder.change_probabilities(now * DAY, batch.rows))
            came.append(found)
            signals = arrays.pages.signals
            signalled.append(signals["kinds"][batch.rows] != 0 if signals.size else np.zeros(pages.size, np.bool_))
            if now % 5 == 0:
                stale.append(float(world.changed(np.arange(PAGES), last, now).mean()))
        scheduler.observe(OutcomeBatch(batch.urls, np.full(pages.size, now * DAY), changed=found))
        last[pages] = now
    learned = tuple(source for source in scheduler.sources() if source.host is None)
    announced, saw, heard = np.concatenate(predicted), np.concatenate(came), np.concatenate(signalled)
    return Crawled(float(np.mean(stale)), announced, saw, heard, learned)


@pytest.mark.parametrize("precision", [0.7, 0.3])
def test_precision_recall_and_lateness_are_recovered(precision: float) -> None:
    kind = crawl(precision).kind
    assert kind is not None
    assert kind.precision == pytest.approx(precision, abs=0.08)
    assert kind.recall == pytest.approx(RECALL, abs=0.12)
    assert LATE_DAYS / 3 < kind.lateness_s / DAY < 3 * LATE_DAYS


@pytest.mark.parametrize("precision", [0.7, 0.3])
def test_probabilities_are_calibrated(precision: float) -> None:
    """As many visits find a change as was predicted; a source is believed less than it deserves while it is young."""
    crawled = crawl(precision)
    assert crawled.predicted.mean() == pytest.approx(crawled.came.mean(), abs=0.03)
    for group in (crawled.signalled, ~crawled.signalled):
        assert crawled.predicted[group].mean() == pytest.approx(crawled.came[group].mean(), abs=0.09)
    assert crawled.predicted[crawled.signalled].mean() < crawled.came[crawled.signalled].mean()


def test_two_copies_of_a_source_are_believed_as_one() -> None:
    """Each signal comes twice, of two kinds: both learn nearly what one learns; a change seems as likely."""
    one, two = crawl(0.1), crawl(0.1, kinds=("sitemap", "feed"))
    (alone,) = one.kinds
    assert [kind.kind for kind in two.kinds] == ["sitemap", "feed"]
    for kind in two.kinds:
        assert (kind.signals, kind.pages) == (alone.signals, alone.pages)
        assert kind.precision == pytest.approx(alone.precision, abs=0.03)
        assert kind.precision == pytest.approx(0.1, abs=0.05)
        assert kind.recall == pytest.approx(RECALL, abs=0.12)
    assert two.predicted.mean() < two.came.mean() + 0.015
    assert two.predicted.mean() - two.came.mean() == pytest.approx(one.predicted.mean() - one.came.mean(), abs=0.015)
    assert two.stale < 1.03 * one.stale


def test_a_source_that_is_mostly_right_leaves_fewer_stale_pages() -> None:
    assert crawl(0.7).stale < 0.92 * crawl(None).stale


def test_a_bad_source_and_a_flood_lose_nothing() -> None:
    none = crawl(None).stale
    assert crawl(0.3).stale < 1.03 * none
    assert crawl(None, floods=True).stale < 1.03 * none


def test_a_flood_moves_nothing_from_its_first_moment_on() -> None:
    """Before any visit: a host's pages do not all change at once."""
    scheduler = Scheduler()
    scheduler.observe(OutcomeBatch(list(URLS), np.arange(PAGES) + 0.0))
    scheduler.notice(SignalBatch(list(URLS), np.full(PAGES, DAY), "feed"))
    signalled = scheduler.core.pages.arrays.pages.signals["signalled"][:PAGES] / 65_536
    assert np.median(signalled) < 0.02
    assert signalled.mean() < 0.03
