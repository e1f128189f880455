"""Large documents are rewritten before they are parsed, so that none takes a parser minutes.

A parser walks its open elements at many tags, and the attributes of a tag at each of them: its time is quadratic in
depth and in attributes, and 100,000 nested elements take minutes. Formatting elements that are not closed are made
again in each paragraph. Documents of up to `SMALL` characters take less than a second whatever they hold. Larger ones
are rewritten, in linear time: tags that are nested too deeply, have too many attributes or are malformed, formatting
tags, comments, and elements without text of the page are left out. Their text stays.
"""

from __future__ import annotations

import re
from typing import Final

SMALL: Final = 1 << 16  # characters
DEEPEST: Final = 256  # elements; Chromium's parser stops at 512
_MOST_ATTRIBUTES: Final = 60
_VALUE: Final = r"\"[^\"]*+\"|'[^']*+'|[^\s>\"'<=`]++"
_ATTRIBUTE: Final = rf"\s++[^\s/>=\"'<]++(?:\s*+=\s*+(?:{_VALUE}))?+"
_TAG: Final = re.compile(rf"<(/?)([a-zA-Z][a-zA-Z0-9:-]*+)(?:{_ATTRIBUTE}){{0,{_MOST_ATTRIBUTES}}}+\s*+/?>")
_OPENS: Final = re.compile(r"<(?=[a-zA-Z/!?])")
_VOID: Final = frozenset(
    {
        *("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"),
    }
)
_CLOSED_BY_NEXT: Final = frozenset(["p", "li", "dt", "dd", "tr", "td", "th", "option", "tbody", "thead"])
_FORMATTING: Final = frozenset(
    {
        *("a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"),
    }
)
_DROPPED: Final = frozenset(
    {
        *("script", "style", "noscript", "template", "svg", "math", "textarea", "title", "iframe", "xmp", "noembed"),
        *("noframes", "plaintext", "select"),
    }
)


def bound_markup(html: str) -> str:
    """Return a document that a parser reads in linear time: itself if it is small. O(characters)."""
    return html if len(html) <= SMALL else _Rewriter(html).rewrite()


class _Rewriter:
    """Copies a document, tag by tag; ``stack``: the open elements and whether each was copied.

    The depth is a bound from above: a closing tag counts only if it closes the innermost element.
    """

    def __init__(self, html: str) -> None:
        self._html = html
        self._stack: list[tuple[str, bool]] = []
        self._unclosed: set[str] = set()  # of what no end follows any more

    def rewrite(self) -> str:
        html, pieces, at = self._html, [], 0
        while found := _OPENS.search(html, at):
            begin = found.start()
            pieces.append(html[at:begin])
            tag = _TAG.match(html, begin)
            if tag is None:
                at = self._skip_malformed(begin)
                continue
            at, name = tag.end(), tag[2].lower()
            if name in _DROPPED:
                at = at if tag[1] else self._after(rf"</{name}\b[^<>]*>", at)
            elif name not in _FORMATTING and self._keeps(name, bool(tag[1])):
                pieces.append(tag[0])
        return "".join([*pieces, html[at:]])

    def _skip_malformed(self, begin: int) -> int:
        """Return where a comment, or what is no proper tag, ends."""
        if self._html.startswith("<!--", begin):
            return self._after("-->", begin + 4)
        return self._after(">", begin + 1)

    def _after(self, pattern: str, at: int) -> int:
        """Return the place after the next match of `pattern`; `at` if there is none."""
        if pattern in self._unclosed:
            return at
        found = re.compile(pattern, re.IGNORECASE).search(self._html, at)
        if found is None:
            self._unclosed.add(pattern)
            return at
        return found.end()

    def _keeps(self, name: str, closing: bool) -> bool:
        """Follow a tag; return whether it is copied."""
        stack = self._stack
        if name in _VOID:
            return True
        if not closing:
            if name in _CLOSED_BY_NEXT and stack and stack[-1][0] == name:
                return stack[-1][1]
            copied = len(stack) < DEEPEST
            stack.append((name, copied))
            return copied
        while len(stack) > 1 and stack[-1][0] in _CLOSED_BY_NEXT and stack[-1][0] != name:
            stack.pop()
        return stack.pop()[1] if stack and stack[-1][0] == name else True
