"""The calls that both clients offer, each written once: `ServiceCalls`. What is sent follows from `OPERATIONS`.

A method says what a call takes and returns a `Call`, the request. `_offered` lets the client perform it: an
`Asynchronous` client's method returns a coroutine of the answer, a `Blocking` one's the answer. Type checkers see that.

Messages are msgpack, outcomes and signals columnar frames (`streamsched.frames`), which a service reads much faster.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Concatenate, Final, Generic, NamedTuple, ParamSpec, Protocol, TypeAlias, TypeVar, cast, overload
from urllib.parse import quote

import msgspec
from msgspec import structs

from streamsched.api import operations
from streamsched.api.answers import (
    Blocked,
    Changes,
    Copied,
    Evolutions,
    Forgotten,
    FormulaTree,
    Grant,
    LeasedBatch,
    Offer,
    PolitenessSettings,
    Ranking,
    Released,
    RulesSet,
    SignalSources,
    Stats,
    Surges,
    TrainingSample,
)
from streamsched.api.operations import Operation
from streamsched.api.views import (
    ChampionView,
    Discovered,
    Explanation,
    HostOrder,
    HostPage,
    HostView,
    Noticed,
    Observed,
    PageView,
    RulesView,
    TrialCounts,
    WeekView,
)
from streamsched.errors import SettingsError
from streamsched.frames import encode_frame
from streamsched.numerics.durations import parse_duration
from streamsched.outcomes import Outcome, OutcomeBatch
from streamsched.signals import Signal, SignalBatch

Outcomes: TypeAlias = Iterable[Outcome] | OutcomeBatch
Signals: TypeAlias = Iterable[Signal] | SignalBatch
Rules: TypeAlias = Mapping[str, "Mapping[str, Any] | Any | None"]
"""Rules by target: a HostRule or Rule of streamsched, one of `rules`, or a mapping of fields; None removes it."""
Given = ParamSpec("Given")
Result = TypeVar("Result", covariant=True)  # noqa: PLC0105  it is what type checkers show of a method

MSGPACK: Final = "application/msgpack"
_FRAMES: Final = "application/vnd.streamsched.frames"


class Body(NamedTuple):
    """The body of a request and its media type."""

    content: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class Call(Generic[Result]):
    """A request for an operation.

    ``about``: the page or key that an error names; ``timeout_s``: None for the usual; ``wait_s``: for how long the
    service may wait before it answers, in addition.
    """

    operation: Operation[Result]
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Body | None = None
    about: str = ""
    timeout_s: float | None = None
    wait_s: float = 0.0


def make_call(
    operation: Operation[Result], timeout_s: float | None = None, body: Body | None = None, /, **given: Any
) -> Call[Result]:
    """Return the request for `operation` with the arguments `given`, each where the operation has it; None is left out.

    Raises SettingsError if one cannot be sent.
    """
    about = given.get("key") or given.get("url") or given.get("after") or ""
    path = operation.path
    for name in list(given):
        if f"{{{name}}}" in path:
            path = path.replace(f"{{{name}}}", quote(_text(name, given.pop(name)), safe=""))
    given = {name: value for name, value in given.items() if value is not None}
    wait_s = 0.0
    if "wait" in given:
        wait_s = parse_duration(given["wait"], "wait", zero=True)
        given["wait"] = given["wait"] if isinstance(given["wait"], str) else f"{wait_s:f}s"
    named = (
        given if operation.method == "GET" else {name: given.pop(name) for name in _options(operation) & given.keys()}
    )
    query = {name: _text(name, _in_query(value)) for name, value in named.items()}
    if operation.method != "GET":
        body = body or encode_message(given)
    return Call(operation, path, query, body, about, timeout_s, wait_s)


def _options(operation: Operation[Any]) -> set[str]:
    """Return the names of the parameters beside a body."""
    return set() if operation.options is None else set(operation.options.__struct_fields__)


def _in_query(value: Any) -> str:
    """Return `value` as a query has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def encode_message(fields: Mapping[str, Any]) -> Body:
    """Return a message of these `fields`. O(bytes). Raises SettingsError if one has no encoding.

    >>> msgspec.msgpack.decode(encode_message({"k": 3}).content)
    {'k': 3}
    """
    for name, value in fields.items():
        try:
            msgspec.msgpack.encode({name: value})
        except (TypeError, ValueError, OverflowError) as error:  # UnicodeEncodeError is a ValueError
            raise SettingsError(name, value, f"a value that msgpack can hold ({error})") from None
    return Body(msgspec.msgpack.encode(dict(fields)), MSGPACK)


