from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched import Outcome, Scheduler
from streamsched.connectors.crawlers.visits import ContentRules, Visit, hash_bytes, outcomes_of, read_retry_after
from streamsched.content import IgnoreRules, content_hash, page_text, simhash

URL = "https://a.example/page"
NOW = 1_755_820_800.0
HTML = {"Content-Type": "text/html; charset=utf-8"}
PAGE = "<html><body><nav>Menu</nav><main><h1>Title</h1><p>Price 5, 3 minutes ago</p></main></body></html>"
ANSWER = Visit(URL, NOW, 200, HTML, PAGE)


def only(visit: Visit, rules: ContentRules | None = None) -> Outcome:
    (outcome,) = outcomes_of(visit, rules)
    return outcome


def test_page_has_the_hashes_of_its_text_and_what_the_server_and_the_crawler_said_of_it() -> None:
    visit = replace(ANSWER, headers={**HTML, "ETag": '"7"', "LAST-MODIFIED": "yesterday"}, cost=0.25)
    text = page_text(PAGE, URL)
    assert only(visit) == Outcome(
        URL,
        NOW,
        status=200,
        content=content_hash(text),
        fingerprint=simhash(text),
        etag='"7"',
        last_modified="yesterday",
        cost=0.25,
    )


def test_menus_and_times_are_no_change_and_prices_are() -> None:
    other = replace(ANSWER, body=PAGE.replace("Menu", "Other").replace("3 minutes", "4 hours"))
    assert only(other).content == only(ANSWER).content
    assert only(replace(ANSWER, body=PAGE.replace("5,", "6,"))).content != only(ANSWER).content


def test_rules_and_texts_of_the_crawler_decide_what_is_hashed() -> None:
    ignore = ContentRules(IgnoreRules({"a.example": [r"Price \d+"]}), has_fingerprint=False)
    seen = [only(replace(ANSWER, body=PAGE.replace("5,", f"{price},")), ignore) for price in (5, 6)]
    assert seen[0] == seen[1]
    assert seen[0].fingerprint is None
    assert only(replace(ANSWER, text="own text")).content == content_hash("own text")


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("text/html; charset=iso-8859-1", PAGE.replace("Title", "Grüße").encode("latin-1")),
        ("TEXT/HTML;Charset='ISO-8859-1'", PAGE.replace("Title", "Grüße").encode("latin-1")),
        ("text/html; charset=nonsense", PAGE.replace("Title", "Grüße").encode()),
        ("text/html; charset=hex", PAGE.replace("Title", "Grüße").encode()),
        ("application/xhtml+xml", PAGE.replace("Title", "Grüße").encode()),
        ("", PAGE.replace("Title", "Grüße").encode()),
        ("", b" <!-- c -->" + PAGE.replace("Title", "Gr\u00fc\u00dfe").encode()),
        ("text/html; charset=ascii", "\ufeff".encode() + PAGE.replace("Title", "Grüße").encode()),
        ("", PAGE.replace("Title", "Grüße")),
    ],
)
def test_encoding_is_that_of_the_mark_else_of_the_header_else_of_the_page(content_type: str, body: bytes | str) -> None:
    expected = content_hash(page_text(PAGE.replace("Title", "Grüße")))
    assert only(Visit(URL, NOW, 200, {"content-type": content_type}, body)).content == expected


def test_other_texts_have_the_hash_of_their_text_and_other_bodies_that_of_their_bytes() -> None:
    text = '{"price": 5, "at": "2026-11-27T10:15:00Z"}'
    for kind in ("application/json", "application/ld+json", "text/plain", "image/svg+xml", "application/xml"):
        assert only(Visit(URL, NOW, 200, {"content-type": kind}, text.encode())).content == content_hash(text)
    for headers in ({"content-type": "application/pdf"}, {"content-type": "broken"}, {}):
        outcome = only(Visit(URL, NOW, 200, headers, b"%PDF-1.7\0\xff"))
        assert (outcome.content, outcome.fingerprint) == (hash_bytes(b"%PDF-1.7\0\xff"), None)


def test_bodies_are_read_up_to_their_bound() -> None:
    rules = ContentRules(most_bytes=1_000)
    long = b"<p>" + b"word " * 200
    assert only(replace(ANSWER, body=long + b"a"), rules) == only(replace(ANSWER, body=long + b"b"), rules)
    assert hash_bytes(b"a" * 1_001, 1_000) == hash_bytes(b"a" * 1_000 + b"b", 1_000)
    assert hash_bytes(b"a" * 1_001, 1_000) != hash_bytes(b"a" * 1_002, 1_000)


@pytest.mark.parametrize("body", [b"", b" \n ", "<html><script>app()</script></html>", "<html>"])
def test_page_without_text_says_nothing_about_a_change(body: bytes | str) -> None:
    outcome = only(replace(ANSWER, body=body))
    assert (outcome.status, outcome.content, outcome.fingerprint) == (200, None, None)


