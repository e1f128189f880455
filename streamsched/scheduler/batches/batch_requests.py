"""Requests for a batch, or for pages by name; and the answers that are kept for idempotency keys.

A caller that lost an answer asks again with the same key, and gets the same pages instead of leasing others: the batch
that a key was used for is returned again until its leases expire.
"""

from __future__ import annotations

import hashlib
import heapq
import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

import numpy as np

from streamsched.api.values import MOST_PAGES
from streamsched.errors import KeyReusedError, SettingsError
from streamsched.numerics.argument_checks import check_whole, read_items
from streamsched.numerics.arrays import Arrays, Bytes, Floats, Ints
from streamsched.numerics.durations import parse_lease
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.politeness.eligibility import are_eligible
from streamsched.politeness.eligibility_reasons import eligibility_reasons, held_back_by
from streamsched.politeness.priority import Tiers
from streamsched.politeness.rule_targets import read_host
from streamsched.ranking.full_scan import HostPages, Query, Ranked, fill_slots
from streamsched.ranking.host_slots import HostSlots
from streamsched.reasons import ReasonCode
from streamsched.records.schema import ShardArrays
from streamsched.scheduler.batches.panel import Panel
from streamsched.scheduler.results import Batch

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
        k, lease_s = check_whole("k", k, 0, "0 or more pages"), parse_lease(lease)
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


_MOST_KEYS: Final = 1 << 14
_MOST_PAGES: Final = 1 << 18  # of all batches that are kept, and pages refused: an image has them as 8 MB of JSON
_DTYPES: Final = {"rows": "<u4", "scores": "<f8", "tiers": "|u1", "probabilities": "<f8", "grounds": "|u1"}


class KeptBatch(NamedTuple):
    """A batch as it was returned, but for its URLs, which follow from its rows.

    ``arguments``: the digest of the call's arguments; ``codes``: reason codes; ``grounds``: uint8[m], the number of
    each page's code; ``refused``: the code of each URL that was not leased by name.
    """

    arguments: str
    now: float
    until_s: float
    panel: int
    codes: tuple[str, ...]
    rows: Ints
    scores: Floats
    tiers: Tiers
    probabilities: Floats
    grounds: Bytes
    refused: Mapping[str, str] = MappingProxyType({})

    @classmethod
    def of(cls, batch: Batch, arguments: str, refused: Mapping[str, str] = MappingProxyType({})) -> KeptBatch:
        """Return a `batch` with leases, of a call with these `arguments` that was `refused` some pages. O(m)."""
        assert batch.lease_until_s is not None
        codes, grounds = number_codes(batch.reasons)
        columns = batch.rows, batch.scores, batch.tiers, batch.probabilities, grounds
        return cls(arguments, batch.now, batch.lease_until_s, batch.panel, codes, *columns, refused)

    @property
    def reasons(self) -> list[ReasonCode]:
        """The code of each page."""
        return [ReasonCode(self.codes[number]) for number in self.grounds.tolist()]

    @property
    def arrays(self) -> Arrays:
        """The columns by name, as they are saved."""
        return {name: getattr(self, name).astype(dtype) for name, dtype in _DTYPES.items()}

    @property
    def encoded(self) -> dict[str, str]:
        """The columns by name, in Base64."""
        return {name: b64encode(column.tobytes()).decode() for name, column in self.arrays.items()}

    @property
    def fields(self) -> dict[str, Any]:
        """Everything but the columns, as plain values for JSON."""
        names = ("arguments", "now", "until_s", "panel")
        lists = {"codes": list(self.codes), "refused": dict(self.refused)}
        return {name: getattr(self, name) for name in names} | lists

    @property
    def size(self) -> int:
        """How many pages it takes memory for."""
        return self.rows.size + len(self.refused)

    def renumbered(self, rows: Ints) -> KeptBatch:
        """Return the batch with new rows: ``rows``: int64[pages], by old row, negative for pages that are gone."""
        stays = rows[self.rows] >= 0
        columns = {name: getattr(self, name)[stays] for name in _DTYPES}
        columns["rows"] = rows[columns["rows"]]
        return self._replace(panel=int(np.count_nonzero(stays[: self.panel])), **columns)

    @classmethod
    def from_saved(cls, fields: dict[str, Any], arrays: Arrays) -> KeptBatch:
        """Return the batch whose `fields` and `arrays` were saved."""
        columns: dict[str, Any] = {name: arrays[name] for name in _DTYPES}
        columns |= fields | {"codes": tuple(fields["codes"]), "rows": arrays["rows"].astype(np.int64)}
        return cls(**columns)


