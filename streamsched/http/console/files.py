"""The files of the console, as they are sent to browsers."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import PurePath
from types import MappingProxyType
from typing import Final, NamedTuple

__all__ = ["MEDIA_TYPES", "PAGE", "StaticFile", "read_files"]

PAGE: Final = "index.html"
MEDIA_TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        ".css": "text/css; charset=utf-8",
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".svg": "image/svg+xml",
    }
)
"""By the ending of a file's name; other files are not sent."""


class StaticFile(NamedTuple):
    """A file of the console."""

    content: bytes
    media_type: str


def read_files() -> dict[str, StaticFile]:
    """Return the files by name; no two have the same one, although some are in a folder. O(bytes)."""
    static = files("streamsched.http.console") / "static"
    found = [*static.iterdir(), *(static / "vendored").iterdir()]
    return {
        one.name: StaticFile(one.read_bytes(), MEDIA_TYPES[PurePath(one.name).suffix])
        for one in found
        if PurePath(one.name).suffix in MEDIA_TYPES
    }
