"""Markup that would take an HTML parser long, how it is noticed, and its text in linear time.

A parser walks its open elements at many tags, and the attributes of a tag at each of them: its time is quadratic in
depth and in attributes. 100,000 nested elements take minutes. Documents of up to `SMALL` characters take less than a
second whatever they hold. Larger ones are checked here first; the text of those that fail is found without a tree.
"""

from __future__ import annotations

import re
from typing import Final

SMALL: Final = 1 << 16  # characters
DROPPED: Final = frozenset({"script", "style", "noscript", "template", "svg", "nav", "header", "footer", "aside", "form"})
_MOST_WORK: Final = 30_000_000  # tags times depth: some 0.3 s
_ATTRIBUTES: Final = 500  # of one tag, at most
_ATTRIBUTE: Final = r"[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s>\"'][^\s>]*+)?+)?+"
_MANY_ATTRIBUTES: Final = re.compile(rf"<[a-zA-Z][^\s/>]*+(?:[\s/]*+{_ATTRIBUTE}){{{_ATTRIBUTES}}}")
_TAG: Final = re.compile(r"<(/?)([a-zA-Z][^\s/<>]*)[^<>]*>")
_VOID: Final = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)
_CLOSED_BY_NEXT: Final = frozenset({"p", "li", "dt", "dd", "tr", "td", "th", "option", "tbody", "thead"})
_RAW: Final = ("script", "style", "noscript", "template", "svg", "textarea", "title")


def is_costly(html: str) -> bool:
    """Return whether a parser might need seconds for a document. O(characters).

    Depth is estimated from above: a closing tag counts only if it closes the innermost element, so broken markup may
    be found costly though it is not.
    """
    if len(html) <= SMALL:
        return False
    if _MANY_ATTRIBUTES.search(html):
        return True
    opened = html.count("<") - html.count("</")
    if opened * opened <= _MOST_WORK:
        return False
    return opened * _depth(html) > _MOST_WORK


def _depth(html: str) -> int:
    """Return a bound on how deep elements are nested. O(characters)."""
    stack: list[str] = []
    deepest = 0
    for closing, written in _TAG.findall(html):
        name = written.lower()
        if not closing:
            if name in _VOID or (name in _CLOSED_BY_NEXT and stack and stack[-1] == name):
                continue
            stack.append(name)
            deepest = max(deepest, len(stack))
            continue
        while len(stack) > 1 and stack[-1] in _CLOSED_BY_NEXT and stack[-1] != name:
            stack.pop()
        if stack and stack[-1] == name:
            stack.pop()
    return deepest


def plain_text(html: str) -> str:
    """Return the text of a document outside `DROPPED` elements, a line for each piece between tags. O(characters).

    Entities stay as they are.
    """
    html = _cut(html, "<!--", "-->")
    for name in _RAW:
        html = _cut_elements(html, name)
    pieces, at, dropped, depth = [], 0, "", 0
    for tag in _TAG.finditer(html):
        name = tag[2].lower()
        if not dropped:
            pieces.append(html[at : tag.start()])
            if name in DROPPED and not tag[1] and f"</{name}" in html[tag.end() : tag.end() + SMALL].lower():
                dropped, depth = name, 1
        elif name == dropped:
            depth += -1 if tag[1] else 1
            if not depth:
                dropped = ""
        at = tag.end()
    return "\n".join([*pieces, "" if dropped else html[at:]])


def _cut(html: str, start: str, stop: str) -> str:
    """Return `html` without what is between `start` and `stop`; without a `stop`, nothing more is cut."""
    pieces, at = [], 0
    while (begin := html.find(start, at)) >= 0:
        end = html.find(stop, begin + len(start))
        if end < 0:
            break
        pieces.append(html[at:begin])
        at = end + len(stop)
    return " ".join([*pieces, html[at:]])


def _cut_elements(html: str, name: str) -> str:
    """Return `html` without the elements `name`, which hold no text of the page."""
    opening, closing = re.compile(rf"<{name}\b", re.IGNORECASE), re.compile(rf"</{name}\s*>", re.IGNORECASE)
    pieces, at = [], 0
    while begin := opening.search(html, at):
        end = closing.search(html, begin.end())
        if end is None:
            break
        pieces.append(html[at : begin.start()])
        at = end.end()
    return " ".join([*pieces, html[at:]])
