"""The calls that change a scheduler, and how the log keeps them: `LOGGED_CALLS`, the table that `@logged` fills.

The method of `Scheduler` below the decorator does the work. Its arguments are prepared (URLs packed, times checked) as
`ARGUMENTS` says, then `Scheduler._perform` calls the method with them, and a `DurableScheduler` logs what it did. What
the HTTP service offers of it is in `streamsched.api.operations`.

Applied again in their order, the logged calls lead from the state of an image to the state after them, to the last
bit: time is one of their arguments, and of a batch the leased rows are logged, so no ranking runs again. Outcomes and
signals of a stream that can be read again are not logged. Of them the log has the streams, their positions, and the
turns: the stream and the number of records applied at once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from streamsched.api.views import Noticed, Observed
from streamsched.errors import InvalidOutcome
from streamsched.formula.champion import Champion
from streamsched.numerics.argument_checks import check_time
from streamsched.numerics.arrays import Arrays, Floats, Ints
from streamsched.numerics.column_casting import as_column
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import Outcome, OutcomeBatch
from streamsched.persistence.call_codec import (
    encode_call,
    pack_batch,
    pack_rules,
    pack_urls,
    unpack_batch,
    unpack_rules,
    unpack_urls,
)
from streamsched.politeness.politeness_settings import Politeness
from streamsched.politeness.rule_targets import read_host
from streamsched.scheduler.batches.batch_builder import GrantedLeases
from streamsched.scheduler.batches.batch_requests import KeptBatch
from streamsched.scheduler.core import SchedulerCore
from streamsched.scheduler.results import Granted
from streamsched.signals import Signal, SignalBatch
from streamsched.state.crawl_plan import CrawlPlan
from streamsched.state.stream_clock import parse_max_ahead

Method = TypeVar("Method", bound=Callable[..., Any])
Given: TypeAlias = dict[str, Any]
"""Arguments by name."""
Logged: TypeAlias = tuple[dict[str, Any], Arrays]
"""A call as the log holds it: plain values for JSON, and arrays."""


class LogMismatch(Exception):
    """A logged call does not fit the state; the text follows "call 7 "."""


class Log(Protocol):
    """How a call is kept in the log."""

    def prepare(self, scheduler: Any, given: Given) -> None:
        """Replace the arguments by what the method needs and the log can hold. Raises what is wrong with them."""

    def write(self, core: SchedulerCore, result: Any, given: Given) -> Logged | None:
        """Return what the log must hold of a call that returned `result`, None if nothing changed."""

    def replay(self, method: Callable[..., Any], core: SchedulerCore, fields: dict[str, Any], arrays: Arrays) -> None:
        """Do a logged call again. Raises LogMismatch."""


@dataclass(frozen=True, slots=True)
class LoggedCall:
    """A call that changes the state. ``name``: in the log; ``method``: does it, with prepared arguments; ``log``."""

    name: str
    method: Callable[..., Any]
    log: Log

    def encode(self, core: SchedulerCore, result: Any, given: Given) -> bytes | None:
        """Return the log's entry of a call; None if nothing changed. O(bytes)."""
        logged = self.log.write(core, result, given)
        return None if logged is None else encode_call({"call": self.name} | logged[0], logged[1])

    def replay(self, core: SchedulerCore, fields: dict[str, Any], arrays: Arrays) -> None:
        """Do a logged call again. Raises LogMismatch."""
        self.log.replay(self.method, core, fields, arrays)


LOGGED_CALLS: Final[dict[str, LoggedCall]] = {}
"""All calls by their names, in the order of the methods of `Scheduler`."""


def logged(
    log: Log | None = None, *, changed: Callable[[SchedulerCore, Any, Given], bool] = lambda *_: True
) -> Callable[[Method], Method]:
    """Return a decorator that adds a method of `Scheduler` to `LOGGED_CALLS`; see `LoggedCall`.

    `log`: how a call is kept; None keeps its arguments as `ARGUMENTS` says. `changed`: whether a call changed anything,
    by the core, result and arguments.
    """

    def describe(method: Method) -> Method:
        name, signature = method.__name__.lstrip("_"), inspect.signature(method)
        parameters = list(signature.parameters.values())[1:]
        names = {one.name for one in parameters}
        kept = Columns([one.name for one in parameters], changed) if log is None else log
        described = LOGGED_CALLS[name] = LoggedCall(name, method, kept)
        positional = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
        defaults = {one.name: one.default for one in parameters if one.default is not one.empty}

        @wraps(method)
        def prepare_and_perform(self: Any, *args: Any, **kwargs: Any) -> Any:
            given = defaults | dict(zip(positional, args, strict=False)) | kwargs
            if (
                len(args) > len(positional)
                or given.keys() != names
                or not kwargs.keys().isdisjoint(positional[: len(args)])
            ):
                signature.bind(self, *args, **kwargs)  # raises TypeError; it takes too long to call it always
            kept.prepare(self, given)
            return self._perform(described, given)

        return prepare_and_perform  # type: ignore[return-value]

    return describe


