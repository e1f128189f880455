"""Slow reference implementation of related pages: keys as texts, their members as lists, claims as whole numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from streamsched.numerics.jit import mix
from streamsched.numerics.vector_math import log1p
from tests.reference.url_hash import hash_of

KINDS = 3
MOST = 64
UNIT = 1 << 14
PLACES = 1 << 16  # of the table of sightings, for up to 131,072 pages

Key = tuple[int, int, str]
"""Its kind, the number of its host's group, and the text."""


def single(number: float) -> float:
    """The nearest float32."""
    return float(np.float32(number))


def names_of(url: str, host: int, *, is_common: bool) -> list[Key | None]:
    """The keys of a URL: its last segment (the last two if that is common), the first token of it, its directory."""
    plain = re.split(r"[?#]", url, maxsplit=1)[0]
    if "://" in plain and "/" not in plain.partition("://")[0]:
        plain = plain.partition("://")[2]
    path = plain[plain.find("/") :] if "/" in plain else ""
    *above, name = path.removesuffix("/").split("/")
    if not name:
        return [None] * KINDS
    directory = (2, host, "/".join([*above, ""]))
    if is_common:
        if len(above) < 2:
            return [None, None, directory]
        name = f"{above[-1]}/{name}"
    return [(0, host, name), _token(name, host), directory]


def _token(name: str, host: int) -> Key | None:
    """The first token of a name that has more after it."""
    found = re.match(r"[-_.+~%/]*[^-_.+~%/]*", name)
    assert found is not None
    return (1, host, found[0]) if found[0] != name else None


def hash_key(key: Key) -> int:
    """The hash of a key."""
    kind, host, text = key
    seed = np.uint64(hash_of(text.encode())) ^ mix(np.uint64(4 * host + kind + 1))
    return int(mix(seed)) | 1


@dataclass
class Claims:
    """What a page knows of its related pages: whether it is a member of a key of each kind, and the claims."""

    member: list[bool] = field(default_factory=lambda: [False] * KINDS)
    awake: list[bool | None] = field(default_factory=lambda: [None] * KINDS)  # None: when the kind is
    shares: list[int] = field(default_factory=lambda: [0] * KINDS)

    @property
    def missed(self) -> float:
        """The probability that no claim is true."""
        product = 1.0
        for share in self.shares:
            product *= 1.0 - share / UNIT
        return product

    @property
    def packed(self) -> list[int]:
        """As the shard stores it."""
        parts = zip(self.member, self.awake, self.shares, strict=True)
        return [UNIT * {None: 1, True: 2, False: 3}[awake] * member + share for member, awake, share in parts]

    def leave(self, kind: int) -> None:
        """The page is a member of no key of that kind."""
        self.member[kind], self.awake[kind] = False, None


