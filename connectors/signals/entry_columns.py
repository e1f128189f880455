"""The entries of one document, checked one by one and kept as columns."""

from __future__ import annotations

import hashlib
import re
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.connectors.signals.document_times import DocumentTime, parse_time
from streamsched.errors import NOTHING, DocumentError, InvalidSignal
from streamsched.numerics.arrays import Bools, Floats, Hashes
from streamsched.numerics.packed_urls import MAX_URL_BYTES, PackedUrls

MAX_ENTRIES: Final = 1_000_000  # 20 times what sitemaps.org allows in a file
MAX_URL_TOTAL_BYTES: Final = 50 << 20  # of a document's URLs: a short reference may resolve to a long one
MAX_PROBLEMS: Final = 100
_HASH_BYTES: Final = 8
_URL: Final = re.compile(
    r"([Hh][Tt][Tt][Pp][Ss]?)://"  # without IGNORECASE, which also takes a long s (U+017F)
    r"([^/?#\s\\\[\]]++|(?:[^/?#\s\\\[\]]*@)?\[[0-9A-Fa-f:.]++\](?::\d*+)?)(?=[/?#]|\Z)"  # a name, or an IPv6 address
    r"[^\s\x00-\x20\x7f]*+"
)
_DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}
_URL_EXPECTED: Final = f"an absolute http or https URL of at most {MAX_URL_BYTES} bytes"
_TIME_EXPECTED: Final = "a W3C date or an e-mail date"


class StatedTime(NamedTuple):
    """The text of a time, and the element or member that has it."""

    field: str
    text: str


_DOTS: Final = re.compile(r"/(?:\.|%2e){1,2}(?=[/?#]|\Z)", re.IGNORECASE)  # segments that leave a directory


@dataclass(frozen=True, slots=True)
class EntryScope:
    """Which pages a document may announce.

    ``hosts``: those of these hosts, as `find_host` writes them, None for any host; ``directory``: beside them, those of
    this host below this path, such as ``("a.example", "/catalog/")``.
    """

    hosts: frozenset[str] | None = None
    directory: tuple[str, str] | None = None

    @classmethod
    def of_sitemap(cls, url: str, hosts: Iterable[str] = ()) -> EntryScope:
        """Return the scope of the sitemap at `url` by sitemaps.org: its own directory, and the hosts whose robots.txt
        names it.

        >>> EntryScope.of_sitemap("https://a.example/catalog/map.xml").directory
        ('a.example', '/catalog/')
        """
        match = _URL.fullmatch(url)
        path = "/" if match is None else _path_of(url[match.end(2) :])
        return cls(frozenset(hosts), (find_host(url) or "", path[: path.rindex("/") + 1]))

    def covers(self, host: str, rest: str) -> bool:
        """Return whether the page of `host` whose URL continues with `rest` may be announced. O(length)."""
        if self.hosts is None or host in self.hosts:
            return True
        if self.directory is None or host != self.directory[0]:
            return False
        return _path_of(rest).startswith(self.directory[1]) and _DOTS.search(_path_of(rest)) is None

    def covers_url(self, url: str) -> bool:
        """Return whether the page at `url` may be announced; False for what is no http or https URL. O(length)."""
        match = _URL.fullmatch(url)
        return match is not None and self.covers(_normalise(match[1], match[2]), url[match.end(2) :])


def _path_of(rest: str) -> str:
    """Return the path of a URL whose text behind the authority is `rest`."""
    return re.split(r"[?#]", rest, maxsplit=1)[0] or "/"


ANY_PAGE: Final = EntryScope()


@dataclass(slots=True)
class EntryCounts:
    """How many entries a document has, and how many of them say less than they should.

    ``invalid``: without a valid URL; ``other_host``: of a host or directory that the document may not speak of;
    ``untimed``: valid, without a time that can be read; ``future``: valid, with a time after the reading.
    """

    entries: int = 0
    invalid: int = 0
    other_host: int = 0
    untimed: int = 0
    future: int = 0


@dataclass(frozen=True, slots=True)
class Entries:
    """The n valid entries of a document, in its order.

    ``keys``: uint64[n], hashes of the URLs; ``contents``: uint64[n], hashes of the contents, 0 without one; ``timed``:
    bool[n], which have a time that is not after the reading; ``times``: float64[n], that time, the first second of it
    if it is a day or longer, and the time of the reading for the others; ``at``: float64[n], what a signal of the
    entry says.
    """

    urls: PackedUrls
    keys: Hashes
    contents: Hashes
    times: Floats
    at: Floats
    timed: Bools

    def __len__(self) -> int:
        return self.keys.size

    def take(self, rows: npt.NDArray[np.intp]) -> Entries:
        """Return the entries at `rows`: intp[m], in that order. O(m)."""
        return Entries(
            self.urls.take(rows),
            self.keys[rows],
            self.contents[rows],
            self.times[rows],
            self.at[rows],
            self.timed[rows],
        )


