"""Calls as the log holds them: what was asked of a scheduler, as JSON and the arrays that belong to it.

Applied anew in their order they lead from the state of an image to that after them, to the last bit: time is among
their arguments, and of pages handed out the rows are kept, not the ranking that found them. Outcomes from a stream that
can be read again are not kept; of them the log has where they came, how many they were and where the stream stood then.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from streamsched.errors import SnapshotError
from streamsched.formula.champion import Champion
from streamsched.numerics.arrays import Ints
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import OutcomeBatch
from streamsched.politeness.politeness_settings import HostRule, Politeness, Rule
from streamsched.state.page_table import PageTable

__all__ = [
    "GrantedLeases",
    "ReplayTarget",
    "Rereader",
    "StreamNeeded",
    "StreamOffsets",
    "StreamReplay",
    "decode_call",
    "encode_call",
    "pack_batch",
    "pack_rules",
    "pack_urls",
    "replay",
]

Rereader = Callable[[str, dict[str, Any] | None], Iterable[OutcomeBatch]]
"""Reads a stream again: from its path and the position to begin at, as JSON, None for its beginning, its outcomes."""

_LENGTH: Final = struct.Struct("<I")
_COLUMNS: Final = ("fetched_at", "given", "status", "fingerprint", "changed", "importance", "cost", "retry_after")


@dataclass(frozen=True, slots=True)
class GrantedLeases:
    """Pages handed out at `now` until `until_s`, the first `panel` for the panel, and the shares as they stood after.

    ``rows``: int64[m].
    """

    rows: Ints
    now: float
    until_s: float
    panel: int
    panel_state: dict[str, Any]
    shares_state: dict[str, Any]


@dataclass(frozen=True, slots=True)
class StreamOffsets:
    """Outcomes taken from the stream ``path``: so many, from ``start`` on but for the first ``skipped`` there.

    ``position``: where the stream stood after them. Positions are JSON, None the stream's beginning.
    """

    path: str
    start: Any
    skipped: int
    outcomes: int
    position: Any


class ReplayTarget(Protocol):
    """What a scheduler offers to whoever applies calls anew."""

    positions: dict[str, Any]

    @property
    def per_host(self) -> int | None: ...  # noqa: D102
    @per_host.setter
    def per_host(self, most: int | None) -> None: ...
    @property
    def pages(self) -> PageTable: ...  # noqa: D102
    def observe(self, outcomes: OutcomeBatch) -> object: ...  # noqa: D102
    def discover(self, urls: PackedUrls, *, now: float, importance: npt.ArrayLike | None = None) -> int: ...  # noqa: D102
    def restore_leases(self, handed: GrantedLeases) -> None: ...  # noqa: D102
    def release(self, urls: list[str]) -> int: ...  # noqa: D102
    def ask(self, urls: list[str], *, now: float) -> int: ...  # noqa: D102
    def block(self, host: str, until: float) -> int: ...  # noqa: D102
    def set_rules(self, rules: Mapping[str, Rule | HostRule | None]) -> int: ...  # noqa: D102
    def set_politeness(self, politeness: Politeness) -> None: ...  # noqa: D102
    def use(self, formula: Champion, *, wait: bool = False) -> None: ...  # noqa: D102


class StreamNeeded(SnapshotError):
    """Calls follow outcomes of a stream, ``stream``, that must be read again, and nobody said how."""

    def __init__(self, path: str, stream: str, number: int) -> None:
        self.stream = stream
        self.number = number
        super().__init__(
            path, f"call number {number} came after outcomes of {stream}, which `streamsched run` must read again first"
        )


def encode_call(call: dict[str, Any], arrays: Mapping[str, npt.NDArray[Any]] | None = None) -> bytes:
    """Return a call with its arrays as bytes. O(bytes)."""
    found = {name: np.ascontiguousarray(array) for name, array in (arrays or {}).items()}
    listed = [[name, array.dtype.str, array.size] for name, array in found.items()]
    head = json.dumps(call | {"arrays": listed}).encode()
    return b"".join([_LENGTH.pack(len(head)), head, *(array.tobytes() for array in found.values())])


def decode_call(payload: bytes) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return what `encode_call` made `payload` of.

    >>> decode_call(encode_call({"call": "ask"}, {"rows": np.arange(2)}))[1]["rows"].tolist()
    [0, 1]
    """
    (length,) = _LENGTH.unpack_from(payload)
    at = _LENGTH.size + length
    call: dict[str, Any] = json.loads(payload[_LENGTH.size : at])
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, dtype, count in call.pop("arrays"):
        arrays[name] = np.frombuffer(payload, dtype, count, at)
        at += arrays[name].nbytes
    return call, arrays


def pack_urls(urls: PackedUrls) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays that hold `urls`, those alone."""
    start, stop = urls.offsets[0], urls.offsets[-1]
    return {"blob": urls.blob[start:stop], "offsets": urls.offsets - start}


def pack_batch(batch: OutcomeBatch) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays that hold `batch`."""
    return pack_urls(batch.urls) | {name: getattr(batch, name) for name in _COLUMNS}


def pack_rules(rules: Mapping[str, Rule | HostRule | None]) -> list[list[Any]]:
    """Return `rules` as JSON has them: target, what kind of rule, and what it sets."""
    return [
        [target, None if rule is None else isinstance(rule, HostRule), None if rule is None else rule.to_json()]
        for target, rule in rules.items()
    ]


