"""The pages of the documentation: all of docs/, with links that lead somewhere."""

from __future__ import annotations

import asyncio
import re

import pytest

from streamsched.http.console import CONTENT_POLICY, read_files
from streamsched.http.console.documentation import Documentation, read_pages, render_page
from streamsched.http.protocol.problems import HttpError
from tests.support.paths import ROOT

PAGES = read_pages()
RENDERED = {name: render_page(name, PAGES) for name in PAGES}


def test_every_page_of_the_checkout_is_there() -> None:
    assert {path.name: path.read_text() for path in (ROOT / "docs").glob("*.md")} == PAGES


@pytest.mark.parametrize("name", sorted(PAGES))
def test_links_lead_to_pages_and_headings_that_are_there(name: str) -> None:
    for address in re.findall(r'href="([^"]+)"', RENDERED[name]):
        page, _, anchor = address.partition("#")
        if page.startswith(("http", "/docs")) or address == "/":
            continue
        if page.startswith("/console/"):
            assert page.removeprefix("/console/") in read_files()
            continue
        assert page in {"", *PAGES}, address
        assert not anchor or f'id="{anchor}"' in RENDERED[page or name], address


def test_what_is_no_page_is_no_link_and_html_stays_text() -> None:
    pages = {"a.md": "# A <b> & c\n\n[code](../x.py) and [b](b.md#two)\n\n<script>1</script>", "b.md": "# B"}
    page = render_page("a.md", pages)
    assert 'code and <a href="b.md#two">b</a>' in page
    assert "<script>" not in page
    assert "<title>A &lt;b&gt; &amp; c – streamsched</title>" in page


def test_a_page_is_rendered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[str] = []

    def render(name: str, _: object) -> str:
        rendered.append(name)
        return name

    monkeypatch.setattr("streamsched.http.console.documentation.render_page", render)
    documentation = Documentation(CONTENT_POLICY)
    bodies = [bytes(asyncio.run(documentation.docs_page(name)).body) for name in ("run.md", "state.md", "run.md")]
    assert (rendered, bodies) == (["run.md", "state.md"], [b"run.md", b"state.md", b"run.md"])


def test_pages_are_sent_as_html_and_others_refused() -> None:
    documentation = Documentation(CONTENT_POLICY)
    listed = bytes(asyncio.run(documentation.docs()).body).decode()
    assert set(re.findall(r'"/docs/([^"]+)"', listed)) == PAGES.keys()
    assert ">Settings of `run` and `serve`</a>" in listed
    answer = asyncio.run(documentation.docs_page("console.md"))
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"] == CONTENT_POLICY
    with pytest.raises(HttpError) as refusal:
        asyncio.run(documentation.docs_page("../pyproject.toml"))
    assert refusal.value.problem.status == 404
