"""Calls that change a scheduler: each described once, for those who log it and for those who replay the log.

Applied again in their order, the logged calls lead from the state of an image to the state after them, to the last
bit: time is one of their arguments, and of a batch the leased rows are logged, so no ranking runs again. Outcomes and
signals of a stream that can be read again are not logged. Of them the log has the streams, their positions, and the
turns: the stream and the number of records applied at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from streamsched.errors import SnapshotError
from streamsched.formula.champion import Champion
from streamsched.numerics.arrays import Arrays
from streamsched.persistence.call_codec import (
    Rereader,
    StreamNeeded,
    decode_call,
    encode_call,
    pack_batch,
    pack_rules,
    pack_signals,
    pack_urls,
    unpack_batch,
    unpack_rules,
    unpack_signals,
    unpack_urls,
)
from streamsched.persistence.taken_records import StreamOffsets, TakenTurns
from streamsched.persistence.write_ahead_log.reread_stream import RereadStream
from streamsched.politeness.politeness_settings import Politeness
from streamsched.scheduler.batches.batch_builder import GrantedLeases
from streamsched.scheduler.batches.batch_keys import KeptBatch
from streamsched.scheduler.core import SchedulerCore
from streamsched.signals import SignalBatch
from streamsched.state.crawl_plan import CrawlPlan, write_crawl_rates

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Floats, Ints
    from streamsched.numerics.packed_urls import PackedUrls
    from streamsched.outcomes import OutcomeBatch
    from streamsched.scheduler.batches.batch_request import BatchRequest
    from streamsched.scheduler.batches.grants import GrantRequest
    from streamsched.scheduler.results import Batch, Noticed, Observed

__all__ = [
    "ASK",
    "BLOCK",
    "CALLS",
    "DISCOVER",
    "FOLLOW_PLAN",
    "FORGET",
    "FORGET_PAGES",
    "GRANT",
    "LIMIT_AHEAD",
    "LIMIT_PER_HOST",
    "NEXT_BATCH",
    "NOTICE",
    "OBSERVE",
    "RELEASE",
    "SET_BOUNDS",
    "SET_POLITENESS",
    "SET_RULES",
    "SUSPEND_STREAMS",
    "USE",
    "Call",
    "replay",
    "take_records",
]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Logged: TypeAlias = tuple[dict[str, Any], Arrays]
"""What the log holds of a call: plain values for JSON, and arrays."""


@dataclass(frozen=True, slots=True)
class Call(Generic[Arguments, Result]):
    """One kind of call. ``kind``: its name in the log; ``apply``: does it.

    ``log``: takes the scheduler, the result and the arguments; returns what the log must hold, None if nothing changed.
    ``replay``: does the call again with what ``log`` returned.
    """

    kind: str
    apply: Callable[Concatenate[SchedulerCore, Arguments], Result]
    log: Callable[..., Logged | None]
    replay: Callable[[SchedulerCore, dict[str, Any], Arrays], object]

    def encode(
        self, core: SchedulerCore, result: Result, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> bytes | None:
        """Return the log's entry; None if nothing changed. O(bytes)."""
        logged = self.log(core, result, *args, **kwargs)
        return None if logged is None else encode_call({"call": self.kind} | logged[0], logged[1])


def _log_outcomes(
    core: SchedulerCore, observed: Observed, batch: OutcomeBatch, latest_s: float | None
) -> Logged | None:
    """Log the rejected outcomes too: the replay rejects them again, and the stream's clock has counted them."""
    is_changed = observed.applied or observed.refused or core.clock.has_moved
    return ({"latest_s": latest_s}, pack_batch(batch)) if is_changed else None


def _log_signals(core: SchedulerCore, noticed: Noticed, batch: SignalBatch, latest_s: float | None) -> Logged | None:
    """Log all signals, as `_log_outcomes` does; even a late one may be the first of its kind."""
    is_changed = noticed.rejected < len(batch) or core.clock.has_moved
    return ({"latest_s": latest_s, "names": batch.names}, pack_signals(batch)) if is_changed else None


def _log_discovery(core: SchedulerCore, added: int, urls: PackedUrls, now: float, importance: Floats | None) -> Logged:  # noqa: ARG001
    return {"now": now}, pack_urls(urls) | ({} if importance is None else {"importance": importance})


def _log_batch(
    core: SchedulerCore,
    batch: Batch,
    request: BatchRequest | GrantRequest,
    refused: Mapping[str, str] = MappingProxyType({}),
) -> Logged | None:
    if batch.repeated:
        return None
    fields: dict[str, Any] = {
        "now": batch.now,
        "until_s": batch.lease_until_s,
        "panel": batch.panel,
        "sum": _sum_hashes(core, batch.rows),
        "panel_state": core.panel.state(),
        "quotas_state": core.quotas.state(),
    }
    if request.key is None:
        return fields, {"rows": batch.rows.astype(np.uint32)}
    kept = KeptBatch.of(batch, request.arguments, refused)
    return fields | {"key": request.key, "kept": kept.fields}, kept.arrays


