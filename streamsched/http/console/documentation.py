"""The documentation as pages for browsers, made of the Markdown files of docs/, which the package holds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from html import escape
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.token import Token
from starlette.responses import Response

from streamsched.api.operations import Operation
from streamsched.http.protocol.problems import HttpError
from streamsched.http.protocol.routes import Route

_HTML: Final = "text/html; charset=utf-8"
_NO_ANCHOR: Final = re.compile(r"[^\w\- ]")
_FROM_ELSEWHERE: Final = ("http://", "https://", "#")


def read_pages() -> dict[str, str]:
    """Return the Markdown of each page by its name, such as ``console.md``. O(bytes)."""
    folder = files("streamsched.http.console") / "docs"
    return {one.name: one.read_text("utf-8") for one in folder.iterdir() if one.name.endswith(".md")}


class Documentation:
    """Answers browsers. `policy`: the Content-Security-Policy of the pages.

    They are read when one is asked for, and each is rendered once: that takes tens of milliseconds of the event loop.
    """

    def __init__(self, policy: str) -> None:
        self._rendered: dict[str, str] = {}
        self._headers = {"content-security-policy": policy, "content-type": _HTML}

    def routes(self) -> list[Route]:
        """Return the routes of these endpoints; OpenAPI does not have them."""
        return [
            Route.of(Operation("docs", "GET /docs", None, None, is_described=False), self.docs),
            Route.of(Operation("docs_page", "GET /docs/{name}", None, None, is_described=False), self.docs_page),
        ]

    async def docs(self) -> Response:
        """Return the list of pages."""
        titles = {name: _title(text) for name, text in self._pages.items()}
        items = "".join(f'<li><a href="/docs/{name}">{escape(titles[name])}</a></li>' for name in sorted(titles))
        return Response(_document("Documentation", f"<h1>Documentation</h1><ul>{items}</ul>"), headers=self._headers)

    async def docs_page(self, name: str) -> Response:
        """Return a page."""
        if name not in self._pages:
            raise HttpError(HTTPStatus.NOT_FOUND, "unknown_path", "there is no such page; /docs has the list")
        if name not in self._rendered:
            self._rendered[name] = render_page(name, self._pages)
        return Response(self._rendered[name], headers=self._headers)

    @cached_property
    def _pages(self) -> dict[str, str]:
        return read_pages()


def render_page(name: str, pages: Mapping[str, str]) -> str:
    """Return the page `name` of `pages` as HTML. Links to files that are no page become text. O(bytes)."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(pages[name])
    for number, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", _anchor(tokens[number + 1].content))
        elif token.type == "inline":
            token.children = list(_without_dead_links(token.children or (), pages))
    rendered: Any = markdown.renderer.render(tokens, markdown.options, {})
    return _document(_title(pages[name]), rendered)


def _title(text: str) -> str:
    """Return the first heading of a page, which a comment may precede."""
    return next(line.removeprefix("# ") for line in text.splitlines() if line.startswith("# "))


def _anchor(heading: str) -> str:
    """Return the name by which links mean a heading: `Beside a stream` is ``beside-a-stream``."""
    return _NO_ANCHOR.sub("", heading).lower().replace(" ", "-")


def _without_dead_links(tokens: Iterable[Token], pages: Mapping[str, str]) -> Iterable[Token]:
    """Yield `tokens` without the beginnings and ends of links that lead to no page."""
    is_dead = False
    for token in tokens:
        if token.type == "link_open":
            address = str(token.attrGet("href"))
            is_dead = not address.startswith(_FROM_ELSEWHERE) and address.partition("#")[0] not in pages
        if not (is_dead and token.type in {"link_open", "link_close"}):
            yield token


def _document(title: str, body: str) -> str:
    return f"""<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <title>{escape(title)} – streamsched</title>
    <link rel="icon" href="/console/icon.svg" type="image/svg+xml">
    <link rel="stylesheet" href="/console/console.css">
    <link rel="stylesheet" href="/console/documentation.css">
  </head>
  <body class="docs">
    <nav><a href="/">Console</a> · <a href="/docs">Documentation</a></nav>
    <main>{body}</main>
  </body>
</html>
"""
