"""Documents with given entries, in each format that is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from xml.sax.saxutils import escape

from tests.reference.document_changes import DatedEntry

HOST = "https://a.example"
SITEMAP = "http://www.sitemaps.org/schemas/sitemap/0.9"


def sitemap(entries: Sequence[DatedEntry]) -> bytes:
    return _listing(entries, "urlset", "url")


def sitemap_index(entries: Sequence[DatedEntry]) -> bytes:
    return _listing(entries, "sitemapindex", "sitemap")


def rss(entries: Sequence[DatedEntry]) -> bytes:
    items = "".join(
        f"<item><title>{escape(entry.content)}</title><link>{escape(entry.url)}</link>{_email_date(entry)}</item>"
        for entry in entries
    )
    return f'<?xml version="1.0"?><rss version="2.0"><channel><title>T</title>{items}</channel></rss>'.encode()


def rss_1(entries: Sequence[DatedEntry]) -> bytes:
    items = "".join(
        f'<item rdf:about="{escape(entry.url)}"><title>{escape(entry.content)}</title>{_date(entry, "dc:date")}</item>'
        for entry in entries
    )
    return (
        '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/" '
        f'xmlns:dc="http://purl.org/dc/elements/1.1/"><channel/>{items}</rdf:RDF>'
    ).encode()


def atom(entries: Sequence[DatedEntry]) -> bytes:
    items = "".join(
        f'<entry><title>{escape(entry.content)}</title><link href="{escape(entry.url)}"/>'
        f"{_date(entry, 'updated')}</entry>"
        for entry in entries
    )
    return f'<feed xmlns="http://www.w3.org/2005/Atom"><title>T</title>{items}</feed>'.encode()


def json_feed(entries: Sequence[DatedEntry]) -> bytes:
    items = [
        {"id": i, "url": entry.url, "date_modified": _text(entry), "content_text": entry.content}
        for i, entry in enumerate(entries)
    ]
    return json.dumps({"version": "https://jsonfeed.org/version/1.1", "title": "T", "items": items}).encode()


def index_now(entries: Sequence[DatedEntry]) -> bytes:
    return json.dumps({"host": "a.example", "key": "k", "urlList": [entry.url for entry in entries]}).encode()


WRITERS: dict[str, Callable[[Sequence[DatedEntry]], bytes]] = {
    "sitemap": sitemap,
    "rss": rss,
    "rss 1.0": rss_1,
    "atom": atom,
    "json feed": json_feed,
}


def _listing(entries: Sequence[DatedEntry], root: str, name: str) -> bytes:
    rows = "".join(f"<{name}><loc>{escape(entry.url)}</loc>{_date(entry, 'lastmod')}</{name}>\n" for entry in entries)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<{root} xmlns="{SITEMAP}">{rows}</{root}>'.encode()


def _text(entry: DatedEntry) -> str | None:
    if entry.second is None:
        return None
    moment = datetime.fromtimestamp(entry.second, UTC)
    return f"{moment:%Y-%m-%d}" if entry.day else moment.isoformat()


def _date(entry: DatedEntry, element: str) -> str:
    text = _text(entry)
    return "" if text is None else f"<{element}>{text}</{element}>"


def _email_date(entry: DatedEntry) -> str:
    if entry.second is None or entry.day:
        return _date(entry, "pubDate")
    return f"<pubDate>{format_datetime(datetime.fromtimestamp(entry.second, UTC))}</pubDate>"
