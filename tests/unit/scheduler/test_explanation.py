"""Explanations: numbers and reasons are those of the page, and all of it goes into JSON."""

from __future__ import annotations

import json
import math

import msgspec
import pytest
from scipy import stats

from streamsched import Explanation, Outcome, Scheduler
from streamsched.formula.terminal_table import PROVIDED
from streamsched.reasons import Reason, ReasonCode
from streamsched.scheduler.reason_text import describe_reason

DAY = 86_400.0
URL = "https://a.example/docs/1"


def crawled(formula: str = "posterior") -> Scheduler:
    """Twenty pages of one directory, visited on the first day and the third; that of `URL` changed, then failed."""
    scheduler = Scheduler(formula=formula)
    urls = [f"https://a.example/docs/{i}" for i in range(20)]
    scheduler.observe([Outcome(url, at, changed=url == URL) for at in (1.0, 2 * DAY) for url in urls])
    scheduler.observe(Outcome(URL, 3 * DAY, 503))
    return scheduler


def change_rate(explanation: Explanation, cycles_a_day: float = 1.0) -> Reason:
    """The reason that gives the page's rate and the middle nine tenths of its posterior, by scipy's distribution."""
    shape, rate = explanation.terminals["confidence"], explanation.terminals["rate"] * cycles_a_day
    low, high = stats.gamma.interval(0.9, shape, scale=rate / shape)
    rates = {
        "changes_per_day": pytest.approx(rate),
        "low_per_day": pytest.approx(low),
        "high_per_day": pytest.approx(high),
    }
    return Reason(ReasonCode.CHANGE_RATE, {**rates, "probability": 0.9})


def test_a_rate_is_given_per_day_whatever_the_cycle() -> None:
    for cycle, cycles_a_day in (("1d", 1.0), ("1h", 24.0), ("7d", 1 / 7)):
        scheduler = Scheduler(cycle=cycle)
        scheduler.observe([Outcome(URL, day * DAY + 1.0, changed=day % 2 == 1) for day in range(9)])
        explanation = scheduler.explain(URL, now=10 * DAY)
        (reason,) = (reason for reason in explanation.reasons if reason.code is ReasonCode.CHANGE_RATE)
        assert reason == change_rate(explanation, cycles_a_day)
        assert reason.fields["low_per_day"] < reason.fields["changes_per_day"] < reason.fields["high_per_day"]
        assert describe_reason(reason).startswith("about 0.")


def test_numbers_are_those_of_the_page() -> None:
    scheduler = crawled()
    explanation = scheduler.explain(URL, now=4 * DAY)
    assert (explanation.url, explanation.host, explanation.pattern, explanation.formula) == (
        URL,
        "a.example",
        "a.example/docs/",
        "posterior",
    )
    assert explanation.score == explanation.terminals["posterior"] == scheduler.score([URL], now=4 * DAY)[0]
    assert (explanation.eligible, explanation.position, explanation.of_eligible) == (True, 1, 20)
    assert explanation.probability == scheduler.rank(1, now=4 * DAY).probabilities[0]
    by_cause = sum(one.weight * one.expected for one in explanation.causes.values())
    assert explanation.probability == pytest.approx(-math.expm1(-by_cause), rel=1e-9)
    assert list(explanation.terminals) == list(PROVIDED)
    assert (explanation.terminals["n"], explanation.terminals["X"], explanation.terminals["t"]) == (1.0, 1.0, 2.0)
    assert (explanation.first_visited, explanation.last_visit_s, explanation.last_outcome_s) == (True, 2 * DAY, 3 * DAY)
    assert (explanation.failures, explanation.leased_until_s, explanation.prior_pages) == (1, None, 20)
    assert explanation.prior_rate == pytest.approx(
        float(scheduler.core.pages.arrays.groups.records["mean"][1]), rel=1e-6
    )


