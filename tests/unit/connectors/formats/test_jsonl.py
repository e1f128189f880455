"""JSON Lines: every way in which a line can be malformed, in a chunk that is decoded whole and line by line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.connectors import Rejection, open_source
from streamsched.connectors.records import MOST_UNKNOWN, OTHERS
from streamsched.outcomes import Outcome
from tests.support.cases import examples
from tests.support.crawl_outcomes import read_out

GOOD = b'{"url":"https://a.example/","fetched_at":1.5}\n'
OUTCOME = Outcome("https://a.example/", 1.5)


def read(folder: Path, data: bytes, batch: int = 1000) -> tuple[list[Outcome], list[Rejection]]:
    path = folder / "events.jsonl"
    path.write_bytes(data)
    with open_source(path, batch=batch) as source:
        got = read_out(source)
        assert source.rejected == len(source.rejections)
        return got, list(source.rejections)


def event(fields: str) -> bytes:
    return f'{{"url":"https://a.example/","fetched_at":1.5,{fields}}}\n'.encode()


def test_null_is_absent_and_unknown_fields_are_ignored(tmp_path: Path) -> None:
    line = event('"status":null,"fingerprint":null,"changed":null,"cost":null,"retry_after":null,"extra":[{"url":1}]')
    assert read(tmp_path, line) == ([OUTCOME], [])


@pytest.mark.parametrize("bad", [b"", b'{"url": 7}\n'])
def test_unknown_fields_are_counted_and_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, bad: bytes
) -> None:
    """In chunks that are decoded whole as in those that are parsed line by line."""
    lines = event('"staus":404,"title":"a"') * 3 + bad + GOOD + event('"staus":"gone"')
    got, _ = read(tmp_path, lines, batch=3)
    assert got == [OUTCOME] * 5
    assert [record.getMessage() for record in caplog.records] == [
        "unknown field 'staus' is not read: did you mean status?",
        "unknown field 'title' is not read",
        "unknown fields: 'staus' in 4 records, 'title' in 3 records",
    ]


def test_names_of_unknown_fields_are_bounded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A hostile file may have another name on every line."""
    got, _ = read(tmp_path, b"".join(event(f'"{n}{"x" * 1_000}":1') for n in range(500)))
    assert len(got) == 500
    assert len(caplog.records) == MOST_UNKNOWN + 1
    assert f"{OTHERS} in 480 records" in caplog.records[-1].getMessage()
    assert max(len(record.getMessage()) for record in caplog.records[:-1]) < 300


@pytest.mark.parametrize("bad", [b"", b'{"url": 7}\n'])
def test_a_name_that_is_no_text_is_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture, bad: bytes) -> None:
    got, _ = read(tmp_path, GOOD + event('"??":1').replace(b"??", b"\x9a\xff") + bad + event('"title":1'))
    assert got == [OUTCOME] * 3
    assert [record.getMessage() for record in caplog.records] == [
        "unknown field 'title' is not read",
        f"unknown fields: {OTHERS} in 1 records, 'title' in 1 records",
    ]


