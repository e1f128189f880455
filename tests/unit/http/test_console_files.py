"""The console's files: vendored ones are those that were released, and nothing is inline or from another host."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import pytest

from streamsched.http.console import CONTENT_POLICY, PAGE, read_files

STATIC = Path(str(files("streamsched.http.console"))) / "static"
VENDORED = STATIC / "vendored"
SUMS = {name: sum_ for sum_, name in map(str.split, (VENDORED / "SHA256SUMS").read_text().splitlines())}
OWN = sorted(path for path in STATIC.iterdir() if path.suffix in {".js", ".css", ".html", ".svg"})


class Tags(HTMLParser):
    """Collects all tags and all text of scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.inline = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] in {"script", "style"}:
            self.inline += data.strip()


def tags() -> Tags:
    parser = Tags()
    parser.feed((STATIC / PAGE).read_text())
    return parser


def test_vendored_files_are_the_released_ones() -> None:
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in VENDORED.glob("*.*s")}
    assert found == SUMS
    assert len(SUMS) == 3


def test_the_page_loads_vendored_files_by_their_hash() -> None:
    loaded = {
        Path(address).name: attributes.get("integrity")
        for _, attributes in tags().found
        if (address := attributes.get("src") or attributes.get("href"))
    }
    for name in SUMS:
        digest = hashlib.sha384((VENDORED / name).read_bytes()).digest()
        assert loaded[name] == f"sha384-{base64.b64encode(digest).decode()}"


def test_nothing_is_inline() -> None:
    page = tags()
    assert page.inline == ""
    assert not [name for _, attributes in page.found for name in attributes if name == "style" or name[:2] == "on"]
    assert "unsafe" not in CONTENT_POLICY
    assert "default-src 'none'" in CONTENT_POLICY


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_no_file_names_another_host(path: Path) -> None:
    text = path.read_text().replace("http://www.w3.org/2000/svg", "").replace("https://example.org/", "")
    assert re.findall(r"\bhttps?://\w+", text) == []
    assert "innerHTML" not in text
    assert not [line for line in text.splitlines() if len(line) > 120]


def test_every_import_is_a_file_that_is_sent() -> None:
    sent = read_files()
    for path in OWN:
        for name in re.findall(r'from "\./([^"]+)"|"console/([\w.-]+)"', path.read_text()):
            assert (name[0] or name[1]) in sent, path.name
    assert {path.name for path in OWN} <= sent.keys()
