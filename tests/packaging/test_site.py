"""The site of the documentation: all pages, in the navigation, with links that lead somewhere and nothing fetched."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from streamsched.cli.program import program
from tests.support import site as support
from tests.support.browser import open_browser
from tests.support.paths import ROOT
from tests.support.site import FROM_OUTSIDE, PACKAGES, build_site, pages

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ELSEWHERE = re.compile(
    r"""<(?:script|img|iframe|source)[^>]*\ssrc=["']?(?:https?:)?//[^>]*>"""  # what a page loads, not what it links to
    r"""|<link[^>]*\shref=["']?(?:https?:)?//[^>]*>|@import[^;]*//[^;]*|url\(["']?(?:https?:)?//[^)]*"""
)
SHOWN = re.compile(r"^\$ (?:\w+=\S+ )*(streamsched [a-z].*?[^\\])$", re.MULTILINE | re.DOTALL)  # after a prompt


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(tmp_path_factory.mktemp("docs") / "docs")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    yield from open_browser()


def test_every_page_is_in_the_navigation(site: Path) -> None:
    start = (site / "index.html").read_text()
    places = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert places | set(FROM_OUTSIDE.values()) < pages().keys()
    linked = re.findall(r'<a href="([^"#]+)" class="md-nav__link', start)
    assert {page.removesuffix(".md") for page in pages()} == {page.removesuffix(".html") for page in linked} | {"index"}


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    assert ELSEWHERE.search('<script src="https://cdn.example/a.js">')
    assert ELSEWHERE.search("@import url(//cdn.example/a.css);")
    files = [path for path in site.rglob("*") if path.suffix in {".html", ".css"}]
    assert len(files) > len(pages())
    assert [(path.name, found[0]) for path in files for found in ELSEWHERE.finditer(path.read_text())] == []


def test_every_command_and_every_public_name_has_its_place(site: Path) -> None:
    written = (site / "command-line.html").read_text()
    names = program.list_commands(click.Context(program))
    assert [name for name in names if f'id="streamsched-{name}"' not in written] == []
    for package in PACKAGES:
        page = (site / "api" / f"{package}.html").read_text()
        places = {*re.findall(r'id="([^"]+)"', page)}
        public = import_module(package).__all__
        assert [name for name in public if not places & {f"{package}.{name}", name.lower()}] == []
    client = (site / "api" / "streamsched.client.html").read_text()
    assert 'id="streamsched.client.Client.next_batch"' in client  # of a base without a name of its own


def test_commands_that_pages_show_can_be_given() -> None:
    shown = {command for name, text in pages().items() if name != "command-line.md" for command in SHOWN.findall(text)}
    assert len(shown) > 50
    for command in shown:
        parse(command)
    with pytest.raises(click.UsageError):
        parse("streamsched next --state state/ --lesae 1h")


def parse(command: str) -> None:
    """Parse the words of a command as `streamsched` does, and run nothing."""
    words = [word for word in shlex.split(command.replace("\\\n", " "), comments=True) if word != "…"]
    context, found = click.Context(program), program.get_command(click.Context(program), words[1])
    rest = list(takewhile(lambda word: word not in {"&", ">", "|"}, words[2:]))
    if isinstance(found, click.Group) and rest and (below := found.get_command(context, rest[0])) is not None:
        context, found, rest = click.Context(found, parent=context), below, rest[1:]
    assert found is not None, command
    found.make_context(command, rest, parent=context)


def test_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support, "pages", lambda: {"index.md": "# A\n\n[b](nowhere.md) [c](#nothing)"})
    with pytest.raises(ValueError, match=r"(?s)nowhere\.md.*#nothing"):
        build_site(tmp_path / "docs")


def test_links_to_what_is_no_page_become_text() -> None:
    written = pages()
    assert "[Replays: metrics, intervals, comparisons, calibration](replay.md)" in written["index.md"]  # by its title
    assert "](../related.md)" in written["architecture/records.md"]
    assert "\nexamples/httpx_loop runs such a loop" in written["loops.md"]


def test_the_search_works_on_files(site: Path, browser: Browser) -> None:
    page = browser.new_page()
    page.goto((site / "api" / "streamsched.client.html").as_uri() + "?q=min_revisit")
    found = page.wait_for_selector("a.md-search-result__link[href*='loops.html']", state="attached")
    assert found is not None
