"""The endpoints of the console: its page, and the files that the page loads. They hold no data of the service."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from streamsched.http.console.files import PAGE, StaticFile
from streamsched.http.protocol.problems import HttpError
from streamsched.http.protocol.requests import Answer
from streamsched.http.protocol.routes import Call, Route

__all__ = ["CONTENT_POLICY", "Console"]

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
            Route("GET", "/", self.console, None, described=False),
            Route("GET", "/console/{file}", self.console_file, None, described=False),
        ]

    async def console(self, call: Call) -> Answer:  # noqa: ARG002  a handler
        """Return the console."""
        return self._send(PAGE)

    async def console_file(self, call: Call) -> Answer:
        """Return a file of the console: a script, a style sheet or a picture."""
        return self._send(call.path["file"])

    def _send(self, name: str) -> Answer:
        found = self._static.get(name)
        if found is None:
            raise HttpError(HTTPStatus.NOT_FOUND, "unknown_path", "the console has no such file")
        return Answer(HTTPStatus.OK, found.content, found.media_type, {"content-security-policy": CONTENT_POLICY})
