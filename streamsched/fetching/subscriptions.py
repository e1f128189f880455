"""Subscriptions at WebSub hubs: what was asked for, what hubs have verified, and for how long. It sends nothing.

Each request to a hub has a callback and a secret of its own, a renewal too: the callback before stays in use until the
hub has verified the new one. Source: WebSub, W3C Recommendation, 23 January 2018.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterable
from heapq import heappop, heappush
from math import inf
from pathlib import Path
from threading import Lock
from typing import Final, Literal, TypeAlias

import msgspec

from streamsched.persistence.files import (
    append_whole,
    as_snapshot_errors,
    open_regular,
    read_regular,
    remove_file,
    sync_directory,
    write_file,
)

DAY_S: Final = 86_400.0
LEASE_S: Final = 10 * DAY_S  # that is asked for: the usual one of hubs
MOST_LEASE_S: Final = 90 * DAY_S  # that is believed: a hub may be gone by then
LEAST_LEASE_S: Final = 60.0  # else a hub could have itself asked all the time
RENEWED_AT: Final = 0.8  # of a lease
VERIFIED_WITHIN_S: Final = 3_600.0  # after a request that the hub took
DENIED_S: Final = 30 * DAY_S  # until a hub that denied is asked again
FIRST_RETRY_S: Final = 60.0  # doubled with each failure in a row
LONGEST_RETRY_S: Final = DAY_S
_TOKEN_BYTES: Final = 32
_KNOWN_BODIES: Final = 32  # of a callback: those of hubs that repeat what they sent, and of somebody who has seen it
_SIGNATURE: Final = re.compile(r"(sha256|sha384|sha512)=([0-9A-Fa-f]{64,128})")

BodyFate: TypeAlias = Literal["accepted", "forged", "repeated"]


class Callback(msgspec.Struct, omit_defaults=True):
    """Where a hub reaches the subscriber: the URL ``base`` + ``token``.

    ``until``: when its lease ends, UTC epoch seconds, 0 before the hub has verified it; ``bodies``: hashes of the
    newest bodies.
    """

    base: str
    token: str
    secret: str
    until: float = 0.0
    bodies: list[bytes] = []

    def judge(self, body: bytes, signature: str) -> BodyFate:
        """Return whether `body` has the right X-Hub-Signature, and did not come before. O(bytes)."""
        match = _SIGNATURE.fullmatch(signature)
        if match is None:
            return "forged"
        right = hmac.new(self.secret.encode(), body, match[1]).hexdigest()
        if not hmac.compare_digest(right, match[2].lower()):
            return "forged"
        digest = hashlib.blake2b(body, digest_size=8).digest()
        if digest in self.bodies:
            return "repeated"
        self.bodies = [*self.bodies[1 - _KNOWN_BODIES :], digest]
        return "accepted"


class Subscription(msgspec.Struct, omit_defaults=True):
    """The subscription to the document at ``url``, which ``hub`` knows as ``topic``.

    ``next_at``: when the hub is asked, UTC epoch seconds; ``failures``: requests in a row that came to nothing;
    ``asked``: the callback of the last request, while it is not verified; ``active``: the one that is.
    """

    url: str
    hub: str
    topic: str
    next_at: float
    failures: int = 0
    asked: Callback | None = None
    active: Callback | None = None


class Subscriptions:
    """The subscriptions by the URLs of their documents.

    ``base``: the URL below which the callbacks are, "" while there are none to be made.
    """

    def __init__(self, saved: Iterable[Subscription] = ()) -> None:
        self.base = ""
        self._by_url = {one.url: one for one in saved}
        self._by_token: dict[str, Subscription] = {}
        self._due: list[tuple[float, str]] = []  # a heap; an entry that is not ``next_at`` any more says nothing

    def __len__(self) -> int:
        return len(self._by_url)

    def records(self) -> list[Subscription]:
        """Return all of them. O(n)."""
        return list(self._by_url.values())

    def open(self, base: str, now: float) -> None:
        """Use the callbacks below `base`; those below another one are asked for again. O(n log n)."""
        self.base, self._due = base, []
        for one in self._by_url.values():
            for callback in (one.asked, one.active):
                if callback is not None and callback.base != base:
                    self._drop(one, callback)
                    one.next_at = now
                elif callback is not None:
                    self._by_token[callback.token] = one
            heappush(self._due, (one.next_at, one.url))

    def advertise(self, url: str, hub: str, topic: str, now: float) -> None:
        """Note that the document at `url` names `hub` and `topic`, "" for none. O(log n).

        Without a hub the subscription ends with its lease; another one is asked at once.
        """
        one = self._by_url.get(url)
        if one is not None and (one.hub, one.topic) == (hub, topic):
            return
        if one is None:
            if not hub:
                return
            one = self._by_url[url] = Subscription(url, hub, topic, now)
        one.hub, one.topic, one.failures = hub, topic, 0
        self._drop(one, one.asked)
        self._plan(one, now if hub else inf)

    def end(self, url: str) -> None:
        """Forget the subscription to the document at `url`. O(1)."""
        one = self._by_url.pop(url, None)
        if one is not None:
            self._drop(one, one.asked)
            self._drop(one, one.active)

    def due(self, now: float, most: int) -> list[Subscription]:
        """Return at most `most` subscriptions whose hub is to be asked now. O(log n) each."""
        found: list[Subscription] = []
        while self._due and self._due[0][0] <= now and len(found) < most:
            at, url = heappop(self._due)
            one = self._by_url.get(url)
            if one is not None and one.next_at == at:
                found.append(one)
        return found

    def ask(self, one: Subscription, now: float) -> Callback:
        """Return the callback for a request to the hub of `one`, in place of one that was not verified. O(log n)."""
        self._drop(one, one.asked)
        one.asked = Callback(self.base, secrets.token_urlsafe(_TOKEN_BYTES), secrets.token_urlsafe(_TOKEN_BYTES))
        self._by_token[one.asked.token] = one
        one.failures += 1  # until it is verified
        self._plan(one, now + max(VERIFIED_WITHIN_S, _wait_s(one.failures)))
        return one.asked

    def fail(self, one: Subscription, callback: Callback, now: float, retry_after_s: float = 0.0) -> None:
        """Note that the hub did not take the request with `callback`, unless it has verified it nevertheless."""
        if one.asked is callback:
            self._drop(one, callback)
            self._plan(one, now + max(_wait_s(one.failures), min(retry_after_s, LONGEST_RETRY_S)))

    def verify(self, token: str, topic: str, lease_s: float, now: float) -> bool:
        """Return whether a hub may know that `token` is a callback for `topic`; it then is, for `lease_s`. O(log n).

        A callback that is in use is confirmed, and its lease stays as it is: who has seen the hub's request could
        prolong it else.
        """
        one = self._by_token.get(token)
        if one is None or one.topic != topic or not one.hub:
            return False
        if one.asked is None or one.asked.token != token:
            return one.active is not None and one.active.until > now
        lease_s = min(max(lease_s, LEAST_LEASE_S), MOST_LEASE_S)
        before, one.active, one.asked = one.active, one.asked, None
        one.active.until = now + lease_s
        one.failures = 0
        self._drop(one, before)
        self._plan(one, now + RENEWED_AT * lease_s)
        return True

    def deny(self, token: str, topic: str, now: float) -> bool:
        """End the callback `token` for `topic`, as its hub says; return False if there is none. O(log n)."""
        one = self._by_token.get(token)
        if one is None or one.topic != topic:
            return False
        self._drop(one, one.asked if one.asked is not None and one.asked.token == token else one.active)
        self._plan(one, now + DENIED_S)
        return True

    def find(self, token: str, now: float) -> tuple[Subscription, Callback] | None:
        """Return the subscription whose callback `token` is in use, and the callback. O(1)."""
        one = self._by_token.get(token)
        if one is None or one.active is None or one.active.token != token or one.active.until <= now:
            return None
        return one, one.active

    def active(self, now: float) -> int:
        """Return how many have a callback in use. O(n)."""
        return sum(one.active is not None and one.active.until > now for one in self._by_url.values())

    def _plan(self, one: Subscription, at: float) -> None:
        one.next_at = at
        heappush(self._due, (at, one.url))

    def _drop(self, one: Subscription, callback: Callback | None) -> None:
        if callback is None:
            return
        self._by_token.pop(callback.token, None)
        if one.asked is callback:
            one.asked = None
        if one.active is callback:
            one.active = None


class _Line(msgspec.Struct):
    at: float
    subscription: Subscription


class SubscriptionLog:
    """The subscriptions that changed since the book was saved, in the file at `path`: on disk before hubs see them.

    A hub that has verified a callback sends to it after a kill too. For several threads.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()

    def add(self, one: Subscription, now: float) -> None:
        """Append `one` and wait for the disk. O(1). Raises SnapshotError if it cannot be written."""
        line = _encode(_Line(now, one))
        with self._lock, as_snapshot_errors(self._path, "cannot be written"):
            if not self._path.exists():
                write_file(self._path, line, mode=0o600)  # it has secrets
                return
            handle = open_regular(self._path, os.O_WRONLY | os.O_APPEND)
            try:
                append_whole(handle, line, os.fstat(handle).st_size)
            finally:
                os.close(handle)

    def read(self) -> list[Subscription]:
        """Return the subscriptions in the order in which they changed; a line that a kill cut off says nothing."""
        return [line.subscription for line in self._lines()]

    def drop(self, saved_at: float) -> None:
        """Remove what a book has that was saved at `saved_at`. O(lines). Raises SnapshotError."""
        with self._lock, as_snapshot_errors(self._path, "cannot be written"):
            later = [line for line in self._lines() if line.at >= saved_at]
            if later:
                write_file(self._path, b"".join(map(_encode, later)), mode=0o600)
            elif self._path.exists():
                remove_file(self._path)
                sync_directory(self._path.parent)

    def _lines(self) -> list[_Line]:
        lines: list[_Line] = []
        try:
            raw = read_regular(self._path)
        except FileNotFoundError:
            return lines
        for line in raw.splitlines():
            try:
                lines.append(msgspec.json.decode(line, type=_Line))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                break
        return lines


def _encode(line: _Line) -> bytes:
    return msgspec.json.encode(line) + b"\n"


def _wait_s(failures: int) -> float:
    """Return how long to wait after `failures` requests in a row.

    >>> _wait_s(1), _wait_s(3), _wait_s(50)
    (60.0, 240.0, 86400.0)
    """
    return min(FIRST_RETRY_S * 2.0 ** min(failures - 1, 20), LONGEST_RETRY_S)
