"""JSON Feed and the body of an IndexNow notice."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from streamsched.connectors.signals.entry_columns import ContentHash, EntryColumns, EntryScope, StatedTime, find_host
from streamsched.errors import DocumentError, shorten

MAX_JSON_BYTES: Final = 16 << 20  # held whole, unlike XML; 10,000 URLs of IndexNow, each of 1,600 bytes
_OFFSET: Final = re.compile(r"\(byte (\d+)\)")
_TIMES: Final = ("date_modified", "date_published")
_CONTENTS: Final = ("title", "summary", "content_html", "content_text")


class _Document(msgspec.Struct):
    """The members that tell the formats apart; entries stay raw, so that one invalid entry costs no other."""

    items: list[msgspec.Raw] | None = None
    host: str | None = None
    url_list: list[msgspec.Raw] | None = msgspec.field(name="urlList", default=None)


class _Item(msgspec.Struct):
    """An item of a JSON Feed. In version 1 an id may be a number."""

    url: str | None = None
    id: str | int | float | None = None
    date_modified: str | None = None
    date_published: str | None = None
    title: str | None = None
    summary: str | None = None
    content_html: str | None = None
    content_text: str | None = None


_DOCUMENTS: Final = msgspec.json.Decoder(_Document)
_ITEMS: Final = msgspec.json.Decoder(_Item)
_URLS: Final = msgspec.json.Decoder(str)


def read_json(blocks: Iterable[bytes], url: str, columns: EntryColumns) -> str:
    """Add the entries of the JSON document whose bytes are `blocks` to `columns`; return ``"feed"`` or ``"indexnow"``.

    An IndexNow notice may only speak of the host that it names. Raises DocumentError for what is neither. O(bytes).
    """
    document = _decode(_join(blocks, url), url)
    if document.items is not None and document.url_list is None:
        for raw in document.items:
            _add_item(raw, columns)
        return "feed"
    if document.url_list is None or document.items is not None:
        raise DocumentError(url, "expected a JSON Feed with items or an IndexNow notice with a urlList")
    host = None if document.host is None else find_host(f"https://{document.host}")
    if host is None:
        raise DocumentError(url, f"host: expected the host of the urlList, found {shorten(document.host)}")
    columns.scope = EntryScope(frozenset([host]))
    for raw in document.url_list:
        try:
            columns.add("urlList", _URLS.decode(raw))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            columns.reject("urlList", _text_of(raw), "a URL as text")
    return "indexnow"


def _join(blocks: Iterable[bytes], url: str) -> bytes:
    whole = bytearray()
    for block in blocks:
        whole += block
        if len(whole) > MAX_JSON_BYTES:
            raise DocumentError(url, f"expected at most {MAX_JSON_BYTES} bytes of JSON", MAX_JSON_BYTES)
    return bytes(whole)


def _decode(whole: bytes, url: str) -> _Document:
    try:
        return _DOCUMENTS.decode(whole.removeprefix(b"\xef\xbb\xbf"))
    except msgspec.ValidationError as error:
        raise DocumentError(url, f"neither a JSON Feed nor an IndexNow notice: {error}") from error
    except RecursionError as error:
        raise DocumentError(url, "JSON is nested too deep") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        place = _OFFSET.search(str(error))
        raise DocumentError(url, f"not JSON: {error}", int(place[1]) if place else None) from error


def _add_item(raw: msgspec.Raw, columns: EntryColumns) -> None:
    try:
        item = _ITEMS.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        columns.reject("item", _text_of(raw), f"an item of a JSON Feed: {error}")
        return
    content = ContentHash()
    for name in _CONTENTS:
        if text := getattr(item, name):
            content.begin(name)
            content.add(text)
    times = [StatedTime(name, text) for name in _TIMES if (text := getattr(item, name))]
    if item.url is None and isinstance(item.id, str) and find_host(item.id) is not None:
        columns.add("id", item.id, times, content.value)
    else:
        columns.add("url", item.url, times, content.value)


def _text_of(raw: msgspec.Raw) -> str:
    """Return the beginning of a raw value, enough for a message."""
    return bytes(memoryview(raw)[:200]).decode("utf-8", "replace")
