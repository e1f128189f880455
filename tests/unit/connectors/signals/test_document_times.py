"""Times as documents write them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.connectors.signals.document_times import parse_time


def epoch(*parts: int) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp()  # type: ignore[arg-type,misc]


@pytest.mark.parametrize(
    ("text", "first_s", "last_s"),
    [
        ("2024", epoch(2024, 1, 1), epoch(2025, 1, 1) - 1),
        ("2024-02", epoch(2024, 2, 1), epoch(2024, 3, 1) - 1),
        ("2024-12", epoch(2024, 12, 1), epoch(2025, 1, 1) - 1),
        ("2024-02-29", epoch(2024, 2, 29), epoch(2024, 3, 1) - 1),
        (" 1999-12-31\n", epoch(1999, 12, 31), epoch(2000, 1, 1) - 1),
    ],
)
def test_a_year_a_month_or_a_day_is_a_span_of_vague_zone(text: str, first_s: float, last_s: float) -> None:
    assert parse_time(text) == (first_s, last_s, first_s - 14 * 3600)


@pytest.mark.parametrize(
    ("text", "time_s"),
    [
        ("2024-05-01T10:20Z", epoch(2024, 5, 1, 10, 20)),
        ("2024-05-01T10:20:30Z", epoch(2024, 5, 1, 10, 20, 30)),
        ("2024-05-01T10:20:30.250Z", epoch(2024, 5, 1, 10, 20, 30) + 0.25),
        ("2024-05-01T10:20:30,5+00:00", epoch(2024, 5, 1, 10, 20, 30) + 0.5),
        ("2024-05-01T10:20:30.123456789012345678901234567890Z", epoch(2024, 5, 1, 10, 20, 30) + 0.123456789),
        ("2024-05-01T10:20:30+05:30", epoch(2024, 5, 1, 4, 50, 30)),
        ("2024-05-01T10:20:30-0800", epoch(2024, 5, 1, 18, 20, 30)),
        ("2024-05-01t10:20:30z", epoch(2024, 5, 1, 10, 20, 30)),
        ("2024-05-01 10:20:30", epoch(2024, 5, 1, 10, 20, 30)),
        ("2016-12-31T23:59:60Z", epoch(2016, 12, 31, 23, 59, 59)),
        ("Wed, 01 May 2024 10:20:30 GMT", epoch(2024, 5, 1, 10, 20, 30)),
        ("Wed, 01 May 2024 10:20:30 +0200", epoch(2024, 5, 1, 8, 20, 30)),
        ("1 May 2024 10:20 EST", epoch(2024, 5, 1, 15, 20)),
        ("Wed, 1 May 24 10:20:30 UT", epoch(2024, 5, 1, 10, 20, 30)),
    ],
)
def test_a_time_of_day_is_a_moment(text: str, time_s: float) -> None:
    time = parse_time(text)
    assert time is not None
    assert time.first_s == pytest.approx(time_s, abs=1e-6)
    assert time == (time.first_s,) * 3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2024-13",
        "2024-02-30",
        "2024-05-01T24:00Z",
        "2024-05-01T10:60Z",
        "2024-05-01T10:20:61Z",
        "2024-05-01T10:20:30+24:00",
        "2024-05-01T10:20:30+02:60",
        "0000",
        "9999",
        "\u0662\u0660\u0662\u0664-\u0660\u0665-\u0660\u0661",
        "20240501",
        "Wed, 32 May 2024 10:20:30 GMT",
        "Wed, 01 May 2024 99:20:30 GMT",
        "1 2 3 4 5",
        "2024-05-01T10:20:30." + "1" * 10_000 + "Z",
    ],
)
def test_what_is_no_time_is_none(text: str) -> None:
    assert parse_time(text) is None


@given(st.text(max_size=120) | st.text("0123456789-+:.TZ, GMTEMayJan", max_size=40))
def test_no_text_raises(text: str) -> None:
    time = parse_time(text)
    assert time is None or time.earliest_s <= time.first_s <= time.last_s


@given(st.datetimes(timezones=st.timezones()).filter(lambda moment: 1900 < moment.year < 2100))
def test_a_moment_comes_back(moment: datetime) -> None:
    moment = moment.replace(microsecond=0)
    if (offset := moment.utcoffset()) is not None and offset.total_seconds() % 60 == 0:
        time = parse_time(moment.isoformat())
        assert time is not None
        assert time.first_s == moment.timestamp()
