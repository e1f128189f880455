"""Media types, problems, routes and the description of the service."""

from __future__ import annotations

import re
from typing import Any, cast
from unittest.mock import Mock

import msgspec
import pytest

from streamsched.api.answers import PolitenessSettings
from streamsched.api.operations import NextBatch, Outcomes, PolitenessChange, RuleFields, Rules
from streamsched.api.values import DURATION, DURATION_OR_ZERO, KEY
from streamsched.api.views import HostLimits, PageLimits
from streamsched.errors import FormulaError, InvalidOutcome, KeyReusedError, SettingsError, SnapshotError, UnknownPage
from streamsched.fields import HEX_64
from streamsched.http.open_http import make_routes
from streamsched.http.protocol.bodies import choose_type, decode_body, encode_body
from streamsched.http.protocol.openapi import describe_routes
from streamsched.http.protocol.problems import EXPECTED_TEXTS, HttpError, problem_of
from streamsched.http.service import Service
from streamsched.numerics.durations import parse_lease
from streamsched.outcomes import STATUS_CODE
from streamsched.politeness.politeness_settings import HostRule, Politeness, Rule

ROUTES = make_routes(cast(Service, None))
JSON, MSGPACK = "application/json", "application/msgpack"


class Pair(msgspec.Struct, forbid_unknown_fields=True):
    left: int
    right: list[float] = []


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ("", JSON),
        ("*/*", JSON),
        ("application/*", JSON),
        (MSGPACK, MSGPACK),
        (f"{JSON};q=0.5, {MSGPACK}", MSGPACK),
        (f"{MSGPACK};q=0.5, {JSON}", JSON),
        (f"{JSON};q=0, */*", MSGPACK),
        ("APPLICATION/JSON", JSON),
        ("text/html", None),
        (f"{JSON};q=0", None),
        (f"{JSON};q=much", None),
        (",", None),
    ],
)
def test_the_answer_has_the_type_that_is_wanted_most(accept: str, chosen: str | None) -> None:
    assert choose_type(accept) == chosen


@pytest.mark.parametrize("media_type", [JSON, MSGPACK])
def test_bodies_come_back_as_they_went(media_type: str) -> None:
    pair = Pair(3, [1.5, 2.0])
    assert decode_body(encode_body(pair, media_type), media_type, Pair) == pair


@pytest.mark.parametrize("media_type", [JSON, MSGPACK])
@pytest.mark.parametrize(
    ("content", "field", "found", "expected"),
    [
        ({"left": "3"}, "left", "'3'", "int"),
        ({"left": 2.5}, "left", "2.5", "int"),
        ({"left": 1e300}, "left", "1e+300", "int"),
        ({"left": True}, "left", "true", "int"),
        ({"left": 1, "right": [1.0, None]}, "right[1]", "null", "float"),
        ({"left": 1, "middle": 2}, "middle", "a field", "no field of this name"),
        ({}, "left", "nothing", "a value"),
        ([], "body", "[]", "object"),
        (None, "body", "null", "object"),
    ],
)
def test_problems_show_what_was_found(content: Any, field: str, found: str, expected: str, media_type: str) -> None:
    with pytest.raises(HttpError) as caught:
        decode_body(encode_body(content, media_type), media_type, Pair)
    problem = caught.value.problem
    assert (problem.status, problem.field, problem.found, problem.expected) == (422, field, found, expected)


@pytest.mark.parametrize(
    ("content", "kind", "field", "expected"),
    [
        ({"k": 1, "lease": "x"}, NextBatch, "lease", DURATION),
        ({"k": 1, "key": "a b"}, NextBatch, "key", KEY),
        (
            {"outcomes": [{"url": "u", "fetched_at": 1, "status": "gone"}]},
            Outcomes,
            "outcomes[0].status",
            STATUS_CODE.expected,
        ),
        (
            {"outcomes": [{"url": "u", "fetched_at": 1, "fingerprint": "x"}]},
            Outcomes,
            "outcomes[0].fingerprint",
            HEX_64,
        ),
        ({"rules": {"a": {"delay": "soon"}}}, Rules, "rules.a.delay", DURATION_OR_ZERO),
    ],
)
def test_errors_have_words_for_patterns(content: Any, kind: Any, field: str, expected: str) -> None:
    with pytest.raises(HttpError) as refused:
        decode_body(encode_body(content, JSON), JSON, kind)
    problem = refused.value.problem
    assert (problem.field, problem.expected) == (field, EXPECTED_TEXTS.get(expected, expected))


def test_politeness_settings_are_those_of_the_library() -> None:
    names = tuple(Politeness.__dataclass_fields__)
    assert PolitenessChange.__struct_fields__ == PolitenessSettings.__struct_fields__ == names


def test_the_limits_of_rules_are_those_of_the_library() -> None:
    assert HostLimits.__struct_fields__ == tuple(HostRule.__dataclass_fields__)
    assert PageLimits.__struct_fields__ == tuple(Rule.__dataclass_fields__)
    assert RuleFields.__struct_fields__ == HostLimits.__struct_fields__ + PageLimits.__struct_fields__


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10m", True), ("1.0h", True), ("0.50d", True), ("0s", False), ("0.0h", False), ("10", False), ("10m\n", True)],
)
def test_durations_are_above_zero_unless_zero_has_a_meaning(text: str, seconds: bool) -> None:
    assert bool(re.search(DURATION, text)) == seconds
    assert bool(re.search(DURATION_OR_ZERO, text)) == (text != "10")