class BatchKeys:
    """The batches of the keys in use. For one call at a time.

    The newest 16,384 batches are kept, of 262,144 pages in all; older ones are forgotten early.
    """

    def __init__(self) -> None:
        self._kept: dict[str, KeptBatch] = {}  # in the order in which they were kept
        self._saved: dict[str, dict[str, Any]] = {}  # the same as JSON: the lock is held while an image is begun
        self._expiries: list[tuple[float, str]] = []  # a heap
        self._pages = 0

    def find(self, key: str | None, arguments: str, now: float) -> KeptBatch | None:
        """Return the batch of a key whose leases have not expired by `now`, else None. O(1).

        Raises KeyReusedError if that batch is of a call with other `arguments`.
        """
        kept = None if key is None else self._kept.get(key)
        if key is None or kept is None or kept.until_s <= now:
            return None
        if kept.arguments != arguments:
            raise KeyReusedError(key, kept.until_s)
        return kept

    def has(self, key: str, now: float) -> bool:
        """Return whether a key is in use at `now`. O(1)."""
        kept = self._kept.get(key)
        return kept is not None and kept.until_s > now

    def kept(self, key: str) -> KeptBatch:
        """Return the batch of a key in use. O(1)."""
        return self._kept[key]

    def keep(self, key: str, batch: KeptBatch) -> None:
        """Keep the batch of a key that is not in use. O(log keys), amortised."""
        self._kept[key], self._saved[key] = batch, {"key": key, **batch.fields, **batch.encoded}
        self._pages += batch.size
        heapq.heappush(self._expiries, (batch.until_s, key))
        while len(self._kept) > _MOST_KEYS or (self._pages > _MOST_PAGES and len(self._kept) > 1):
            self._drop(next(iter(self._kept)))

    def forget(self, now: float) -> None:
        """Forget the batches whose leases have expired by `now`. O(1) if none has."""
        while self._expiries and self._expiries[0][0] <= now:
            until_s, key = heapq.heappop(self._expiries)
            if key in self._kept and self._kept[key].until_s == until_s:  # otherwise it was forgotten early
                self._drop(key)

    def forget_later(self, latest_s: float) -> int:
        """Forget the batches that were leased after `latest_s`; return how many. O(keys)."""
        late = [key for key, batch in self._kept.items() if batch.now > latest_s]
        for key in late:
            self._drop(key)
        return len(late)

    def rows(self) -> Ints:
        """Return the rows of all pages in batches that are kept: int64[m]. O(pages of these batches)."""
        found = [batch.rows for batch in self._kept.values()]
        return np.unique(np.concatenate([np.empty(0, np.int64), *found]))

    def renumbered(self, rows: Ints) -> BatchKeys:
        """Return the batches with new rows, see `KeptBatch.renumbered`. O(pages of these batches)."""
        keys = BatchKeys()
        for key, batch in self._kept.items():
            keys.keep(key, batch.renumbered(rows))
        return keys

    def to_json(self) -> list[dict[str, Any]]:
        """Return what `restore` needs, as plain values for JSON. O(keys)."""
        return list(self._saved.values())

    def restore(self, saved: Sequence[dict[str, Any]]) -> None:
        """Continue from what `to_json` returned."""
        for fields in saved:
            arrays = {name: np.frombuffer(b64decode(fields[name]), dtype) for name, dtype in _DTYPES.items()}
            plain = {name: value for name, value in fields.items() if name not in {"key", *_DTYPES}}
            self.keep(fields["key"], KeptBatch.from_saved(plain, arrays))

    def _drop(self, key: str) -> None:
        self._pages -= self._kept.pop(key).size
        del self._saved[key]


def number_codes(reasons: Sequence[ReasonCode]) -> tuple[tuple[str, ...], Bytes]:
    """Return the different codes of `reasons`, and the number of each reason's code: uint8[m].

    >>> number_codes([ReasonCode.LEASED, ReasonCode.OVERDUE, ReasonCode.LEASED])[1].tolist()
    [0, 1, 0]
    """
    codes = {code.value: number for number, code in enumerate(dict.fromkeys(reasons))}
    return tuple(codes), np.array([codes[code.value] for code in reasons], np.uint8)


@dataclass(frozen=True, slots=True)
class GrantRequest:
    """A request to lease `urls` at `now` for `lease_s`; ``key``: the idempotency key, None for none."""

    urls: PackedUrls
    now: float
    lease_s: float
    key: str | None = None

    @property
    def arguments(self) -> str:
        """A digest of what must be equal where the key is used again: all but the time."""
        lengths = np.diff(self.urls.offsets)
        text = self.urls.blob[self.urls.offsets[0] : self.urls.offsets[-1]]
        urls = hashlib.blake2b(text.tobytes() + lengths.tobytes(), digest_size=16).hexdigest()
        return digest_arguments("grant", urls, self.lease_s)


class ChosenPages(NamedTuple):
    """The pages that are leased: int64[m], the first `panel` for the panel; and the rows of the URLs that are not."""

    rows: Ints
    panel: int
    refused: dict[str, int]

    @property
    def reasons(self) -> list[ReasonCode]:
        """The reason of each page's lease."""
        named = self.rows.size - self.panel
        return [ReasonCode.IN_BATCH_PANEL] * self.panel + [ReasonCode.IN_BATCH_GRANTED] * named


def choose_granted(shard: ShardArrays, query: Query, urls: PackedUrls, found: Ints, panel: Panel) -> ChosenPages:
    """Return which of `urls` may be leased together, the panel's first. O(n log n).

    ``found``: int64[n], their rows, negative for unknown pages. Of a host's pages the first ones are leased, as far as
    it has free slots; a URL given again counts once.
    """
    rows_by_url = dict(zip(urls, found.tolist(), strict=True))
    rows = np.array([row for row in rows_by_url.values() if row >= 0], np.int64)
    query = replace(query, k=rows.size, among=HostPages(rows[:0], np.sort(rows)))
    query = replace(query, first=panel.choose(shard, query))
    eligible = rows[are_eligible(shard, rows, query.now, query.limits)]
    named = Ranked(eligible, np.zeros(eligible.size), np.zeros(eligible.size, np.uint8))
    chosen = fill_slots(HostSlots(), shard, query, named).rows
    leased = set(chosen.tolist())
    refused = {url: row for url, row in rows_by_url.items() if row not in leased}
    return ChosenPages(chosen, int(np.count_nonzero(np.isin(chosen, query.first))), refused)


def why_refused(shard: ShardArrays, query: Query, row: int) -> ReasonCode:
    """Return why the page of `row`, negative if it is not known, was not leased. O(1). Before others are leased."""
    if row < 0:
        return ReasonCode.UNKNOWN
    reasons = eligibility_reasons(shard, row, query.now, query.limits)[1]
    return held_back_by(reasons) or ReasonCode.HOST_SHARE_USED
