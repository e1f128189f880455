"""Requests of every route of the service, changed at random: wrong values, deep, large, cut, malformed.

A request is made of the route's description: `VALUES` has a valid value for each field that any of them asks for.
"""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, cast
from urllib.parse import quote, urlencode

import msgspec
from msgspec import structs

from streamsched import OutcomeBatch, SignalBatch
from streamsched.frames import encode_frame
from streamsched.http.open_http import make_routes
from streamsched.http.protocol.bodies import FRAMES, JSON, MSGPACK
from streamsched.http.protocol.routes import Route
from streamsched.http.service import Service
from tests.soak.mutations import WAYS
from tests.support.http_service import URLS, clock_now

ROUTES: Final = tuple(make_routes(cast(Service, None)))
DEEPEST: Final = 100_000
MOST_BYTES: Final = 8 << 20  # the default bound of a body
_AT: Final = clock_now() - 3_600.0
_URL: Final = URLS[1]
_OUTCOME: Final = {"url": _URL, "fetched_at": _AT, "status": 200, "changed": True, "importance": 2.5, "cost": 1.0}
_BLOCKS: Final = {"delay": "2s", "in_flight": 3, "per_batch": 2}
VALUES: Final[dict[str, Any]] = {
    "k": 5, "lease": "1s", "hosts": ["h1.example", "*.example"], "per_host": 2, "key": "a-key", "keys": ["a-key"],
    "outcomes": [_OUTCOME, {"url": URLS[2], "fetched_at": _AT, "status": "robots_denied"}],
    "signals": [{"url": _URL, "at": _AT, "source": "sitemap", "significance": 0.5}],
    "urls": URLS[:3], "importance": 1.5, "url": _URL, "host": "h1.example", "region": "*.example", "start": 0,
    "size": 9, "order": "failing", "last": 5, "text": "t * X", "since": 0.0, "seconds": 1.0, "formula": "t * X",
    "cycles": 3, "now": _AT, "share": 0.5, "draws": 2, "seed": 1,
    "after": "oldest", "limit": 9, "wait": "0s", "positions": True, "file": "x.js", "name": "console.md",
    "rules": {"h1.example": _BLOCKS, "h2.example/*": {"min_revisit": "1h"}, _URL: {"never": True}},
    "delay": "1s", "in_flight": 3, "per_batch": 4, "backoff": "1h", "backoff_most": "1d", "retire_after": 9,
    "probe_every": "1w", "min_revisit": "1m", "max_revisit": "30d", "retry_after_most": "1d", "clock_skew": "1m",
    "host_backoff_429": 3, "host_backoff_503": 3,
}  # fmt: skip
_FRAMES: Final = {
    "outcomes": encode_frame(OutcomeBatch(URLS, [_AT] * len(URLS), changed=[True] * len(URLS))),
    "signals": encode_frame(SignalBatch(URLS, [_AT] * len(URLS), ["feed"] * len(URLS))),
}
_DEEP, _MANY, _LONG = "@deep@", "@many@", "@long@"  # replaced in encoded bodies by what no encoder of Python writes
_HOSTILE: Final[tuple[Any, ...]] = (
    None, True, -1, 0, 2**53, 2**63, 2**64, -(2**64), 10**400, 1.5, -0.0, 1e-320, 1e308, math.nan, math.inf, "", " ",
    "1e999", "\ud800", "\0", "é" * 99, "x" * 9_000, "*", "*.*", "/../", "999999999w", "https://", "//x", "javascript:1",
    "https://[::1", "https://a.example/\n", "((((t", "t / 0", "1/" * 900 + "1", "never", [], {}, [[]], [None], {"": {}},
    [1, "a"], {"url": _URL}, _DEEP, _DEEP, _DEEP, _MANY, _LONG,
)  # fmt: skip
_HOSTILE_FIELDS: Final = (
    "content-length: -1", "content-length: 99999999999999999999", "content-length: 1e3", "content-length: 0",
    "transfer-encoding: gzip", "transfer-encoding: chunked", "content-type: text/html", "content-type: " + "a/" * 999,
    "accept: text/html", "accept: */*;q=nan", "accept: " + ",".join(["a/b;q=1"] * 2_000), "host: evil.example",
    "host: [", "expect: 100-continue", "upgrade: websocket", "connection: upgrade", "content-encoding: gzip",
    "authorization: Bearer", "authorization: Basic é", "no colon", ": nameless", "a b: c", "x: \0",
    "cookie: " + "y" * 70_000, "x-many: 1\r\n" * 2_000,
)  # fmt: skip
_METHODS: Final = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "PATCH",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "PRI",
    "get",
    "G\x00T",
]