def _replay_batch(core: SchedulerCore, fields: dict[str, Any], arrays: Arrays) -> None:
    rows, hashes = arrays["rows"].astype(np.int64), fields.pop("sum")
    if rows.size and (rows.max() >= len(core.pages) or _sum_hashes(core, rows) != hashes):
        raise _LogMismatch("leased pages that the state does not have: the log belongs to another state")
    key, kept = fields.pop("key", None), fields.pop("kept", None)
    batch = None if kept is None else KeptBatch.from_saved(kept, arrays)
    core.restore_leases(GrantedLeases(rows=rows, **fields), key, batch)


def _use(core: SchedulerCore, champion: Champion) -> None:
    core.use(champion, wait=True)


def _follow_plan(core: SchedulerCore, plan: CrawlPlan, rates: npt.NDArray[np.float32]) -> None:
    """Give the first pages the crawl rates of `plan`: float32[plan.pages]. O(pages)."""
    with core.lock:
        write_crawl_rates(core.pages, rates)
        core.plan = plan
        core.formula_switch.keep_up()


def _replay_plan(core: SchedulerCore, fields: dict[str, Any], arrays: Arrays) -> None:
    if arrays["rates"].size > len(core.pages):
        raise _LogMismatch("a plan of more pages than the state has: the log belongs to another state")
    _follow_plan(core, CrawlPlan.from_json(fields["plan"]), arrays["rates"])


OBSERVE: Final = Call(
    "observe",
    SchedulerCore.observe,
    _log_outcomes,
    lambda core, fields, arrays: core.observe(unpack_batch(arrays), fields["latest_s"]),
)
NOTICE: Final = Call(
    "notice",
    SchedulerCore.notice,
    _log_signals,
    lambda core, fields, arrays: core.notice(unpack_signals(fields["names"], arrays), fields["latest_s"]),
)
DISCOVER: Final = Call(
    "discover",
    SchedulerCore.discover,
    _log_discovery,
    lambda core, fields, arrays: core.discover(unpack_urls(arrays), fields["now"], arrays.get("importance")),
)
NEXT_BATCH: Final = Call("next batch", SchedulerCore.next_batch, _log_batch, _replay_batch)
GRANT: Final = Call(
    "grant",
    SchedulerCore.grant,
    lambda core, granted, request: _log_batch(core, granted.batch, request, granted.refused),
    _replay_batch,
)
RELEASE: Final = Call(
    "release",
    SchedulerCore.release,
    lambda core, released, urls: ({}, pack_urls(urls)),
    lambda core, fields, arrays: core.release(unpack_urls(arrays)),
)
FORGET_PAGES: Final = Call(
    "forget pages",
    SchedulerCore.forget,
    lambda core, _, urls, hosts=(): ({"hosts": list(hosts)}, {} if urls is None else pack_urls(urls)),
    lambda core, fields, arrays: core.forget(unpack_urls(arrays) if arrays else None, fields["hosts"]),
)
ASK: Final = Call(
    "ask",
    SchedulerCore.ask,
    lambda core, added, urls, now: ({"now": now}, pack_urls(urls)),
    lambda core, fields, arrays: core.ask(unpack_urls(arrays), fields["now"]),
)
BLOCK: Final = Call(
    "block",
    SchedulerCore.block,
    lambda core, blocked, host, until: ({"host": host, "until": until}, {}),
    lambda core, fields, arrays: core.block(**fields),
)
SET_RULES: Final = Call(
    "set rules",
    SchedulerCore.set_rules,
    lambda core, concerned, rules: ({"rules": pack_rules(rules)}, {}),
    lambda core, fields, arrays: core.set_rules(unpack_rules(fields["rules"])),
)
SET_BOUNDS: Final = Call(
    "set bounds",
    SchedulerCore.set_bounds,
    lambda core, _, bounds: ({"bounds": core.pages.bounds.to_json()}, {}),
    lambda core, fields, arrays: core.set_bounds(fields["bounds"]),
)
SET_POLITENESS: Final = Call(
    "set politeness",
    SchedulerCore.set_politeness,
    lambda core, _, politeness: ({"politeness": politeness.to_json()}, {}),
    lambda core, fields, arrays: core.set_politeness(Politeness.from_json(fields["politeness"])),
)
SUSPEND_STREAMS: Final = Call(
    "suspend streams",
    SchedulerCore.suspend_streams,
    lambda core, pages, streams: ({"streams": sorted(streams)}, {}),
    lambda core, fields, arrays: core.suspend_streams(fields["streams"]),
)
LIMIT_PER_HOST: Final = Call(
    "limit per host",
    SchedulerCore.limit_per_host,
    lambda core, _, most: ({"most": core.politeness_policy.politeness.per_batch}, {}),
    lambda core, fields, arrays: core.limit_per_host(fields["most"]),
)
LIMIT_AHEAD: Final = Call(
    "limit ahead",
    SchedulerCore.limit_ahead,
    lambda core, _, max_ahead_s: ({"max_ahead_s": max_ahead_s}, {}),
    lambda core, fields, arrays: core.limit_ahead(**fields),
)
USE: Final = Call(  # logged when the formula takes over
    "use",
    _use,
    lambda core, _, champion: ({"champion": champion.to_json()}, {}),
    lambda core, fields, arrays: _use(core, Champion.from_json(fields["champion"])),
)
FOLLOW_PLAN: Final = Call(
    "follow plan",
    _follow_plan,
    lambda core, _, plan, rates: ({"plan": plan.to_json()}, {"rates": rates}),
    _replay_plan,
)

