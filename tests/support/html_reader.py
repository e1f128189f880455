"""Reads a report: its tags, attributes, text and tables; fails if tags do not close in the order they opened."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta", "input", "br", "wbr", "link", "img"}


class HtmlReader(HTMLParser):
    """Collects tags, attributes, text and tables of a page; a cell's text has its note after a space."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.tables: list[list[list[str]]] = []
        self.pieces: list[str] = []

    @property
    def text(self) -> str:
        """All text of the page, white space collapsed."""
        return " ".join("".join(self.pieces).split())

    def links(self) -> list[str]:
        return [value or "" for name, value in self.attributes if name in ("href", "src", "xlink:href")]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            return
        self.pieces.append(data)
        if "td" in self.open or "th" in self.open:
            row = self.tables[-1][-1]
            row[-1] = f"{row[-1]} {data}".strip()


def read_html(page: str) -> HtmlReader:
    """Read a whole page; every tag is closed."""
    reader = HtmlReader()
    reader.feed(page)
    assert reader.open == []
    return reader


def check_self_contained(page: str) -> None:
    """The page fetches nothing, runs nothing, and every reference within it has one target."""
    reader = read_html(page)
    assert "//" not in page.replace("<!DOCTYPE html>", "")
    assert reader.links()
    assert all(link.startswith("#") for link in reader.links())
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", page))
    assert "script" not in reader.seen
    assert not any(name.startswith("on") for name, _ in reader.attributes)
    assert "@import" not in page
    names = re.findall(r' id="([^"]*)"', page)
    assert len(names) == len(set(names))
    targets = set(re.findall(r'href="#([^"]*)"', page)) | set(re.findall(r"url\(#([^)]*)\)", page))
    assert targets <= set(names)


def check_colours(page: str) -> None:
    """Figures use CSS variables only, and each of them differs between light and dark mode."""
    figures = "".join(re.findall(r"<figure>.*?</figure>", page, re.DOTALL))
    assert re.findall(r"#[0-9a-fA-F]{6}\b", re.sub(r'(href="|url\()#\w+', "", figures)) == []
    style = page[page.index("<style>") : page.index("</style>")]
    used = set(re.findall(r"var\(--(\w+)\)", figures))
    assert used
    for name in used:
        light, dark = re.findall(rf"--{name}:(#\w+);", style)
        assert light != dark, name
    assert style.count("prefers-color-scheme:dark") == 1