@dataclass(frozen=True)
class Request:
    """A request as it is sent. ``is_whole``: it is valid HTTP, so its answer must come; ``method``: of the request."""

    method: str
    raw: bytes = field(repr=False)
    is_whole: bool

    def show(self) -> str:
        """The request, cut where it is long."""
        return f"{self.raw[:600]!r} … {self.raw[-60:]!r}, {len(self.raw)} bytes"


def make_request(rng: random.Random) -> Request:
    """Return a request of a random route: one in eight is valid, the others are changed in one place or two."""
    route = rng.choice(ROUTES)
    operation = route.operation
    asked = {} if operation.asked is None else {one.name: VALUES[one.name] for one in structs.fields(operation.asked)}
    names = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
    content: Any = dict(rng.sample(sorted(asked.items()), rng.randint(min(1, len(asked)), len(asked))))
    place = {name: VALUES[name] for name in names}
    ways = rng.choice([(), ("value",), ("value",), ("value", "value"), ("bytes",), ("head",), ("framing",), ("large",)])
    for _ in range(ways.count("value")):
        content = _change(content, rng)
    if "value" in ways and place and rng.random() < 0.5:
        place = dict.fromkeys(names, str(rng.choice(_HOSTILE)))
    target = operation.path
    for name, value in place.items():
        target = target.replace("{" + name + "}", quote(str(value), safe="", errors="surrogatepass"))
    if route.body is None:
        if content:
            target += "?" + _encode_query(content)
        return _frame_head(operation.method, target, [], ways, rng)
    media_type, body = _encode(content, route, rng)
    if "large" in ways:
        body = _enlarge(body, media_type, rng)
    if "bytes" in ways:
        changed = bytearray(body)
        rng.choice(WAYS)(changed, rng) if changed else None
        body = bytes(changed)
    return _frame(operation.method, target, media_type, body, ways, rng)


def _change(content: Any, rng: random.Random) -> Any:
    """Return `content` with a hostile value in a random place, an unknown field, or a value less or more."""
    if isinstance(content, dict) and content and rng.random() < 0.85:
        name = rng.choice(sorted(content))
        return {**content, name: _change(content[name], rng)}
    if isinstance(content, list) and content and rng.random() < 0.6:
        number = rng.randrange(len(content))
        return [*content[:number], _change(content[number], rng), *content[number + 1 :]]
    if isinstance(content, dict) and rng.random() < 0.5:
        return {**content, rng.choice(["unknown", "", "url", "é", "k" * 999]): rng.choice(_HOSTILE)}
    if isinstance(content, list) and rng.random() < 0.3:
        return content * rng.choice([2, 300])
    return rng.choice(_HOSTILE)


def _encode_query(content: Any) -> str:
    pairs = content.items() if isinstance(content, dict) else [("value", content)]
    return urlencode([(name, str(value)) for name, value in pairs], errors="surrogatepass")[:50_000]


def _encode(content: Any, route: Route, rng: random.Random) -> tuple[str, bytes]:
    """Return a media type of the route and a body; the marks in `content` become deep, many or long values."""
    assert route.body is not None
    media_type = rng.choice(route.body.media_types)
    if media_type == FRAMES:
        frame = bytearray(_FRAMES[str(route.operation.records)])
        if rng.random() < 0.8:
            rng.choice(WAYS)(frame, rng)
        return FRAMES, bytes(frame)
    body = b""
    if media_type == MSGPACK:
        try:
            body = msgspec.msgpack.encode(content)
        except (OverflowError, UnicodeEncodeError):
            media_type = JSON  # msgpack cannot say it
    if media_type == JSON:
        body = json.dumps(content, ensure_ascii=rng.random() < 0.5).encode(errors="surrogatepass")
    for mark, grow in ((_DEEP, _deep), (_MANY, _many), (_LONG, _long)):
        written = msgspec.msgpack.encode(mark) if media_type == MSGPACK else json.dumps(mark).encode()
        if written in body:  # one of them is enough: there may be hundreds
            small = b"\x01" if media_type == MSGPACK else b"1"
            body = body.replace(written, grow(media_type, rng), 1).replace(written, small)
    return media_type, body[:MOST_BYTES]


