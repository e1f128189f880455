"""Documents that announce changes, read into signals: what is new in them since their last reading."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import chain
from typing import Final
from xml.parsers import expat

import numpy as np

from streamsched.connectors.reading.byte_stream import GZIP_MAGIC, Inflater
from streamsched.connectors.signals.document_memory import (
    Changes,
    DocumentMemory,
    find_changes,
    find_documents,
    has_one_time,
    keep_newest,
    to_remembered,
)
from streamsched.connectors.signals.entry_columns import ANY_PAGE, Entries, EntryColumns, EntryScope, find_host
from streamsched.connectors.signals.json_documents import read_json
from streamsched.connectors.signals.xml_entries import (
    RDF,
    SITEMAP_ENTRIES,
    atom_layout,
    parse_xml,
    read_entries,
    rss_layout,
    sitemap_layout,
)
from streamsched.errors import DocumentError, InvalidSignal, SettingsError, shorten
from streamsched.numerics.argument_checks import check_time, check_type
from streamsched.signals import SignalBatch

_BLANK: Final = b"\xef\xbb\xbf \t\r\n"  # a byte order mark and white space
_ROOTS: Final = "urlset, sitemapindex, rss, RDF or feed"


@dataclass(frozen=True, slots=True)
class Reading:
    """What one reading of a document announced, and its entries by their fate.

    ``kind``: "sitemap", "feed" or "indexnow", the source of its signals; ``signals``: one for each page that is
    announced, in the document's order, none of a sitemap index; ``documents``: of a sitemap index, the sitemaps to
    read next: those announced, those whose time says nothing, and all of them in a first reading without `since`.

    ``entries`` is the sum of ``new`` (not in the last reading, or in a first reading after `since`), ``changed`` (a
    newer time or another content than in the last reading), ``unchanged``, ``remembered`` (in a first reading, not
    announced), ``repeated`` (a URL that the document has in a newer entry too, or in an earlier one as new),
    ``other_host`` (of a host or directory that the document may not speak of) and ``invalid`` (without a valid URL).

    Among the valid ones are ``untimed`` (without a time that can be read) and ``future`` (with a time after the
    reading, which says nothing). ``one_time``: all entries have the same time, which says nothing either.
    ``problems``: the first 100 entries that break the format or speak of another host, or times that cannot be read,
    each with entry from 0, field, found and expected.
    """

    url: str
    kind: str
    signals: SignalBatch
    documents: list[str]
    entries: int
    new: int
    changed: int
    unchanged: int
    remembered: int
    repeated: int
    other_host: int
    invalid: int
    untimed: int
    future: int
    one_time: bool
    problems: list[InvalidSignal]


def read_document(
    document: bytes,
    *,
    url: str,
    read_at: float,
    memory: DocumentMemory | None = None,
    since: float | None = None,
    scope: EntryScope | None = None,
) -> Reading:
    """Return what the document at `url`, fetched at `read_at` (UTC epoch seconds), announces.

    `document`: a sitemap or sitemap index, a feed (RSS 0.9x, 1.0, 2.0, Atom, JSON Feed) or an IndexNow notice, plain
    or gzip. `memory` knows its last reading and keeps this one; without one, and at the first reading, entries with a
    time after `since` are announced, none if `since` is None. An IndexNow notice is no list that is read again: it
    announces all that it has, and `memory` does not keep it. `scope`: which pages it may announce, by default those of
    the host at `url` for a sitemap and any for a feed; a notice always names its host.

    A signal's time is the entry's own, the newest of lastmod, updated, published and their like. For a day, a month or
    a year it is the last second, or `read_at` if that is earlier, as the change may be as late. It is `read_at` if the
    entry has no time, one in the future, the one that all entries have, or a new content under its old time.

    O(n log n), holds 200 bytes an entry and its URL. Raises DocumentError for what is malformed, hostile or too large,
    and then leaves `memory` as it was; SettingsError for a time or a URL that is none.
    """
    parsing = _Parsing(url, document, check_time(read_at, "read_at"), scope)
    since = None if since is None else check_time(since, "since")
    entries = keep_newest(parsing.columns.finish())
    if parsing.kind == "indexnow":
        return _announce_all(parsing, entries)
    last = None if memory is None else memory.recall(url)
    changes = find_changes(entries, last, parsing.read_at, since)
    reading = _to_reading(parsing, entries, changes, first=last is None)
    if parsing.is_index:
        rows = np.flatnonzero(find_documents(changes, first=last is None, since=since))
        reading = replace(reading, signals=SignalBatch([], [], parsing.kind), documents=list(entries.urls.take(rows)))
    if memory is not None:
        memory.remember(url, to_remembered(entries, parsing.read_at))
    return reading


class _Parsing:
    """The entries of `document`, its kind, and whether it lists documents instead of pages."""

    def __init__(self, url: str, document: bytes, read_at: float, scope: EntryScope | None) -> None:
        check_type("document", document, bytes, "the bytes of a document")
        check_type("url", url, str, "the document's URL")
        host = find_host(url)
        if host is None:
            raise SettingsError("url", url, "an absolute http or https URL")
        self.url = url
        self.read_at = read_at
        self.of_sitemap = EntryScope(frozenset([host])) if scope is None else scope
        self.kind = ""
        self.is_index = False
        self.columns = EntryColumns(url, read_at)
        self.columns.scope = scope or ANY_PAGE
        blocks = read_blocks(document, url)
        head = next(blocks, b"")
        whole = chain((head,), blocks)
        if head.lstrip(_BLANK)[:1] == b"{":
            self.kind = read_json(whole, url, self.columns)
        else:
            parse_xml(whole, url, self._open_root)

    def _open_root(self, parser: expat.XMLParserType, name: str, attributes: dict[str, str]) -> None:
        namespace, _, root = name.rpartition(" ")
        prefix = f"{namespace} " if namespace else ""
        self.kind = "sitemap" if root in SITEMAP_ENTRIES else "feed"
        self.is_index = root == "sitemapindex"
        if root in SITEMAP_ENTRIES:
            self.columns.scope = self.of_sitemap
            layout = sitemap_layout(prefix, root, self.columns)
        elif root == "feed":
            layout = atom_layout(prefix, attributes, self.url, self.columns)
        elif root == "rss" or (root, prefix) == ("RDF", RDF):
            layout = rss_layout(prefix, self.columns)
        else:
            raise DocumentError(self.url, f"root: expected {_ROOTS}, found {shorten(root)}", parser.CurrentByteIndex)
        read_entries(parser, self.url, layout)


def _announce_all(parsing: _Parsing, entries: Entries) -> Reading:
    """Return the reading of an IndexNow notice."""
    every = np.ones(len(entries), np.bool_)
    changes = Changes(every, ~every, np.full(len(entries), parsing.read_at), every)
    return _to_reading(parsing, entries, changes, first=False)


def _to_reading(parsing: _Parsing, entries: Entries, changes: Changes, *, first: bool) -> Reading:
    counts = parsing.columns.counts
    rows = np.flatnonzero(changes.new | changes.changed)
    same = len(entries) - rows.size
    return Reading(
        url=parsing.url,
        kind=parsing.kind,
        signals=SignalBatch(entries.urls.take(rows), changes.at[rows], parsing.kind),
        documents=[],
        entries=counts.entries,
        new=int(changes.new.sum()),
        changed=int(changes.changed.sum()),
        unchanged=0 if first else same,
        remembered=same if first else 0,
        repeated=counts.entries - counts.invalid - counts.other_host - len(entries),
        other_host=counts.other_host,
        invalid=counts.invalid,
        untimed=counts.untimed,
        future=counts.future,
        one_time=has_one_time(entries),
        problems=parsing.columns.problems,
    )


MAX_DOCUMENT_BYTES: Final = 50 << 20  # decompressed, the limit of sitemaps.org; a gzip bomb stops here
_BLOCK_BYTES: Final = 1 << 16  # small beside the limits that are checked after each block


def read_blocks(document: bytes, url: str) -> Iterator[bytes]:
    """Yield the bytes of `document` in blocks; gzip is detected by its first bytes. Holds one block.

    Raises DocumentError beyond `MAX_DOCUMENT_BYTES`, and if gzip is damaged or cut off.
    """
    if len(document) > MAX_DOCUMENT_BYTES:
        raise _too_large(url)
    if not document.startswith(GZIP_MAGIC):
        for start in range(0, len(document), _BLOCK_BYTES):
            yield document[start : start + _BLOCK_BYTES]
        return
    inflater, size = Inflater(BytesIO(document)), 0
    while block := _inflate(inflater, url, size):
        size += len(block)
        if size > MAX_DOCUMENT_BYTES:
            raise _too_large(url)
        yield block


def _inflate(inflater: Inflater, url: str, offset: int) -> bytes:
    try:
        return inflater.read(_BLOCK_BYTES)
    except EOFError as error:
        raise DocumentError(url, str(error), offset) from error
    except zlib.error as error:
        raise DocumentError(url, f"damaged gzip: {error}; fetch it again", offset) from error


def _too_large(url: str) -> DocumentError:
    return DocumentError(url, f"expected at most {MAX_DOCUMENT_BYTES} bytes, decompressed", MAX_DOCUMENT_BYTES)
