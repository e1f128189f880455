"""Where a service is, and what it replied: an answer, or a failure with its error and whether to try again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import Enum
from http import HTTPStatus
from typing import Any, Final, TypeVar, cast

import httpx
import msgspec

from streamsched.client.calls import MSGPACK, Call
from streamsched.errors import (
    NOTHING,
    AccessDenied,
    ChangesGone,
    KeyReusedError,
    ServiceError,
    ServiceUnavailable,
    SettingsError,
    StreamschedError,
    UnknownPage,
)

_TOKEN: Final = re.compile("[!-~]+")


def check_url(url: str) -> str:
    """Return the URL of a service without a slash at its end. Raises SettingsError.

    >>> check_url("http://127.0.0.1:8080/")
    'http://127.0.0.1:8080'
    """
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        parsed = None
    plain = parsed is not None and not (parsed.query or parsed.fragment or parsed.userinfo)
    if parsed is None or not plain or parsed.scheme not in {"http", "https"} or not parsed.host:
        raise SettingsError("url", url, "the URL of a service, such as http://127.0.0.1:8080")
    return str(parsed).rstrip("/")


def check_token(token: str | None) -> str | None:
    """Return the token. Raises SettingsError, without showing it, if no header can hold it."""
    if token is None or (isinstance(token, str) and _TOKEN.fullmatch(token)):
        return token
    raise SettingsError("token", "one that is not shown here", "visible ASCII characters")


def request_headers(token: str | None) -> Mapping[str, str]:
    """Return the headers of all requests of a client."""
    headers = {"accept": MSGPACK, "accept-encoding": "identity", "user-agent": "streamsched"}
    return headers if token is None else {**headers, "authorization": f"Bearer {token}"}


def describe_request(url: str, call: Call[Any]) -> str:
    """Return the method and URL of a call, as errors name it.

    >>> from streamsched.api.operations import STATS
    >>> describe_request("http://127.0.0.1:8080", Call(STATS, STATS.path))
    'GET http://127.0.0.1:8080/v1/stats'
    """
    return f"{call.operation.method} {url}{call.path}"


Result = TypeVar("Result")

_REFUSED: Final = frozenset((401, 403))
_NOT_NOW: Final = frozenset((408, 409, 429, 502, 503, 504))
_NOT_APPLIED: Final = frozenset(("too_many_requests", "queue_full", "starting", "stopping", "slow_body", "key_running"))
_NOT_CONNECTED: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@dataclass(frozen=True, slots=True)
class Reply:
    """The whole reply to a request, header names in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class Applied(Enum):
    """Whether the service has applied a call that failed."""

    NO = 0
    PERHAPS = 1


class Failure(Exception):
    """An attempt that failed. Raised within the client only; the caller gets ``error``.

    ``retriable``: whether another attempt may succeed; ``applied``: whether the service may have applied this one;
    ``retry_after_s``: how long it asks to wait.
    """

    def __init__(self, error: ServiceError, *, applied: Applied, retry_after_s: float = 0.0) -> None:
        self.error = error
        self.applied = applied
        self.retry_after_s = retry_after_s
        super().__init__(str(error))

    def may_retry(self, repeatable: bool) -> bool:
        """Return whether to try again, if a call that was applied may be applied again or not."""
        return self.error.retriable and (repeatable or self.applied is Applied.NO)


class _Problem(msgspec.Struct):
    """The part of a problem (RFC 9457) that the client reads."""

    code: str
    detail: str
    field: str | None = None
    found: str | None = None
    expected: str | None = None


class _Shown(str):
    """A value as the service has shown it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def connection_failure(request: str, error: httpx.RequestError) -> Failure:
    """Return the failure of an attempt that got no whole reply."""
    silence = "no answer in time" if isinstance(error, httpx.TimeoutException) else type(error).__name__
    applied = Applied.NO if isinstance(error, _NOT_CONNECTED) else Applied.PERHAPS
    failure = Failure(ServiceUnavailable(request, str(error) or silence), applied=applied)
    failure.error.__cause__ = error
    return failure


def read_reply(call: Call[Result], request: str, reply: Reply) -> Result:
    """Return the answer to `call`. Raises Failure, or an error of the library that another attempt cannot mend."""
    if reply.status != HTTPStatus.OK:
        problem = _read_problem(reply)
        if problem is not None and problem.code == call.operation.absent:
            return cast("Result", None)  # only calls whose result may be None name such a code
        raise _refusal(call, request, reply, problem)
    if _media_type(reply) != MSGPACK:
        reason = f"expected an answer of the type {MSGPACK}, found {_media_type(reply) or 'none'}: no such service?"
        raise Failure(ServiceError(request, reason, reply.status), applied=Applied.PERHAPS)
    try:
        answer: Result = msgspec.msgpack.decode(reply.content, type=call.operation.answer)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        reason = f"the answer cannot be decoded: {error}"
        raise Failure(ServiceError(request, reason, reply.status), applied=Applied.PERHAPS) from error
    return answer


def _refusal(call: Call[Any], request: str, reply: Reply, problem: _Problem | None) -> Failure | StreamschedError:
    """Return what the caller gets for a reply that is no answer."""
    if problem is None:
        return _service_failure(
            request, reply, HTTPStatus(reply.status).phrase if _is_known(reply.status) else "", None
        )
    if problem.code == "unknown_page":
        return UnknownPage(call.about)
    if problem.code == ChangesGone.code:
        return ChangesGone(call.about, problem.expected or "oldest")
    if problem.code == KeyReusedError.code:
        return KeyReusedError(call.about, None)
    if reply.status == HTTPStatus.UNPROCESSABLE_ENTITY:
        found = NOTHING if problem.found is None else _Shown(problem.found)
        return SettingsError(problem.field or "body", found, problem.expected or problem.detail)
    return _service_failure(request, reply, problem.detail, problem.code)


def _service_failure(request: str, reply: Reply, reason: str, code: str | None) -> Failure:
    status = reply.status
    kind = AccessDenied if status in _REFUSED else ServiceUnavailable if status in _NOT_NOW else ServiceError
    applied = Applied.NO if code in _NOT_APPLIED else Applied.PERHAPS
    return Failure(kind(request, reason, status, code), applied=applied, retry_after_s=_retry_after_s(reply.headers))


def _read_problem(reply: Reply) -> _Problem | None:
    if _media_type(reply) != "application/problem+json":
        return None
    try:
        return msgspec.json.decode(reply.content, type=_Problem)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _media_type(reply: Reply) -> str:
    return reply.headers.get("content-type", "").partition(";")[0].strip().lower()


def _retry_after_s(headers: Mapping[str, str]) -> float:
    """Return the seconds that a Retry-After header asks for, 0 without one. A date counts from the Date header.

    >>> _retry_after_s({"retry-after": "7"}), _retry_after_s({"retry-after": "soon"})
    (7.0, 0.0)
    """
    value = headers.get("retry-after", "")
    if value.isdecimal() and value.isascii():
        return float(value)
    try:
        wait_s = (parsedate_to_datetime(value) - parsedate_to_datetime(headers["date"])).total_seconds()
    except (KeyError, TypeError, ValueError):
        return 0.0
    return max(wait_s, 0.0)


def _is_known(status: int) -> bool:
    return status in HTTPStatus._value2member_map_
