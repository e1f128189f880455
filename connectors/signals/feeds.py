"""RSS 0.9x, 1.0 and 2.0, and Atom 0.3 and 1.0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin

from streamsched.connectors.signals.entry_columns import find_host
from streamsched.connectors.signals.xml_entries import EntryLayout, Field, Role, XmlEntry
from streamsched.numerics.packed_urls import MAX_URL_BYTES

if TYPE_CHECKING:
    from streamsched.connectors.signals.entry_columns import EntryColumns

__all__ = ["RDF", "atom_layout", "rss_layout"]

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
        for field in ("link", "guid"):
            if entry.urls.get(field):
                break
        else:
            field = "rdf:about" if f"{RDF}about" in entry.attributes else "link"
        url = entry.attributes.get(f"{RDF}about") if field == "rdf:about" else entry.urls.get(field)
        columns.add(field, url, entry.times, entry.content.value)

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