class Column(NamedTuple):
    """How the log keeps an argument: as JSON and arrays. ``prepare``: takes the scheduler, the value and all values."""

    prepare: Callable[[Any, Any, Given], Any] = lambda _, value, __: value
    write: Callable[[Any], tuple[Any, Arrays]] = lambda value: (value, {})
    read: Callable[[Any, Arrays], Any] = lambda value, _: value


class Columns:
    """Keeps the arguments `names` as `ARGUMENTS` has them; `changed` as for `logged`."""

    def __init__(self, names: Iterable[str], changed: Callable[[SchedulerCore, Any, Given], bool]) -> None:
        self._changed = changed
        columns = {name: ARGUMENTS[name] for name in names}
        self._columns = {name: column for name, column in columns.items() if column is not None}

    def prepare(self, scheduler: Any, given: Given) -> None:  # noqa: D102  as in Log, and below
        for name, column in self._columns.items():
            given[name] = column.prepare(scheduler, given[name], given)

    def write(self, core: SchedulerCore, result: Any, given: Given) -> Logged | None:  # noqa: D102
        if not self._changed(core, result, given):
            return None
        fields: dict[str, Any] = {}
        arrays: dict[str, npt.NDArray[Any]] = {}
        for name, column in self._columns.items():
            fields[name], packed = column.write(given[name])
            arrays |= packed
        return fields, arrays

    def replay(  # noqa: D102
        self, method: Callable[..., Any], core: SchedulerCore, fields: dict[str, Any], arrays: Arrays
    ) -> None:
        method(Replayed(core), **{name: column.read(fields[name], arrays) for name, column in self._columns.items()})


class Replayed(NamedTuple):
    """The scheduler's place in a replay: a call that changes the state needs nothing but the core."""

    core: SchedulerCore


def take_records(scheduler: Any, records: OutcomeBatch | SignalBatch, latest_s: float | None) -> Observed | Noticed:
    """Apply the valid ones of `records` of a stream in their order; the log has them later. O(1) each."""
    if isinstance(records, SignalBatch):
        noticed: Noticed = LOGGED_CALLS["notice"].method(scheduler, records, latest_s=latest_s)
        return noticed
    observed: Observed = LOGGED_CALLS["observe"].method(scheduler, records, latest_s=latest_s)
    return observed


class LeasedRows:
    """Keeps a batch by the rows that were leased, and by what its key needs to return it again."""

    def prepare(self, scheduler: Any, given: Given) -> None:  # noqa: D102
        given["now"] = _PRESENT.prepare(scheduler, given["now"], given)

    def write(self, core: SchedulerCore, result: Any, given: Given) -> Logged | None:  # noqa: D102
        batch = result.batch if isinstance(result, Granted) else result
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
        if given["key"] is None:
            return fields, {"rows": batch.rows.astype(np.uint32)}
        kept = core.keys.kept(given["key"])
        return fields | {"key": given["key"], "kept": kept.fields}, kept.arrays

    def replay(  # noqa: D102
        self,
        method: Callable[..., Any],  # noqa: ARG002
        core: SchedulerCore,
        fields: dict[str, Any],
        arrays: Arrays,
    ) -> None:
        rows, hashes = arrays["rows"].astype(np.int64), fields.pop("sum")
        if rows.size and (rows.max() >= len(core.pages) or _sum_hashes(core, rows) != hashes):
            raise LogMismatch("leased pages that the state does not have: the log belongs to another state")
        key, kept = fields.pop("key", None), fields.pop("kept", None)
        batch = None if kept is None else KeptBatch.from_saved(kept, arrays)
        leases = GrantedLeases(rows=rows, **fields)
        with core.lock:
            core.clock.advance(leases.now)
            core.batch_builder.restore_leases(leases, key, batch)


def _sum_hashes(core: SchedulerCore, rows: Ints) -> int:
    """Return a checksum of the identities of the pages `rows`."""
    return int(crc32c(core.pages.arrays.pages.records["url_hash"][rows].tobytes()))


