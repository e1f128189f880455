"""The ttl of feeds, and the feeds that front pages name."""

from __future__ import annotations

import time

import pytest

from streamsched.fetching.document_links import find_feeds, read_head


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
