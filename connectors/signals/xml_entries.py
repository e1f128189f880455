"""The entries of sitemaps and feeds, by a table of their elements: they differ in that table alone.

The XML is parsed within bounds of depth, names and sizes, without entities or a DTD: documents come from strangers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple
from urllib.parse import urljoin
from xml.parsers import expat

from streamsched.connectors.signals.entry_columns import ContentHash, EntryColumns, StatedTime, find_host
from streamsched.errors import DocumentError, shorten
from streamsched.numerics.packed_urls import MAX_URL_BYTES

_MAX_TEXT_CHARS: Final = 1 << 14  # of a URL or a time: twice the longest URL, so what is cut is too long anyway
_MAX_TIMES: Final = 8  # of an entry: no format has as many
_Attributes = Mapping[str, str]


class Role(Enum):
    """What the text of an element is for."""

    URL = auto()
    TIME = auto()
    CONTENT = auto()


class Field(NamedTuple):
    """An element directly within an entry, by its name in messages."""

    name: str
    role: Role


@dataclass(slots=True)
class XmlEntry:
    """The attributes of an entry, the first text of each URL element, its times, and the hash of its contents."""

    attributes: _Attributes
    urls: dict[str, str] = field(default_factory=dict)
    times: list[StatedTime] = field(default_factory=list)
    content: ContentHash = field(default_factory=ContentHash)


@dataclass(frozen=True, slots=True)
class EntryLayout:
    """``entries``: names of the elements that are entries; ``fields``: those directly within them.

    ``finish(entry)`` is called at the end of each entry, ``on_field(entry, field, attributes)`` at the beginning of
    each field, for what an attribute says.
    """

    entries: frozenset[str]
    fields: Mapping[str, Field]
    finish: Callable[[XmlEntry], None]
    on_field: Callable[[XmlEntry, Field, _Attributes], None] | None = None


def read_entries(parser: expat.XMLParserType, url: str, layout: EntryLayout) -> None:
    """Let `parser`, which is at the start of the root element, pass the entries to `layout`.

    An entry within an entry is none. Raises DocumentError, while it parses, for elements nested beyond `MAX_DEPTH`.
    """
    reader = _EntryReader(parser, url, layout)
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end


class _EntryReader:
    """The handlers of a document: no text is collected but that of fields. Depths count from 1, the root's; 0: none."""

    def __init__(self, parser: expat.XMLParserType, url: str, layout: EntryLayout) -> None:
        self._parser = parser
        self._url = url
        self._layout = layout
        self._depth = 1
        self._entry_depth = 0
        self._field_depth = 0
        self._entry = XmlEntry({})
        self._field = Field("", Role.URL)
        self._texts: list[str] = []
        self._room = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Begin an element."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            reason = f"expected elements nested at most {MAX_DEPTH} deep"
            raise DocumentError(self._url, reason, self._parser.CurrentByteIndex)
        if self._entry_depth:
            if self._depth == self._entry_depth + 1 and (found := self._layout.fields.get(name)):
                self._open(found, attributes)
        elif name in self._layout.entries:
            self._entry_depth = self._depth
            self._entry = XmlEntry(attributes)

    def end(self, _name: str) -> None:
        """End an element."""
        if self._depth == self._field_depth:
            self._close()
        elif self._depth == self._entry_depth:
            self._entry_depth = 0
            self._layout.finish(self._entry)
        self._depth -= 1

    def _open(self, found: Field, attributes: _Attributes) -> None:
        self._field, self._field_depth = found, self._depth
        self._texts, self._room = [], _MAX_TEXT_CHARS
        if self._layout.on_field is not None:
            self._layout.on_field(self._entry, found, attributes)
        if found.role is Role.CONTENT:
            self._entry.content.begin(found.name)
            self._parser.CharacterDataHandler = self._entry.content.add
        else:
            self._parser.CharacterDataHandler = self._take_text

    def _take_text(self, text: str) -> None:
        self._texts.append(text[: self._room])
        self._room = max(self._room - len(text), 0)

    def _close(self) -> None:
        self._parser.CharacterDataHandler = None
        self._field_depth = 0
        name, role = self._field
        if role is Role.CONTENT:
            return
        text = "".join(self._texts).strip()
        if role is Role.URL:
            self._entry.urls.setdefault(name, text)
        elif text and len(self._entry.times) < _MAX_TIMES:
            self._entry.times.append(StatedTime(name, text))


