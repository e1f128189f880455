"""Idempotency keys: the batch that a key was used for is returned again until its leases expire.

A caller that lost an answer asks again with the same key, and gets the same pages instead of leasing others.
"""

from __future__ import annotations

import heapq
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from streamsched.errors import KeyReusedError
from streamsched.reasons import ReasonCode

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Arrays, Bytes, Floats, Ints
    from streamsched.politeness.priority import Tiers
    from streamsched.scheduler.results import Batch

__all__ = ["BatchKeys", "KeptBatch", "number_codes"]

_MOST_KEYS: Final = 1 << 14
_MOST_PAGES: Final = 1 << 18  # of all batches that are kept, and pages refused: an image has them as 5 MB of JSON
_DTYPES: Final = {"rows": "<u4", "scores": "<f8", "tiers": "|u1", "grounds": "|u1"}


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
    grounds: Bytes
    refused: Mapping[str, str] = MappingProxyType({})

    @classmethod
    def of(cls, batch: Batch, arguments: str, refused: Mapping[str, str] = MappingProxyType({})) -> KeptBatch:
        """Return a `batch` with leases, of a call with these `arguments` that was `refused` some pages. O(m)."""
        assert batch.lease_until_s is not None
        codes, grounds = number_codes(batch.reasons)
        columns = batch.rows, batch.scores, batch.tiers, grounds
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