class EntryColumns:
    """Collects the entries of the document at `url`, read at `read_at`, UTC epoch seconds.

    ``scope``: which pages it may announce. Problems number entries from 0.
    """

    def __init__(self, url: str, read_at: float) -> None:
        self.scope = ANY_PAGE
        self.counts = EntryCounts()
        self.problems: list[InvalidSignal] = []
        self._url = url
        self._read_at = read_at
        self._authority = ("", "")  # scheme and authority of the last URL: most have the same
        self._host = ""  # of them
        self._blob = bytearray()
        self._ends = array("q", [0])
        self._keys = bytearray()
        self._columns = (array("Q"), array("d"), array("d"), bytearray())

    def add(self, field: str, url: str | None, times: Iterable[StatedTime] = (), content: int = 0) -> None:
        """Add an entry whose URL is `url`, which `field` has, if it is valid; the newest of `times` is its time. O(1).

        `content`: a hash, 0 without content. Raises DocumentError beyond the limits of this module.
        """
        entry = self._next_entry()
        encoded = self._check_url(entry, field, url)
        if encoded is None:
            return
        self._blob += encoded
        if len(self._blob) > MAX_URL_TOTAL_BYTES:
            raise DocumentError(self._url, f"expected URLs of at most {MAX_URL_TOTAL_BYTES} bytes together")
        self._ends.append(len(self._blob))
        self._keys += hashlib.blake2b(encoded, digest_size=_HASH_BYTES).digest()
        self._add_time(self._newest(entry, times), content)

    def reject(self, field: str, found: object, expected: str) -> None:
        """Count an entry that cannot be read at all. O(1)."""
        self._report(self._next_entry(), field, found, expected)
        self.counts.invalid += 1

    def finish(self) -> Entries:
        """Return the entries added so far, without a copy: nothing can be added after it. O(n)."""
        contents, times, at, timed = self._columns
        return Entries(
            PackedUrls(self._blob, np.frombuffer(self._ends, np.int64)),
            np.frombuffer(self._keys, "<u8").astype(np.uint64, copy=False),
            np.frombuffer(contents, np.uint64),
            np.frombuffer(times, np.float64),
            np.frombuffer(at, np.float64),
            np.frombuffer(timed, np.bool_),
        )

    def _next_entry(self) -> int:
        if self.counts.entries >= MAX_ENTRIES:
            raise DocumentError(self._url, f"expected at most {MAX_ENTRIES} entries")
        self.counts.entries += 1
        return self.counts.entries - 1

    def _check_url(self, entry: int, field: str, url: str | None) -> bytes | None:
        """Return the bytes of a URL that the document may speak of; count and report any other."""
        match = _URL.fullmatch(url) if url is not None and len(url) <= MAX_URL_BYTES else None
        encoded = url.encode("utf-8", "replace") if url is not None and match is not None else b""
        if match is None or not 0 < len(encoded) <= MAX_URL_BYTES:
            self.counts.invalid += 1
            self._report(entry, field, NOTHING if url is None else url, _URL_EXPECTED)
            return None
        if self.scope is not ANY_PAGE:
            if match.groups() != self._authority:
                self._authority, self._host = (match[1], match[2]), _normalise(*match.groups())
            if not self.scope.covers(self._host, match.string[match.end(2) :]):
                self.counts.other_host += 1
                self._report(entry, field, url, _describe(self.scope))
                return None
        return encoded

    def _newest(self, entry: int, times: Iterable[StatedTime]) -> DocumentTime | None:
        """Return the newest of the times that can be read, and report the others."""
        newest: DocumentTime | None = None
        for field, text in times:
            time = parse_time(text)
            if time is None:
                self._report(entry, field, text, _TIME_EXPECTED)
            elif newest is None or time.last_s > newest.last_s:
                newest = time
        return newest

    def _add_time(self, time: DocumentTime | None, content: int) -> None:
        contents, times, at, timed = self._columns
        known = time is not None and time.earliest_s <= self._read_at
        if time is None:
            self.counts.untimed += 1
        elif not known:
            self.counts.future += 1
        contents.append(content)
        times.append(time.first_s if known and time else self._read_at)
        at.append(min(time.last_s, self._read_at) if known and time else self._read_at)
        timed.append(known)

    def _report(self, entry: int, field: str, found: object, expected: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(InvalidSignal(entry, field, found, expected))


def _describe(scope: EntryScope) -> str:
    """Return what was expected of the URL of a page."""
    hosts = " or ".join([f"the host {host}" for host in sorted(scope.hosts or ())[:3]])
    if scope.directory is None:
        return f"a URL of {hosts or 'a host that the document may speak of'}"
    return f"a URL below {''.join(scope.directory)}{' or of ' if hosts else ''}{hosts}"


def find_host(url: str) -> str | None:
    """Return host and port of an absolute http or https URL, None for any other text. O(length).

    >>> find_host("HTTPS://user@A.example:443/x"), find_host("a.example")
    ('a.example', None)
    """
    match = _URL.fullmatch(url)
    return None if match is None else _normalise(match[1], match[2])


def _normalise(scheme: str, authority: str) -> str:
    """Return an authority without user information and the default port of its scheme, in small letters."""
    return authority.rpartition("@")[2].lower().removesuffix(_DEFAULT_PORTS[scheme.lower()])


class ContentHash:
    """A hash of named texts, in pieces however they were cut.

    >>> content = ContentHash()
    >>> content.value
    0
    >>> content.begin("title")
    >>> content.add("a page")
    >>> content.value > 0
    True
    """

    __slots__ = ("_hash",)

    def __init__(self) -> None:
        self._hash: hashlib.blake2b | None = None

    def begin(self, name: str) -> None:
        """Let the pieces that follow belong to the text `name`. O(1)."""
        self._hash = self._hash or hashlib.blake2b(digest_size=_HASH_BYTES)
        self._hash.update(f"\0{name}\0".encode())

    def add(self, piece: str) -> None:
        """Add the next piece of the text. O(characters)."""
        if self._hash is not None:
            self._hash.update(piece.encode("utf-8", "replace"))

    @property
    def value(self) -> int:
        """The hash, 0 without a text."""
        return 0 if self._hash is None else int.from_bytes(self._hash.digest(), "little")
