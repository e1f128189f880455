"""The ttl and the hubs of feeds, and the feeds that front pages name."""

from __future__ import annotations

import time

import pytest

from streamsched.fetching.document_links import find_feeds, read_head, read_link_headers


@pytest.mark.parametrize(
    ("document", "ttl_s"),
    [
        ("<rss><channel><ttl> 90 </ttl><item><ttl>7</ttl></item></channel></rss>", 5400.0),
        ("<rss><channel><item/><ttl>7</ttl></channel></rss>", 0.0),
        ("<rss><channel><ttl>1e9</ttl></channel></rss>", 0.0),
        ("<rss><channel><ttl>123456789</ttl></channel></rss>", 0.0),
        ("<rss><channel><ttl>\u0663</ttl></channel></rss>", 0.0),
        ("<rss><channel><ttl>5<b/></ttl></channel></rss>", 0.0),
        ("<rss><channel><ttl>5", 0.0),
        ('{"ttl": 7}', 0.0),
        ("", 0.0),
    ],
)
def test_ttl(document: str, ttl_s: float) -> None:
    assert read_head(document.encode(), "https://a.example/feed").ttl_s == ttl_s


@pytest.mark.parametrize(
    ("document", "hubs", "topic"),
    [
        (
            '\ufeff {"feed_url": "/f", "hubs": [{"type": "x", "url": "/no"}, {"type": "WebSub", "url": "/hub"}]}',
            ["https://a.example/hub"],
            "https://a.example/f",
        ),
        ('{"hubs": [{"type": "WebSub"}, {}], "items": [{"hubs": 5}]}', [], ""),
        ('{"hubs": 5}', [], ""),
        ('{"hubs": [', [], ""),
        ('{"x": ' + "[" * 100_000, [], ""),
    ],
)
def test_hubs_of_json_feeds(document: str, hubs: list[str], topic: str) -> None:
    head = read_head(document.encode(), "https://a.example/feed")
    assert (head.hubs, head.topic) == (hubs, topic)


def test_feeds_of_a_page() -> None:
    page = (
        '<link rel="alternate" type="application/rss+xml; charset=utf-8" href="/a"><link rel=alternate '
        'type=application/feed+json href=b><LINK REL="Alternate x" TYPE="application/atom+xml" HREF="//c.example/">'
        '<link rel="alternate" type="text/html" href="/d"><link rel="alternate" type="application/rss+xml">'
        '<a rel=alternate type=application/rss+xml href="/e"><link rel=alternate type=application/rss+xml href="ftp:">'
    )
    assert find_feeds(page.encode(), "https://a.example/x/") == [
        *("https://a.example/a", "https://a.example/x/b", "https://c.example/")
    ]
    many = "".join(f"<link rel=alternate type=application/rss+xml href=/{n}>" for n in range(1000))
    assert len(find_feeds(many.encode() + b"\xff\xfe<![CDATA[", "https://a.example/")) == 20


@pytest.mark.parametrize(
    "piece", ["<link ", "<!--", "<a", "<link rel=", "<![", "<link a", '<link rel="', "</", "&#", "<link x='"]
)
def test_broken_pages_take_little_time(piece: str) -> None:
    start = time.process_time()
    assert find_feeds((piece * (1 << 20))[: 1 << 20].encode(), "https://a.example/") == []
    assert time.process_time() - start < 10.0  # hours if it were quadratic


ATOM = 'xmlns="http://www.w3.org/2005/Atom"'


@pytest.mark.parametrize(
    ("document", "hubs", "topic"),
    [
        (f'<feed {ATOM}><link rel="hub" href="https://h.example/"/><link rel="self" href="x"/></feed>', 1, "x"),
        (
            f'<rss><channel><a:link {ATOM.replace("xmlns", "xmlns:a")} rel="hub self" href="/x"/></channel></rss>',
            1,
            "x",
        ),
        ('<rss><channel><link rel="hub" href="https://h.example/"/></channel></rss>', 0, ""),
        (f'<feed {ATOM}><entry/><link rel="hub" href="https://h.example/"/></feed>', 0, ""),
        (f'<feed {ATOM}><link rel="hub" href="ftp://h.example/"/><link rel="hub"/><link href="x"/></feed>', 0, ""),
        (f"<feed {ATOM}>" + '<link rel="hub" href="h"/>' * 100 + "</feed>", 20, ""),
    ],
)
def test_hubs_in_feeds(document: str, hubs: int, topic: str) -> None:
    head = read_head(document.encode(), "https://a.example/feed")
    assert (len(head.hubs), head.topic) == (hubs, f"https://a.example/{topic}" if topic else "")


@pytest.mark.parametrize(
    ("header", "hubs", "topic"),
    [
        ('<https://h.example/>; rel="hub", <https://a.example/s>; rel=self', ["https://h.example/"], "s"),
        ('</h,;"x>; title="a, <b>; rel=hub"; REL="x Hub",<s>;rel=self', ['https://a.example/h,;"x'], "s"),
        ("<h>; rel=hubs, <h>; rev=hub, <h>", [], ""),
        ("<h>; rel=other; rel=hub", [], ""),
        ('<h>; rel="hub', [], ""),
        ("<>; rel=hub, <>; rel=self", [], ""),
        ("", [], ""),
    ],
)
def test_hubs_in_link_headers(header: str, hubs: list[str], topic: str) -> None:
    head = read_link_headers({"link": header}, "https://a.example/feed")
    assert (head.hubs, head.topic) == (hubs, f"https://a.example/{topic}" if topic else "")


@pytest.mark.parametrize("piece", ["<", "<a>;", '<a>;rel="', "<a>;;;", "<a>; rel=hub,", '"', "<a>;a=b "])
def test_broken_link_headers_take_little_time(piece: str) -> None:
    start = time.process_time()
    read_link_headers({"link": piece * (1 << 17)}, "https://a.example/")
    assert time.process_time() - start < 10.0