def _enlarge(body: bytes, media_type: str, rng: random.Random) -> bytes:
    """Return a body of up to the most bytes, or a little more, that has `body` at its beginning or end."""
    if rng.random() < 0.9:  # large ones are rare: they cost what hundreds of others do
        return body + b" " * rng.randrange(5_000)
    grown = rng.choice((_deep, _many, _long))(media_type, rng)
    most = MOST_BYTES + rng.choice([0, 1])
    return rng.choice([grown, body[:-1] + b"," + grown, b" " * (most - len(body)) + body, body + grown])[:most]


def _up_to(most: int, rng: random.Random) -> int:
    """A number up to `most`, of any order of magnitude."""
    return int(10.0 ** rng.uniform(0.0, math.log10(most)))


def _deep(media_type: str, rng: random.Random) -> bytes:
    depth = _up_to(DEEPEST, rng)
    if media_type == MSGPACK:
        return rng.choice([b"\x91", b"\x81\xa1a"]) * depth + b"\x01"
    start, end = rng.choice([(b"[", b"]"), (b'{"a":', b"}")])
    return start * depth + b"1" + rng.choice([end * depth, b""])


@cache
def _entries() -> bytes:
    return b"".join(b'"%07d":1,' % number for number in range(MOST_BYTES // 12))


def _many(media_type: str, rng: random.Random) -> bytes:
    if media_type == MSGPACK:
        count = _up_to(MOST_BYTES, rng)
        items = rng.choice([b"\x01", b"\x90", b"\x80"]) * (count - rng.choice([0, 0, 1]))
        return b"\xdd" + count.to_bytes(4, "big") + items
    count = _up_to(MOST_BYTES // 12, rng)
    items = rng.choice([b"1,", b"[],", b"{},"]) * count
    return rng.choice([b"[" + items + b"1]", b"{" + _entries()[: 12 * count - 1] + b"}"])


def _long(media_type: str, rng: random.Random) -> bytes:
    size = _up_to(MOST_BYTES, rng)
    return b"\xdb" + size.to_bytes(4, "big") + b"x" * size if media_type == MSGPACK else b'"' + b"x" * size + b'"'


def _frame(
    method: str, target: str, media_type: str, body: bytes, ways: tuple[str, ...], rng: random.Random
) -> Request:
    """Return the request with its body framed by a length or in chunks, as it should be or, if `ways` say so, not."""
    content_type = f"content-type: {media_type}"
    is_whole = "framing" not in ways
    if rng.random() < 0.1 or (not is_whole and rng.random() < 0.5):
        size = rng.choice([7, 1_000, 100_000])
        parts = [body[start : start + size] for start in range(0, min(len(body), 300 * size), size)]
        chunks = [b"%x\r\n%b\r\n" % (len(part), part) for part in parts]
        framed = b"".join([*chunks, b"0\r\n\r\n"])
        fields = [content_type, "transfer-encoding: chunked"]
    else:
        framed, fields = body, [content_type, f"content-length: {len(body)}"]
    if not is_whole:
        framed = _damage(framed, rng)
    head = _frame_head(method, target, fields, ways, rng)
    return Request(head.method, head.raw + framed, head.is_whole and is_whole)


def _damage(framed: bytes, rng: random.Random) -> bytes:
    """Return `framed` cut short or changed in a place."""
    changed = bytearray(framed)
    if changed and rng.random() < 0.7:
        rng.choice(WAYS)(changed, rng)
        return bytes(changed)
    return framed[: rng.randrange(len(framed) + 1)]


def _frame_head(method: str, target: str, fields: list[str], ways: tuple[str, ...], rng: random.Random) -> Request:
    """Return a request without a body, its head changed if `ways` say so."""
    lines = [f"{method} {target} HTTP/1.1", "host: localhost", *fields]
    if "head" not in ways:
        accept = rng.choice(["", "", "accept: application/msgpack", "accept: */*"])
        lines += [accept] if accept else []
        return Request(method, "\r\n".join([*lines, "", ""]).encode(), True)
    choice = rng.randrange(5)
    if choice == 0:
        method = rng.choice(_METHODS)
        lines[0] = f"{method} {target} HTTP/1.1"
    elif choice == 1:
        lines[rng.randrange(1, len(lines))] = rng.choice(_HOSTILE_FIELDS)
    elif choice == 2:
        lines.append(rng.choice(_HOSTILE_FIELDS))
    raw = bytearray("\r\n".join([*lines, "", ""]).encode())
    if choice >= 3:
        rng.choice(WAYS)(raw, rng)
    return Request(method, bytes(raw), False)
