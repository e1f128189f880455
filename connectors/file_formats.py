"""The formats of files, each described once, and which of them a file has: by its name, or else by its first lines."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final, TypeAlias

from streamsched.connectors.formats.changelog import CHANGE_LOG
from streamsched.connectors.formats.jsonl import make_json_lines
from streamsched.connectors.formats.microsoft import HISTORY, CrawlHistory
from streamsched.connectors.formats.msgpack_stream import MapStream
from streamsched.connectors.reading.byte_stream import BYTE_ORDER_MARK, Read
from streamsched.connectors.records import OUTCOMES, SIGNALS, EventDecoder, RecordType
from streamsched.connectors.source import Unit

HEAD_BYTES: Final = 4096  # of the decompressed input that are inspected
LEAST_HEAD_BYTES: Final = 4  # likewise of a pipe whose format is given: they show UTF-16

_UTF16: Final = re.compile(rb"(?:\xff\xfe|[\t -~]\0)[\t -~]\0|(?:\xfe\xff|\0[\t -~])\0[\t -~]")
_JSON_ARRAY: Final = re.compile(rb"\s*\[\s*[{\]]")  # of objects, or empty

_Open: TypeAlias = Callable[[RecordType[Any], str, float], Read[Any]]


@dataclass(frozen=True, slots=True)
class Format:
    """A format of files.

    - ``suffixes``: of names that decide; ``likely``: of names that decide if the content does not
    - ``prefix``: of names that decide, empty for none
    - ``sniff``: the beginning of a line, or of the whole file if it has no lines
    - ``reader(records, path, origin_s)``: returns what reads such a file; see `open_source`
    - ``holds``: the types of records that it can hold; ``unit``: of positions
    """

    name: str
    sniff: re.Pattern[bytes]
    reader: _Open
    holds: tuple[RecordType[Any], ...]
    suffixes: tuple[str, ...] = ()
    likely: tuple[str, ...] = ()
    prefix: str = ""
    unit: Unit = "line"


FORMATS: Final = (
    Format(
        "changes",
        re.compile(rb"-?[\d.]+\t[AMD]\t"),
        lambda records, path, origin_s: CHANGE_LOG.read,
        (OUTCOMES,),
        likely=(".tsv",),
    ),
    Format(
        "jsonl",
        re.compile(rb"\s*\{"),
        lambda records, path, origin_s: make_json_lines(EventDecoder(records)).read,
        (OUTCOMES, SIGNALS),
        suffixes=(".json", ".jsonl", ".ndjson"),
    ),
    Format(
        "microsoft",
        re.compile(rb"\d+\s+[\d.eE+-]+\s+\["),
        lambda records, path, origin_s: CrawlHistory(path, origin_s).read,
        (OUTCOMES,),
        prefix=PurePath(HISTORY).stem,
    ),
    Format(
        "msgpack",
        re.compile(rb"[\x80-\x8f\xde\xdf]"),
        lambda records, path, origin_s: MapStream(records).read,
        (OUTCOMES, SIGNALS),
        suffixes=(".mp", ".mpk", ".msgpack"),
        unit="byte",
    ),
)


def formats_of(records: RecordType[Any]) -> dict[str, Format]:
    """Return the formats that hold `records` by name.

    >>> list(formats_of(SIGNALS))
    ['jsonl', 'msgpack']
    """
    return {one.name: one for one in FORMATS if records in one.holds}


def describe_mistake(head: bytes) -> str | None:
    """Return what a text that begins with `head` is and what is expected, if no format reads such texts. O(head).

    >>> describe_mistake('{"url":'.encode("utf-16")), describe_mistake(b'{"url":')
    ('UTF-16 text: expected UTF-8', None)
    """
    if _UTF16.match(head):
        return "UTF-16 text: expected UTF-8"
    if _JSON_ARRAY.match(head.removeprefix(BYTE_ORDER_MARK)):
        return "a JSON array: expected JSON Lines, one object on each line, without brackets and commas around them"
    return None


def recognise_format(name: str, head: bytes) -> str | None:
    """Return the format of the file `name` that begins with `head`, None if neither shows it; O(head).

    >>> recognise_format("today.jsonl.gz", b""), recognise_format("log", b'{"url": "https://example.org/"')
    ('jsonl', 'jsonl')
    """
    path = PurePath(name)
    if path.suffix == ".gz":
        path = path.with_suffix("")
    for one in FORMATS:
        if path.suffix in one.suffixes or (one.prefix and path.name.startswith(one.prefix)):
            return one.name
    for number, line in enumerate(head.removeprefix(BYTE_ORDER_MARK).split(b"\n")):
        for one in FORMATS:
            if (number == 0 or one.unit == "line") and one.sniff.match(line):
                return one.name
    return next((one.name for one in FORMATS if path.suffix in one.likely), None)