@pytest.mark.parametrize("status", [0, 304, 403, 404, 410, 429, 500, 503])
def test_error_pages_are_not_compared(status: int) -> None:
    outcome = only(replace(ANSWER, status=status))
    assert (outcome.status, outcome.content, outcome.fingerprint) == (status, None, None)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        ("9" * 400, 1e15),
        ("Fri, 22 Aug 2025 00:02:00 GMT", 120.0),
        ("Fri, 22 Aug 2025 00:02:00", 120.0),
        ("Thu, 21 Aug 2025 00:00:00 GMT", 0.0),
        ("-5", None),
        ("1.5", None),
        ("٣", None),
        ("soon", None),
        ("Fri, 99 Aug 99999 00:02:00 GMT", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str | None, expected: float | None) -> None:
    assert read_retry_after(value, NOW) == expected
    headers = {} if value is None else {"retry-after": value}
    assert [only(Visit(URL, NOW, status, headers)).retry_after for status in (429, 503, 200)] == [
        expected,
        expected,
        None,
    ]


@pytest.mark.parametrize("location", ["/new", "https://a.example/new", "https://a.example/new#part", "new"])
def test_redirect_that_is_not_followed_is_an_answer_with_its_target(location: str) -> None:
    target = "https://a.example/new"
    outcome = only(Visit(URL, NOW, 308, {"Location": location}, PAGE))
    assert (outcome.status, outcome.moved_to, outcome.fingerprint) == (308, target, simhash(target))
    assert outcome.content == only(Visit(URL, NOW, 301, {"Location": target})).content
    assert outcome.content != only(Visit(URL, NOW, 301, {"Location": target + "er"})).content


@pytest.mark.parametrize(
    "location",
    [
        "",
        URL,
        f"{URL}#part",
        "mailto:me@a.example",
        "javascript:alert(1)",
        "http://",
        "http://[broken",
        "https://a.example/two words",
        "https://a.example/\x9c",
        "https://user@:80/",
        "/\ud800",
        "/" + "a" * 9_000,
    ],
)
def test_redirect_that_nobody_can_follow_has_no_target(location: str) -> None:
    assert only(Visit(URL, NOW, 302, {"Location": location})).moved_to is None
    assert only(replace(ANSWER, final_url=location)) == only(ANSWER)


def test_redirect_that_was_followed_is_two_visits() -> None:
    target = "https://b.example/new"
    leased, reached = outcomes_of(replace(ANSWER, final_url=target, redirect_status=301, cost=1.0))
    assert leased == only(Visit(URL, NOW, 301, {"location": target}, cost=1.0))
    assert reached == only(replace(ANSWER, url=target))
    gone = outcomes_of(Visit(URL, NOW, 404, final_url=target))
    assert [(one.url, one.status) for one in gone] == [(URL, 302), (target, 404)]


@pytest.mark.parametrize(
    ("url", "final"),
    [
        ("https://a.example", "https://a.example/"),
        ("https://A.example:443/ü?q=a b", "https://a.example/%C3%BC?q=a%20b"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("https://a.example/page#top", "https://a.example/page"),
    ],
)
def test_another_spelling_of_the_url_is_no_redirect(url: str, final: str) -> None:
    assert only(replace(ANSWER, url=url, final_url=final)).moved_to is None


def test_visit_without_an_answer_is_a_failure_a_refusal_or_none() -> None:
    assert only(Visit(URL, NOW, error=OSError(), cost=2.0)) == Outcome(URL, NOW, status=0, cost=2.0)
    assert only(replace(ANSWER, error=OSError())) == Outcome(URL, NOW, status=0)
    assert only(Visit(URL, NOW)).status == 0
    assert only(Visit(URL, NOW, "robots_denied")) == Outcome(URL, NOW, status="robots_denied")
    assert only(Visit(URL, NOW, error=asyncio.CancelledError())) == Outcome(URL, NOW, status="not_attempted")


texts = st.text(st.characters(codec=None, exclude_categories=()))


@given(
    st.integers(-5, 1200) | st.none(),
    st.dictionaries(
        st.sampled_from(["content-type", "location", "retry-after", "etag", "Last-Modified"]),
        texts | st.sampled_from(["text/html", "application/json; charset=utf-16", "text/x; charset=\0"]),
    ),
    st.binary() | texts | st.sampled_from([PAGE, PAGE.encode("utf-16")]),
    texts | st.none(),
    st.floats(),
)
def test_no_response_raises_an_error_and_the_scheduler_takes_every_outcome(
    status: int | None, headers: dict[str, str], body: bytes | str, final: str | None, cost: float
) -> None:
    found = outcomes_of(Visit(URL, NOW, status, headers, body, final_url=final, cost=cost))
    scheduler = Scheduler()
    assert scheduler.observe(found).applied == len(found) == len({outcome.url for outcome in found})


def test_visits_are_read_without_the_compiler() -> None:
    code = "import sys; import streamsched.connectors.crawlers.visits; print(*sys.modules)"
    done = subprocess.run((sys.executable, "-c", code), text=True, capture_output=True, check=True)
    assert not {"numba", "scipy", "kafka"} & set(done.stdout.split())
