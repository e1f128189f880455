"""The text of pages: what is left out, how bytes are decoded, what rules ignore, and markup made to take long."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
from selectolax.lexbor import LexborHTMLParser

from streamsched import SettingsError
from streamsched.content import IgnoreRules, content_hash, page_text
from streamsched.content import page_text as page_texts
from streamsched.content.bounded_markup import DEEPEST, SMALL, bound_markup

URL = "https://shop.example/news/1?a=b"


def words(html: str | bytes, **options: object) -> list[str]:
    return page_text(html, URL, **options).split()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name", ["nav", "header", "footer", "aside", "form", "script", "style", "noscript", "template"]
)
def test_what_surrounds_the_content_is_left_out(name: str) -> None:
    assert words(f"<body>a<{name}>out</{name}>b<main>c</main>") == ["c"]
    assert words(f"<body>a<{name}>out</{name}>b") == ["a", "b"]
    assert words(f"<body><main>a<{name.upper()}>x</{name.upper()}>") in (["a"], ["a", "x"])


def test_what_belongs_to_the_content_stays() -> None:
    assert words("<body><article><header><h1>a</h1></header>b</article>") == ["a", "b"]
    assert words("<body><form><main>a</main></form>") == ["a"]
    assert words("<body><main> </main>a") == ["a"]
    assert words("<body><main>a</main><main>b</main>") == ["a", "b"]
    assert words("<body><nav>only</nav>") == ["only"]
    assert words("<body><div role=navigation>out</div>a") == ["a"]


@pytest.mark.parametrize(
    "name", ["topNav", "x navbar", "site-header", "docs-navigation-banner", "sphinxsidebar", "footer", "breadcrumbs"]
)
def test_names_tell_menus_of_pages_without_a_main_part(name: str) -> None:
    for attribute in ("id", "class"):
        named = f"<div {attribute}='{name}'>out</div>"
        assert words(f"<body>{named}a") == ["a"]
        assert words(f"<body><div {attribute}='{name}'><h2>a</h2></div>b") == ["a", "b"]
        assert words(f"<body><article>{named}a</article>") == ["out", "a"]
        assert words(f"<body>{named}") == ["out"]
    assert words(f"<body><div class='un{name}s'>a</div>") == ["a"]
    assert words("<body>out<div role=main>a</div>") == ["a"]


@pytest.mark.parametrize(
    "html", ["", " ", "\0", "<", "<html>", "<!doctype html>", b"<p>", "<head><title>t</title>", "<!--"]
)
def test_pages_without_text_have_an_empty_one(html: str | bytes) -> None:
    assert page_text(html).strip("\0<�") == ""


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("<p>é".encode(), "é"),
        (b"\xef\xbb\xbf<p>\xc3\xa9", "é"),
        ("<p>é".encode("utf-16"), "é"),
        (b"\xfe\xff" + "<p>é".encode("utf-16-be"), "é"),
        (b"<meta charset='latin-1'><p>\xe9", "é"),
        (b'<meta http-equiv=Content-Type content="text/html; charset=windows-1251"><p>\xe9', "й"),
        ("<meta charset=big5><p>東".encode("big5"), "東"),
        (b"<meta charset=utf-16><p>\xc3\xa9", "é"),
        (b"<meta charset=nonsense><p>\xc3\xa9", "é"),
        (b"<meta charset=hex><p>\xc3\xa9", "é"),
        (b"<p>\xe9", "�"),
        (b"%PDF-1.7 \x80\xff", "%PDF-1.7 ��"),
    ],
)
def test_encodings(raw: bytes, expected: str) -> None:
    assert page_text(raw).strip() == expected


def test_ignored_elements_and_texts() -> None:
    html = "<p class=views>17 views</p><p>kept 3 likes</p><p>b"
    rules = {"shop.example": ["css:.views"], "*.example": [r"\d+ likes"], "https://shop.example/news/*": ["^b$"]}
    assert words(html, ignore=IgnoreRules(rules)) == ["kept"]
    assert page_text(html, "https://other.example/", ignore=IgnoreRules(rules)).split() == ["17", "views", "kept", "b"]
    assert words(html, ignore=IgnoreRules({"https://shop.example/news/1?a=b": ["b"]}))[-1] == "likes"


@pytest.mark.parametrize(
    "rules",
    [{"a": ["("]}, {"a": "x"}, {"a": [1]}, {"a": ["css:"]}, {"a": [""]}, {"": ["x"]}, ["a"], {1: ["x"]}, {"a": 1}],
)
def test_rules_that_are_none(rules: object) -> None:
    with pytest.raises(SettingsError, match="ignore"):
        IgnoreRules(rules)  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", ["css:", "css: ", "", 1])
def test_a_wrong_rule_is_told_from_wrong_targets(rule: object) -> None:
    with pytest.raises(SettingsError) as caught:
        IgnoreRules({"a": [rule]})  # type: ignore[list-item]
    with pytest.raises(SettingsError) as other:
        IgnoreRules({"a": "x"})
    assert caught.value.expected != other.value.expected


def test_wrong_arguments() -> None:
    wrong: list[dict[str, Any]] = [{"html": 1}, {"html": "x", "by": "lynx"}]
    for given in wrong:
        with pytest.raises(SettingsError):
            page_text(**given)
    with pytest.raises(SettingsError, match="CSS selector"):
        page_text("<p>x", URL, ignore=IgnoreRules({"*": ["css:[[["]}))


@pytest.mark.parametrize(("by", "package"), [("selectolax", "selectolax"), ("trafilatura", "trafilatura")])
def test_a_missing_extractor_is_named(by: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, f"{package}.lexbor", None)
    sys.modules[page_text.__module__]._load.cache_clear()
    with pytest.raises(SettingsError, match="pip install"):
        page_texts("<p>x", by=by)


def test_the_article_of_trafilatura() -> None:
    html = (
        f"<body><nav>menu</nav><article><h1>Title</h1>{'<p>A sentence of the article, long enough.</p>' * 9}</article>"
    )
    text = page_text(html, URL, by="trafilatura")
    assert text.by.startswith("trafilatura ")
    assert "sentence" in text
    assert "menu" not in text
    assert content_hash(text) >> 48 == 0xC0E7


HOSTILE = {
    "deep": "<div>" * 100_000 + "x",
    "deep, closed by others": "<div><svg><desc></div></desc></svg>" * 50_000 + "x",
    "deep behind comments": "<div><!--</div>-->" * 100_000 + "x",
    "attributes": "<p " + " ".join(f"a{i}=1" for i in range(300_000)) + ">x",
    "quoted attributes": "<p " + " ".join(f"<a{i}='>'" for i in range(300_000)) + ">x",
    "formatting": "<p>" + "".join(f"<font size={i}>" for i in range(2_000)) + "<p>x" * 100_000,
    "tables": "<table><tr><td>" * 60_000 + "x",
    "open tags": "<" * 3_000_000 + "x",
    "open comments": "<!--" * 1_000_000,
    "open scripts": "<script>" * 500_000,
    "open quotes": "<a href='" * 500_000,
    "lists": "<ul><li>" * 100_000 + "x",
    "entities": "&amp;" * 1_000_000,
    "one word": "x" * 50_000_000,
    "dates": "2026-11-27 10:15 5 " * 250_000,
    "digits": "1" * 5_000_000,
    "nul": "\0" * 5_000_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_markup_has_a_text(name: str) -> None:
    """Each ends within seconds; the parser alone takes minutes for the first, and for the attributes."""
    text = page_text(HOSTILE[name], URL, ignore=IgnoreRules({"*": ["css:.views"]}))
    assert content_hash(text) >> 48 == 0xC0E7


@pytest.mark.parametrize("name", HOSTILE)
def test_what_a_parser_gets_of_hostile_markup_is_bounded(name: str) -> None:
    html = bound_markup(HOSTILE[name][:5_000_000])
    tags = re.findall(r"<[a-z][^<>]*>", html)
    assert max(map(len, tags), default=0) <= 1_000
    assert not any(tag.startswith(("<font", "<svg")) for tag in tags)
    tree = LexborHTMLParser(html)
    depth, node = 0, tree.body
    while node is not None and node.last_child is not None:
        depth, node = depth + 1, node.last_child
    assert depth <= 2 * DEEPEST  # an element closed by the next of its kind counts once; tables add bodies


def test_what_is_beyond_the_bound_is_not_read() -> None:
    page = "<p>" + "x" * 100 + "</p>end"
    assert "end" in page_text(page)
    assert "end" not in page_text(page, most_bytes=50)
    assert "end" not in page_text(page.encode(), most_bytes=50)


def test_large_pages_have_the_text_of_small_ones() -> None:
    rows = "".join(f"<tr><td>{i}<td><a class=x href='/{i}'>name</a> and <b>{i}</b></tr>" for i in range(3_000))
    html = (
        f"<body><nav>menu <nav>x</nav></nav><!-- x --><SCRIPT>x</SCRIPT><header>x</header><table>{rows}</table><p y>z"
    )
    assert len(html) > SMALL
    assert bound_markup(html) != html
    tree = LexborHTMLParser(html)
    tree.strip_tags(["nav", "script", "header"])
    assert tree.body is not None
    assert page_text(html).split() == tree.body.text(separator=" ").split()


def test_small_pages_are_parsed_as_they_are() -> None:
    html = "<p>" * (SMALL // 3)
    assert bound_markup(html) is html
    assert page_text("<b>" * 20_000 + "x") == "x"


@pytest.mark.parametrize("name", ["punycode", "idna", "unicode_escape", "raw_unicode_escape", "utf-7"])
def test_codecs_that_are_no_charsets_of_pages_are_read_as_utf_8(name: str) -> None:
    page = f"<meta charset={name}><p>+AGE- \\x41-b".encode()
    assert page_text(page) == "+AGE- \\x41-b"


def test_hosts_of_ignore_rules_match_in_any_case() -> None:
    ignore = IgnoreRules({"Shop.Example": ["foo"]})
    assert page_text("<p>foo bar", "https://shop.example/", ignore=ignore).strip() == "bar"
