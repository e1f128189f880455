"""Which format a file has, by name and by content."""

from __future__ import annotations

from codecs import BOM_UTF8

import pytest

from streamsched.connectors.file_formats import recognise_format
from tests.support.crawl_outcomes import pack

CHANGE = b"1692662400\tA\thttps://a.example/\n"
EVENT = b'{"url": "u", "fetched_at": 1}\n'
HISTORY = b"5 5.5143055555555556 [[1.10396990740741, 0]]\n"
MAP = pack({"url": "u"})


@pytest.mark.parametrize(
    ("name", "head", "expected"),
    [
        ("a.jsonl", b"", "jsonl"),
        ("a.ndjson.gz", b"", "jsonl"),
        ("a.json", b"nonsense", "jsonl"),
        ("a.msgpack", EVENT, "msgpack"),
        ("a.mpk.gz", b"", "msgpack"),
        ("a.mp", b"", "msgpack"),
        ("data/urlid_offset_history.txt", b"", "microsoft"),
        ("urlid_offset_history.txt.gz", b"", "microsoft"),
        ("urlid_offset_history_part2.txt", b"", "microsoft"),
        ("a.tsv", b"", "changes"),
        ("a.tsv", b"nonsense", "changes"),
        ("a.tsv", HISTORY, "microsoft"),
        ("a", CHANGE, "changes"),
        ("a.txt", b"garbage\n" + CHANGE, "changes"),
        ("-", EVENT, "jsonl"),
        ("-", b"\n  " + EVENT, "jsonl"),
        ("-", MAP, "msgpack"),
        ("-", b"\xde\x00\x01" + MAP[1:], "msgpack"),
        ("-", HISTORY, "microsoft"),
        ("a.gz", CHANGE, "changes"),
        ("a", BOM_UTF8 + CHANGE, "changes"),
        ("-", BOM_UTF8 + EVENT, "jsonl"),
        ("a", b"", None),
        ("a.csv", b"url,fetched_at\nu,1\n", None),
        ("a.bin", b"\x00\x01\x02", None),
    ],
)
def test_formats(name: str, head: bytes, expected: str | None) -> None:
    assert recognise_format(name, head) == expected
