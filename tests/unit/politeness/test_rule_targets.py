"""What rules are set for: how targets are read, and which of them decides."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched import Scheduler, SettingsError
from streamsched.politeness.rule_targets import (
    HOST,
    PATTERN,
    SINGLE,
    RuleMatcher,
    find_hosts,
    parse_target,
    read_host,
    read_target,
)

URLS = ["https://a.example/", "https://a.example/news/1", "http://A.example:80/news/2", "https://b.a.example?q"]


def known(*urls: str) -> Scheduler:
    scheduler = Scheduler()
    scheduler.discover(urls or URLS, now=0.0)
    return scheduler


@pytest.mark.parametrize(
    ("text", "kind", "scheme", "host", "path"),
    [
        ("a.example", HOST, "", "a.example", "*"),
        ("A.Example:8080", HOST, "", "a.example:8080", "*"),
        ("*.example", HOST, "", "*.example", "*"),
        ("[::1]", HOST, "", "[::1]", "*"),
        ("a.example/", SINGLE, "", "a.example", "/"),
        ("a.example?q", SINGLE, "", "a.example", "?q"),
        ("https://a.example", SINGLE, "https", "a.example", ""),
        ("HTTPS://a.example:443/x", SINGLE, "https", "a.example", "/x"),
        ("http://a.example:443/*", PATTERN, "http", "a.example:443", "/*"),
        ("*/x", PATTERN, "", "*", "/x"),
        ("a.example/*?q=://", PATTERN, "", "a.example", "/*?q=://"),
        ("a.example#*", PATTERN, "", "a.example", "#*"),
    ],
)
def test_targets_are_taken_apart(text: str, kind: int, scheme: str, host: str, path: str) -> None:
    target = parse_target(text)
    assert (target.text, target.kind, target.scheme, target.host, target.path) == (text, kind, scheme, host, path)


@pytest.mark.parametrize(
    "text", ["", "/news", "https:///x", "://a.example", "?", "user@a.example", 5, None, b"a.example"]
)
def test_what_is_no_target(text: object) -> None:
    with pytest.raises(
        SettingsError, match=r"^target: expected a host, a URL, or a pattern, for example example.org/news"
    ):
        parse_target(text)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("a.example", [0, 1, 2]),
        ("A.EXAMPLE", [0, 1, 2]),
        ("*.example", [0, 1, 2, 3]),
        ("*.a.example", [3]),
        ("*", [0, 1, 2, 3]),
        ("other.example", []),
        ("a.example/*", [0, 1, 2]),
        ("a.example/news/*", [1, 2]),
        ("https://a.example/news/*", [1]),
        ("http://*", []),
        ("http://*/*", [2]),
        ("*/news*", [1, 2]),
        ("b.a.example*", [3]),
        ("b.a.example?*", [3]),
        ("*/*q*", []),
        ("https://a.example/news/1", [1]),
        ("a.example/news/1", [1]),
        ("http://a.example/news/1", []),
        ("http://A.example:80/news/2", [2]),
        ("A.example:80/news/2", [2]),
        ("a.example/news/2", []),
    ],
)
def test_pages_of_a_target(text: str, rows: list[int]) -> None:
    shard = known().core.pages.arrays
    numbers = RuleMatcher({text: 7}).number_pages(shard.pages, shard.groups, np.arange(4))
    assert np.flatnonzero(numbers == 7).tolist() == rows


def test_the_last_of_the_last_kind_decides() -> None:
    shard = known().core.pages.arrays
    pages, groups = shard.pages, shard.groups
    order = {"https://a.example/news/1": 1, "a.example/*": 2, "*/news/*": 3, "a.example": 4, "*": 5}
    assert RuleMatcher(order).number_pages(pages, groups, np.array([0, 1, 2, 3])).tolist() == [2, 1, 3, 5]
    backwards = RuleMatcher(dict(reversed(order.items())))
    assert backwards.number_pages(pages, groups, np.array([1, 2])).tolist() == [1, 2]
    singles = {"https://a.example/news/1": 1, "a.example/news/1": 2}
    assert RuleMatcher(singles).number_pages(pages, groups, np.array([1])).tolist() == [2]
    backwards = RuleMatcher(dict(reversed(singles.items())))
    assert backwards.number_pages(pages, groups, np.array([1])).tolist() == [1]
    assert RuleMatcher({}).number_pages(pages, groups, np.array([0, 1])).tolist() == [0, 0]
    assert RuleMatcher(order).number_pages(pages, groups, np.empty(0, np.int64)).size == 0


def test_hosts_of_a_target() -> None:
    shard = known(*URLS, *(f"https://a.example/news/{i}" for i in range(3, 40))).core.pages.arrays
    groups = shard.groups
    assert int(shard.corpus["groups"][0]) == 3  # one of them of a prefix
    assert find_hosts(groups, shard.corpus, [parse_target("*")]).tolist() == [0, 1]
    assert find_hosts(groups, shard.corpus, [parse_target("*.a.example"), parse_target("no.example")]).tolist() == [1]
    assert RuleMatcher({"*": 0, "b.a.example": 1}).number_hosts(groups, np.array([0, 1])) == [0, 1]
    assert RuleMatcher({"b.a.example": 1, "*": 0, "a.example/*": 2}).number_hosts(groups, np.array([0, 1])) == [0, 0]
    assert RuleMatcher({"b.a.example": 1}).number_hosts(groups, np.array([0, 1])) == [None, 1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" a.example", "a host without spaces or control characters"),
        ("a.example\n", "a host without spaces or control characters"),
        ("a.example:https", "a number as the port of the host"),
        ("a.example:/*", "a number as the port of the host"),
        ("A.example:443", "a.example without its default port"),
        ("a.example:80/*", "a.example without its default port"),
        (":8080/*", "a host before its port"),
        ("http://:80/", "a host before its port"),
        ("http://a b/", "a host without spaces or control characters"),
        ("http://a.example:x/", "a number as the port of the host"),
        ("http://[bad", "a host without brackets"),
        ("http://[bad]x/", "a host without brackets"),
        ("http://a[::1]/", "a host without brackets"),
        ("[::1/*", "a host without brackets"),
        ("[]", "a host without brackets"),
    ],
)
def test_hosts_that_no_url_has(text: str, expected: str) -> None:
    with pytest.raises(SettingsError, match=f"^target: expected {expected}.*, found "):
        read_target(text)


@pytest.mark.parametrize("text", ["", "/x", "a.example/", "https://a.example", 7])
def test_what_is_no_host(text: object) -> None:
    with pytest.raises(
        SettingsError, match=r"^host: expected a host, for example example\.org or \*\.example\.org, found"
    ):
        read_host(text)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("B.Example", "b.example"),
        ("[::1]", "[::1]"),
        ("http://[::1]:8080/x", "http://[::1]:8080/x"),
        ("http://[fe80::1%25eth0]/", "http://[fe80::1%25eth0]/"),
        ("[*/print/*", "[*/print/*"),
        ("*:80*", "*:80*"),
        ("HTTPS://B.example:443/X*", "https://b.example/X*"),
        ("B.example/*", "b.example/*"),
        ("http://B.example:443/*", "http://b.example:443/*"),
        ("https://B.example/", "https://B.example/"),
        ("a.example:443/x", "a.example:443/x"),
    ],
)
def test_one_key_for_all_that_mean_the_same(text: str, key: str) -> None:
    assert read_target(text).key == key
    assert read_target(key).key == key
