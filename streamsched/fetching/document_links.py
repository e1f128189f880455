"""What documents name: how long a feed may be kept, its WebSub hub, and the feeds of a page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from html import unescape
from typing import Final
from urllib.parse import urljoin
from xml.parsers import expat

import msgspec

from streamsched.connectors.signals.document_reader import read_blocks
from streamsched.connectors.signals.entry_columns import find_host
from streamsched.connectors.signals.xml_entries import parse_xml
from streamsched.errors import DocumentError
from streamsched.numerics.packed_urls import MAX_URL_BYTES

_FEED_TYPES: Final = frozenset(("application/rss+xml", "application/atom+xml", "application/feed+json"))
_ENTRIES: Final = frozenset(("item", "entry", "url", "sitemap"))
_BLANK: Final = b"\xef\xbb\xbf \t\r\n"
_MOST_LINKS: Final = 20  # of a document
_LONGEST_TTL: Final = 8  # digits
_ATOM_LINK: Final = "http://www.w3.org/2005/Atom link"
_LONGEST_LINK_HEADER: Final = 1 << 14
_LINK_VALUE: Final = re.compile(r"<([^<>]*+)>((?:[^<>\",]|\"[^\"]*+\")*+)")
_PARAMETER: Final = re.compile(r";\s*+([A-Za-z*-]++)\s*+=\s*+(?:\"([^\"]*+)\"|([^\s\";,]++))")
_LINK_TAG: Final = re.compile(r"<link(?=[\s/])([^<>]{0,16384}+)>", re.IGNORECASE)
_ATTRIBUTE: Final = re.compile(r"([a-z-]++)\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s\"'<>]++))", re.IGNORECASE)


class _Enough(Exception):
    """Ends the parsing at the first entry."""


@dataclass(slots=True)
class Head:
    """What a document says of itself.

    ``ttl_s``: for how many seconds it may be kept, 0 if it does not say; ``hubs``: its WebSub hubs, in its order;
    ``topic``: the URL by which hubs know it, "" if it has none.
    """

    ttl_s: float = 0.0
    hubs: list[str] = field(default_factory=list)
    topic: str = ""

    def add(self, rel: str, base: str, target: str | None) -> None:
        """Take a link of the relation types `rel`, whose target is relative to `base`. O(length)."""
        relations = rel.lower().split()
        if "hub" in relations and len(self.hubs) < _MOST_LINKS and (url := _resolve(base, target)):
            self.hubs.append(url)
        if "self" in relations and not self.topic:
            self.topic = _resolve(base, target)


class _Hub(msgspec.Struct):
    type: str = ""
    url: str = ""


class _JsonFeed(msgspec.Struct):
    feed_url: str = ""
    hubs: list[_Hub] = []


def read_head(document: bytes, url: str) -> Head:
    """Return what the document at `url` says of itself: an XML document before its first entry, or a JSON Feed.

    O(bytes before the first entry), of a JSON Feed O(bytes). What cannot be read says nothing. Sources: RSS 2.0, whose
    ttl is in minutes; WebSub, 4, for links in the namespace of Atom; JSON Feed 1.1, whose hubs have types.

    >>> read_head(b"<rss><channel><ttl>90</ttl></channel></rss>", "https://a.example/feed").ttl_s
    5400.0
    """
    reader, text = _HeadReader(url), document.lstrip(_BLANK)
    if text[:1] == b"{":
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            feed = msgspec.json.decode(text, type=_JsonFeed)
            for hub in feed.hubs:
                reader.head.add("hub" if hub.type.lower() == "websub" else "", url, hub.url)
            reader.head.add("self", url, feed.feed_url)
    else:
        with suppress(DocumentError, _Enough):
            parse_xml(read_blocks(document, url), url, reader.open_root)
    return reader.head


def read_link_headers(headers: Mapping[str, str], url: str) -> Head:
    """Return what the Link header of the answer from `url` says. O(length). Source: RFC 8288.

    >>> read_link_headers({"link": '<https://h.example/>; rel=hub, </feed>; rel="self"'}, "https://a.example/x").topic
    'https://a.example/feed'
    """
    head = Head()
    for target, parameters in _LINK_VALUE.findall(headers.get("link", "")[:_LONGEST_LINK_HEADER]):
        rels = ("".join(values) for name, *values in _PARAMETER.findall(parameters) if name.lower() == "rel")
        head.add(next(rels, ""), url, target)
    return head


def _resolve(base: str, target: str | None) -> str:
    """Return the absolute http or https URL of a link, "" if it has none."""
    if not target or len(target) > MAX_URL_BYTES:
        return ""
    try:
        found = urljoin(base, target.strip())
    except ValueError:  # of brackets that are no IPv6 address
        return ""
    return found if find_host(found) is not None else ""


class _HeadReader:
    """The handlers of an XML document until its first entry."""

    def __init__(self, url: str) -> None:
        self.head = Head()
        self._url = url
        self._text: list[str] | None = None  # of ttl

    def open_root(self, parser: expat.XMLParserType, _name: str, _attributes: dict[str, str]) -> None:
        """Read what follows the root's start."""
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._take

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name.rpartition(" ")[2] in _ENTRIES:
            raise _Enough
        self._text = [] if name == "ttl" else None
        if name == _ATOM_LINK:
            self.head.add(attributes.get("rel", ""), self._url, attributes.get("href"))

    def _take(self, text: str) -> None:
        if self._text is not None and len(self._text) < _LONGEST_TTL:
            self._text.append(text[: _LONGEST_TTL + 1])

    def _end(self, _name: str) -> None:
        text, self._text = "".join(self._text or ()).strip(), None
        if text.isdecimal() and text.isascii() and len(text) <= _LONGEST_TTL:
            self.head.ttl_s = 60.0 * int(text)


def find_feeds(page: bytes, url: str) -> list[str]:
    """Return the feeds that the HTML page at `url` names by ``<link rel="alternate">``, each once, 20 at most.

    O(bytes). Tags are found by patterns: the parser of the standard library takes quadratic time for some broken pages.
    """
    found: dict[str, None] = {}
    for tag in _LINK_TAG.finditer(page.decode("utf-8", "replace")):
        named: dict[str, str] = {}
        for name, *values in _ATTRIBUTE.findall(tag[1]):
            named.setdefault(name.lower(), unescape("".join(values)))
        is_feed = named.get("type", "").split(";")[0].strip().lower() in _FEED_TYPES
        if is_feed and "alternate" in named.get("rel", "").lower().split():
            target = _resolve(url, named.get("href"))
            if target and len(found) < _MOST_LINKS:
                found[target] = None
    return list(found)