def encode_outcomes(outcomes: Outcomes) -> Body:
    """Return `outcomes` as one columnar frame. O(bytes). Raises SettingsError if they are no outcomes."""
    if not isinstance(outcomes, OutcomeBatch):
        outcomes = OutcomeBatch.from_outcomes(_list("outcomes", outcomes, Outcome))
    return Body(encode_frame(outcomes), _FRAMES)


def encode_signals(signals: Signals) -> Body:
    """Return `signals` as one columnar frame. O(bytes). Raises SettingsError if they are no signals."""
    if not isinstance(signals, SignalBatch):
        signals = SignalBatch.from_signals(_list("signals", signals, Signal))
    return Body(encode_frame(signals), _FRAMES)


def _list(name: str, records: Any, kind: type[Any] = str) -> list[Any]:
    """Return `records` as a list. Raises SettingsError if they are not several of `kind`."""
    expected = "several texts, as a list" if kind is str else f"{kind.__name__} objects"
    if isinstance(records, str | Mapping) or not isinstance(records, Iterable):
        raise SettingsError(name, records, expected)
    found = list(records)
    for number, record in enumerate(found):
        if not isinstance(record, kind):
            raise SettingsError(f"{name}[{number}]", record, expected)
    return found


def _text(name: str, value: str) -> str:
    """Return `value` if it is a text in UTF-8, not empty."""
    try:
        if isinstance(value, str) and value.encode():
            return value
    except UnicodeEncodeError:
        pass
    raise SettingsError(name, value, "a text in UTF-8, not empty")


def _fields(name: str, record: object, expected: str) -> dict[str, Any]:
    """Return the fields of a settings object of the library, of an answer, or of a mapping."""
    if isinstance(record, Mapping):
        return dict(record)
    if isinstance(record, msgspec.Struct):
        return structs.asdict(record)
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return dataclasses.asdict(record)
    raise SettingsError(name, record, expected)


class _Offered(Protocol[Given, Result]):
    """A method of both clients."""

    @overload
    def __get__(self, client: Asynchronous, kind: object) -> Callable[Given, Coroutine[Any, Any, Result]]: ...
    @overload
    def __get__(self, client: Blocking, kind: object) -> Callable[Given, Result]: ...


def _offered(describe: Callable[Concatenate[Any, Given], Call[Result]]) -> _Offered[Given, Result]:
    """Return a method of a client that performs the call which `describe` returns."""

    @wraps(describe)
    def method(self: Any, /, *arguments: Given.args, **named: Given.kwargs) -> Any:
        return self.perform(describe(self, *arguments, **named))

    return cast("_Offered[Given, Result]", method)


