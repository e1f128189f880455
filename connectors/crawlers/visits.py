"""Turns a visit of a crawler, the response or the failure, into the outcomes that the service takes.

A visit has one outcome, and a second one if the crawler followed a redirect: the leased page has moved, and the page
that answered was visited too (docs/outcomes.md). Servers send anything: no response raises an error here, and at most
`ContentRules.most_bytes` of its body are read.
"""

from __future__ import annotations

import asyncio
import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from hashlib import blake2b
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote, urljoin, urlsplit

from streamsched.content.ignore_rules import IgnoreRules
from streamsched.content.page_text import MOST_BYTES, SELECTOLAX, decode_page, page_text
from streamsched.content.text_hashes import MARK, MARK_SHIFT, content_hash, simhash
from streamsched.outcomes import Outcome, StatusWord

MOST_FINGERPRINTED: Final = 100_000  # characters of a text that a SimHash is made of: 40 ms

_TOP_BIT: Final = 1 << 63
_MOST_URL_BYTES: Final = 8_192  # of an outcome
_MOST_HEADER: Final = 255  # characters of a validator; the service keeps no longer one
_MOST_COST: Final = 1e9  # what is more is a clock that was set
_MOST_STATUS: Final = 999
_NO_URL: Final = re.compile(r"[\s\x00-\x20\x7f-\x9f]")  # characters that a URL of the service cannot have
_PORTS: Final = {"http": ":80", "https": ":443"}
_HTML: Final = frozenset(("text/html", "application/xhtml+xml"))
_TEXT: Final = re.compile(r"text/.*|application/(?:.*\+)?(?:json|xml|yaml|javascript|x-ndjson)|.*\+(?:json|xml)")
_STARTS_HTML: Final = re.compile(rb"\s*<(?:!--|(?:!doctype html|html|head|body|title|meta|div|p|h1)\b)", re.IGNORECASE)
_SAFE: Final = "/?&=%:@!$'()*+,;~"  # characters of a path or query that no client encodes


@dataclass(frozen=True, slots=True)
class ContentRules:
    """How a body is read.

    ``ignore``: noise of sites, by host or URL pattern; ``by``: the extractor, as in `page_text`; ``most_bytes``: what
    is beyond is not read; ``has_fingerprint``: whether to compute a SimHash, some 5 µs a word, which says how much of
    a page has changed.
    """

    ignore: IgnoreRules | None = None
    by: str = SELECTOLAX
    most_bytes: int = MOST_BYTES
    has_fingerprint: bool = True


@dataclass(frozen=True, slots=True)
class Visit:
    """One visit of a page.

    - ``url``: as leased; ``visited_at``: when, UTC epoch seconds;
    - ``status``: of the answer, None or 0 without one; or "robots_denied", "not_attempted";
    - ``headers``: of the answer, names in any case;
    - ``body``: of the answer, without its content encoding, as bytes or text;
    - ``text``: the text of the page, if the crawler has extracted it; then the body is not read;
    - ``final_url``: which URL has answered, if the crawler follows redirects; ``redirect_status``: of the first one;
    - ``cost``: of the visit, of all pages or of none: one that was never visited has 1 (docs/objectives.md);
    - ``error``: the exception that ended the visit: no answer, or not attempted if the visit was cancelled.
    """

    url: str
    visited_at: float
    status: int | StatusWord | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | str = b""
    text: str | None = None
    final_url: str | None = None
    redirect_status: int = 302
    cost: float | None = None
    error: BaseException | None = None


def outcomes_of(visit: Visit, rules: ContentRules | None = None) -> tuple[Outcome, ...]:
    """Return the outcome of the page that was leased, and that of the page it redirects to if it has answered.

    O(bytes of the body); at most ``rules.most_bytes`` of them count. A page without text, such as one that scripts
    fill, has no hash: its visit says nothing about a change. Raises InvalidOutcome for an invalid `url` or
    `visited_at`, SettingsError if the extractor is not installed.

    >>> outcomes_of(Visit("https://a.example/old", 7.0, 200, final_url="https://a.example/new"))[0].moved_to
    'https://a.example/new'
    """
    if isinstance(visit.status, str):
        return (Outcome(visit.url, visit.visited_at, status=visit.status),)
    if isinstance(visit.error, asyncio.CancelledError):
        return (Outcome(visit.url, visit.visited_at, status="not_attempted"),)
    status = visit.status if visit.error is None else 0
    status = status if isinstance(status, int) and 0 <= status <= _MOST_STATUS else 0
    target = _target(visit.url, visit.final_url)
    if target is not None:
        moved = _redirect(visit, visit.redirect_status, target)
        return moved, *outcomes_of(replace(visit, url=target, final_url=None, cost=None), rules)
    headers = {name.lower(): value for name, value in visit.headers.items()}
    if 300 <= status < 400 and (target := _target(visit.url, headers.get("location"))) is not None:
        return (_redirect(visit, status, target),)
    fields: dict[str, Any] = {}
    if status in (429, 503):
        fields["retry_after"] = read_retry_after(headers.get("retry-after"), visit.visited_at)
    if 200 <= status < 300 or status == 304:
        fields |= {"etag": _validator(headers.get("etag")), "last_modified": _validator(headers.get("last-modified"))}
    if 200 <= status < 300:
        content = hash_body(visit, headers.get("content-type"), ContentRules() if rules is None else rules)
        fields |= {"content": content.exact, "fingerprint": content.similar}
    return (Outcome(visit.url, visit.visited_at, status=status, cost=_cost(visit.cost), **fields),)


