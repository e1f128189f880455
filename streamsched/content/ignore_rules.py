"""What a crawler's own settings take out of pages: regular expressions and CSS selectors by host or URL pattern."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from fnmatch import translate
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from streamsched.errors import SettingsError

_SELECTOR: Final = "css:"
_EXPECTED: Final = "a map of hosts or URL patterns to lists of regular expressions and css: selectors"


class Ignored(NamedTuple):
    """What is taken out of a page: elements, by their CSS selectors, and texts."""

    selectors: tuple[str, ...]
    texts: tuple[re.Pattern[str], ...]


NOTHING: Final = Ignored((), ())


class IgnoreRules:
    r"""Finds what to ignore on a page: all that the rules list whose target its URL matches.

    `rules`: for each target, a host such as ``"a.example"``, hosts such as ``"*.a.example"``, or a URL pattern such as
    ``"https://a.example/news/*"`` with ``*`` for any text, a list of regular expressions, which are searched in the
    text with ``^`` and ``$`` for lines, and of CSS selectors such as ``"css:.views"``. Raises SettingsError for a
    regular expression that is none; a selector that is none is found by `page_text`. Expressions run as they are: one
    that takes exponential time does so here.

    >>> rules = IgnoreRules({"a.example": [r"\d+ views", "css:.adverts"]})
    >>> rules.find("https://a.example/1").selectors
    ('.adverts',)
    """

    def __init__(self, rules: Mapping[str, Iterable[str]]) -> None:
        if not isinstance(rules, Mapping):
            raise SettingsError("ignore", rules, _EXPECTED)
        self._rules = [(_compile_target(target), _read(target, given)) for target, given in rules.items()]

    def find(self, url: str) -> Ignored:
        """Return what the rules take out of the page of `url`. O(rules)."""
        if not self._rules:
            return NOTHING
        host = ""
        with suppress(ValueError):  # it is no URL: patterns may still match
            host = urlsplit(url).hostname or ""
        found = [one for target, one in self._rules if target.match(url) or target.match(host)]
        selectors = tuple(each for one in found for each in one.selectors)
        return Ignored(selectors, tuple(each for one in found for each in one.texts))


def _compile_target(target: str) -> re.Pattern[str]:
    if not isinstance(target, str) or not target:
        raise SettingsError("ignore", target, _EXPECTED)
    if "/" not in target:  # a host, which is compared in lower case
        target = target.lower()
    return re.compile(translate(re.sub(r"([\[\]?])", r"[\1]", target).replace("[]]", "]")))


def _read(target: str, given: Iterable[str]) -> Ignored:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise SettingsError(f"ignore[{target!r}]", given, _EXPECTED)
    selectors, texts = [], []
    for one in given:
        if not isinstance(one, str) or not one.removeprefix(_SELECTOR).strip():
            raise SettingsError(f"ignore[{target!r}]", one, "a regular expression, or css: and a CSS selector")
        if one.startswith(_SELECTOR):
            selectors.append(one.removeprefix(_SELECTOR).strip())
            continue
        try:
            texts.append(re.compile(one, re.MULTILINE))
        except re.error as error:
            raise SettingsError(f"ignore[{target!r}]", one, f"a regular expression: {error}") from None
    return Ignored(tuple(selectors), tuple(texts))