class ServiceCalls:
    """The operations of crawlers, readers and administrators. ``timeout_s``: of a call, in place of the client's."""

    @_offered
    def next_batch(  # noqa: PLR0913  all but the first by name
        self,
        k: int,
        *,
        lease: str | float = "10m",
        hosts: Iterable[str] | None = None,
        per_host: int | None = None,
        key: str | None = None,
        wait: str | float | None = None,
        timeout_s: float | None = None,
    ) -> Call[LeasedBatch]:
        """Lease the best `k` pages for the time `lease`, such as ``"10m"`` or seconds.

        `hosts`: only pages of these; `per_host`: the most pages of each host. `key`: an idempotency key, 1 to 128
        visible ASCII characters; within the lease the same key returns the same batch. Without one the client makes a
        new key, so that its own attempts lease one batch only; a caller that wants the same batch after a crash of its
        own gives a key. `wait`: for how long the service waits until there is a page to lease, ``"60s"`` at most; then
        the time of the call is longer by that. Raises KeyReusedError if the key is in use with other arguments.
        """
        wanted = None if hosts is None else _list("hosts", hosts)
        key = secrets.token_urlsafe(18) if key is None else key
        return make_call(
            operations.NEXT_BATCH, timeout_s, k=k, lease=lease, hosts=wanted, per_host=per_host, key=key, wait=wait
        )

    @_offered
    def offer(
        self,
        k: int,
        *,
        lease: str | float = "10m",
        hosts: Iterable[str] | None = None,
        per_host: int | None = None,
        keys: Iterable[str] = (),
        timeout_s: float | None = None,
    ) -> Call[Offer]:
        """Return the pages that `next_batch` would lease with these arguments, and lease none; see `grant`.

        `keys`: the answer has the pages that were leased under any of them, too.
        """
        wanted = None if hosts is None else _list("hosts", hosts)
        return make_call(
            operations.OFFER,
            timeout_s,
            k=k,
            lease=lease,
            hosts=wanted,
            per_host=per_host,
            keys=_list("keys", keys) or None,
        )

    @_offered
    def grant(
        self, urls: Iterable[str], *, lease: str | float = "10m", key: str | None = None, timeout_s: float | None = None
    ) -> Call[Grant]:
        """Lease exactly these pages, at most 10,000, where they may be leased now; the answer names the others.

        `key`: as for `next_batch`. Raises KeyReusedError if the key is in use with other arguments.
        """
        key = secrets.token_urlsafe(18) if key is None else key
        return make_call(operations.GRANT, timeout_s, urls=_list("urls", urls), lease=lease, key=key)

    @_offered
    def observe(self, outcomes: Outcomes, *, positions: bool = False, timeout_s: float | None = None) -> Call[Observed]:
        """Report outcomes, at most 10,000; they are on the service's disk when this returns.

        `outcomes`: `Outcome` objects of this package or of `streamsched`, or an OutcomeBatch. Invalid ones are counted
        and named in the answer, the others are applied. To report an outcome twice changes nothing: it is a duplicate
        or late the second time. `positions`: whether the answer has the positions of those that were changes,
        and of those that were none.
        """
        return make_call(operations.OBSERVE, timeout_s, encode_outcomes(outcomes), positions=positions or None)

    @_offered
    def notice(self, signals: Signals, *, timeout_s: float | None = None) -> Call[Noticed]:
        """Report change signals, at most 10,000.

        `signals`: `Signal` objects of this package or of `streamsched`, or a SignalBatch. To report a signal twice
        changes nothing.
        """
        return make_call(operations.NOTICE, timeout_s, encode_signals(signals))

    @_offered
    def discover(
        self, urls: Iterable[str], *, importance: float | None = None, timeout_s: float | None = None
    ) -> Call[Discovered]:
        """Add pages that were found and not visited yet, at most 10,000; `importance`: of each of them from now on.

        After a lost answer, ``added`` of the next one does not count the pages that the first attempt has added.
        """
        return make_call(operations.DISCOVER, timeout_s, urls=_list("urls", urls), importance=importance)

    @_offered
    def ask(self, urls: Iterable[str], *, timeout_s: float | None = None) -> Call[Discovered]:
        """Request one visit of each page, at most 10,000, whatever its score; unknown pages are added.

        They precede other pages until their next outcomes. To ask again before that changes nothing; after a lost
        answer, ``added`` of the next one does not count the pages that the first attempt has added.
        """
        return make_call(operations.ASK, timeout_s, urls=_list("urls", urls))

    @_offered
    def release(self, urls: Iterable[str], *, timeout_s: float | None = None) -> Call[Released]:
        """Give leased pages back unvisited.

        It is tried again only if the service has certainly not applied it: otherwise another crawler might have got a
        page in between. Pages that are not given back are free when their lease expires.
        """
        return make_call(operations.RELEASE, timeout_s, urls=_list("urls", urls))

    @_offered
    def rank(self, k: int = 100, *, timeout_s: float | None = None) -> Call[Ranking]:
        """Return the best `k` pages without leasing them."""
        return make_call(operations.RANK, timeout_s, k=k)

    @_offered
    def read_changes(
        self,
        after: str = "oldest",
        *,
        limit: int = 1_000,
        wait: str | float | None = None,
        timeout_s: float | None = None,
    ) -> Call[Changes]:
        """Return at most `limit` changes that were found after the position `after`; see `changes`, which goes on.

        `after`: a cursor, ``"oldest"`` or ``"newest"``; `wait`: for how long the service waits until there is a change,
        ``"60s"`` at most; then the time of the call is longer by that. Raises ChangesGone if the changes after the
        cursor are not kept.
        """
        return make_call(operations.READ_CHANGES, timeout_s, after=after, limit=limit, wait=wait)

    @_offered
    def explain(self, url: str, *, k: int = 1_000, timeout_s: float | None = None) -> Call[Explanation]:
        """Explain the rank of a page, and whether a batch of `k` pages would hold it. Raises UnknownPage."""
        return make_call(operations.EXPLAIN, timeout_s, url=url, k=k)

    @_offered
    def page(self, url: str, *, timeout_s: float | None = None) -> Call[PageView | None]:
        """Return what is known of a page, None if it is not known."""
        return make_call(operations.PAGE, timeout_s, url=url)

    @_offered
    def hosts(
        self, start: int = 0, size: int = 100, *, order: HostOrder = "known", timeout_s: float | None = None
    ) -> Call[HostPage]:
        """Return a part of the list of hosts. `start`: 0, or the ``next`` of the part before.

        `order`: "known", in which they became known, or "failing", only hosts with failing pages, most first.
        """
        return make_call(operations.HOSTS, timeout_s, start=start, size=size, order=order)

    @_offered
    def host(self, host: str, *, timeout_s: float | None = None) -> Call[HostView | None]:
        """Return a host, its limits and what holds it back; None if no page of it is known."""
        return make_call(operations.HOST, timeout_s, host=host)

    @_offered
    def week(
        self,
        *,
        url: str | None = None,
        host: str | None = None,
        region: str | None = None,
        timeout_s: float | None = None,
    ) -> Call[WeekView | None]:
        """Return how busy each hour of the week is for a page, a host, a region or all pages; None if unknown."""
        return make_call(operations.WEEK, timeout_s, url=url, host=host, region=region)

    @_offered
    def surges(self, k: int = 100, *, timeout_s: float | None = None) -> Call[Surges]:
        """Return the `k` surges under way that the most changed pages wait for."""
        return make_call(operations.SURGES, timeout_s, k=k)

    @_offered
    def sources(self, *, timeout_s: float | None = None) -> Call[SignalSources]:
        """Return what visits have shown of each kind of change signals, and of its hosts with the most signals."""
        return make_call(operations.SOURCES, timeout_s)

    @_offered
    def rules(self, *, timeout_s: float | None = None) -> Call[RulesView]:
        """Return the rules for hosts and those for URL patterns and pages; `set_rules` takes both mappings."""
        return make_call(operations.RULES, timeout_s)

    @_offered
    def politeness(self, *, timeout_s: float | None = None) -> Call[PolitenessSettings]:
        """Return the politeness settings."""
        return make_call(operations.POLITENESS, timeout_s)

    @_offered
    def champion(self, *, timeout_s: float | None = None) -> Call[ChampionView]:
        """Return the formula in use and its origin."""
        return make_call(operations.CHAMPION, timeout_s)

    @_offered
    def formula(self, text: str | None = None, *, timeout_s: float | None = None) -> Call[FormulaTree]:
        """Return a formula or objective as a tree; without a `text` that of the formula in use."""
        return make_call(operations.FORMULA, timeout_s, text=text)

    @_offered
    def evolutions(self, last: int = 100, *, timeout_s: float | None = None) -> Call[Evolutions]:
        """Return the newest `last` records of evolutions, oldest first."""
        return make_call(operations.EVOLUTIONS, timeout_s, last=last)

    @_offered
    def trial(self, *, timeout_s: float | None = None) -> Call[TrialCounts]:
        """Return the formula in use, the challenger on trial, and what the pages of both have shown."""
        return make_call(operations.TRIAL, timeout_s)

    @_offered
    def training(
        self,
        cycles: int,
        now: float,
        *,
        share: float = 1.0,
        draws: int = 1,
        seed: int = 0,
        timeout_s: float | None = None,
    ) -> Call[TrainingSample]:
        """Return in which of the last `cycles` whole cycles up to `now` the pages of a uniform sample changed.

        `share`: the most of all pages; `draws`: how many random completions of what no visit saw, with `seed`.
        """
        return make_call(operations.TRAINING, timeout_s, cycles=cycles, now=now, share=share, draws=draws, seed=seed)

    @_offered
    def stats(self, since: float = 0.0, *, timeout_s: float | None = None) -> Call[Stats]:
        """Return figures of the service, and the samples of them that are later than `since`, UTC epoch seconds."""
        return make_call(operations.STATS, timeout_s, since=since)

    @_offered
    def set_rules(self, rules: Rules, *, timeout_s: float | None = None) -> Call[RulesSet]:
        """Set rules for hosts, URL patterns and pages; None removes a rule. Rules of other targets stay."""
        if not isinstance(rules, Mapping):
            raise SettingsError("rules", rules, "rules by host, URL pattern or page")
        expected = "a HostRule, a Rule, a mapping of their fields, or None"
        fields = {
            target: None if rule is None else _fields(f"rules[{target!r}]", rule, expected)
            for target, rule in rules.items()
        }
        return make_call(operations.SET_RULES, timeout_s, rules=fields)

    @_offered
    def set_politeness(
        self, politeness: Mapping[str, Any] | Any, *, timeout_s: float | None = None
    ) -> Call[PolitenessSettings]:
        """Change politeness settings; return all of them.

        `politeness`: a `streamsched.Politeness`, which replaces all of them, or a mapping of fields; those that it
        lacks stay as they are.
        """
        fields = _fields("politeness", politeness, "a Politeness, or a mapping of its fields")
        return make_call(operations.SET_POLITENESS, timeout_s, encode_message(fields))

    @_offered
    def forget(
        self, urls: Iterable[str] | None = None, *, host: str | None = None, timeout_s: float | None = None
    ) -> Call[Forgotten]:
        """Forget pages, at most 10,000, or all pages of `host`, such as ``"*.example.org"``.

        It is tried again only if the service has certainly not applied it: otherwise a page that was discovered in
        between would be forgotten.
        """
        wanted = None if urls is None else _list("urls", urls)
        return make_call(operations.FORGET, timeout_s, urls=wanted, host=host)

    @_offered
    def block(self, host: str, seconds: float, *, timeout_s: float | None = None) -> Call[Blocked]:
        """Visit no page of a host for some seconds from the time at which the service applies it; 0 ends a block."""
        return make_call(operations.BLOCK, timeout_s, host=host, seconds=seconds)

    @_offered
    def snapshot(self, *, timeout_s: float | None = None) -> Call[Copied]:
        """Make a checked copy of the state in the directory of the service's setting ``http.snapshots``.

        A state of millions of pages takes longer than a client's usual `timeout_s`. It is tried again only if the
        service has certainly not begun it.
        """
        return make_call(operations.SNAPSHOT, timeout_s)

    @_offered
    def use(self, formula: str | int, *, timeout_s: float | None = None) -> Call[ChampionView]:
        """Rank by a formula or objective, or by the champion of the record with this number.

        It is tried again only if the service has certainly not applied it: each change is recorded.
        """
        return make_call(operations.USE, timeout_s, formula=formula)


class Asynchronous(ServiceCalls):
    """A client whose ``perform`` is a coroutine function."""


class Blocking(ServiceCalls):
    """A client whose ``perform`` waits for the answer."""