class Hashes(NamedTuple):
    """Hashes of a content, None for what it has not."""

    exact: int | None = None
    similar: int | None = None


def hash_body(visit: Visit, content_type: str | None, rules: ContentRules) -> Hashes:
    """Return the hashes of what a page contains. O(bytes).

    The text of HTML and of other texts has both, any other body a hash of its bytes. Without a content type the body
    decides. A text of white space has none.
    """
    if visit.text is not None:
        return _hash_text(visit.text[: rules.most_bytes], rules)
    kind, _, parameters = (content_type or "").lower().partition(";")
    kind, body = kind.strip(), visit.body
    if not body:
        return Hashes()
    if not kind or "/" not in kind:
        kind = _guess_kind(body)
    if kind not in _HTML and not _TEXT.fullmatch(kind):
        return Hashes(
            hash_bytes(body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body, rules.most_bytes)
        )
    body = _decode(body[: rules.most_bytes], parameters)
    if kind in _HTML:
        return _hash_text(
            page_text(body, visit.url, by=rules.by, ignore=rules.ignore, most_bytes=rules.most_bytes), rules
        )
    return _hash_text(body if isinstance(body, str) else decode_page(body), rules)


def hash_bytes(body: bytes, most_bytes: int = MOST_BYTES) -> int:
    """Return an exact hash of the first `most_bytes` bytes and of their whole number: 64 bits. O(bytes).

    It differs from the hash of any text (`streamsched.content.content_hash`).

    >>> hash_bytes(b"%PDF-1.7") == hash_bytes(b"%PDF-1.4")
    False
    """
    digest = blake2b(body[:most_bytes], digest_size=8, salt=len(body).to_bytes(8, "big")).digest()
    found = int.from_bytes(digest, "big")
    return found ^ _TOP_BIT if found >> MARK_SHIFT == MARK else found


def read_retry_after(value: str | None, now: float) -> float | None:
    """Return the seconds that a Retry-After header asks to wait after the time `now`, None if it cannot be read.

    >>> read_retry_after("120", 0.0), read_retry_after("Thu, 01 Jan 1970 00:02:00 GMT", 60.0)
    (120.0, 60.0)
    """
    value = (value or "").strip()
    if value.isascii() and value.isdigit():
        return float(value) if len(value) < 16 else 1e15
    try:
        found = parsedate_to_datetime(value)
        return max(0.0, (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() - now)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _redirect(visit: Visit, status: int, target: str) -> Outcome:
    """Return the outcome of a page that redirects. Its content is where to."""
    return Outcome(
        visit.url,
        visit.visited_at,
        status=status,
        moved_to=target,
        cost=_cost(visit.cost),
        content=hash_bytes(target.encode()),
        fingerprint=simhash(target),
    )


def _target(url: str, found: str | None) -> str | None:
    """Return the absolute URL of another page that `url` redirects to; None if it is none, or if nobody can follow."""
    if not found or found == url:
        return None
    try:
        target = urljoin(url, found).partition("#")[0]
        if not _is_valid(target):
            return None
        return None if _spelt_alike(target) == _spelt_alike(url) else target
    except ValueError:  # a broken host, or characters that UTF-8 cannot hold
        return None


def _is_valid(url: str) -> bool:
    """Return whether the service takes a URL. Raises ValueError for one whose host or characters are broken."""
    scheme, netloc = urlsplit(url)[:2]
    host = netloc.rpartition("@")[2]
    valid = scheme in _PORTS and host != "" and not host.startswith(":") and not _NO_URL.search(url)
    return valid and len(url.encode()) <= _MOST_URL_BYTES


def _spelt_alike(url: str) -> str:
    """Return a URL as most HTTP clients spell it: they encode characters, and leave out a default port."""
    parts = urlsplit(url)
    host = parts.netloc.lower().removesuffix(_PORTS.get(parts.scheme, ""))
    if not host.isascii():
        host = host.encode("idna").decode()
    path, query = (quote(unquote(part), safe=_SAFE) for part in (parts.path or "/", parts.query))
    return f"{parts.scheme}://{host}{path}?{query}"


def _validator(value: str | None) -> str | None:
    """Return a validator, an empty text in place of one that no request could send back."""
    if value is None or (len(value) <= _MOST_HEADER and value.isascii() and value.isprintable()):
        return value
    return ""


def _cost(cost: float | None) -> float | None:
    return float(cost) if cost is not None and 0 <= cost <= _MOST_COST else None  # NaN is not


def _guess_kind(body: bytes | str) -> str:
    """Return the content type of a body by its beginning."""
    start = body[:1024].encode("utf-8", "replace") if isinstance(body, str) else body[:1024]
    if isinstance(body, str) or _STARTS_HTML.match(start.removeprefix(codecs.BOM_UTF8)):
        return "text/html"
    return "application/octet-stream"


def _decode(body: bytes | str, parameters: str) -> bytes | str:
    """Return a body as text if the header names its encoding; one without is for the readers of bytes."""
    if isinstance(body, str) or body.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE)):
        return body
    name = parameters.partition("charset=")[2].partition(";")[0].strip(" \"'")
    try:
        return body.decode(name, "replace") if name else body
    except (LookupError, ValueError):  # an unknown encoding, or one that is none of text
        return body


def _hash_text(text: str, rules: ContentRules) -> Hashes:
    if not text.strip():
        return Hashes()
    similar = simhash(text[:MOST_FINGERPRINTED]) if rules.has_fingerprint else None
    return Hashes(content_hash(text), similar)
