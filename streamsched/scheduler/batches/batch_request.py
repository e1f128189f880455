"""What a caller asks of a batch: how many pages, when, for how long, and from what hosts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from streamsched.errors import SettingsError
from streamsched.numerics.argument_checks import check_whole, read_items
from streamsched.numerics.durations import parse_duration
from streamsched.politeness.politeness_settings import MOST_PAGES
from streamsched.politeness.rule_targets import read_host

__all__ = ["BatchRequest", "check_key", "digest_arguments", "read_hosts"]

_LONGEST_KEY: Final = 128  # characters


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """A request for the best `k` pages at `now`, leased for `lease_s`.

    ``hosts``: the canonical targets of the hosts whose pages are wanted, None for all; ``per_host``: the most pages of
    one host, None for what settings and rules allow; ``key``: the idempotency key, None for none.
    """

    k: int
    now: float
    lease_s: float
    hosts: tuple[str, ...] | None = None
    per_host: int | None = None
    key: str | None = None

    @classmethod
    def checked(
        cls,
        k: int,
        now: float,
        *,
        lease: str | float,
        hosts: Sequence[str] | None,
        per_host: int | None,
        key: str | None = None,
    ) -> Self:
        """Return the request of these arguments, `now` already checked. Raises SettingsError, TypeError."""
        k, lease_s = check_whole("k", k, 0, "0 or more pages"), parse_duration(lease, "lease")
        if per_host is not None:
            expected = "1 or more pages, or None for any number"
            per_host = check_whole("per_host", per_host, 1, expected, most=MOST_PAGES)
        return cls(k, now, lease_s, None if hosts is None else read_hosts(hosts), per_host, check_key(key))

    @property
    def arguments(self) -> str:
        """A digest of what must be equal where the key is used again: all but the time."""
        return digest_arguments("next_batch", self.k, self.lease_s, self.hosts, self.per_host)


def read_hosts(hosts: Sequence[str]) -> tuple[str, ...]:
    """Return the canonical targets of `hosts`, each once, in order. Raises TypeError, SettingsError.

    >>> read_hosts(["B.example", "*.a.example", "b.example"])
    ('*.a.example', 'b.example')
    """
    found = read_items("hosts", hosts, "a sequence of hosts, for example example.org or *.example.org")
    return tuple(sorted({read_host(host, "hosts").key for host in found}))


def check_key(key: str | None) -> str | None:
    """Return `key`; raises SettingsError if it is neither None nor 1 to 128 printable characters."""
    if key is None or (isinstance(key, str) and 1 <= len(key) <= _LONGEST_KEY and key.isprintable()):
        return key
    raise SettingsError("key", key, f"1 to {_LONGEST_KEY} printable characters, or None")


def digest_arguments(*arguments: object) -> str:
    """Return a hash of plain values: equal for equal values.

    >>> digest_arguments(1, "a") == digest_arguments(1, "a") != digest_arguments(1, "b")
    True
    """
    return hashlib.blake2b(json.dumps(arguments).encode(), digest_size=16).hexdigest()
