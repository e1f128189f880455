"""Targets of rules: hosts, URL patterns and pages, as people write them, and which pages match them.

- A **host**: ``example.org`` or ``*.example.org``, with no slash and no scheme.
- A **pattern**: ``example.org/news/*`` or ``https://*/print/*``, a host and all that follows it up to the end of the
  URL, with ``*`` for any number of any characters; with a scheme it matches that scheme only.
- A **page**: ``https://example.org/news``, a URL without ``*`` exactly as it was observed; without a scheme it matches
  that URL with http, with https, and without a scheme.

Hosts are compared like group names: in lower case, without user information and without the scheme's default port. A
``*`` in a host does not match into the path. Everything else is compared byte by byte, so a ``?`` is a question mark. A
host without a scheme cannot have port 80 or 443, since the groups of http and https do not carry these.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Final

import numpy as np

from streamsched.errors import SettingsError
from streamsched.fields import fits_utf8
from streamsched.numerics.arrays import Bytes, Ints, Records
from streamsched.numerics.jit import bare_kernel
from streamsched.numerics.url_syntax import find_authority
from streamsched.records.group_schema import GroupArrays
from streamsched.records.page_schema import PageArrays
from streamsched.records.url_patterns import find_host, find_host_pages, group_names
from streamsched.records.url_store import read_url, url_texts

HOST, PATTERN, SINGLE = range(3)  # kinds of targets; the last kind that matches a page decides, but see `RuleMatcher`
PAGE_SCHEMES: Final = ("", "https://", "http://")  # that a page target without a scheme matches

_SCHEME: Final = re.compile(r"([^/?#]*?)://")
_OWN_PORT: Final = {"https": ":443", "http": ":80"}
_EXPECTED: Final = "a host, a URL, or a pattern, for example example.org/news/*"
_HOST_EXPECTED: Final = "a host, for example example.org or *.example.org"
_PORT: Final = re.compile(r":([^:\]]*)$")
_IS_PORT: Final = re.compile(r"[0-9*]*\*[0-9*]*|[0-9]+")
_IPV6: Final = re.compile(r"\[[0-9a-z:.%_~-]+\]")
_ROWS_AT_ONCE: Final = 1 << 16  # rows whose URLs are read together


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed target: ``scheme``, "" for any, and ``host`` in lower case; ``path``: all that follows the host."""

    text: str
    kind: int
    scheme: str
    host: str
    path: str

    @property
    def key(self) -> str:
        """The canonical form, equal for targets with the same meaning. Pages are compared byte by byte, as written."""
        if self.kind == SINGLE:
            return self.text
        path = "" if self.kind == HOST else self.path
        return f"{self.scheme}://{self.host}{path}" if self.scheme else f"{self.host}{path}"

    def matches(self, host: str) -> bool:
        """Return whether pages of `host` may match. O(length)."""
        return _host_pattern(self.host).fullmatch(host) is not None if "*" in self.host else self.host == host


def parse_target(text: object) -> Target:
    """Return the target that `text` names; raises SettingsError if it names none. O(length).

    >>> parse_target("*.Example.org"), parse_target("example.org/a?b=*").path
    (Target(text='*.Example.org', kind=0, scheme='', host='*.example.org', path='*'), '/a?b=*')
    """
    if not isinstance(text, str):
        raise SettingsError("target", text, _EXPECTED)
    found = _SCHEME.match(text)
    scheme = found[1].lower() if found else ""
    rest = text[found.end() :] if found else text
    host = re.split(r"[/?#]", rest, maxsplit=1)[0]
    path = rest[len(host) :]
    if not host or "@" in host or (found and not scheme):
        raise SettingsError("target", text, _EXPECTED)
    host = host.encode("utf-8", "replace").lower().decode().removesuffix(_OWN_PORT.get(scheme, ""))
    if not path and not scheme:
        return Target(text, HOST, "", host, "*")
    return Target(text, PATTERN if "*" in text else SINGLE, scheme, host, path)


