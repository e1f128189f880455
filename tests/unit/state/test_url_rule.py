"""URLs that are not absolute are refused, wherever they enter, as other bad values are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched import InvalidOutcome, Outcome, OutcomeBatch, PackedUrls, Scheduler, SettingsError, Signal
from streamsched.state.url_rule import UrlRule, parse_schemes
from tests.reference.absolute_urls import is_absolute

T = 1.7e9
GOOD = ["https://a.example/", "HTTP://A.example:8080?x", "http://user@[::1]/", "https://ä.example/é", "https://a"]
BAD = [
    "a",
    "//x",
    "javascript:alert(1)",
    " https://a.example/",
    "https://a.example/ b",
    "https://a.example/\x7f",
    "https://a.example/\u00a0",
    "https://a.example/\u3000",
    "https:///x",
    "https://?x",
    "http://user@/",
    "http://:80/",
    "http:/a.example/",
    "ftp://a.example/",
    "xhttps://a.example/",
]
PIECES = ["http", "HTTPS", "ftp", "a+b", "1", ":", "/", "//", "://", "@", "?", "#", ".", "[::1]", "host.example", "ä",
          "\u2010", "\u2028", "\u1680", "\u0085", " ", "\t", "\x00", "\x7f", "\x1a//", ":\x0f/", "é" * 9]  # fmt: skip
texts = st.lists(st.sampled_from(PIECES), min_size=1, max_size=8).map("".join) | st.text(min_size=1).filter(
    lambda text: text.isprintable() or text.isspace()
)


@pytest.mark.parametrize("url", BAD)
def test_wrong_urls_are_refused_wherever_they_enter(url: str) -> None:
    scheduler = Scheduler()
    observed = scheduler.observe([Outcome(GOOD[0], T), Outcome(url, T), Outcome(GOOD[0], T + 1, moved_to=url)])
    assert [(one.record, one.field, one.found) for one in observed.rejections] == [
        (1, "url", repr(url)),
        (2, "moved_to", repr(url)),
    ]
    assert observed.applied == 1
    noticed = scheduler.notice([Signal(url, T, "feed"), Signal(GOOD[0], T, "feed")])
    assert (noticed.rejected, noticed.rejections[0].field) == (1, "url")
    for call in (scheduler.discover, scheduler.ask):
        (rejection,) = call([GOOD[0], url], now=T).rejections
        assert (rejection.record, rejection.field) == (1, "url")
        assert rejection.expected.startswith("an absolute URL: https:// or http:// ")
    assert [one.record for one in scheduler.find_ahead([Outcome(GOOD[0], T), Outcome(url, T)])] == [1]
    assert len(scheduler) == 1


def test_outcomes_between_wrong_ones_are_applied_and_reported() -> None:
    """Of known pages, unknown ones, and pages that a wrong outcome names first; listeners get the applied ones."""
    scheduler = Scheduler()
    heard: list[object] = []
    scheduler.core.listeners.append(heard.append)
    outcomes = [
        Outcome("a", T),
        Outcome(GOOD[0], T),
        Outcome(GOOD[1], T, moved_to="b"),
        Outcome("c", T),
        Outcome(GOOD[1], T, moved_to=GOOD[4]),
    ]
    observed = scheduler.observe(outcomes)
    assert [(one.record, one.field) for one in observed.rejections] == [(0, "url"), (2, "moved_to"), (3, "url")]
    assert (observed.applied, observed.moved, observed.rejected, len(scheduler)) == (2, 1, 3, 3)
    batch = heard[0]
    assert isinstance(batch, OutcomeBatch)
    assert list(batch.urls) == [GOOD[0], GOOD[1]]


def test_absolute_urls_are_taken() -> None:
    scheduler = Scheduler()
    assert scheduler.observe([Outcome(url, T) for url in GOOD]).rejected == 0
    assert scheduler.discover(GOOD, now=T).added == 0


def test_schemes_are_a_setting_that_is_saved(tmp_path: Path) -> None:
    urls = ["gopher://a.example/", "ftp://a.example/", "https://a.example/", "a page"]
    for schemes, taken in (("ftp", [1]), ("FTP, https", [1, 2]), ("any", [0, 1, 2]), (None, [0, 1, 2, 3])):
        Scheduler(schemes=schemes).save(tmp_path)
        scheduler = Scheduler.load(tmp_path)
        refused = [one.record for one in scheduler.observe([Outcome(url, T) for url in urls]).rejections]
        assert refused == [record for record in range(4) if record not in taken]


@pytest.mark.parametrize("schemes", ["", " ", "https://", "any http", "1a", "http;https", 5, ["http"], True])
def test_other_schemes_are_refused(schemes: object) -> None:
    with pytest.raises(SettingsError, match=r"^schemes: expected schemes such as 'http https', 'any'"):
        Scheduler(schemes=schemes)  # type: ignore[arg-type]
    assert parse_schemes("HTTPS,http https") == "https http"


def test_a_record_keeps_its_first_problem_in_their_order() -> None:
    batch = OutcomeBatch(["a", "", "https://a.example/"], [1e12, T, 1e12])
    problems: list[InvalidOutcome] = UrlRule("http").check(batch, batch.problems())
    assert [(one.record, one.field) for one in problems] == [(0, "fetched_at"), (1, "url"), (2, "fetched_at")]


def test_values_that_are_not_given_are_not_looked_at() -> None:
    batch = OutcomeBatch([GOOD[0]] * 3, [T] * 3, moved_to=[None, GOOD[1], "x"], etag=['"1 2"'] * 3)
    assert [(one.record, one.field) for one in UrlRule("http https").check(batch, [])] == [(2, "moved_to")]


@given(st.lists(texts, max_size=6), st.sampled_from(["http https", "a+b ftp http", "any"]), st.integers(0, 3))
def test_rule_is_that_of_its_twin(urls: list[str], schemes: str, first: int) -> None:
    names = None if schemes == "any" else schemes.split()
    whole = PackedUrls.pack(urls)
    packed = PackedUrls(whole.blob, whole.offsets[min(first, len(urls)) :])
    found = UrlRule(schemes).wrong(packed)
    assert found.tolist() == [i for i, url in enumerate(urls[first:]) if not is_absolute(url, names)]
    assert np.all(np.diff(found) > 0)