MAX_DEPTH: Final = 256  # of nested elements; XHTML within an entry of Atom has some tens
MAX_TOKEN_BYTES: Final = 1 << 18  # of a tag, comment or instruction: Expat before 2.6 rescans an unfinished one
MAX_NAMES: Final = 10_000  # different names of elements and attributes: Expat keeps each of them
MAX_NAMESPACE_CHARS: Final = 256  # of a namespace's URI: Expat copies it into each name
_SEPARATOR: Final = " "  # between the URI and the local part of a name
_ENCODINGS: Final = re.compile(
    r"utf-?8|utf-?16(?:-?[bl]e)?|(?:us-)?ascii|iso-?8859-?\d{1,2}|latin-?1|(?:windows|cp)-?125\d|koi8-[ru]",
    re.IGNORECASE,
)

Root = Callable[[expat.XMLParserType, str, dict[str, str]], None]


def parse_xml(blocks: Iterable[bytes], url: str, open_root: Root) -> None:
    """Parse the XML document whose bytes are `blocks`; names come as ``namespace local``, the URI and a space first.

    ``open_root(parser, name, attributes)`` is called for the root element and sets the handlers for those within;
    they may raise DocumentError. Raises DocumentError, and no other error, for what is not well-formed, has a
    document type or an entity of its own, or exceeds a limit of this module. O(bytes); holds one block and one token.
    """
    parser = expat.ParserCreate(namespace_separator=_SEPARATOR)
    _set_up(parser, url, open_root)
    fed = 0
    try:
        for block in blocks:
            parser.Parse(block, False)
            fed += len(block)
            _check_growth(parser, url, fed)
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        reason = f"not well-formed XML: {expat.ErrorString(error.code)}"
        raise DocumentError(url, reason, max(parser.ErrorByteIndex, 0)) from error
    except DocumentError:
        raise
    except (ValueError, LookupError) as error:  # Python knows no table of 256 characters for it
        raise DocumentError(url, f"cannot be decoded: {error}", max(parser.CurrentByteIndex, 0)) from error


def _set_up(parser: expat.XMLParserType, url: str, open_root: Root) -> None:
    def refuse(reason: str) -> DocumentError:
        return DocumentError(url, reason, max(parser.CurrentByteIndex, 0))

    def on_declaration(_version: str, encoding: str | None, _standalone: int) -> None:
        if encoding is not None and not _ENCODINGS.fullmatch(encoding):
            raise refuse(f"encoding: expected UTF-8, UTF-16 or one byte a character, found {shorten(encoding)}")

    def on_doctype(*_: object) -> None:
        raise refuse("has a document type (DOCTYPE): refused, as it may define entities or name files")

    def on_namespace(_prefix: str | None, uri: str | None) -> None:
        if uri is not None and len(uri) > MAX_NAMESPACE_CHARS:
            raise refuse(f"namespace: expected at most {MAX_NAMESPACE_CHARS} characters, found {len(uri)}")

    def on_root(name: str, attributes: dict[str, str]) -> None:
        open_root(parser, name, attributes)

    parser.buffer_text = True
    parser.XmlDeclHandler = on_declaration
    parser.StartDoctypeDeclHandler = on_doctype
    parser.StartNamespaceDeclHandler = on_namespace
    parser.StartElementHandler = on_root
    if hasattr(parser, "SetReparseDeferralEnabled"):  # tokens are bounded here, so that rescans cost little
        parser.SetReparseDeferralEnabled(False)


def _check_growth(parser: expat.XMLParserType, url: str, fed: int) -> None:
    """Raise DocumentError if an unfinished token or the set of names has grown beyond its limit."""
    if fed - parser.CurrentByteIndex > MAX_TOKEN_BYTES:
        reason = f"expected tags and comments of at most {MAX_TOKEN_BYTES} bytes"
        raise DocumentError(url, reason, parser.CurrentByteIndex)
    if len(parser.intern) > MAX_NAMES:
        reason = f"expected at most {MAX_NAMES} different names of elements and attributes"
        raise DocumentError(url, reason, parser.CurrentByteIndex)


SITEMAP_ENTRIES: Final = {"urlset": "url", "sitemapindex": "sitemap"}  # root element: its entries


def sitemap_layout(prefix: str, root: str, columns: EntryColumns) -> EntryLayout:
    """Return the elements of a sitemap whose root is `root`, of the namespace `prefix`, for `columns`.

    Elements of other namespaces, such as those of images and news, are passed over, as are changefreq and priority:
    they announce nothing.
    """

    def finish(entry: XmlEntry) -> None:
        columns.add("loc", entry.urls.get("loc"), entry.times)

    fields = {f"{prefix}loc": Field("loc", Role.URL), f"{prefix}lastmod": Field("lastmod", Role.TIME)}
    return EntryLayout(frozenset({prefix + SITEMAP_ENTRIES[root]}), fields, finish)