def read_target(text: object) -> Target:
    """Return the target that `text` names; raises SettingsError if it names none, or one that no URL can match.

    >>> read_target("https://Example.org:443/*").key
    'https://example.org/*'
    """
    target = parse_target(text)
    if not fits_utf8(target.text, sys.maxsize):
        raise SettingsError("target", text, "a text in UTF-8")
    if re.search(r"[\s\x00-\x1f]", target.host):
        raise SettingsError("target", text, "a host without spaces or control characters")
    port = _PORT.search(target.host)
    if port and not _IS_PORT.fullmatch(port[1]):
        raise SettingsError("target", text, "a number as the port of the host")
    name = target.host[: port.start()] if port else target.host
    if not name:
        raise SettingsError("target", text, "a host before its port")
    if "*" not in name and ("[" in name or "]" in name) and not _IPV6.fullmatch(name):
        raise SettingsError("target", text, "a host without brackets, but for those of an IPv6 address such as [::1]")
    if port and target.kind != SINGLE and not target.scheme and port[0] in _OWN_PORT.values():
        raise SettingsError("target", text, f"{name} without its default port")
    return target


def read_host(text: object, setting: str = "host") -> Target:
    """Return the hosts that `text` names; raises SettingsError about `setting` if it names none."""
    try:
        target = read_target(text)
    except SettingsError as error:
        expected = _HOST_EXPECTED if error.expected == _EXPECTED else error.expected
        raise SettingsError(setting, text, expected) from None
    if target.kind != HOST:
        raise SettingsError(setting, text, _HOST_EXPECTED)
    return target


def find_hosts(groups: GroupArrays, corpus: Records, targets: Iterable[Target]) -> Ints:
    """Return the groups of all known hosts that match a target: int64[m], ascending. O(1) for a host without ``*``.

    O(hosts) for each target with ``*``.
    """
    found: set[int] = set()
    known: list[tuple[int, str]] | None = None
    for target in targets:
        if "*" not in target.host:
            found.add(find_host(groups, target.host))
            continue
        if known is None:
            hosts = np.flatnonzero(groups.records["depth"][: int(corpus["groups"][0])] == 0)
            known = list(zip(hosts.tolist(), group_names(groups, hosts), strict=True))
        found.update(group for group, name in known if target.matches(name))
    return np.array(sorted(found - {-1}), np.int64)


def find_pages_of_hosts(groups: GroupArrays, corpus: Records, hosts: Iterable[str]) -> tuple[Ints, Ints]:
    """Return the known hosts that targets name, and the rows of their pages: int64[h], int64[m], ascending.

    O(groups + m log m), O(hosts) for each target with ``*``.
    """
    found = find_hosts(groups, corpus, map(parse_target, hosts))
    return found, find_host_pages(groups, corpus, found)


class RuleMatcher:
    """Finds the rule that applies: the most specific kind of target wins, then the newest.

    ``numbers``: the number of each target, in the order set; ``first``: numbers that come before all others, of any
    kind.
    """

    def __init__(self, numbers: Mapping[str, int], first: Collection[int] = ()) -> None:
        self._numbers = numbers
        self._first = frozenset(first)
        self._single: dict[str, tuple[bool, int, int]] = {}  # whether first, place in the order, number
        self._plain: dict[str, list[tuple[int, Target]]] = {}  # by host, with its place in the order
        self._host_patterns: list[tuple[int, Target]] = []
        for place, text in enumerate(numbers):
            target = parse_target(text)
            if target.kind == SINGLE:
                self._single[text] = (numbers[text] in self._first, place, numbers[text])
            elif "*" in target.host:
                self._host_patterns.append((place, target))
            else:
                self._plain.setdefault(target.host, []).append((place, target))

    def number_hosts(self, groups: GroupArrays, hosts: Ints) -> list[int | None]:
        """Return the number of the deciding HOST target for each of `hosts`; None if there is none."""
        deciding = (
            [target for target in self._matching(name) if target.kind == HOST] for name in group_names(groups, hosts)
        )
        return [self._numbers[targets[-1].text] if targets else None for targets in deciding]

    def number_pages(self, pages: PageArrays, groups: GroupArrays, rows: Ints) -> Bytes:
        """Return the number of the deciding target for each of ``rows``: uint8[m]; 0 if there is none. O(m)."""
        numbers = np.zeros(rows.size, np.uint8)
        if self._plain or self._host_patterns:
            for name, places in _by_host(pages.records, groups, rows):
                for target in self._matching(name):
                    number = self._numbers[target.text]
                    mark_fitting(pages, rows, places, _bytes(target.scheme), _bytes(target.path), number, numbers)
        if self._single:
            for place, url in enumerate(_read_urls(pages, rows)):
                names = (url, re.sub("^https?://", "", url))
                met = [self._single[name] for name in names if name in self._single]
                first, _, number = max(met, default=(False, 0, 0))
                if met and (first or numbers[place] not in self._first):
                    numbers[place] = number
        return numbers

    def _matching(self, host: str) -> list[Target]:
        """Return the targets that pages of `host` may match, the deciding one last."""
        plain = self._plain.get(host, [])
        starred = [(place, target) for place, target in self._host_patterns if target.matches(host)]
        ranks = [(self._numbers[one.text] in self._first, one.kind, place, one) for place, one in plain + starred]
        return [target for *_, target in sorted(ranks, key=lambda rank: rank[:3])]


