"""Why this URL: the numbers are the page's own, the words say the same, and all of it goes into JSON."""

from __future__ import annotations

import json
import math

import pytest

from streamsched import Explanation, Outcome, Scheduler
from streamsched.formula.terminals import PROVIDED

DAY = 86_400.0
URL = "https://a.example/docs/1"


def crawled(formula: str = "posterior") -> Scheduler:
    """Twenty pages of one directory, visited on days 0 and 2; the page of `URL` changed, and failed on day 3."""
    scheduler = Scheduler(formula=formula)
    urls = [f"https://a.example/docs/{i}" for i in range(20)]
    scheduler.observe([Outcome(url, day * DAY, changed=url == URL) for day in (0, 2) for url in urls])
    scheduler.observe(Outcome(URL, 3 * DAY, 503))
    return scheduler


def test_numbers_are_those_of_the_page() -> None:
    scheduler = crawled()
    told = scheduler.explain(URL, now=4 * DAY)
    assert (told.url, told.host, told.pattern, told.formula) == (URL, "a.example", "a.example/docs/", "posterior")
    assert told.score == told.terminals["posterior"] == scheduler.score([URL], now=4 * DAY)[0]
    assert (told.eligible, told.position, told.of_eligible) == (True, 1, 20)
    assert list(told.terminals) == list(PROVIDED)
    assert (told.terminals["n"], told.terminals["X"], told.terminals["t"]) == (1.0, 1.0, 2.0)
    assert (told.first_visited, told.last_visit_s, told.last_outcome_s) == (True, 2 * DAY, 3 * DAY)
    assert (told.failures, told.leased_until_s, told.prior_pages) == (1, None, 20)
    assert told.prior_rate == pytest.approx(float(scheduler.core.pages.arrays.groups.records["mean"][1]), rel=1e-6)


def test_words_say_the_same() -> None:
    told = crawled().explain(URL, now=4 * DAY)
    prior = f"taken for {told.prior_rate:.3g}, the prior of a.example/docs/ (20 pages)"
    assert told.reasons == (
        "in the next batch of 1,000: by its score, at place 1",
        "last visited 1970-01-03 00:00:00 UTC, 2 d before now",
        f"1 of 1 later visits saw a change; P(changed since) by its own rate is {told.score:.3g}",
        f"rate {told.terminals['rate']:.3g} a cycle; without its own visits it would be {prior}",
        "the last visit failed",
    )
    lines = str(told).splitlines()
    assert lines[:2] == [URL, f"  score      {told.score:.6g} = posterior"]
    assert lines[2:4] == ["  formula    the first champion", "  place      1 of 20 eligible pages"]
    assert lines[4:9] == [f"  because    {reason}" for reason in told.reasons]
    assert lines[9:] == [f"  {name:<10} {value:.6g}" for name, value in told.terminals.items()]


def test_surges_are_named_to_pages_that_bear_them() -> None:
    scheduler = crawled()
    scheduler.observe([Outcome(f"https://a.example/docs/{i}", 3 * DAY, changed=True) for i in range(2, 8)])
    shown = float(scheduler.core.pages.arrays.groups.records["open_share"][1])
    told = scheduler.explain("https://a.example/docs/9", now=4 * DAY)
    assert shown > 0.5
    assert told.terminals["surge"] == pytest.approx(shown, abs=0.02)
    assert told.reasons[-1] == (
        "visits to a.example/docs/ from 1970-01-04 00:00:00 UTC on tell of a surge: "
        f"of the pages not visited since, this one among them, {shown:.0%} are taken for changed by it"
    )
    assert not any("surge" in reason for reason in scheduler.explain("https://a.example/docs/3", now=4 * DAY).reasons)


