"""Registrable domains: what the owner of a host has registered, ``example.co.uk`` of ``www.example.co.uk``.

The part below which anybody can register names follows from the Public Suffix List (publicsuffix.org). The library
`publicsuffixlist` ships a copy of the list: nothing is fetched. Suffixes of hosting services count, so the sites of
different users there are different domains. A host is looked up once, when its first page becomes known; a newer list
does not move the hosts that are known.
"""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from typing import Final

import numpy as np
from publicsuffixlist import PublicSuffixList

from streamsched.numerics.arrays import Hashes, Ints, Records
from streamsched.records.group_schema import GroupArrays
from streamsched.records.url_patterns import group_names

_LONGEST_NAME: Final = 253  # characters of a host name in the DNS


def registrable_domain(host: str) -> str:
    """Return the registrable domain of `host`, in Unicode; without one, the host itself. Ports are left out. O(length).

    Addresses, single labels, public suffixes and names that break the rules of the DNS have none. Below an unknown
    suffix, the last two labels are the domain.

    >>> [registrable_domain(host) for host in ("www.example.co.uk:8080", "xn--bcher-kva.de", "ann.github.io", "co.uk")]
    ['example.co.uk', 'bücher.de', 'ann.github.io', 'co.uk']
    >>> [registrable_domain(host) for host in ("192.0.2.7:8080", "[2001:db8::1]:8080", "localhost", "a..b")]
    ['192.0.2.7', '[2001:db8::1]', 'localhost', 'a..b']
    """
    name = host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]
    if name.startswith("[") or len(name) > _LONGEST_NAME or name.rstrip(".").rpartition(".")[2].isdigit():
        return name
    if not name.isascii() or "xn--" in name:
        try:
            name = name.encode("idna").decode("idna")
        except UnicodeError:
            return name
    return _suffixes().privatesuffix(name) or name


@cache
def _suffixes() -> PublicSuffixList:
    """Return the list, read at its first use, which takes some 20 ms."""
    return PublicSuffixList(accept_encoded_idn=False)


class DomainIndex:
    """The numbers of the domains of one shard's hosts, by their names: some 100 bytes of memory a domain.

    For one call at a time. What lasts is in the shard's arrays.
    """

    def __init__(self, key: Hashes) -> None:
        """Begin without domains. ``key``: uint64[2], of the hash."""
        self._key = key.tobytes()
        self._numbers: dict[int, int] = {}  # by the hashes of names
        self._groups = 0  # groups that have their domains
        self._pages = 0  # rows that are counted

    def add(self, groups: GroupArrays, corpus: Records, pages: Records) -> None:
        """Give new groups their domains, and count new pages there. O(new groups + new pages)."""
        known, count = self._pages, int(corpus["pages"][0])
        if known == count:
            return
        first, stop = self._groups, int(corpus["groups"][0])
        hosts = groups.records["host"][first:stop].astype(np.int64)
        own = np.flatnonzero(hosts == np.arange(first, stop)) + first
        for host, name in zip(own.tolist(), group_names(groups, own), strict=True):
            groups.domain_of[host] = self._number(groups, corpus, registrable_domain(name))
        groups.domain_of[first:stop] = groups.domain_of[hosts]
        self._groups, self._pages = stop, count
        count_pages(groups, corpus, pages["group"][known:count].astype(np.int64), 1)

    def rebuild(self, groups: GroupArrays, corpus: Records) -> None:
        """Continue from arrays that were loaded. O(domains)."""
        self._groups, self._pages = int(corpus["groups"][0]), int(corpus["pages"][0])
        hashes = groups.domains["hash"][: int(corpus["domains"][0])]
        self._numbers = {hash_: number for number, hash_ in enumerate(hashes.tolist())}

    def _number(self, groups: GroupArrays, corpus: Records, domain: str) -> int:
        digest = blake2b(domain.encode("utf-8", "replace"), digest_size=8, key=self._key).digest()
        hash_ = int.from_bytes(digest, "little")
        number = self._numbers.get(hash_)
        if number is None:
            number = self._numbers[hash_] = int(corpus["domains"][0])
            groups.domains[number] = np.zeros((), groups.domains.dtype)
            groups.domains["hash"][number] = hash_
            corpus["domains"] += 1
        return number


def count_pages(groups: GroupArrays, corpus: Records, numbers: Ints, sign: int) -> None:
    """Add pages, or remove them if `sign` is -1, from the counts of their domains. O(m log m).

    ``numbers``: int64[m], the groups of the pages.
    """
    domains, counts = np.unique(groups.domain_of[numbers], return_counts=True)
    groups.domains["pages"][domains] += (sign * counts).astype(np.uint32)  # wraps around, and so subtracts
    corpus["domain_pages"] += sign * numbers.size