@dataclass
class RelatedPages:
    """The related pages of a shard, by URL."""

    hosts: dict[str, int] = field(default_factory=dict)  # number of each page's host
    claims: dict[str, Claims] = field(default_factory=dict)
    members: dict[Key, list[str] | None] = field(default_factory=dict)  # None: too many
    sightings: dict[int, tuple[Key, str]] = field(default_factory=dict)
    chances: dict[Key, tuple[float, float]] = field(default_factory=dict)
    kinds: list[tuple[float, float]] = field(default_factory=lambda: [(0.0, 0.0)] * KINDS)

    def keys_of(self, url: str) -> list[Key | None]:
        """The keys of a page."""
        keys = names_of(url, self.hosts[url], is_common=False)
        if keys[0] is not None and self.members.get(keys[0], []) is None:
            return names_of(url, self.hosts[url], is_common=True)
        return keys

    def joined_keys(self, url: str) -> list[Key | None]:
        """The keys that a page is a member of."""
        keys = zip(self.keys_of(url), self.claims[url].member, strict=True)
        return [key if member and key in self.members else None for key, member in keys]

    def add(self, url: str, host: int) -> None:
        """Make a new page a member of its keys."""
        self.hosts[url], self.claims[url] = host, Claims()
        name = self.keys_of(url)[0]
        known = self.members.get(name) if name is not None else None
        if name is not None and known is not None and len(known) == MOST:
            self.lengthen(name, list(known))
        for key in self.keys_of(url):
            if key is not None:
                self.join(key, url)

    def lengthen(self, name: Key, known: list[str]) -> None:
        """A name becomes common: its pages, newest first, join by longer names."""
        for url in known:
            token = self.keys_of(url)[1]
            if self.claims[url].member[1]:
                assert token is not None
                listed = self.members[token]
                assert listed is not None
                listed.remove(url)
                self.claims[url].leave(1)
        self.dissolve(name)
        for url in known:
            for key in self.keys_of(url)[:2]:
                if key is not None:
                    self.join(key, url)

    def dissolve(self, key: Key) -> None:
        """Let a key have no members for ever."""
        for url in self.members[key] or []:
            self.claims[url].leave(key[0])
        self.members[key] = None

    def join(self, key: Key, url: str) -> None:
        """Make a page a member of a key, or remember it as the key's newest page."""
        if key in self.members:
            known = self.members[key]
            if known is not None and len(known) == MOST:
                self.dissolve(key)
            elif known is not None:
                self.enter(key, url)
            return
        number = hash_key(key)
        place = (number >> 32) * PLACES >> 32
        _, other = self.sightings.get(place, (key, url))
        if other != url and self.keys_of(other)[key[0]] == key:
            self.members[key], self.chances[key] = [], (0.0, 0.0)
            self.enter(key, other)
            self.enter(key, url)
        else:
            self.sightings[place] = key, url

    def enter(self, key: Key, url: str) -> None:
        """Add a member, before the others."""
        known = self.members[key]
        assert known is not None
        known.insert(0, url)
        self.claims[url].member[key[0]] = True

    def chance(self, key: Key) -> float:
        """The probability that a page of a key follows a change of another."""
        followed, failed = self.kinds[key[0]]
        prior = 2.0 * ((1.0 + followed) / (10.0 + followed + failed))
        own = self.chances[key]
        return (prior + own[0]) / (2.0 + sum(own))

    def settle(self, url: str, changed: bool, quiet: float) -> tuple[float, float]:
        """Learn from a visit and end the claims; `quiet`: the probability that nothing else changed the page.

        Returns the probability that the page followed, and what it would be if each of its keys had claimed once.
        """
        claims = self.claims[url]
        missed, spared = claims.missed, 1.0
        for key, share in zip(self.joined_keys(url), [one / UNIT for one in claims.shares], strict=True):
            made = 1.0
            if key is not None and share:
                chance = self.chance(key)
                made = min(float(log1p(-share) / log1p(-chance)), float(MOST))
                credit = min(chance / max(1.0 - quiet * missed, 1e-12), 1.0) if changed else 0.0
                self.learn(key, made * (quiet * missed / (1.0 - share)), credit)
                self.wake_or_rest(key, claims.awake[key[0]])
            spared *= 1.0 - share / max(made, 1.0)
        claims.shares = [0] * KINDS
        return 1.0 - missed, 1.0 - spared

    def drop(self, url: str) -> None:
        """End the claims on a page, whose visit did not show whether they were right."""
        self.claims[url].shares = [0] * KINDS

    def learn(self, key: Key, made: float, credit: float) -> None:
        """Count the claims `made`, of which the part `credit` came true, for a key and for its kind."""
        followed, failed = self.chances[key]
        fade = 1.0 - made / 100.0
        self.chances[key] = (
            single(followed * fade + made * credit),
            single(failed * fade + (made - made * credit)),
        )
        followed, failed = self.kinds[key[0]]
        fade = 1.0 - made / 1000.0
        self.kinds[key[0]] = followed * fade + made * credit, failed * fade + (made - made * credit)

    def kind_is_awake(self, kind: int) -> bool:
        """Whether a key without evidence has a chance of 1/128 or more."""
        followed, failed = self.kinds[kind]
        return 1.0 + followed >= 1 / 128 * (10.0 + followed + failed)

    def wake_or_rest(self, key: Key, awake: bool | None) -> None:
        """A key rests from a chance below 1/128 on until it is 1/64."""
        as_known = self.kind_is_awake(key[0]) if awake is None else awake
        chance = self.chance(key)
        if chance < 1 / 128 if as_known else chance >= 1 / 64:
            for url in self.members[key] or []:
                self.claims[url].awake[key[0]] = not as_known

    def claim(self, url: str, unexplained: float, may_follow: set[str], applied: int) -> None:
        """Make the claims of a change; the weak ones, by a key of m pages, once in 4m outcomes or more.

        `applied`: the number of the outcome; `may_follow`: the pages that have been visited, but not since.
        """
        for kind, key in enumerate(self.joined_keys(url)):
            awake = self.claims[url].awake[kind]
            if key is None or (applied % 16 and not (self.kind_is_awake(kind) if awake is None else awake)):
                continue
            self.wake_or_rest(key, awake)
            claimed = self.chance(key) * unexplained
            turns = next(turns for turns in (16, 32, 64, 128, 256) if turns >= 4 * len(self.members[key] or []))
            if claimed < 1 / 128 and applied % turns:
                continue
            for other in self.members[key] or []:
                if other != url and other in may_follow:
                    shares = self.claims[other].shares
                    share = 1.0 - (1.0 - shares[kind] / UNIT) * (1.0 - claimed)
                    shares[kind] = min(int(share * UNIT + 0.5), UNIT - 1)
