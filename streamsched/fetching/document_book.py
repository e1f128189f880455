"""The documents that are fetched: who named them, what their answers said, and what robots.txt said; in a file."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec
from crc32c import crc32c

from streamsched.connectors.signals.entry_columns import EntryScope, find_host
from streamsched.errors import SnapshotError
from streamsched.fetching.subscriptions import Subscription, Subscriptions
from streamsched.persistence.files import as_snapshot_errors, read_regular, write_file
from streamsched.web.robots import Robots

Kind: TypeAlias = Literal["sitemap", "feed", "site"]

MOST_DOCUMENTS: Final = 200_000
MOST_CHILDREN: Final = 50_000  # sitemaps of an index, as sitemaps.org has it
MOST_ROBOTS_CHARS: Final = 32 << 20  # of all kept texts; beyond, those fetched longest ago are fetched again
_FORMAT: Final = "streamsched fetcher 1"


class Document(msgspec.Struct, omit_defaults=True):
    """A document that is fetched.

    - ``kind``: what it was named as: a sitemap, a feed, or a site's front page, which names feeds;
    - ``parent``: the document that named it, "" for one that a person named;
    - ``vouchers``: the hosts whose robots.txt names it;
    - ``since``: of its first reading, entries with a later time are announced; None announces none;
    - ``etag``, ``last_modified``: of the answer that the memory of entries has;
    - ``rest_s``: the least time between two visits that it asks for;
    - ``indexed``: its index says when it is newer, so that it need not be asked itself;
    - ``gone``: it answered 410: it is not visited again.
    """

    url: str
    kind: Kind
    parent: str = ""
    vouchers: list[str] = []
    since: float | None = None
    etag: str = ""
    last_modified: str = ""
    rest_s: float = 0.0
    indexed: bool = False
    gone: bool = False
    children: int = 0

    @property
    def host(self) -> str:
        """Host and port of its URL."""
        return find_host(self.url) or ""


class _Saved(msgspec.Struct):
    """``crc32c``: of ``content``."""

    format: str
    crc32c: int
    content: msgspec.Raw


class _Content(msgspec.Struct):
    documents: list[Document]
    robots: dict[str, Robots]
    denied: dict[str, float]
    allowance: float
    saved_at: float
    subscriptions: list[Subscription] = []


class DocumentBook:
    """The documents by their URLs, at most `MOST_DOCUMENTS`, and the subscriptions to them.

    ``robots``: by scheme, host and port; ``denied``: documents that robots.txt forbids, and when it was asked;
    ``allowance``: visits that may be made at ``saved_at``, UTC epoch seconds, 0 in a new book.
    """

    def __init__(self) -> None:
        self.robots: dict[str, Robots] = {}
        self.denied: dict[str, float] = {}
        self.subscriptions = Subscriptions()
        self.allowance = 0.0
        self.saved_at = 0.0
        self.refused = 0
        self._documents: dict[str, Document] = {}
        self._vouched: dict[str, set[str]] = {}  # by host: the documents that its robots.txt names
        self._robots_chars = 0

    def __len__(self) -> int:
        return len(self._documents)

    def __iter__(self) -> Iterator[Document]:
        return iter(list(self._documents.values()))

    def find(self, url: str) -> Document | None:
        """Return the document at `url`, None if it is not known. O(1)."""
        return self._documents.get(url)

    def add(self, document: Document) -> bool:
        """Add `document`; return False if it is known or there is no room, which ``refused`` counts. O(1)."""
        if document.url in self._documents:
            return False
        parent = self._documents.get(document.parent)
        if len(self) >= MOST_DOCUMENTS or (parent is not None and parent.children >= MOST_CHILDREN):
            self.refused += 1
            return False
        if parent is not None:
            parent.children += 1
        self._documents[document.url] = document
        for host in document.vouchers:
            self._vouched.setdefault(host, set()).add(document.url)
        return True

    def vouch(self, host: str, urls: Collection[str]) -> None:
        """Note that the robots.txt of `host` names `urls` and no other documents. O(those it names or named)."""
        named = {url for url in urls if url in self._documents}
        for url in self._vouched.get(host, set()) - named:
            self._documents[url].vouchers.remove(host)
        for url in named - self._vouched.get(host, set()):
            document = self._documents[url]
            document.vouchers.append(host)
            document.etag = document.last_modified = ""  # it may announce more now: it is read again
        self._vouched[host] = named

    def scope(self, document: Document) -> EntryScope:
        """Return what `document` may announce.

        A feed that a person named: any page. One that a site named: pages of that site and of its own host. A sitemap:
        its directory, and all of the hosts whose robots.txt names it or the index that lists it.
        """
        if document.kind == "feed":
            parent = self._documents.get(document.parent)
            return EntryScope() if parent is None else EntryScope(frozenset((parent.host, document.host)))
        hosts = set(document.vouchers)
        if (parent := self._documents.get(document.parent)) is not None:
            hosts.update(parent.vouchers)
        return EntryScope.of_sitemap(document.url, hosts)

    def keep_robots(self, origin: str, robots: Robots) -> None:
        """Keep what robots.txt of `origin` said; drop the oldest ones beyond `MOST_ROBOTS_CHARS`. O(1), amortised."""
        before = self.robots.pop(origin, None)
        self.robots[origin] = robots
        self._robots_chars += len(robots.text) - (0 if before is None else len(before.text))
        while self._robots_chars > MOST_ROBOTS_CHARS:
            self._robots_chars -= len(self.robots.pop(next(iter(self.robots))).text)

    def save(self, path: Path, now: float) -> None:
        """Write the book to the file at `path`, atomically. O(documents). Raises SnapshotError."""
        self.saved_at = now
        subscriptions = self.subscriptions.records()
        documents = [*self._documents.values()]
        content = _Content(documents, self.robots, self.denied, self.allowance, now, subscriptions)
        raw = msgspec.msgpack.encode(content)
        with as_snapshot_errors(path, "cannot be written"):
            saved = msgspec.msgpack.encode(_Saved(_FORMAT, crc32c(raw), msgspec.Raw(raw)))
            write_file(path, saved, mode=0o600)  # subscriptions have secrets

    @classmethod
    def load(cls, path: Path) -> DocumentBook:
        """Return the book saved at `path`, a new one if there is none. Raises SnapshotError if it is damaged."""
        book = cls()
        try:
            raw = read_regular(path)
        except FileNotFoundError:
            return book
        content = _decode(path, raw)
        for document in content.documents:
            document.children = 0
            book.add(document)
        for origin, robots in content.robots.items():
            if robots.reachable:  # else this run may be allowed to connect where the last one was not
                book.keep_robots(origin, robots)
        book.denied = content.denied
        book.subscriptions = Subscriptions(content.subscriptions)
        book.allowance, book.saved_at = content.allowance, content.saved_at
        return book


def _decode(path: Path, raw: bytes) -> _Content:
    try:
        saved = msgspec.msgpack.decode(raw, type=_Saved)
        if saved.format != _FORMAT or saved.crc32c != crc32c(saved.content):
            raise SnapshotError(
                str(path), "is of another version, or damaged: restore it, or begin with an empty state"
            )
        return msgspec.msgpack.decode(saved.content, type=_Content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SnapshotError(str(path), f"is no list of documents, or damaged: {error}") from error
