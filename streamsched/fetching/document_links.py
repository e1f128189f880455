"""Links to further documents: what the head of a feed says of itself, feeds that a page names, and Link headers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, Final
from urllib.parse import urljoin
from xml.parsers import expat

import msgspec

from streamsched.connectors.signals.document_reader import read_blocks
from streamsched.connectors.signals.entry_columns import find_host
from streamsched.connectors.signals.xml_entries import parse_xml
from streamsched.errors import DocumentError
from streamsched.numerics.packed_urls import MAX_URL_BYTES

_ATOM: Final = "http://www.w3.org/2005/Atom"
_FEED_TYPES: Final = frozenset(("application/rss+xml", "application/atom+xml", "application/feed+json"))
_ENTRIES: Final = frozenset(("item", "entry", "url", "sitemap"))
_BLANK: Final = b"\xef\xbb\xbf \t\r\n"
_MOST_LINKS: Final = 20  # of a document
_LONGEST_TTL: Final = 8  # digits
_LINK: Final = re.compile(
    r"<([^<>]{1,8192})>\s*+((?:;\s*+[\w*-]{1,64}+\s*+(?:=\s*+(?:\"[^\"]{0,1024}+\"|[^\s\",;]{0,1024}+)\s*+)?+)*+)"
)
_REL: Final = re.compile(r";\s*rel\s*=\s*(?:\"([^\"]*)\"|([^\s\",;]+))", re.IGNORECASE)


@dataclass(slots=True)
class DocumentHead:
    """What a document says of itself. ``ttl_s``: how long it may be kept, 0 if it does not say; ``hubs``: WebSub hubs;
    ``own``: the URL that it calls its own, "" without one.
    """

    ttl_s: float = 0.0
    hubs: list[str] = field(default_factory=list)
    own: str = ""


class _Enough(Exception):
    """Ends the parsing at the first entry."""


def read_head(document: bytes, url: str, headers: Mapping[str, str] | None = None) -> DocumentHead:
    """Return what the head of the document at `url` says, and the Link fields of its `headers`.

    RSS has ``ttl`` in minutes; hubs are links with the relation ``hub``, in Atom's namespace within RSS. A document
    that cannot be read says nothing. O(bytes before the first entry).
    """
    head = DocumentHead()
    for target, relations in read_link_header((headers or {}).get("link", "")):
        _add_link(head, url, target, relations)
    try:
        if document.lstrip(_BLANK)[:1] == b"{":
            _read_json(document, url, head)
        else:
            parse_xml(read_blocks(document, url), url, _HeadReader(head, url).open_root)
    except (DocumentError, _Enough):
        pass
    return head


def _add_link(head: DocumentHead, base: str, target: str | None, relations: str) -> None:
    found = _resolve(base, target)
    for relation in relations.lower().split() if found else ():
        if relation == "hub" and len(head.hubs) < _MOST_LINKS and found not in head.hubs:
            head.hubs.append(found)
        elif relation == "self" and not head.own:
            head.own = found


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

    def __init__(self, head: DocumentHead, url: str) -> None:
        self._head = head
        self._url = url
        self._text: list[str] | None = None  # of ttl

    def open_root(self, parser: expat.XMLParserType, _name: str, _attributes: dict[str, str]) -> None:
        """Read what follows the root's start."""
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._take

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        namespace, _, local = name.rpartition(" ")
        if local in _ENTRIES:
            raise _Enough
        if local == "link" and namespace == _ATOM:
            _add_link(self._head, self._url, attributes.get("href"), attributes.get("rel", ""))
        elif local == "ttl" and not namespace:
            self._text = []

    def _take(self, text: str) -> None:
        if self._text is not None and len(self._text) < _LONGEST_TTL:
            self._text.append(text[: _LONGEST_TTL + 1])

    def _end(self, _name: str) -> None:
        text, self._text = "".join(self._text or ()).strip(), None
        if text.isdecimal() and text.isascii() and len(text) <= _LONGEST_TTL:
            self._head.ttl_s = 60.0 * int(text)


class _JsonHead(msgspec.Struct):
    hubs: list[Any] = []
    feed_url: Any = None


def _read_json(document: bytes, url: str, head: DocumentHead) -> None:
    try:
        found = msgspec.json.decode(document.lstrip(b"\xef\xbb\xbf"), type=_JsonHead)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    for hub in found.hubs[:_MOST_LINKS]:
        if isinstance(hub, dict) and hub.get("type") == "WebSub" and isinstance(hub.get("url"), str):
            _add_link(head, url, hub["url"], "hub")
    if isinstance(found.feed_url, str):
        _add_link(head, url, found.feed_url, "self")


def read_link_header(text: str) -> list[tuple[str, str]]:
    """Return target and relations of each link of a Link header (RFC 8288). O(length).

    >>> read_link_header('<https://hub.example/>; rel="hub", </feed>; rel=self')
    [('https://hub.example/', 'hub'), ('/feed', 'self')]
    """
    found: list[tuple[str, str]] = []
    for match in _LINK.finditer(text[: 1 << 16]):
        relation = _REL.search(match[2])
        if relation is not None:
            found.append((match[1], relation[1] or relation[2] or ""))
    return found


def find_feeds(page: bytes, url: str) -> list[str]:
    """Return the feeds that the HTML page at `url` names by ``<link rel="alternate">``, 20 at most, each once."""
    reader = _FeedLinks(url)
    reader.feed(page.decode("utf-8", "replace"))
    return list(dict.fromkeys(reader.found))[:_MOST_LINKS]


class _FeedLinks(HTMLParser):
    def __init__(self, url: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self._url = url

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the target of a link to a feed."""
        named = {name: value or "" for name, value in reversed(attrs)}
        is_feed = named.get("type", "").split(";")[0].strip().lower() in _FEED_TYPES
        if tag == "link" and is_feed and "alternate" in named.get("rel", "").lower().split():
            target = _resolve(self._url, named.get("href"))
            if target and len(self.found) < _MOST_LINKS:
                self.found.append(target)