CALLS: Final[Mapping[str, Call[..., Any]]] = MappingProxyType(
    {
        call.kind: call
        for call in (
            OBSERVE,
            NOTICE,
            DISCOVER,
            NEXT_BATCH,
            GRANT,
            RELEASE,
            FORGET_PAGES,
            SET_BOUNDS,
            ASK,
            BLOCK,
            SET_RULES,
            SET_POLITENESS,
            SUSPEND_STREAMS,
            LIMIT_PER_HOST,
            LIMIT_AHEAD,
            USE,
            FOLLOW_PLAN,
        )
    }
)
"""All logged calls by their kinds."""


FORGET: Final = "forget"
"""The kind of an entry that cancels what was taken from streams since the last call: a restart reads it again."""


def take_records(
    core: SchedulerCore, records: OutcomeBatch | SignalBatch, stream: str, latest_s: float | None
) -> Observed | Noticed:
    """Apply the valid ones of `records`, delivered by `stream`, in their order; the log has them later. O(1) each."""
    if isinstance(records, SignalBatch):
        return core.notice(records, latest_s)
    return core.observe(records, latest_s, stream=stream)


class _LogMismatch(Exception):
    """A logged call does not fit the state; the text follows "call 7 "."""


def replay(
    core: SchedulerCore, calls: Iterable[tuple[int, bytes]], path: str, reread: Rereader | None = None
) -> Iterator[int]:
    """Apply the logged `calls` in order; yield the number of each once it is applied. `path` names the log in errors.

    Raises StreamNeeded before a call that depends on records of a stream if `reread` is None, and SnapshotError if
    the calls do not fit the state or a stream has too few records.
    """
    streams = _StreamReplay(core, reread)
    pending: list[tuple[int, TakenTurns]] = []  # read again only if a call follows them
    for number, payload in calls:
        fields, arrays = decode_call(payload)
        kind = fields.pop("call")
        if kind == TakenTurns.kind:
            pending.append((number, TakenTurns.decode(fields, arrays)))
            continue
        if kind == FORGET:
            pending = []
            yield number
            continue
        for earlier, taken in pending:
            if reread is None:
                raise StreamNeeded(path, taken.streams[0].path, number)
            streams.take(taken, path)
            yield earlier
        pending = []
        if kind not in CALLS:
            raise SnapshotError(path, f"call {number} has a kind that this release does not know: {kind!r}")
        try:
            CALLS[kind].replay(core, fields, arrays)
        except _LogMismatch as error:
            raise SnapshotError(path, f"call {number} {error}") from None
        yield number


class _StreamReplay:
    """Reads records of streams again, in the same portions and turns as before."""

    def __init__(self, core: SchedulerCore, reread: Rereader | None) -> None:
        self._core = core
        self._reread = reread
        self._streams: dict[str, RereadStream] = {}

    def take(self, taken: TakenTurns, log: str) -> None:
        """Apply the records `taken` again. Raises SnapshotError, naming `log`, if a stream ends before."""
        streams = [self._open(one, log) for one in taken.streams]
        for number, count in zip(taken.turns, taken.counts, strict=True):
            offsets = taken.streams[number]
            for batch in streams[number].read(count, log):
                take_records(self._core, batch, offsets.path, offsets.latest_s)
        for stream, offsets in zip(streams, taken.streams, strict=True):
            stream.position, stream.beyond = offsets.position, offsets.beyond
            self._core.reached.reach(offsets)

    def _open(self, offsets: StreamOffsets, log: str) -> RereadStream:
        """Return the stream where `offsets` begin."""
        stream = self._streams.get(offsets.path)
        if stream is None or (stream.position, stream.beyond) != (offsets.start, offsets.skipped):
            assert self._reread is not None
            stream = RereadStream(offsets.path, self._reread(offsets.path, offsets.start))
            self._streams[offsets.path] = stream
            for _ in stream.read(offsets.skipped, log):
                pass
        return stream


def _sum_hashes(core: SchedulerCore, rows: Ints) -> int:
    """Return a checksum of the identities of the pages `rows`."""
    return int(crc32c(core.pages.arrays.pages.records["url_hash"][rows].tobytes()))
