"""The client's types of answers are those of the service, and its calls are the service's operations."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

import pytest

from streamsched.client import AsyncClient, Client
from streamsched.client.protocol import answers
from streamsched.http.messages import administration, crawling, fields, figures, reading

MODULES = (administration, crawling, fields, figures, reading)
MESSAGES = {name: getattr(module, name) for module in MODULES for name in module.__all__ if name in answers.__all__}


GROWING = {"Sample", "Stats"}  # figures that are new are no fault of a client that does not have them


def names_of(annotation: object) -> str:
    """Return an annotation as a text, without constraints and modules."""
    text = str(annotation).replace("typing.", "")
    for module in (
        "streamsched.client.protocol.answers.",
        *(f"{one.__name__}." for one in MODULES),
    ):
        text = text.replace(module, "")
    return text


def test_each_answer_is_a_message_of_the_service() -> None:
    assert MESSAGES.keys() == set(answers.__all__)


@pytest.mark.parametrize("name", answers.__all__)
def test_fields_are_the_same(name: str) -> None:
    ours, theirs = (
        {field: names_of(kind) for field, kind in get_type_hints(one).items()}
        for one in (getattr(answers, name), MESSAGES[name])
    )
    if name in GROWING:
        theirs = {field: theirs[field] for field in ours if field in theirs}
    assert ours == theirs


@pytest.mark.parametrize("name", answers.__all__)
def test_unknown_fields_are_ignored(name: str) -> None:
    kind: Any = getattr(answers, name)
    assert not kind.__struct_config__.forbid_unknown_fields


def test_the_client_has_each_operation_of_crawlers_and_operators() -> None:  # but for those of the console
    from streamsched.http.endpoints.administration import Administration
    from streamsched.http.endpoints.crawling import Crawling
    from streamsched.http.endpoints.figures import Figures
    from streamsched.http.endpoints.reading import Reading

    service: Any = None
    operations = {
        route.operation
        for kind in (Administration, Crawling, Figures, Reading)
        for route in kind(service).routes()
        if route.permission is not None
    }
    for client in (Client, AsyncClient):
        methods = {name for name, _ in inspect.getmembers(client, inspect.isfunction) if not name.startswith("_")}
        assert methods == operations | {"close"}