def as_outcomes(outcomes: OutcomeBatch | Outcome | Iterable[Outcome]) -> OutcomeBatch:
    """Return `outcomes` as a batch."""
    if isinstance(outcomes, Outcome):
        outcomes = [outcomes]
    return outcomes if isinstance(outcomes, OutcomeBatch) else OutcomeBatch.from_outcomes(outcomes)


def as_signals(signals: SignalBatch | Signal | Iterable[Signal]) -> SignalBatch:
    """Return `signals` as a batch."""
    if isinstance(signals, Signal):
        signals = [signals]
    return signals if isinstance(signals, SignalBatch) else SignalBatch.from_signals(signals)


def as_urls(urls: Iterable[str] | PackedUrls) -> PackedUrls:
    """Return `urls` packed."""
    return urls if isinstance(urls, PackedUrls) else PackedUrls.pack(urls)


def as_weights(importance: npt.ArrayLike, count: int) -> Floats:
    """Return `importance`, one weight for all pages or one for each, as float64[count]. Raises InvalidOutcome."""
    single = isinstance(importance, int | float | np.integer | np.floating)
    values: Any = [importance] * count if single else importance
    weights, missing = as_column("importance", np.dtype(np.float64), values, count)
    if missing is not None:
        raise InvalidOutcome(int(np.flatnonzero(missing)[0]), "importance", None, "a number")
    return weights


def _plain_number(value: Any) -> Any:
    """Return a number, which may be one of NumPy's, as JSON has it."""
    return value.item() if isinstance(value, np.generic) else value


_PRESENT: Final = Column(lambda scheduler, now, _: scheduler._check_now(now))  # noqa: SLF001  part of every scheduler
_CHAMPION: Final = Column(
    write=lambda champion: (champion and champion.to_json(), {}),
    read=lambda fields, _: fields and Champion.from_json(fields),
)
ARGUMENTS: Final[Mapping[str, Column | None]] = {
    "outcomes": Column(
        lambda _, outcomes, __: as_outcomes(outcomes),
        lambda batch: (None, pack_batch(batch)),
        lambda _, arrays: unpack_batch(arrays),
    ),
    "signals": Column(
        lambda _, signals, __: as_signals(signals),
        lambda batch: (batch.names, pack_batch(batch)),
        lambda names, arrays: unpack_batch(arrays, names),
    ),
    "latest_s": Column(
        lambda scheduler, latest_s, _: scheduler._latest_s() if latest_s is None else latest_s  # noqa: SLF001
    ),
    "positions": None,  # which alter the result only
    "urls": Column(  # None: those of a host
        lambda _, urls, __: None if urls is None else as_urls(urls),
        lambda urls: (None, {} if urls is None else pack_urls(urls)),
        lambda _, arrays: unpack_urls(arrays) if arrays else None,
    ),
    "now": _PRESENT,
    "importance": Column(  # of the `urls`
        lambda _, weights, given: None if weights is None else as_weights(weights, len(given["urls"])),
        lambda weights: (None, {} if weights is None else {"importance": weights}),
        lambda _, arrays: arrays.get("importance"),
    ),
    "host": Column(lambda _, host, __: None if host is None else read_host(host).key),
    "until": Column(lambda _, until, __: check_time(until, "until")),
    "rules": Column(write=lambda rules: (pack_rules(rules), {}), read=lambda packed, _: unpack_rules(packed)),
    "politeness": Column(
        write=lambda politeness: (politeness.to_json(), {}), read=lambda fields, _: Politeness.from_json(fields)
    ),
    "max_ahead": Column(lambda _, ahead, __: parse_max_ahead(ahead)),
    "bounds": Column(write=lambda values: ({name: _plain_number(value) for name, value in values.items()}, {})),
    "champion": _CHAMPION,
    "challenger": _CHAMPION,
    "plan": Column(write=lambda plan: (plan.to_json(), {}), read=lambda fields, _: CrawlPlan.from_json(fields)),
    "rates": Column(write=lambda rates: (None, {"rates": rates}), read=lambda _, arrays: arrays["rates"]),
}
"""How the log keeps the arguments of all calls, by name; None for those that it need not have."""


def has_observed(core: SchedulerCore, observed: Any, _: Given) -> bool:
    """Return whether outcomes changed the state. Rejected ones are logged too: the stream's clock has counted them."""
    return bool(observed.applied or observed.refused or core.clock.has_moved)


def has_noticed(core: SchedulerCore, noticed: Any, given: Mapping[str, Any]) -> bool:
    """Return whether signals changed the state; even a late one may be the first of its kind."""
    return bool(noticed.rejected < len(given["signals"]) or core.clock.has_moved)