def test_times_as_text(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    texts = ["1970-01-01T00:00:01.5Z", "1970-01-01T01:00:01.5+01:00", "yesterday", "1970-01-01 00:00:01.5"]
    lines = b"".join(f'{{"url":"https://a.example/","fetched_at":"{text}"}}\n'.encode() for text in texts)
    got, rejections = read(tmp_path, lines)
    assert got == [OUTCOME] * 3
    assert [(one.offset, one.field) for one in rejections] == [(3, "fetched_at")]
    assert caplog.records == []


def test_whole_numbers_may_stand_for_fractions(tmp_path: Path) -> None:
    line = b'{"url":"u","fetched_at":1,"importance":2,"cost":1e3}\n'
    assert read(tmp_path, line) == ([Outcome("u", 1.0, importance=2.0, cost=1000.0)], [])


def test_fingerprints_as_numbers_and_as_text(tmp_path: Path) -> None:
    values = ["18446744073709551615", '"ffffFFFFffffFFFF"', '"0000000000000010"', "0", "null"]
    got, rejections = read(tmp_path, b"".join(event(f'"fingerprint":{value}') for value in values))
    assert [outcome.fingerprint for outcome in got] == [2**64 - 1, 2**64 - 1, 16, 0, None]
    assert rejections == []


def test_escapes_and_unicode(tmp_path: Path) -> None:
    lines = [
        '{"url":"https:\\/\\/é.example/\\u00e9\\ud83d\\ude00","fetched_at":1}',
        '{"url":"\\n\\u0000","fetched_at":1}',
    ]
    got, rejections = read(tmp_path, "\n".join(lines).encode())
    assert [outcome.url for outcome in got] == ["https://é.example/é😀", "\n\0"]
    assert rejections == []


@pytest.mark.parametrize("end", ["\n", "\r\n", " \n", "\n\n", "\n \r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_line_ends_and_blank_lines(tmp_path: Path, end: str, last: bool) -> None:
    line = GOOD.decode().rstrip()
    data = end.join([line] * 3) + (end if last else "")
    assert read(tmp_path, data.encode()) == ([OUTCOME] * 3, [])


def test_line_numbers_count_blank_lines(tmp_path: Path) -> None:
    for batch in (1, 2, 3, 100):
        got, rejections = read(tmp_path, b"\n" + GOOD + b"\n\nbad\n" + GOOD + b"worse", batch)
        assert got == [OUTCOME, OUTCOME]
        assert [rejection.offset for rejection in rejections] == [5, 7]


MALFORMED = [
    (b"no JSON", "record", "JSON is malformed", "'no JSON'"),
    (b"{", "record", "Input data was truncated", "'{'"),
    (b'{"url":"u","fetched_at":1} {"url":"u","fetched_at":2}', "record", "trailing characters", '\'{"url"'),
    (b'{"url":"u","fetched_at":1},', "record", "trailing characters", '\'{"url"'),
    (b"[1]", "record", "expected a map", "[1]"),
    (b"5", "record", "expected a map", "5"),
    (b"null", "record", "expected a map", "None"),
    (b'"text"', "record", "expected a map", "'text'"),
    (b"\xff\xfe", "record", "JSON is malformed", "'\N{REPLACEMENT CHARACTER}"),
    (b'{"url":"\xff","fetched_at":1}', "record", "can't decode byte 0xff", '\'{"url"'),
    (b'{"url":"\\ud800","fetched_at":1}', "record", "surrogate", '\'{"url"'),
    (b'{"url":"a\x00b","fetched_at":1}', "record", "JSON is malformed", '\'{"url"'),
    (b'{"fetched_at":1}', "url", "expected 1 to 8192 bytes", "nothing"),
    (b"{}", "url", "expected 1 to 8192 bytes", "nothing"),
    (b'{"url":"u"}', "fetched_at", "expected UTC epoch seconds", "nothing"),
    (b'{"url":null,"fetched_at":1}', "url", "expected 1 to 8192 bytes", "None"),
    (b'{"url":7,"fetched_at":1}', "url", "expected 1 to 8192 bytes", "7"),
    (b'{"url":"","fetched_at":1}', "url", "expected 1 to 8192 bytes", "''"),
    (b'{"url":"' + b"x" * 8193 + b'","fetched_at":1}', "url", "expected 1 to 8192 bytes", "'xxx"),
    (b'{"url":"u","fetched_at":"1"}', "fetched_at", "expected UTC epoch seconds", "'1'"),
    (b'{"url":"u","fetched_at":true}', "fetched_at", "expected UTC epoch seconds", "True"),
    (b'{"url":"u","fetched_at":null}', "fetched_at", "expected UTC epoch seconds", "None"),
    (b'{"url":"u","fetched_at":1e999}', "fetched_at", "out of range", '\'{"url"'),
    (b'{"url":"u","fetched_at":NaN}', "record", "JSON is malformed", '\'{"url"'),
    (b'{"url":"u","fetched_at":1' + b"0" * 400 + b"}", "fetched_at", "expected UTC epoch seconds", "1000"),
    (event('"status":1000').strip(), "status", "expected a whole number from 0 to 999", "1000"),
    (event('"status":-1').strip(), "status", "expected a whole number from 0 to 999", "-1"),
    (event('"status":200.0').strip(), "status", "expected a whole number from 0 to 999", "200.0"),
    (event('"status":"200"').strip(), "status", "expected a whole number from 0 to 999", "'200'"),
    (event('"status":true').strip(), "status", "expected a whole number from 0 to 999", "True"),
    (event('"fingerprint":-1').strip(), "fingerprint", "expected a whole number from 0 to 2**64 - 1", "-1"),
    (event('"fingerprint":18446744073709551616').strip(), "fingerprint", "2**64 - 1", "18446744073709551616"),
    (event('"fingerprint":1.5').strip(), "fingerprint", "2**64 - 1", "1.5"),
    (event('"fingerprint":"abc"').strip(), "fingerprint", "16 hexadecimal digits", "'abc'"),
    (event('"fingerprint":"000000000000000g"').strip(), "fingerprint", "16 hexadecimal digits", "'000"),
    (event('"fingerprint":"00000000_0000000"').strip(), "fingerprint", "16 hexadecimal digits", "'000"),
    (event('"fingerprint":true').strip(), "fingerprint", "2**64 - 1", "True"),
    (event('"changed":1').strip(), "changed", "expected true or false", "1"),
    (event('"changed":"true"').strip(), "changed", "expected true or false", "'true'"),
    (event('"importance":-0.1').strip(), "importance", "expected a finite number of 0 or more", "-0.1"),
    (event('"importance":1e39').strip(), "importance", "expected a finite number of 0 or more", "1e+39"),
    (event('"importance":"high"').strip(), "importance", "expected a finite number", "'high'"),
    (event('"importance":false').strip(), "importance", "expected a finite number", "False"),
    (event('"cost":-1').strip(), "cost", "expected a finite number of 0 or more", "-1.0"),
    (event('"cost":{}').strip(), "cost", "expected a finite number", "{}"),
    (event('"retry_after":-1').strip(), "retry_after", "expected a finite number of 0 or more", "-1.0"),
    (event('"retry_after":"1"').strip(), "retry_after", "expected a finite number", "'1'"),
    (event('"extra":' + "[" * 9000 + "]" * 9000).strip(), "record", "recursion", '\'{"url"'),
]


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "amid"])
@pytest.mark.parametrize(("line", "field", "reason", "found"), MALFORMED, ids=range(len(MALFORMED)))
def test_malformed_lines_are_named(
    tmp_path: Path, line: bytes, field: str, reason: str, found: str, alone: bool
) -> None:
    around = b"" if alone else GOOD
    got, rejections = read(tmp_path, around + line + b"\n" + around)
    assert got == ([] if alone else [OUTCOME, OUTCOME])
    assert len(rejections) == 1
    rejection = rejections[0]
    assert (rejection.unit, rejection.offset, rejection.field) == ("line", 1 if alone else 2, field)
    assert reason in rejection.reason
    assert rejection.found.startswith(found)
    assert len(str(rejection)) < 500


def test_a_map_over_two_lines_is_no_record(tmp_path: Path) -> None:
    # Two maps on one line and one on two: as many lines as maps, which a lenient decoder would take.
    data = b'{"url":"a","fetched_at":1}{"url":"b","fetched_at":1}\n{"url":"c",\n"fetched_at":1}\n' + GOOD
    got, rejections = read(tmp_path, data)
    assert got == [OUTCOME]
    assert [rejection.offset for rejection in rejections] == [1, 2, 3]


valid = st.sampled_from([GOOD, event('"status":200'), event('"fingerprint":"00000000000000ff"'), b"\n", b" \r\n"])
broken = st.sampled_from([b"{}\n", b"x\n", event('"status":2e2'), b'{"url":\n', b'"fetched_at":1}', b"}{", b"\xff"])


@examples(ordinary=30, whole=100)
@given(parts=st.lists(valid | broken | st.binary(max_size=6), max_size=8), batch=st.sampled_from([1, 2, 100]))
def test_whatever_comes_every_line_is_accounted_for(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], batch: int
) -> None:
    data = b" " + b"".join(parts)  # a blank, so that it is never gzip
    got, rejections = read(tmp_path_factory.getbasetemp(), data, batch)
    lines = data.split(b"\n")
    assert len(got) + len(rejections) == sum(bool(line.strip()) for line in lines)
    assert all(lines[rejection.offset - 1].strip() for rejection in rejections)
    whole, _ = read(tmp_path_factory.getbasetemp(), data, 10**6)
    assert got == whole


def test_found_shows_the_value_and_not_the_line(tmp_path: Path) -> None:
    _, rejections = read(tmp_path, event('"status":' + json.dumps("x" * 1000)))
    assert rejections[0].found.startswith("'xxx")
    assert len(rejections[0].found) == 80
