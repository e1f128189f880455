"""Which replies are answers, and which error each refusal is."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pytest

from streamsched.api import operations
from streamsched.client.calls import make_call
from streamsched.client.replies import Applied, Failure, Reply, connection_failure, read_reply
from streamsched.errors import (
    AccessDenied,
    KeyReusedError,
    ServiceError,
    ServiceUnavailable,
    SettingsError,
    StreamschedError,
    UnknownPage,
)

REQUEST = "GET http://127.0.0.1/v1/x"
PAGE = "https://a.example/"
STATS = make_call(operations.STATS)


def refuse(status: int, code: str, **fields: object) -> Reply:
    problem = {"title": "", "status": status, "code": code, "detail": "because", **fields}
    return Reply(status, {"content-type": "application/problem+json"}, msgspec.json.encode(problem))


def answer(content: object, media_type: str = "application/msgpack") -> Reply:
    return Reply(200, {"content-type": media_type}, msgspec.msgpack.encode(content))


def test_an_answer_may_have_more_fields_than_the_client_knows() -> None:
    answered = read_reply(make_call(operations.RELEASE), REQUEST, answer({"known": 3, "newer": [1]}))
    assert answered.known == 3


@pytest.mark.parametrize(
    ("status", "kind", "retriable"),
    [
        (400, ServiceError, False),
        (401, AccessDenied, False),
        (403, AccessDenied, False),
        (404, ServiceError, False),
        (408, ServiceUnavailable, True),
        (409, ServiceUnavailable, True),
        (413, ServiceError, False),
        (429, ServiceUnavailable, True),
        (500, ServiceError, False),
        (502, ServiceUnavailable, True),
        (503, ServiceUnavailable, True),
        (504, ServiceUnavailable, True),
        (599, ServiceError, False),
        (301, ServiceError, False),
    ],
)
@pytest.mark.parametrize("has_problem", [True, False])
def test_each_status_has_its_error(status: int, kind: type[ServiceError], retriable: bool, has_problem: bool) -> None:
    reply = refuse(status, "some_code") if has_problem else Reply(status, {"content-type": "text/html"}, b"<h1>")
    with pytest.raises(Failure) as caught:
        read_reply(STATS, REQUEST, reply)
    error = caught.value.error
    assert type(error) is kind
    assert (error.status, error.code) == (status, "some_code" if has_problem else None)
    assert caught.value.may_retry(repeatable=True) == retriable
    assert not caught.value.may_retry(repeatable=False)


@pytest.mark.parametrize(
    ("call", "reply", "kind", "fields"),
    [
        (make_call(operations.EXPLAIN, url=PAGE), refuse(404, "unknown_page", found=PAGE), UnknownPage, {"url": PAGE}),
        (
            make_call(operations.NEXT_BATCH, k=1, key="key"),
            refuse(422, "key_reused", field="key"),
            KeyReusedError,
            {"key": "key", "until_s": None},
        ),
        (
            make_call(operations.RANK, k=0),
            refuse(422, "invalid", field="k", found="'0'", expected="int >= 1"),
            SettingsError,
            {"setting": "k", "expected": "int >= 1"},
        ),
    ],
)
def test_the_library_s_errors_are_used(
    call: Any, reply: Reply, kind: type[StreamschedError], fields: dict[str, object]
) -> None:
    with pytest.raises(kind) as caught:
        read_reply(call, REQUEST, reply)
    assert {name: getattr(caught.value, name) for name in fields} == fields
    if kind is SettingsError:
        assert str(caught.value) == "k: expected int >= 1, found '0'"


def test_what_is_not_known_is_none() -> None:
    assert read_reply(make_call(operations.PAGE, url=PAGE), REQUEST, refuse(404, "unknown_page")) is None
    assert read_reply(make_call(operations.HOST, host="a.example"), REQUEST, refuse(404, "unknown_host")) is None
    with pytest.raises(Failure):
        read_reply(make_call(operations.HOST, host="a.example"), REQUEST, refuse(404, "unknown_path"))


@pytest.mark.parametrize(
    "reply",
    [
        answer({"known": 3}, "application/json"),
        answer({"known": "three"}),
        answer({}),
        answer([]),
        Reply(200, {"content-type": "application/msgpack"}, b""),
        Reply(200, {"content-type": "application/msgpack"}, b"\x91" * 5_000),
        Reply(200, {}, b""),
    ],
)
def test_what_cannot_be_read_is_no_service(reply: Reply) -> None:
    with pytest.raises(Failure) as caught:
        read_reply(make_call(operations.RELEASE), REQUEST, reply)
    assert type(caught.value.error) is ServiceError


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({}, 0.0),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "Mon, 23 Nov 2026 10:00:09 GMT", "date": "Mon, 23 Nov 2026 10:00:00 GMT"}, 9.0),
        ({"retry-after": "Mon, 23 Nov 2026 10:00:00 GMT", "date": "Mon, 23 Nov 2026 10:00:09 GMT"}, 0.0),
        ({"retry-after": "Mon, 23 Nov 2026 10:00:09 GMT"}, 0.0),
        ({"retry-after": "²"}, 0.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(headers: dict[str, str], wait_s: float) -> None:
    with pytest.raises(Failure) as caught:
        read_reply(STATS, REQUEST, Reply(503, headers, b""))
    assert caught.value.retry_after_s == wait_s


@pytest.mark.parametrize("code", ["queue_full", "starting", "stopping", "too_many_requests"])
def test_some_refusals_have_certainly_applied_nothing(code: str) -> None:
    with pytest.raises(Failure) as caught:
        read_reply(make_call(operations.USE, formula="changes"), REQUEST, refuse(503, code))
    assert caught.value.may_retry(repeatable=False)


@pytest.mark.parametrize(
    ("error", "applied"),
    [
        (httpx.ConnectError("refused"), Applied.NO),
        (httpx.ConnectTimeout(""), Applied.NO),
        (httpx.PoolTimeout(""), Applied.NO),
        (httpx.ReadTimeout(""), Applied.PERHAPS),
        (httpx.ReadError(""), Applied.PERHAPS),
        (httpx.WriteError(""), Applied.PERHAPS),
        (httpx.RemoteProtocolError("half"), Applied.PERHAPS),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Exception) else one.name,
)
def test_a_lost_connection_may_have_been_heard(error: httpx.RequestError, applied: Applied) -> None:
    failure = connection_failure(REQUEST, error)
    assert (failure.applied, failure.error.__cause__) == (applied, error)
    assert failure.error.reason