def sum_hashes(pages: PageTable, rows: Ints) -> int:
    """Return a checksum of which pages `rows` are."""
    return int(crc32c(pages.arrays.pages.records["url_hash"][rows].tobytes()))


def replay(
    shard: ReplayTarget, calls: Iterable[tuple[int, bytes]], path: str, reread: Rereader | None = None
) -> Iterator[int]:
    """Apply `calls`, from the log at `path`, anew and in order; yield the number of each once it is applied.

    Raises StreamNeeded before a call that followed outcomes which must be read again, where `reread` is None, and
    SnapshotError where calls do not fit the state.
    """
    streams = StreamReplay(shard, reread)
    held: list[tuple[int, StreamOffsets]] = []  # what was taken from streams: read again once a call follows
    for number, payload in calls:
        call, arrays = decode_call(payload)
        if call["call"] == "take":
            held.append((number, StreamOffsets(**{field: value for field, value in call.items() if field != "call"})))
            continue
        for earlier, taken in held:
            if reread is None:
                raise StreamNeeded(path, taken.path, number)
            streams.take(taken, path)
            yield earlier
        held = []
        _apply(shard, number, call, arrays, path)
        yield number


class StreamReplay:
    """Reads outcomes again that a scheduler had taken, as many at a time as it had then."""

    def __init__(self, shard: ReplayTarget, reread: Rereader | None) -> None:
        self._shard = shard
        self._reread = reread
        self._streams: dict[str, _Stream] = {}

    def take(self, taken: StreamOffsets, log: str) -> None:
        """Take again what was taken. Raises SnapshotError, which names the log, where the stream ends before."""
        stream = self._streams.get(taken.path)
        if stream is None or (stream.position, stream.beyond) != (taken.start, taken.skipped):
            assert self._reread is not None
            stream = self._streams[taken.path] = _Stream(self._reread(taken.path, taken.start))
            for _ in stream.read(taken.skipped, taken.path, log):
                pass
        for batch in stream.read(taken.outcomes, taken.path, log):
            self._shard.observe(batch)
        within = taken.position == taken.start
        stream.position, stream.beyond = taken.position, taken.skipped + taken.outcomes if within else 0
        if taken.position is not None:
            self._shard.positions[taken.path] = taken.position


class _Stream:
    """A stream that is read again: ``beyond`` outcomes of it after ``position`` are read."""

    def __init__(self, batches: Iterable[OutcomeBatch]) -> None:
        self.position: Any = None
        self.beyond = 0
        self._batches = iter(batches)
        self._left: OutcomeBatch | None = None

    def read(self, count: int, path: str, log: str) -> Iterator[OutcomeBatch]:
        """Yield the next `count` outcomes. Raises SnapshotError where there are not so many."""
        while count:
            batch = self._left or next(self._batches, None)
            if batch is None:
                reason = f"{path} ends {count} outcomes before it did: the calls after them are lost"
                raise SnapshotError(log, reason)
            self._left = batch.take(np.arange(count, len(batch))) if len(batch) > count else None
            yield batch.take(np.arange(count)) if len(batch) > count else batch
            count -= min(count, len(batch))


def _apply(
    shard: ReplayTarget, number: int, call: dict[str, Any], arrays: dict[str, npt.NDArray[Any]], path: str
) -> None:
    kind = call["call"]
    if kind == "observe":
        shard.observe(_unpack_batch(arrays))
    elif kind == "discover":
        shard.discover(_unpack_urls(arrays), now=call["now"], importance=arrays.get("importance"))
    elif kind == "hand out":
        rows = arrays["rows"].astype(np.int64)
        if rows.size and (rows.max() >= len(shard.pages) or sum_hashes(shard.pages, rows) != call["sum"]):
            raise SnapshotError(path, f"call number {number} handed out other pages than are known: it does not fit")
        panel, shares = call["panel_state"], call["shares_state"]
        shard.restore_leases(GrantedLeases(rows, call["now"], call["until_s"], call["panel"], panel, shares))
    elif kind == "release":
        shard.release(list(_unpack_urls(arrays)))
    elif kind == "ask":
        shard.ask(list(_unpack_urls(arrays)), now=call["now"])
    elif kind == "block":
        shard.block(call["host"], call["until"])
    elif kind == "set rules":
        shard.set_rules({target: _unpack_rule(of_host, told) for target, of_host, told in call["rules"]})
    elif kind == "set politeness":
        shard.set_politeness(Politeness.from_json(call["politeness"]))
    elif kind == "use":
        shard.use(Champion.from_json(call["champion"]), wait=True)
    elif kind == "limit":
        shard.per_host = call["per_host"]
    else:
        raise SnapshotError(path, f"call number {number} is of a kind that this release does not know: {kind!r}")


def _unpack_urls(arrays: dict[str, npt.NDArray[Any]]) -> PackedUrls:
    return PackedUrls(arrays["blob"], arrays["offsets"])


def _unpack_batch(arrays: dict[str, npt.NDArray[Any]]) -> OutcomeBatch:
    batch = OutcomeBatch.__new__(OutcomeBatch)
    batch.urls = _unpack_urls(arrays)
    for name in _COLUMNS:
        setattr(batch, name, arrays[name])
    return batch


def _unpack_rule(of_host: bool | None, told: dict[str, Any]) -> Rule | HostRule | None:
    if of_host is None:
        return None
    return HostRule.from_json(told) if of_host else Rule.from_json(told)