def test_reasons_have_the_same_numbers() -> None:
    explanation = crawled().explain(URL, now=4 * DAY)
    rates = {"rate_per_cycle": explanation.terminals["rate"], "prior_rate_per_cycle": explanation.prior_rate}
    assert explanation.reasons == (
        Reason(ReasonCode.IN_BATCH_BY_SCORE, {"k": 1000, "place": 1}),
        Reason(ReasonCode.LAST_VISITED, {"last_visit_s": 2 * DAY, "elapsed_s": 2 * DAY, "in_future": False}),
        Reason(ReasonCode.CHANGES_SEEN, {"changes": 1, "visits": 1, "probability": explanation.score}),
        Reason(ReasonCode.PRIOR, {**rates, "pattern": "a.example/docs/", "pages": 20, "half_life_s": 180 * DAY}),
        change_rate(explanation),
        Reason(ReasonCode.FAILED_VISITS, {"failures": 1, "at_least": False}),
    )


def test_text_has_every_number_and_reason() -> None:
    explanation = crawled().explain(URL, now=4 * DAY)
    lines = str(explanation).splitlines()
    assert lines[:2] == [URL, f"  score      {explanation.score:.6g} = posterior"]
    assert lines[2:4] == ["  formula    the first champion", "  place      1 of 20 eligible pages in the ranking"]
    assert lines[4:10] == [f"  because    {describe_reason(reason)}" for reason in explanation.reasons]
    assert [line.split()[0] for line in lines[10:16]] == ["changed", *explanation.causes]
    assert lines[16:] == [f"  {name:<10} {value:.6g}" for name, value in explanation.terminals.items()]


def test_surges_are_reasons_of_the_pages_they_may_have_hit() -> None:
    scheduler = Scheduler(formula="posterior")
    urls = [f"https://a.example/docs/{i}" for i in range(20)]
    scheduler.observe([Outcome(url, at, changed=False) for at in (1.0, 2 * DAY) for url in urls])
    scheduler.observe([Outcome(f"https://a.example/docs/{i}", 3 * DAY, changed=True) for i in range(2, 8)])
    shown = float(scheduler.core.pages.arrays.groups.records["open_share"][1])
    explanation = scheduler.explain("https://a.example/docs/9", now=4 * DAY)
    assert shown > 0.1  # the pages are of one directory: claims explain the rest
    followed = explanation.reasons[-1]
    assert (followed.code, followed.fields["keys"]) == (ReasonCode.RELATED_CHANGED, ["directory"])
    both = 1.0 - (1.0 - shown) * (1.0 - followed.fields["probability"])
    assert explanation.terminals["surge"] == pytest.approx(both, abs=0.02)
    assert explanation.reasons[-2] == Reason(
        ReasonCode.SURGE_SHOWN, {"pattern": "a.example/docs/", "since_s": 3 * DAY, "share": shown}
    )
    surges = {ReasonCode.SURGE_SHOWN, ReasonCode.UNSEEN_SURGES}
    reasons = scheduler.explain("https://a.example/docs/7", now=4 * DAY).reasons
    assert surges.isdisjoint(reason.code for reason in reasons)


def test_visit_later_than_now() -> None:
    reasons = crawled().explain(URL, now=DAY).reasons
    visit = next(reason for reason in reasons if reason.code == ReasonCode.LAST_VISITED)
    assert visit == Reason(ReasonCode.LAST_VISITED, {"last_visit_s": 2 * DAY, "elapsed_s": 0.0, "in_future": True})


def test_page_visited_once() -> None:
    scheduler = Scheduler()
    scheduler.observe(Outcome(URL, 10.0))
    explanation = scheduler.explain(URL, now=100.0)
    assert explanation.reasons[1:3] == (
        Reason(ReasonCode.LAST_VISITED, {"last_visit_s": 10.0, "elapsed_s": pytest.approx(90.0), "in_future": False}),
        Reason(ReasonCode.CHANGES_SEEN, {"changes": 0, "visits": 0, "probability": explanation.terminals["posterior"]}),
    )
    assert (explanation.reasons[3].fields["pattern"], explanation.reasons[3].fields["pages"]) == ("a.example", 1)
    assert explanation.failures == 0
    assert len(explanation.reasons) == 5


