"""The console: one page that shows what the service does, and its files. They hold no data of the service."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from importlib.resources import files
from pathlib import PurePath
from types import MappingProxyType
from typing import Final, NamedTuple

from starlette.responses import Response

from streamsched.api.operations import Operation
from streamsched.http.protocol.problems import HttpError
from streamsched.http.protocol.routes import Route

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


CONTENT_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Nothing inline, nothing from another host."""


class Console:
    """Answers browsers. ``static``: the files by name."""

    def __init__(self, static: Mapping[str, StaticFile]) -> None:
        self._static = static

    def routes(self) -> list[Route]:
        """Return the routes of these endpoints; OpenAPI does not have them."""
        return [
            Route.of(Operation("console", "GET /", None, None, is_described=False), self.console),
            Route.of(
                Operation("console_file", "GET /console/{file}", None, None, is_described=False), self.console_file
            ),
        ]

    async def console(self) -> Response:
        """Return the console."""
        return self._send(PAGE)

    async def console_file(self, file: str) -> Response:
        """Return a file of the console: a script, a style sheet or a picture."""
        return self._send(file)

    def _send(self, name: str) -> Response:
        found = self._static.get(name)
        if found is None:
            raise HttpError(HTTPStatus.NOT_FOUND, "unknown_path", "the console has no such file")
        headers = {"content-security-policy": CONTENT_POLICY, "content-type": found.media_type}
        return Response(found.content, headers=headers)
