"""Calls of the service: for each operation its request, the type of its answer, and whether it may be repeated.

Messages are msgpack, outcomes and signals columnar frames (`streamsched.frames`), which a service reads much faster.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec

from streamsched import answers
from streamsched.errors import SettingsError
from streamsched.frames import encode_frame
from streamsched.outcomes import Outcome, OutcomeBatch
from streamsched.signals import Signal, SignalBatch

Outcomes: TypeAlias = Iterable[Outcome] | OutcomeBatch
Signals: TypeAlias = Iterable[Signal] | SignalBatch

MSGPACK: Final = "application/msgpack"
_FRAMES: Final = "application/vnd.streamsched.frames"


class Body(NamedTuple):
    """The body of a request and its media type."""

    content: bytes
    media_type: str


def encode_message(fields: Mapping[str, Any]) -> Body:
    """Return a message without those `fields` that are None. O(bytes). Raises SettingsError if one has no encoding.

    >>> msgspec.msgpack.decode(encode_message({"k": 3, "key": None}).content)
    {'k': 3}
    """
    given = {name: value for name, value in fields.items() if value is not None}
    for name, value in given.items():
        try:
            msgspec.msgpack.encode(value)
        except (TypeError, ValueError, OverflowError) as error:  # UnicodeEncodeError is a ValueError
            raise SettingsError(name, value, f"a value that msgpack can hold ({error})") from None
    return Body(msgspec.msgpack.encode(given), MSGPACK)


def encode_outcomes(outcomes: Outcomes) -> Body:
    """Return `outcomes` as one columnar frame. O(bytes). Raises SettingsError if they are no outcomes."""
    if not isinstance(outcomes, OutcomeBatch):
        outcomes = OutcomeBatch.from_outcomes(_read_list("outcomes", outcomes, Outcome))
    return Body(encode_frame(outcomes), _FRAMES)


def encode_signals(signals: Signals) -> Body:
    """Return `signals` as one columnar frame. O(bytes). Raises SettingsError if they are no signals."""
    if not isinstance(signals, SignalBatch):
        signals = SignalBatch.from_signals(_read_list("signals", signals, Signal))
    return Body(encode_frame(signals), _FRAMES)


def read_urls(urls: Iterable[str]) -> list[str]:
    """Return `urls` as a list. Raises SettingsError if they are no texts in UTF-8."""
    return _read_list("urls", urls, str)


def _read_list(name: str, records: Any, kind: type[Any]) -> list[Any]:
    expected = f"{kind.__name__} objects"
    if isinstance(records, str | Mapping) or not isinstance(records, Iterable):
        raise SettingsError(name, records, expected)
    found = list(records)
    for number, record in enumerate(found):
        if not isinstance(record, kind):
            raise SettingsError(f"{name}[{number}]", record, expected)
    return found


Result = TypeVar("Result")
Rules: TypeAlias = Mapping[str, "Mapping[str, Any] | Any | None"]
"""Rules by target: a `streamsched.HostRule` or `Rule`, or a mapping of their fields; None removes a rule."""


@dataclass(frozen=True, slots=True)
class Call(Generic[Result]):
    """A request and its answer.

    ``answer``: the type of the answer; ``repeatable``: whether a service that has applied it may get it again;
    ``about``: the page or key that an error names; ``absent``: the code of a refusal that means None.
    """

    method: str
    path: str
    answer: type[Any]
    body: Body | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    about: str = ""
    absent: str | None = None


def next_batch(
    k: int, lease: str | float, hosts: Iterable[str] | None, per_host: int | None, key: str | None
) -> Call[answers.LeasedBatch]:
    """Lease pages; a key of its own makes a repetition return the same batch."""
    key = secrets.token_urlsafe(18) if key is None else key
    asked = {"k": k, "lease": lease, "hosts": _list("hosts", hosts), "per_host": per_host, "key": key}
    return Call("POST", "/v1/next", answers.LeasedBatch, encode_message(asked), about=key)


def observe(outcomes: Outcomes) -> Call[answers.ObservedOutcomes]:
    """Report outcomes. Those that are applied twice are duplicates or late the second time, and change nothing."""
    return Call("POST", "/v1/outcomes", answers.ObservedOutcomes, encode_outcomes(outcomes))


def notice(signals: Signals) -> Call[answers.NoticedSignals]:
    """Report signals. One that is not newer than the last one of its source changes nothing."""
    return Call("POST", "/v1/signals", answers.NoticedSignals, encode_signals(signals))


def discover(urls: Iterable[str], importance: float | None) -> Call[answers.Discovered]:
    """Add pages."""
    message = encode_message({"urls": read_urls(urls), "importance": importance})
    return Call("POST", "/v1/discover", answers.Discovered, message)


def release(urls: Iterable[str]) -> Call[answers.Released]:
    """Give pages back. Not repeatable: another crawler may have got a page in between, whose lease would end."""
    message = encode_message({"urls": read_urls(urls)})
    return Call("POST", "/v1/release", answers.Released, message, repeatable=False)


def rank(k: int) -> Call[answers.Ranking]:
    """Return the best pages."""
    return Call("GET", "/v1/rank", answers.Ranking, query={"k": str(k)})


def explain(url: str, k: int) -> Call[answers.Explained]:
    """Explain the rank of a page."""
    query = {"url": _text("url", url), "k": str(k)}
    return Call("GET", "/v1/explain", answers.Explained, query=query, about=url)


def page(url: str) -> Call[answers.PageState | None]:
    """Return a page."""
    return Call("GET", f"/v1/pages/{_segment('url', url)}", answers.PageState, absent="unknown_page")


def hosts(start: int, size: int) -> Call[answers.HostList]:
    """List hosts."""
    return Call("GET", "/v1/hosts", answers.HostList, query={"start": str(start), "size": str(size)})


def host(name: str) -> Call[answers.HostState | None]:
    """Return a host."""
    return Call("GET", f"/v1/hosts/{_segment('name', name)}", answers.HostState, absent="unknown_host")


def set_rules(rules: Rules) -> Call[answers.RulesSet]:
    """Set or remove rules."""
    if not isinstance(rules, Mapping):
        raise SettingsError("rules", rules, "rules by host, URL pattern or page")
    message = encode_message({"rules": {target: _fields(target, rule) for target, rule in rules.items()}})
    return Call("PUT", "/v1/rules", answers.RulesSet, message)


def block(host: str, seconds: float) -> Call[answers.Blocked]:
    """Block a host from the time at which the service applies it; a repetition blocks it a little longer."""
    path = f"/v1/hosts/{_segment('host', host)}/block"
    return Call("POST", path, answers.Blocked, encode_message({"seconds": seconds}))


def champion() -> Call[answers.ChampionView]:
    """Return the formula in use."""
    return Call("GET", "/v1/champion", answers.ChampionView)


def use(formula: str | int) -> Call[answers.ChampionView]:
    """Set the formula. Not repeatable: each change is recorded."""
    message = encode_message({"formula": formula})
    return Call("PUT", "/v1/champion", answers.ChampionView, message, repeatable=False)


def evolutions(last: int) -> Call[answers.Evolutions]:
    """Return the records of evolutions."""
    return Call("GET", "/v1/evolutions", answers.Evolutions, query={"last": str(last)})


def stats(since: float) -> Call[answers.Stats]:
    """Return figures of the service."""
    return Call("GET", "/v1/stats", answers.Stats, query={"since": str(since)})


def _fields(target: str, rule: object) -> dict[str, Any] | None:
    """Return the fields that a rule sets, None for None."""
    if rule is None:
        return None
    if dataclasses.is_dataclass(rule) and not isinstance(rule, type):
        return {name: value for name, value in dataclasses.asdict(rule).items() if value is not None}
    if isinstance(rule, Mapping):
        return dict(rule)
    raise SettingsError(f"rules[{target!r}]", rule, "a HostRule, a Rule, a mapping of their fields, or None")


def _list(name: str, values: Iterable[str] | None) -> list[str] | None:
    if isinstance(values, str):
        raise SettingsError(name, values, "several names, as a list")
    try:
        return None if values is None else list(values)
    except TypeError:
        raise SettingsError(name, values, "several names, as a list") from None


def _segment(name: str, value: str) -> str:
    """Return `value` as one segment of a path."""
    return quote(_text(name, value), safe="")


def _text(name: str, value: str) -> str:
    """Return `value` if it is a text in UTF-8, not empty."""
    try:
        if isinstance(value, str) and value.encode():
            return value
    except UnicodeEncodeError:
        pass
    raise SettingsError(name, value, "a text in UTF-8, not empty")
