"""Detection of a file's format, by its name or else by its first lines."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Final

from streamsched.connectors.formats.microsoft import HISTORY
from streamsched.connectors.records.record_types import OUTCOMES

__all__ = ["FORMATS", "HEAD_BYTES", "recognise_format"]

FORMATS: Final = OUTCOMES.formats
HEAD_BYTES: Final = 4096  # of the decompressed input that are inspected

_SUFFIXES: Final = {
    ".json": "jsonl",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".mp": "msgpack",
    ".mpk": "msgpack",
    ".msgpack": "msgpack",
}
_LINES: Final = {
    "changes": re.compile(rb"-?[\d.]+\t[AMD]\t"),
    "jsonl": re.compile(rb"\s*\{"),
    "microsoft": re.compile(rb"\d+\s+[\d.eE+-]+\s+\["),
}
_MAP: Final = re.compile(rb"[\x80-\x8f\xde\xdf]")


def recognise_format(name: str, head: bytes) -> str | None:
    """Return the format of the file `name` that begins with `head`, None if neither shows it; O(head).

    >>> recognise_format("today.jsonl.gz", b""), recognise_format("log", b'{"url": "https://example.org/"')
    ('jsonl', 'jsonl')
    """
    path = PurePath(name)
    if path.suffix == ".gz":
        path = path.with_suffix("")
    if path.suffix in _SUFFIXES:
        return _SUFFIXES[path.suffix]
    if path.name.startswith(PurePath(HISTORY).stem):
        return "microsoft"
    if _MAP.match(head):
        return "msgpack"
    for line in head.split(b"\n"):
        for kind, pattern in _LINES.items():
            if pattern.match(line):
                return kind
    return "changes" if path.suffix == ".tsv" else None