def test_page_never_visited() -> None:
    scheduler = Scheduler()
    scheduler.discover([URL], now=DAY)
    explanation = scheduler.explain(URL, now=3 * DAY)
    assert (explanation.first_visited, explanation.last_visit_s, explanation.last_outcome_s) == (False, None, None)
    never = Reason(ReasonCode.NEVER_VISITED, {"known_for_s": 2 * DAY})
    assert explanation.reasons[1] == never
    scheduler.observe(Outcome(URL, 2 * DAY, 500))
    scheduler.observe(Outcome(URL, 2.5 * DAY, 0))
    explanation = scheduler.explain(URL, now=3 * DAY)
    assert (explanation.first_visited, explanation.last_visit_s, explanation.last_outcome_s) == (False, None, 2.5 * DAY)
    assert never in explanation.reasons
    assert explanation.reasons[-1] == Reason(ReasonCode.FAILED_VISITS, {"failures": 2, "at_least": False})
    scheduler.observe([Outcome(URL, (3 + i) * DAY, 0) for i in range(252)])
    failed = Reason(ReasonCode.FAILED_VISITS, {"failures": 254, "at_least": False})
    assert scheduler.explain(URL, now=300 * DAY).reasons[-1] == failed
    failed = Reason(ReasonCode.FAILED_VISITS, {"failures": 255, "at_least": True})
    for more in (255.0, 256.0):
        scheduler.observe(Outcome(URL, more * DAY, 0))
        assert scheduler.explain(URL, now=300 * DAY).reasons[-1] == failed


def test_leased_page_has_the_end_of_its_lease() -> None:
    scheduler = crawled()
    assert scheduler.next_batch(1, now=4 * DAY, lease="2h").urls == [URL]
    explanation = scheduler.explain(URL, now=4 * DAY + 1_800)
    assert (explanation.eligible, explanation.position, explanation.of_eligible) == (False, None, 19)
    assert explanation.leased_until_s == 4 * DAY + 7_200
    assert explanation.reasons[0] == Reason(ReasonCode.LEASED, {"until_s": 4 * DAY + 7_200, "wait_s": 5_400.0})
    assert "  place      not in the ranking" in str(explanation)
    explanation = scheduler.explain(URL, now=4 * DAY + 7_200)
    assert (explanation.eligible, explanation.position, explanation.leased_until_s) == (True, 1, None)


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
    explanation = crawled(formula).explain(URL, now=4 * DAY)
    fields = explanation.as_dict()
    assert set(fields) == set(Explanation.__struct_fields__)
    read = json.loads(json.dumps(fields, allow_nan=False))
    assert explanation.score == (score if math.isfinite(score) else None)
    assert msgspec.convert(read, Explanation) == explanation
    assert [reason["text"] for reason in read["reasons"]] == [describe_reason(one) for one in explanation.reasons]
    assert (read["champion"]["formula"], read["champion"]["text"]) == (explanation.formula, "the first champion")


@pytest.mark.parametrize("at", [-9.9e10, -62_135_596_801.0])
def test_times_that_no_calendar_holds(at: float) -> None:
    scheduler = Scheduler()
    scheduler.discover([URL], now=at)
    explanation = scheduler.explain(URL, now=9.9e10)
    assert explanation.reasons[1] == Reason(ReasonCode.NEVER_VISITED, {"known_for_s": pytest.approx(9.9e10 - at)})
    json.dumps(explanation.as_dict(), allow_nan=False)
    visited = Reason(ReasonCode.LAST_VISITED, {"last_visit_s": at, "elapsed_s": 9.0, "in_future": False})
    assert describe_reason(visited).startswith(f"last visited second {at:.6g}, ")
    batch = scheduler.next_batch(1, now=-9.9e10, lease="366d")
    explanation = scheduler.explain(URL, now=-9.9e10)
    assert explanation.reasons[0].code == ReasonCode.LEASED
    json.dumps(explanation.as_dict(), allow_nan=False)
    assert batch.lease_until_s == -9.9e10 + 366 * DAY
