"""The significance of changes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched import Outcome, Scheduler
from streamsched.estimation.content import (
    HOST_MEMORY,
    PAGE_MEMORY,
    expected_significances,
    learn_significance,
    pack_expected,
    refresh_significance,
)
from streamsched.numerics.jit import kernel
from streamsched.records.group_schema import GROUP
from streamsched.records.schema import CORPUS
from streamsched.records.seasonality_schema import SEASONAL_LINK
from tests.reference.significance import PageSignificance, Significances

DAY = 86_400.0
URL = "https://a.example/1"
parts = st.floats(0.0, 1.0)


@kernel
def _learn(links, page, corpus, hosts, host, significance):  # type: ignore[no-untyped-def]
    refresh_significance(links[page], corpus[0], hosts[host])
    if significance >= 0.0:
        learn_significance(links[page], corpus[0], hosts[host], significance)


def expected(scheduler: Scheduler, url: str = URL) -> float:
    return scheduler.explain(url, now=100 * DAY).terminals["significance"]


def visits(scheduler: Scheduler, fingerprints: Sequence[int], **fields: object) -> list[int]:
    """Daily visits of a page; which of them counted as changes."""
    found = []
    for day, fingerprint in enumerate(fingerprints):
        outcome = Outcome(URL, (1 + day) * DAY, fingerprint=fingerprint, **fields)  # type: ignore[arg-type]
        found.append(scheduler.observe(outcome).changed)
    return found


@given(st.lists(st.tuples(st.integers(0, 3), st.none() | parts), max_size=60))
def test_expectations_are_those_of_the_twin(changes: list[tuple[int, float | None]]) -> None:
    """Pages 0 and 1 are of one host, 2 and 3 of another; None is an outcome that says nothing."""
    links, corpus, hosts = np.zeros(4, SEASONAL_LINK), np.zeros(1, CORPUS), np.zeros(2, GROUP)
    twin, pages = Significances(), [PageSignificance() for _ in range(4)]
    for page, significance in changes:
        _learn(links, page, corpus, hosts, page // 2, -1.0 if significance is None else significance)
        twin.refresh(pages[page], str(page // 2))
        if significance is not None:
            twin.learn(pages[page], str(page // 2), significance)
    assert expected_significances(links).tolist() == pytest.approx([page.expected for page in pages], abs=5e-4)


def test_long_histories_fade_as_the_twin_says() -> None:
    links, corpus, hosts = np.zeros(1, SEASONAL_LINK), np.zeros(1, CORPUS), np.zeros(1, GROUP)
    twin, page, rng = Significances(), PageSignificance(), np.random.default_rng(0)
    for significance in rng.random(int(HOST_MEMORY) + 300) ** 2:
        _learn(links, 0, corpus, hosts, 0, significance)
        twin.learn(page, "", float(significance))
    assert expected_significances(links)[0] == pytest.approx(page.expected, abs=5e-4)
    assert hosts["significance"][0] == pytest.approx(twin.host_mean(""), abs=1e-3)
    assert links["significance"][0] >> 12 == PAGE_MEMORY


@given(st.lists(parts, min_size=1, max_size=40))
def test_expectations_lie_between_the_least_and_the_greatest(changes: list[float]) -> None:
    links, corpus, hosts = np.zeros(1, SEASONAL_LINK), np.zeros(1, CORPUS), np.zeros(1, GROUP)
    for significance in changes:
        _learn(links, 0, corpus, hosts, 0, significance)
    step = 1 / 4095
    assert min(changes) - step <= expected_significances(links)[0] <= max(changes) + step


@given(st.lists(parts, max_size=20))
def test_what_is_packed_is_expected(values: list[float]) -> None:
    links = np.zeros(len(values), SEASONAL_LINK)
    links["significance"] = pack_expected(np.array(values))
    assert expected_significances(links).tolist() == pytest.approx(values, abs=0.5001 / 4095)


def test_without_a_known_significance_it_is_one() -> None:
    scheduler = Scheduler(max_ahead=None)
    for day in range(6):
        scheduler.observe(
            [Outcome(URL, day * DAY + 1, changed=True), Outcome(URL, day * DAY + 2, status=404 - day % 2)]
        )
    assert expected(scheduler) == 1.0
    links = scheduler.core.pages.arrays.seasonality.links
    assert links["significance"][0] == 0
    assert scheduler.core.pages.arrays.corpus["significant"][0] == 0.0


def test_fingerprints_tell_how_much_changed() -> None:
    scheduler = Scheduler(max_ahead=None)
    assert visits(scheduler, [0, 2**16 - 1]) == [0, 1]
    assert expected(scheduler) == pytest.approx(0.25, abs=1e-3)


@pytest.mark.parametrize("fields", [{"status": 304}, {"status": 404}, {"status": 200, "changed": False}])
def test_outcomes_that_show_no_change_of_content_say_nothing(fields: dict[str, object]) -> None:
    scheduler = Scheduler(max_ahead=None)
    scheduler.observe(Outcome(URL, 1.0, fingerprint=0))
    scheduler.observe(Outcome(URL, DAY, fingerprint=2**64 - 1, **fields))  # type: ignore[arg-type]
    assert expected(scheduler) == 1.0


def test_what_the_crawler_says_wins_over_fingerprints() -> None:
    scheduler = Scheduler(max_ahead=None)
    visits(scheduler, [0, 2**64 - 1], significance=0.125)
    assert expected(scheduler) == pytest.approx(0.125, abs=1e-3)


def test_significance_is_no_verdict() -> None:
    scheduler = Scheduler(max_ahead=None)
    assert visits(scheduler, [0, 0], significance=1.0) == [0, 0]
    assert expected(scheduler) == 1.0


def test_pages_start_from_the_mean_of_their_host() -> None:
    scheduler = Scheduler(max_ahead=None)
    for day in range(30):
        for host, significance in (("a", 0.1), ("b", 0.9)):
            url = f"https://{host}.example/{day % 3}"
            scheduler.observe(Outcome(url, day * DAY + 1, changed=True, significance=significance))
    urls = ["https://a.example/new", "https://b.example/new", "https://c.example/new"]
    scheduler.discover(urls, now=30 * DAY)
    near, far, other = (expected(scheduler, url) for url in urls)
    assert near == pytest.approx((8 * 0.5 + 27 * 0.1) / 35, abs=0.01)
    assert far == pytest.approx((8 * 0.5 + 27 * 0.9) / 35, abs=0.01)
    assert other == pytest.approx(0.5, abs=0.01)
    assert scheduler.core.pages.faults() == []


def test_known_mean_of_a_page_is_recovered() -> None:
    """Each change draws from a Beta distribution; the error is that of a mean of 15, or of the last 18 or so."""
    rng, errors = np.random.default_rng(0), []
    for mean in rng.uniform(0.1, 0.9, 40):
        links, corpus, hosts = np.zeros(1, SEASONAL_LINK), np.zeros(1, CORPUS), np.zeros(1, GROUP)
        for significance in rng.beta(4 * mean, 4 * (1 - mean), 60):
            _learn(links, 0, corpus, hosts, 0, significance)
        spread = math.sqrt(mean * (1 - mean) / 5 / 18)
        errors.append((expected_significances(links)[0] - mean) / spread)
    assert np.sqrt(np.mean(np.square(errors))) < 1.0


def test_slow_drift_adds_up_until_it_counts() -> None:
    """Two bits a visit: the third visit after each counted change differs by six from its content."""
    scheduler = Scheduler(max_ahead=None)
    drifting = [(1 << 2 * day) - 1 for day in range(13)]
    assert visits(scheduler, drifting) == [0, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1]
    assert expected(scheduler) == pytest.approx(6 / 64, abs=1e-3)


def test_noise_around_one_content_never_counts() -> None:
    scheduler = Scheduler(max_ahead=None)
    assert visits(scheduler, [0, 0b111, 0b11100, 0, 0b10101, 0b1111] * 3) == [0] * 18