def _by_host(pages: Records, groups: GroupArrays, rows: Ints) -> Iterator[tuple[str, Ints]]:
    """Yield each host's name with the indices of its pages in `rows`."""
    hosts = groups.records["host"][pages["group"][rows]]
    order = np.argsort(hosts, kind="stable")
    firsts = np.flatnonzero(np.diff(hosts[order], prepend=-1)) if rows.size else np.empty(0, np.int64)
    names = group_names(groups, hosts[order[firsts]].astype(np.int64))
    return zip(names, np.split(order, firsts[1:]) if rows.size else [], strict=True)


def _read_urls(pages: PageArrays, rows: Ints) -> Iterator[str]:
    parts = (rows[first : first + _ROWS_AT_ONCE] for first in range(0, rows.size, _ROWS_AT_ONCE))
    return chain.from_iterable(url_texts(pages, part) for part in parts)


@lru_cache(maxsize=1024)
def _host_pattern(host: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, host.split("*"))), re.DOTALL)


def _bytes(text: str) -> Bytes:
    return np.array(list(text.encode("utf-8", "replace")), np.uint8)


_STAR: Final = ord("*")


@bare_kernel
def fits(text: Bytes, start: int, stop: int, glob: Bytes) -> bool:
    """Return whether all of ``text[start:stop]`` matches ``glob``: uint8[n].

    O(length) usually, O(length n) at worst: only the last ``*`` is ever retried.
    """
    at, place = start, 0
    star, since = -1, start  # the last star met, and the end of what it matches
    while at < stop:
        if place < glob.size and glob[place] == _STAR:
            star, since = place, at
            place += 1
        elif place < glob.size and glob[place] == text[at]:
            at += 1
            place += 1
        elif star >= 0:
            since += 1
            at, place = since, star + 1
        else:
            return False
    while place < glob.size and glob[place] == _STAR:
        place += 1
    return place == glob.size


@bare_kernel
def mark_fitting(  # noqa: PLR0913, PLR0917  what to look at, what to look for, and what to write
    pages: PageArrays, rows: Ints, places: Ints, scheme: Bytes, path: Bytes, number: int, numbers: Bytes
) -> None:
    """Write `number` to ``numbers[place]`` for each of ``places``: int64[m] whose row has such a URL. O(bytes).

    `scheme`: that of the URL in lower case, of length 0 for any; `path`: a pattern of all that follows the host.
    """
    for i in range(places.size):
        stop = read_url(pages, rows[places[i]])
        _, last, size = find_authority(pages.url, 0, stop)
        if (scheme.size == 0 or _is_scheme(pages.url, 0, size, scheme)) and fits(pages.url, last, stop, path):
            numbers[places[i]] = number


@bare_kernel
def _is_scheme(text: Bytes, start: int, size: int, scheme: Bytes) -> bool:
    """Return whether the `size` bytes from `start` on are `scheme`, ignoring case."""
    if size != scheme.size:
        return False
    for i in range(size):
        byte = text[start + i]
        if (byte + 32 if 65 <= byte <= 90 else byte) != scheme[i]:
            return False
    return True
