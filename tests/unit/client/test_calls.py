"""The client's calls are the service's operations, and both clients have all of them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pytest
from starlette.routing import compile_path

from streamsched.api import answers, views
from streamsched.api.operations import OPERATIONS
from streamsched.client import AsyncClient, Client, calls
from streamsched.client.calls import ServiceCalls
from streamsched.errors import ServiceError

ODD = "https://ä.example/%2F?a=b c&d=1#e"
GIVEN: dict[str, list[Any]] = {  # of calls with arguments that they need
    "next_batch": [1],
    "offer": [1],
    "grant": [[ODD]],
    "observe": [[]],
    "notice": [[]],
    "discover": [[ODD]],
    "ask": [[ODD]],
    "release": [[ODD]],
    "explain": [ODD],
    "page": [ODD],
    "host": ["a.example:8080"],
    "set_rules": [{}],
    "set_politeness": [{"in_flight": None}],
    "forget": [[ODD]],
    "block": ["*.example", 1.0],
    "use": ["age"],
    "training": [30, 1_790_000_000.0],
}
ANSWERS = {
    kind.__name__: kind
    for kind in [*vars(answers).values(), *vars(views).values()]
    if isinstance(kind, type) and issubclass(kind, views.Answer)
}


class Recorder(ServiceCalls):
    """A client that returns each call unsent."""

    def perform(self, call: calls.Call[Any]) -> calls.Call[Any]:
        return call


@pytest.mark.parametrize("kind", ANSWERS.values(), ids=ANSWERS)
def test_unknown_fields_are_ignored(kind: Any) -> None:
    assert not kind.__struct_config__.forbid_unknown_fields


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_a_call_is_a_request_that_its_operation_takes(operation: Any) -> None:
    call: calls.Call[Any] = getattr(Recorder(), operation.name)(*GIVEN.get(operation.name, []), timeout_s=7.0)
    assert (call.operation, call.timeout_s) == (operation, 7.0)
    pattern, _, parameters = compile_path(operation.path)
    found = pattern.match(call.path)
    assert found is not None
    assert found.groupdict().keys() == parameters.keys()
    if operation.method == "GET":
        assert call.body is None
        if operation.asked is not None:
            msgspec.convert(call.query, operation.asked, strict=False)
    elif operation.records is None:
        assert call.body is not None
        msgspec.msgpack.decode(call.body.content, type=operation.asked)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_both_clients_send_the_same(operation: Any) -> None:
    sent: list[tuple[str, httpx.URL, bytes]] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        sent.append((request.method, request.url, request.content))
        return httpx.Response(404, headers={"content-type": "application/problem+json"}, content=problem)

    code = operation.absent or "none"
    problem = msgspec.json.encode({"code": code, "detail": "of the test"})
    arguments: list[Any] = GIVEN.get(operation.name, [])
    named = {"key": "mine"} if operation.name in ("next_batch", "grant") else {}

    async def call_by_task() -> Any:
        async with AsyncClient("http://a.example", transport=httpx.MockTransport(refuse)) as client:
            return await getattr(client, operation.name)(*arguments, **named)

    def call_by_thread() -> Any:
        with Client("http://a.example", transport=httpx.MockTransport(refuse)) as client:
            return getattr(client, operation.name)(*arguments, **named)

    ways: list[Callable[[], Any]] = [lambda: asyncio.run(call_by_task()), call_by_thread]
    for call in ways:
        if operation.absent is not None:
            assert call() is None
            continue
        with pytest.raises(ServiceError, match="of the test"):
            call()
    assert sent[0] == sent[1]


def test_the_clients_have_no_other_methods() -> None:
    methods = {name for name, _ in inspect.getmembers(ServiceCalls, inspect.isfunction) if not name.startswith("_")}
    assert methods == {operation.name for operation in OPERATIONS}


@pytest.mark.parametrize("url", ["http://a.example/shards/3", "http://a.example/shards/3/"])
def test_a_service_may_be_below_a_path(url: str) -> None:
    sent: list[str] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        sent.append(request.url.raw_path.decode())
        return httpx.Response(404)

    async def call_by_task() -> Any:
        async with AsyncClient(url, transport=httpx.MockTransport(refuse)) as client:
            return await client.page(ODD)

    def call_by_thread() -> Any:
        with Client(url, transport=httpx.MockTransport(refuse)) as client:
            return client.page(ODD)

    ways: list[Callable[[], Any]] = [lambda: asyncio.run(call_by_task()), call_by_thread]
    for call in ways:
        with pytest.raises(ServiceError, match=r"http://a\.example/shards/3/v1/pages/"):
            call()
    assert sent == [f"/shards/3/v1/pages/{quote(ODD, safe='')}"] * 2
