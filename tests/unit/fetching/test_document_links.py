"""Links of documents: heads of feeds, front pages, Link headers."""

from __future__ import annotations

import json
import time

import pytest

from streamsched.fetching.document_links import find_feeds, read_head, read_link_header

URL = "https://a.example/in/feed"
ATOM = "http://www.w3.org/2005/Atom"
SELF = '<a:link rel="self" href="feed"/><item><ttl>7</ttl></item></channel>'
LATE = '<link rel="hub" href="https://late.example/"/>'


@pytest.mark.parametrize(
    ("document", "ttl_s", "hubs", "own"),
    [
        (
            f'<rss xmlns:a="{ATOM}"><channel><ttl> 90 </ttl><a:link rel="hub" href="/hub"/>{SELF}</rss>',
            *(5400.0, ["https://a.example/hub"], "https://a.example/in/feed"),
        ),
        (
            f'<feed xmlns="{ATOM}"><link rel="hub self" href="https://h.example/"/><entry/>{LATE}</feed>',
            *(0.0, ["https://h.example/"], "https://h.example/"),
        ),
        (
            json.dumps({"hubs": [{"type": "WebSub", "url": "/h"}, {"type": "rssCloud", "url": "/r"}, 7], "items": []}),
            *(0.0, ["https://a.example/h"], ""),
        ),
        ("<rss><channel><ttl>1e9</ttl></channel></rss>", 0.0, [], ""),
        ("<rss><channel><ttl>123456789</ttl></channel></rss>", 0.0, [], ""),
        ("<rss><channel><ttl>٣</ttl></channel></rss>", 0.0, [], ""),
        (f'<feed xmlns="{ATOM}"><link rel="hub" href="javascript:x"/><link rel="hub"/></feed>', 0.0, [], ""),
        ("<rss><channel><ttl>5", 0.0, [], ""),
        ('{"hubs": 7}', 0.0, [], ""),
        ("", 0.0, [], ""),
    ],
)
def test_heads(document: str, ttl_s: float, hubs: list[str], own: str) -> None:
    head = read_head(document.encode(), URL)
    assert (head.ttl_s, head.hubs, head.own) == (ttl_s, hubs, own)


def test_link_headers_count_too() -> None:
    head = read_head(b"", URL, {"link": '<https://h.example/a,b>; title="x, <y>"; rel="HUB", </f>; rel=self; x'})
    assert (head.hubs, head.own) == (["https://h.example/a,b"], "https://a.example/f")
    assert read_link_header("<a>, <b>; rel=, rel=hub") == []


@pytest.mark.parametrize(
    "text", ["<a>;" * 30_000, "<a>;x" + " " * 90_000, "<" * 90_000, '<a>;x="' + "y" * 90_000, "<a>" + ";x=y" * 20_000]
)
def test_hostile_link_headers_take_little_time(text: str) -> None:
    start = time.process_time()
    read_link_header(text)
    assert time.process_time() - start < 2.0  # hours if it were quadratic


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
