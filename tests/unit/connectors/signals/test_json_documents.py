"""JSON Feed and IndexNow."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamsched.connectors.signals import DocumentMemory, Reading, json_documents, read_document
from streamsched.errors import DocumentError

NOON = 1_714_564_800.0  # 2024-05-01T12:00:00Z
URL = "https://a.example/feed.json"


def read(value: Any, memory: DocumentMemory | None = None) -> Reading:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return read_document(raw, url=URL, read_at=NOON, memory=memory, since=0.0)


def feed(*items: Any) -> dict[str, Any]:
    return {"version": "https://jsonfeed.org/version/1.1", "title": "T", "items": list(items)}


def announced(reading: Reading) -> dict[str, float]:
    return {signal.url: signal.at for signal in reading.signals}


@pytest.mark.parametrize("blank", [b"", b" \r\n\t", b"\xef\xbb\xbf"])
def test_a_feed(blank: bytes) -> None:
    items = (
        {"id": "1", "url": "https://a.example/1", "date_published": "2024-04-30T12:00:00Z"},
        {"id": "https://b.example/2", "date_modified": "2024-04-29T12:00:00Z", "date_published": "2020-01-01"},
    )
    reading = read(blank + json.dumps(feed(*items)).encode())
    assert reading.kind == "feed"
    assert announced(reading) == {"https://a.example/1": NOON - 86_400, "https://b.example/2": NOON - 172_800}


def test_an_invalid_item_costs_no_other() -> None:
    items = ({"url": 5}, 7, {"id": 3}, {"url": "/x"}, {"url": "https://a.example/1", "date_modified": "2024"}, None)
    reading = read(feed(*items))
    assert (reading.entries, reading.invalid, len(reading.signals)) == (6, 5, 1)
    assert [(problem.record, problem.field) for problem in reading.problems] == [
        (0, "item"), (1, "item"), (2, "url"), (3, "url"), (5, "item"),
    ]  # fmt: skip


def test_an_edit_is_a_change() -> None:
    def one(text: str) -> dict[str, Any]:
        return feed({"url": "https://a.example/1", "content_html": text, "_extension": text * 2})

    read(one("a"), memory := DocumentMemory())
    assert announced(read(one("b"), memory)) == {"https://a.example/1": NOON}


def test_a_notice_speaks_of_its_host() -> None:
    urls = ["https://b.example/1", "https://b.example/1", "https://a.example/2", "x", 5, None, "http://B.example:80/3"]
    reading = read({"host": "b.example", "key": "k", "keyLocation": "https://b.example/k.txt", "urlList": urls})
    assert announced(reading) == {"https://b.example/1": NOON, "http://B.example:80/3": NOON}
    fates = (reading.kind, reading.entries, reading.new, reading.repeated, reading.other_host, reading.invalid)
    assert fates == ("indexnow", 7, 2, 1, 1, 3)


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({}, "expected a JSON Feed"),
        ({"items": [], "urlList": []}, "expected a JSON Feed"),
        ({"items": 5}, "neither a JSON Feed nor an IndexNow notice: Expected `array | null`, got `int` - at `$.items`"),
        ({"urlList": ["https://a.example/"]}, "host: expected the host of the urlList, found None"),
        ({"host": "", "urlList": []}, "host: expected"),
        ({"host": "a b", "urlList": []}, "host: expected"),
        (b"{", "not JSON: Input data was truncated"),
        (b'{"items": [}', "not JSON: JSON is malformed: invalid character (byte 11)"),
        (b'{"items": []} x', "not JSON: JSON is malformed: trailing characters (byte 15)"),
        (b'{"host": "\xff", "urlList": []}', "not JSON"),
        (b'{"host": "\\ud800", "urlList": []}', "not JSON"),
        (b'{"items": ' + b"[" * 1_000_000, "nested too deep"),
        (b'{"x": ' + b'{"x": ' * 1_000_000, "nested too deep"),
        (b'{"items": [\0]}', "not JSON"),
        (b'{"items": [{"url": "https://a.example/\\ud800"}]}', "not JSON"),
    ],
)
def test_other_json_is_refused(document: Any, reason: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read(document)
    assert reason in caught.value.reason


def test_the_place_of_a_mistake_is_told() -> None:
    with pytest.raises(DocumentError, match=r"https://a\.example/feed\.json, at byte 11: not JSON") as caught:
        read(b'{"items": [}')
    assert (caught.value.url, caught.value.offset) == (URL, 11)


def test_json_is_bounded() -> None:
    with pytest.raises(DocumentError, match=f"at most {json_documents.MAX_JSON_BYTES} bytes of JSON"):
        read(b'{"items": ["' + b"x" * json_documents.MAX_JSON_BYTES + b'"]}')