def test_page_visited_once() -> None:
    scheduler = Scheduler()
    scheduler.observe(Outcome(URL, 0.0))
    told = scheduler.explain(URL, now=90.0)
    assert told.reasons[1:3] == (
        "last visited 1970-01-01 00:00:00 UTC, 1.5 min before now",
        f"visited once; P(changed since) by its own rate is {told.terminals['posterior']:.3g}",
    )
    assert told.reasons[3].endswith("the prior of a.example (1 page)")
    assert told.failures == 0
    assert len(told.reasons) == 4


def test_page_never_visited() -> None:
    scheduler = Scheduler()
    scheduler.discover([URL], now=DAY)
    told = scheduler.explain(URL, now=3 * DAY)
    assert (told.first_visited, told.last_visit_s, told.last_outcome_s) == (False, None, None)
    assert told.reasons[1] == "never visited; known for 2 d"
    scheduler.observe(Outcome(URL, 2 * DAY, 500))
    scheduler.observe(Outcome(URL, 2.5 * DAY, 0))
    told = scheduler.explain(URL, now=3 * DAY)
    assert (told.first_visited, told.last_visit_s, told.last_outcome_s) == (False, None, 2.5 * DAY)
    assert "never visited; known for 2 d" in told.reasons
    assert told.reasons[-1] == "the last 2 visits failed"
    scheduler.observe([Outcome(URL, (3 + i) * DAY, 0) for i in range(252)])
    assert scheduler.explain(URL, now=300 * DAY).reasons[-1] == "the last 254 visits failed"
    for more in (255.0, 256.0):
        scheduler.observe(Outcome(URL, more * DAY, 0))
        assert scheduler.explain(URL, now=300 * DAY).reasons[-1] == "at least the last 255 visits failed"


def test_leased_page_says_until_when() -> None:
    scheduler = crawled()
    assert scheduler.next_batch(1, now=4 * DAY, lease="2h").urls == [URL]
    told = scheduler.explain(URL, now=4 * DAY + 1_800)
    assert (told.eligible, told.position, told.of_eligible) == (False, None, 19)
    assert told.leased_until_s == 4 * DAY + 7_200
    assert told.reasons[0] == "not eligible: handed out until 1970-01-05 02:00:00 UTC, 1.5 h from now"
    assert "  place      not in the ranking" in str(told)
    told = scheduler.explain(URL, now=4 * DAY + 7_200)
    assert (told.eligible, told.position, told.leased_until_s) == (True, 1, None)


@pytest.mark.parametrize("formula", ["posterior", "1", "0 - t", "importance * X"])
def test_place_is_that_of_the_ranking(formula: str) -> None:
    scheduler = crawled(formula)
    scheduler.next_batch(3, now=4 * DAY)
    order = scheduler.rank(20, now=4 * DAY).urls
    assert [scheduler.explain(url, now=4 * DAY).position for url in order] == list(range(1, 18))


@pytest.mark.parametrize(
    ("formula", "score"), [("importance / X", 1.0), ("pow(10, 80)" + " * pow(10, 80)" * 4, math.inf)]
)
def test_everything_goes_into_json(formula: str, score: float) -> None:
    told = crawled(formula).explain(URL, now=4 * DAY)
    fields = told.as_dict()
    assert set(fields) == set(Explanation.__slots__)
    read = json.loads(json.dumps(fields, allow_nan=False))
    assert read == fields
    assert told.score == score
    assert read["score"] == (score if math.isfinite(score) else None)
    assert read["reasons"] == list(told.reasons)


@pytest.mark.parametrize("at", [-1e308, -62_135_596_801.0, 253_402_300_800.0, 1e308])
def test_times_that_no_calendar_holds(at: float) -> None:
    scheduler = Scheduler()
    scheduler.observe(Outcome(URL, at))
    told = scheduler.explain(URL, now=1e308)
    assert told.reasons[1].startswith(f"last visited second {at:.6g}, ")
    json.dumps(told.as_dict(), allow_nan=False)
    batch = scheduler.next_batch(1, now=-1e308, lease=1e308)
    assert scheduler.explain(URL, now=-1e308).reasons[0].startswith("not eligible: ")
    assert batch.lease_until_s == 0.0