RDF: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns# "
_RSS_IN_RDF: Final = ("http://purl.org/rss/1.0/ ", "http://my.netscape.com/rdf/simple/0.9/ ", "")
_DUBLIN_CORE: Final = "http://purl.org/dc/elements/1.1/ "
_CONTENT: Final = "http://purl.org/rss/1.0/modules/content/ "
_BASE: Final = "http://www.w3.org/XML/1998/namespace base"
_RSS_FIELDS: Final = {
    "link": Field("link", Role.URL),
    "guid": Field("guid", Role.URL),
    "pubDate": Field("pubDate", Role.TIME),
    "title": Field("title", Role.CONTENT),
    "description": Field("description", Role.CONTENT),
}
_RSS_EXTENSIONS: Final = {
    f"{_DUBLIN_CORE}date": Field("dc:date", Role.TIME),
    f"{_CONTENT}encoded": Field("content:encoded", Role.CONTENT),
}
_ATOM_LINK: Final = "link"
_ATOM_FIELDS: Final = {
    _ATOM_LINK: Field(_ATOM_LINK, Role.URL),
    **{name: Field(name, Role.TIME) for name in ("updated", "published", "modified", "issued")},
    **{name: Field(name, Role.CONTENT) for name in ("title", "summary", "content")},
}


def rss_layout(prefix: str, columns: EntryColumns) -> EntryLayout:
    """Return the elements of RSS for `columns`; `prefix` is the namespace of its root, that of RDF in RSS 0.90 and 1.0.

    An item's URL is its link, or else its guid unless that says it is no permanent link, or else its rdf:about.
    """

    def finish(entry: XmlEntry) -> None:
        for name in ("link", "guid"):
            if entry.urls.get(name):
                break
        else:
            name = "rdf:about" if f"{RDF}about" in entry.attributes else "link"
        url = entry.attributes.get(f"{RDF}about") if name == "rdf:about" else entry.urls.get(name)
        columns.add(name, url, entry.times, entry.content.value)

    prefixes = _RSS_IN_RDF if prefix == RDF else (prefix,)
    fields = {one + name: field for one in prefixes for name, field in _RSS_FIELDS.items()}
    return EntryLayout(frozenset(f"{one}item" for one in prefixes), fields | _RSS_EXTENSIONS, finish, _check_guid)


def _check_guid(entry: XmlEntry, field: Field, attributes: Mapping[str, str]) -> None:
    """Keep a guid that is no permanent link from being taken for a URL: the first text of a field counts."""
    if field.name == "guid" and attributes.get("isPermaLink", "true").strip().lower() != "true":
        entry.urls.setdefault("guid", "")


def atom_layout(prefix: str, root: Mapping[str, str], url: str, columns: EntryColumns) -> EntryLayout:
    """Return the elements of the Atom document at `url` for `columns`; ``root``: the attributes of its root.

    An entry's URL is that of its first link which is an alternate, resolved against xml:base and the document's URL.
    Source: RFC 4287, 4.2.7.
    """
    document_base = _resolve(url, root.get(_BASE, ""))

    def on_field(entry: XmlEntry, field: Field, attributes: Mapping[str, str]) -> None:
        href = attributes.get("href")
        if field.name == _ATOM_LINK and href is not None and attributes.get("rel", "alternate") == "alternate":
            base = _resolve(_resolve(document_base, entry.attributes.get(_BASE, "")), attributes.get(_BASE, ""))
            entry.urls.setdefault("href", _resolve(base, href.strip()))

    def finish(entry: XmlEntry) -> None:
        columns.add("link", entry.urls.get("href"), entry.times, entry.content.value)

    fields = {prefix + name: field for name, field in _ATOM_FIELDS.items()}
    return EntryLayout(frozenset({f"{prefix}entry"}), fields, finish, on_field)


def _resolve(base: str, reference: str) -> str:
    """Return the URL of `reference` from a document at `base`; itself if it cannot be resolved.

    What is longer than a URL is not resolved, as that takes time in proportion to base and reference.
    """
    if not reference or find_host(reference) is not None:
        return reference or base
    if len(base) > MAX_URL_BYTES or len(reference) > MAX_URL_BYTES:
        return reference
    try:
        return urljoin(base, reference)
    except ValueError:  # of brackets that are no IPv6 address
        return reference
