"""The client's calls are the service's operations, with the types of their answers."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from starlette.routing import compile_path

from streamsched import answers
from streamsched.client import AsyncClient, Client, calls
from streamsched.http.endpoints.administration import Administration
from streamsched.http.endpoints.crawling import Crawling
from streamsched.http.endpoints.reading import Figures, Reading

SERVICE: Any = None
ROUTES = [route for kind in (Administration, Crawling, Figures, Reading) for route in kind(SERVICE).routes()]
CALLS: dict[str, calls.Call[Any]] = {
    "next_batch": calls.next_batch(1, "10m", None, None, None),
    "observe": calls.observe([]),
    "notice": calls.notice([]),
    "discover": calls.discover([], None),
    "release": calls.release([]),
    "rank": calls.rank(1),
    "explain": calls.explain("https://a.example/", 1),
    "page": calls.page("https://a.example/"),
    "hosts": calls.hosts(0, 1),
    "host": calls.host("a.example"),
    "set_rules": calls.set_rules({}),
    "block": calls.block("a.example", 1.0),
    "champion": calls.champion(),
    "use": calls.use("age"),
    "evolutions": calls.evolutions(1),
    "stats": calls.stats(0.0),
}


ANSWERS = [kind for kind in vars(answers).values() if isinstance(kind, type) and kind.__module__ == answers.__name__]


@pytest.mark.parametrize("kind", ANSWERS, ids=lambda kind: kind.__name__)
def test_unknown_fields_are_ignored(kind: Any) -> None:
    assert not kind.__struct_config__.forbid_unknown_fields


@pytest.mark.parametrize("name", CALLS)
def test_a_call_reads_the_answer_that_its_route_returns(name: str) -> None:
    call = CALLS[name]
    route = next(one for one in ROUTES if one.method == call.method and compile_path(one.path)[0].match(call.path))
    assert (route.operation, route.answer, route.body is None) == (name, call.answer, call.body is None)


def test_the_client_has_each_operation_of_crawlers_and_operators() -> None:  # but for those of the console
    operations = {route.operation for route in ROUTES}
    assert operations == CALLS.keys()
    for client in (Client, AsyncClient):
        methods = {name for name, _ in inspect.getmembers(client, inspect.isfunction) if not name.startswith("_")}
        assert methods == operations | {"close"}
