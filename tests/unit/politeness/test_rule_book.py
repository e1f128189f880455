"""The rule book: rules reach pages and hosts, early or late, and numbers are found for them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from streamsched import SettingsError
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.politeness import rule_book
from streamsched.politeness.limits import make_limits
from streamsched.politeness.politeness_settings import HostRule, Politeness, Rule
from streamsched.politeness.rule_book import RuleBook
from streamsched.records.group_schema import BY_SETTINGS
from streamsched.state.page_table import PageTable

URLS = [f"https://{host}.example/{i}" for host in "ab" for i in range(3)]
NEVER, DAILY = Rule(never=True), Rule(min_revisit="1d")


class Book(RuleBook):
    """A rule book with a table of its own."""

    def __init__(self, urls: list[str] | None = None) -> None:
        self.table = PageTable(86_400.0)
        self.limits = make_limits(Politeness(min_revisit=5.0, max_revisit="7d"))
        super().__init__(Politeness(min_revisit=5.0, max_revisit="7d"), self.limits)
        self.add(URLS if urls is None else urls)

    def add(self, urls: list[str]) -> None:
        self.table.discover(PackedUrls.pack(urls), 0.0)
        self.reach(self.table.arrays)

    def page_limits(self) -> list[tuple[float, float, bool]]:
        pages = self.table.arrays.pages.records[: len(self.table)]
        found = self.limits.rules[pages["rule"]]
        return list(zip(found["min_revisit_s"], found["max_revisit_s"], found["never"] != 0, strict=True))

    def never(self) -> list[int]:
        return [row for row, (_, _, never) in enumerate(self.page_limits()) if never]


def test_what_a_rule_does_not_set_is_as_the_settings_have_it() -> None:
    book = Book()
    book.set(book.table, {URLS[0]: NEVER, URLS[1]: DAILY, URLS[2]: Rule(max_revisit=9), URLS[3]: Rule(min_revisit=0)})
    week = 604_800.0
    assert book.page_limits()[:5] == [
        (5.0, week, True),
        (86_400.0, week, False),
        (5.0, 9.0, False),
        (0.0, week, False),
        (5.0, week, False),
    ]


def test_rows_that_may_go_by_others_are_told() -> None:
    book = Book()
    assert book.set(book.table, {URLS[4]: NEVER, "b.example/9": NEVER}).tolist() == [4]
    assert book.set(book.table, {"a.example/x*": NEVER, URLS[4]: None}).tolist() == [0, 1, 2, 4]
    assert book.set(book.table, {"c.example": NEVER}).tolist() == []
    assert book.set(book.table, {}).tolist() == []


def test_rules_reach_pages_that_come_later() -> None:
    book = Book([])
    book.set(book.table, {"a.example/*": NEVER, "b.example/0": NEVER, "b.example/1": DAILY})
    book.add(URLS[:2])
    book.add(URLS)
    assert book.never() == [0, 1, 2, 3]
    assert book.page_limits()[4][0] == 86_400.0


def test_rules_taken_back_leave_those_beneath() -> None:
    book = Book()
    book.set(book.table, {"a.example": Rule(min_revisit=9), "a.example/1": DAILY, "a.example/*": Rule(min_revisit=6)})
    assert [least for least, _, _ in book.page_limits()] == [6.0, 86_400.0, 6.0, 5.0, 5.0, 5.0]
    book.set(book.table, {"a.example/*": None})
    assert [least for least, _, _ in book.page_limits()] == [9.0, 86_400.0, 9.0, 5.0, 5.0, 5.0]
    book.set(book.table, {"a.example/1": None, "nothing.example": None})
    assert [least for least, _, _ in book.page_limits()] == [9.0, 9.0, 9.0, 5.0, 5.0, 5.0]
    book.set(book.table, {"a.example": None})
    assert book.page_limits() == [(5.0, 604_800.0, False)] * 6


def test_a_rule_that_sets_nothing_still_goes_before_others() -> None:
    book = Book()
    book.set(book.table, {"a.example": DAILY, "a.example/1": Rule()})
    assert [least for least, _, _ in book.page_limits()][:3] == [86_400.0, 5.0, 86_400.0]


@pytest.mark.parametrize("target", ["a.example", "a.example/*", "https://a.example/1"])
@pytest.mark.parametrize("other", ["*", "*/1", "https://a.example/1", "a.example/1"])
def test_never_lasts_until_it_is_taken_back(target: str, other: str) -> None:
    """Whatever else is said of the page, before and after; and however the target is written then."""
    book = Book()
    book.set(book.table, {other: DAILY, target: NEVER})
    again = {other: Rule(max_revisit=9)} if other != target else {}
    book.set(book.table, again)
    assert 1 in book.never()
    book.set(book.table, {target: None})
    assert book.never() == []


def test_a_never_of_later_pages_too() -> None:
    book = Book([])
    book.set(book.table, {"a.example/*": NEVER, "a.example/1": DAILY, "*/2": DAILY})
    book.add(URLS)
    assert book.never() == [0, 1, 2]
    assert book.page_limits()[5][0] == 86_400.0


def test_targets_that_mean_the_same_have_one_rule() -> None:
    book = Book()
    book.set(book.table, {"A.example": NEVER, "HTTPS://B.example:443/*": NEVER, "B.example": HostRule(delay=2)})
    assert book.set(book.table, {"a.example": None, "https://b.example/*": DAILY, "b.EXAMPLE": None}).size == 6
    assert book.never() == []
    assert [target for target, _ in book.to_json()["pages"]] == ["https://b.example/*"]
    assert book.to_json()["hosts"] == []


@pytest.mark.parametrize("target", ["a.example", "a.example/*", URLS[0]])
def test_to_take_back_what_was_not_set_concerns_no_page(target: str) -> None:
    book = Book()
    book.set(book.table, {"b.example": NEVER})
    assert book.set(book.table, {target: None, "b.example/*": None}).size == 0
    assert book.never() == [3, 4, 5]


@pytest.mark.parametrize("wrong", [[], None, "a.example", [("a.example", NEVER)]])
def test_rules_come_by_target(wrong: object) -> None:
    book = Book()
    with pytest.raises(
        SettingsError, match=r"^rules: expected a mapping from targets, for example example\.org, to a Rule"
    ):
        book.set(book.table, wrong)  # type: ignore[arg-type]


def test_rule_set_anew_comes_last() -> None:
    book = Book()
    book.set(book.table, {"a.example/*": Rule(min_revisit=9), "*/1": DAILY})
    assert [least for least, _, _ in book.page_limits()][:3] == [9.0, 86_400.0, 9.0]
    book.set(book.table, {"a.example/*": Rule(min_revisit=9)})
    assert [least for least, _, _ in book.page_limits()][:3] == [9.0, 9.0, 9.0]


def test_at_most_254_different_rules() -> None:
    book = Book()
    many = {f"a.example/{i}": Rule(min_revisit=i + 1) for i in range(254)}
    book.set(book.table, {**many, "again.example": Rule(min_revisit=1), "plain.example": Rule()})
    assert [least for least, _, _ in book.page_limits()] == [1.0, 2.0, 3.0, 5.0, 5.0, 5.0]
    before = book.to_json()
    with pytest.raises(
        SettingsError,
        match="rules: expected at most 254 different page rules: give more pages the same rule, found '255 different",
    ):
        book.set(book.table, {URLS[3]: NEVER})
    assert book.to_json() == before
    book.set(book.table, {"a.example/253": NEVER, URLS[3]: NEVER})  # the number of a rule that no target has any more
    assert book.never() == [3]
    assert [least for least, _, _ in book.page_limits()][:3] == [1.0, 2.0, 3.0]


def test_hosts_go_by_their_rules_whenever_they_come() -> None:
    book = Book(URLS[:3])
    book.set(book.table, {"*.example": HostRule(delay=2), "b.example": HostRule(in_flight=3, per_batch=4)})
    book.add(URLS)
    hosts = book.table.arrays.groups.records[:2]
    assert hosts["delay_s"].tolist() == [2.0, pytest.approx(np.nan, nan_ok=True)]
    assert hosts["max_out"].tolist() == [BY_SETTINGS, 3]
    assert hosts["max_batch"].tolist() == [BY_SETTINGS, 4]
    book.set(book.table, {"b.example": None})
    assert hosts["delay_s"].tolist() == [2.0, 2.0]
    assert hosts["max_out"].tolist() == [BY_SETTINGS] * 2
    assert book.never() == []


def test_one_host_may_have_a_rule_for_itself_and_one_for_its_pages() -> None:
    book = Book()
    book.set(book.table, {"a.example": HostRule(delay=1)})
    book.set(book.table, {"a.example": NEVER})
    assert book.table.arrays.groups.records["delay_s"][0] == 1.0
    assert book.never() == [0, 1, 2]
    book.set(book.table, {"a.example": None})
    assert np.isnan(book.table.arrays.groups.records["delay_s"][0])
    assert book.never() == []


@pytest.mark.parametrize(
    ("target", "rule", "message"),
    [
        ("a.example/*", HostRule(), r"^rule of 'a\.example/\*': expected a Rule: a HostRule is only for a host"),
        (
            "a.example",
            {"never": True},
            "^rule of 'a.example': expected a Rule, a HostRule or None, found {'never': True}",
        ),
        ("/x", NEVER, "target: expected a host, "),
    ],
)
def test_rule_that_does_not_fit_sets_none(target: str, rule: Rule, message: str) -> None:
    book = Book()
    with pytest.raises(SettingsError, match=message):
        book.set(book.table, {URLS[0]: NEVER, target: rule})
    assert book.never() == []
    assert book.to_json()["pages"] == []


def test_targets_that_would_not_fit_into_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_book, "_MOST_TEXT", 27)
    book = Book()
    with pytest.raises(
        SettingsError, match="rules: expected at most 27 bytes of targets: use patterns, found '2 targets'"
    ):
        book.set(book.table, {URLS[0]: NEVER, "b.example": HostRule()})


def test_restored_book_goes_on() -> None:
    book = Book()
    book.set(book.table, {"a.example/*": NEVER, "*/1": DAILY, "a.example/2": Rule(), "b.example": HostRule(delay=7)})
    again = Book()
    again.table = book.table
    again.restore(json.loads(json.dumps(book.to_json())), book.table.arrays)
    assert again.page_limits() == book.page_limits()
    assert again.to_json() == book.to_json()
    for one in (book, again):
        one.set(one.table, {"b.example/2": Rule(max_revisit=8)})
    assert again.page_limits() == book.page_limits()
    assert again.to_json() == book.to_json()
    again.add(["https://c.example/1"])
    assert again.page_limits()[-1][0] == 86_400.0
