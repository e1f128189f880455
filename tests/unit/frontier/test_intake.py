"""What the metadata of known items says of a visit."""

from __future__ import annotations

from typing import Any

import pytest

from streamsched.frontier.intake import URL_ITEM, Items, name_of, read_outcome
from streamsched.frontier.messages import message
from streamsched.outcomes import NEVER_S, ROBOTS_DENIED, OutcomeEvent

URL = "https://a.example/"
NOW = 1_755_820_800.0  # 2025-08-22


def read(**texts: str) -> OutcomeEvent:
    metadata = {
        name.replace("__", "."): message("urlfrontier.StringList")(values=[text]) for name, text in texts.items()
    }
    return read_outcome(URL, metadata, NOW)


def test_a_visit_without_metadata_has_a_url_and_a_time_only() -> None:
    assert read() == OutcomeEvent(URL, NOW)
    assert read_outcome(URL, {"signature": message("urlfrontier.StringList")()}, NOW) == read()


@pytest.mark.parametrize(
    ("texts", "status"),
    [
        ({"fetch__statusCode": "304"}, 304),
        ({"fetch__statusCode": " 200 "}, 200),
        ({"fetch__statusCode": "1000"}, None),
        ({"fetch__statusCode": "-1"}, None),
        ({"fetch__statusCode": "OK"}, None),
        ({"fetch__statusCode": "٣"}, None),
        ({"fetch__statusCode": "404", "error__cause": "robots.txt"}, 404),
        ({"error__cause": "robots.txt"}, ROBOTS_DENIED),
        ({"error__cause": "timeout"}, 0),
        ({"fetch__error__count": "1"}, 0),
        ({"depth": "1"}, None),
    ],
)
def test_statuses(texts: dict[str, Any], status: int | None) -> None:
    assert read(**texts).status == status


@pytest.mark.parametrize(
    ("text", "fetched_at"),
    [
        ("2025-08-21T23:00:00Z", NOW - 3_600.0),
        ("2025-08-22T00:00:00.500+02:00", NOW - 7_199.5),
        ("2025-08-22T01:00:00Z", NOW),  # a clock that is ahead
        ("2025-08-21T23:00:00", NOW),  # in no zone
        ("0001-01-01T00:00:00Z", NOW),
        ("yesterday", NOW),
    ],
)
def test_times(text: str, fetched_at: float) -> None:
    assert read(lastProcessedDate=text).fetched_at == fetched_at


@pytest.mark.parametrize("keeps_dates", [False, True])
@pytest.mark.parametrize(
    ("date", "not_before", "misdated"),
    [
        (0, NEVER_S, 0),
        (1, 1.0, 0),
        (1_800_000_000, 1.8e9, 0),
        (253_402_300_799, NEVER_S, 0),
        (1_800_000_000_000, None, 1),  # milliseconds
        (2**64 - 1, None, 1),
    ],
)
def test_dates(date: int, not_before: float | None, misdated: int, keeps_dates: bool) -> None:
    item = URL_ITEM()
    item.known.info.url, item.known.refetchable_from_date = URL, date
    items = Items(["DEFAULT"], NOW, keeps_dates=keeps_dates)
    items.add(item.SerializeToString())
    (outcome,) = items.parts["DEFAULT"].outcomes
    expected = (not_before, misdated) if keeps_dates or not date else (None, 0)
    assert (outcome.not_before, items.misdated) == expected


def test_equal_signatures_are_equal_contents() -> None:
    assert read(signature="abc").content == read(signature="abc").content != read(signature="abd").content
    assert read(signature="").content is None


def test_headers() -> None:
    moved = read(fetch__statusCode="301", _redirTo="https://b.example/", protocol__etag='"a"')
    assert moved == OutcomeEvent(URL, NOW, status=301, moved_to="https://b.example/", etag='"a"')
    refused = read(**{"protocol__last-modified": "yesterday", "protocol__retry-after": "7"})
    assert refused == OutcomeEvent(URL, NOW, last_modified="yesterday", retry_after=7.0)


@pytest.mark.parametrize(("given", "crawl"), [("", "DEFAULT"), (" ", "DEFAULT"), ("a", "a"), (" a ", "a")])
def test_an_empty_crawl_id_is_the_default_one(given: str, crawl: str) -> None:
    assert name_of(given) == crawl