@pytest.mark.parametrize("media_type", [JSON, MSGPACK])
@pytest.mark.parametrize(
    ("rule", "field", "found"),
    [
        ({"never": None}, ".never", "null"),
        ({"in_flight": 0}, ".in_flight", "0"),
        ({"foo": 1}, ".foo", "a field"),
        (3, "", "3"),
    ],
)
def test_an_invalid_entry_is_named_among_many(rule: Any, field: str, found: str, media_type: str) -> None:
    rules = {"rules": {"a.example": {"delay": 0}, "*.b.example/x": rule, "c.example": None, "d.example": {"bar": 2}}}
    with pytest.raises(HttpError) as refused:
        decode_body(encode_body(rules, media_type), media_type, Rules)
    assert (refused.value.problem.field, refused.value.problem.found) == (f"rules.*.b.example/x{field}", found)


def test_whole_floats_are_whole_numbers() -> None:
    assert decode_body(b'{"left": 5.0, "right": [2]}', JSON, Pair) == Pair(5, [2.0])


@pytest.mark.parametrize(
    ("error", "status", "code", "retriable"),
    [
        (UnknownPage("u"), 404, "unknown_page", False),
        (SettingsError("k", 0, "1 or more"), 422, "invalid", False),
        (InvalidOutcome(2, "url", "", "a URL"), 422, "invalid", False),
        (FormulaError("1 +", 4, "the end"), 422, "invalid", False),
        (KeyReusedError("a", 1.0), 422, "key_reused", False),
        (SnapshotError("state", "no space"), 503, "state_not_writable", True),
    ],
)
def test_errors_of_the_library_have_their_statuses(error: Any, status: int, code: str, retriable: bool) -> None:
    problem = problem_of(error).problem
    assert (problem.status, problem.code, problem.retriable) == (status, code, retriable)


@pytest.mark.parametrize("media_type", [JSON, MSGPACK])
@pytest.mark.parametrize("depth", [30, 40, 480, 520, 900, 100_000])
def test_nested_bodies_are_refused_before_anything_recurses(depth: int, media_type: str) -> None:
    opening, closing = (b"[", b"]") if media_type == JSON else (b"\x91", b"")
    inner = opening * depth + (b"1" if media_type == JSON else b"\x01") + closing * depth
    body = b'{"left": ' + inner + b"}" if media_type == JSON else b"\x81\xa4left" + inner
    with pytest.raises(HttpError) as refused:
        decode_body(body, media_type, Pair)
    assert refused.value.problem.status == (422 if depth < 32 else 400)


def test_the_search_for_a_wrong_entry_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Mock(wraps=msgspec.convert)
    monkeypatch.setattr(msgspec, "convert", calls)
    rules = {"rules": {f"{number}.example": None for number in range(5_000)} | {"a.example": 3}}
    with pytest.raises(HttpError):
        decode_body(encode_body(rules, JSON), JSON, Rules)
    assert calls.call_count <= 1_001


def _objects(schema: Any) -> list[dict[str, Any]]:
    """All schemas of objects in `schema`."""
    if isinstance(schema, list):
        return [found for one in schema for found in _objects(one)]
    if not isinstance(schema, dict):
        return []
    own = [schema] if schema.get("type") == "object" and "properties" in schema else []
    return own + [found for one in schema.values() for found in _objects(one)]


def test_the_description_is_strict_and_complete() -> None:
    described = describe_routes(ROUTES, "1")
    schemas = described["components"]["schemas"]
    assert len(_objects(schemas)) >= len(schemas)
    assert [one.get("title") for one in _objects(schemas) if one["additionalProperties"] is not False] == []
    operations = [one for methods in described["paths"].values() for one in methods.values()]
    assert (
        len({one["operationId"] for one in operations})
        == len(operations)
        == sum(one.operation.is_described for one in ROUTES)
    )
    text = msgspec.json.encode(described).decode()
    used = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert used == set(schemas)
    for operation in operations:
        assert {"200", "400", "422", "429", "500", "503"} <= operation["responses"].keys()
        if operation["security"]:
            assert {"401", "403"} <= operation["responses"].keys()
        if "requestBody" in operation:
            assert {"408", "413", "415"} <= operation["responses"].keys()
            assert operation["requestBody"]["required"]


def test_the_longest_lease_is_that_of_the_library() -> None:
    described = msgspec.json.schema(NextBatch)["$defs"]["NextBatch"]["properties"]["lease"]["anyOf"]
    (longest,) = (one["maximum"] for one in described if one["type"] == "number")
    assert parse_lease(longest) == longest
    with pytest.raises(SettingsError, match="lease"):
        parse_lease(longest + 1.0)
    with pytest.raises(msgspec.ValidationError, match="lease"):
        msgspec.convert({"k": 1, "lease": longest + 1.0}, NextBatch)
