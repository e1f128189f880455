"""Which requests of a spider are pages, and which callback a page has: a lease brings back a URL and nothing more.

A request is a page if a lease of its URL makes the same request: GET, without body and `cb_kwargs`, with the callback
that the URL has. Any other request is left to Scrapy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from scrapy import Request, Spider
from scrapy.spiders import CrawlSpider, Rule, SitemapSpider

from streamsched.errors import SettingsError

Callback = Callable[..., Any]

META: Final = "streamsched"
"""The key of a request's meta: of the visit that it belongs to; False keeps the request out."""


@dataclass(frozen=True, slots=True)
class PageHandling:
    """How a page is handed to the spider: None for `Spider.parse`."""

    callback: Callback | None = None
    errback: Callback | None = None
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])


_PLAIN: Final = PageHandling()


class SpiderPages:
    """The pages of `spider`; ``callbacks``: names of its methods, with the URLs that they are for, the first decides.

    After these, a CrawlSpider's rules decide, and a SitemapSpider's. Raises SettingsError for a method that the spider
    lacks.
    """

    def __init__(
        self, spider: Spider, callbacks: Sequence[tuple[re.Pattern[str], str]], meta: Mapping[str, Any]
    ) -> None:
        self._spider = spider
        self._meta = meta
        self._callbacks = [(pattern, _method(spider, name)) for pattern, name in callbacks]
        self._default = {None, spider.parse, spider._parse}  # noqa: SLF001  what Scrapy calls without a callback
        self._rules: list[tuple[int, Rule]] = []
        if isinstance(spider, CrawlSpider):
            numbered = list(enumerate(spider._rules))  # noqa: SLF001  the compiled ones
            # Rules that say which URLs they are for come before those that say where on a page links are.
            self._rules = sorted(numbered, key=lambda one: not getattr(one[1].link_extractor, "allow_res", ()))
        self._sitemap = spider._cbs if isinstance(spider, SitemapSpider) else []  # noqa: SLF001  likewise

    def find(self, url: str) -> PageHandling:
        """Return how the page `url` is handled. O(rules)."""
        for pattern, callback in self._callbacks:
            if pattern.search(url):
                return PageHandling(callback)
        for number, rule in self._rules:
            if rule.link_extractor.matches(url):
                spider: Any = self._spider
                return PageHandling(spider._callback, spider._errback, {"rule": number, "link_text": ""})  # noqa: SLF001
        for pattern, callback in self._sitemap:
            if pattern.search(url):
                return PageHandling(callback)
        return _PLAIN

    def is_page(self, request: Request) -> bool:
        """Return whether a lease of its URL makes the same request."""
        if request.method != "GET" or request.body or request.cb_kwargs or request.meta.get(META) is False:
            return False
        if not request.url.startswith(("http://", "https://")):
            return False
        expected = self.find(request.url)
        if request.callback is None or request.callback in self._default:
            return expected.callback in self._default
        return self._final(request.callback, request.meta) == self._final(expected.callback, expected.meta)

    def make_request(self, url: str, **named: Any) -> Request:
        """Return the request for a page. Raises ValueError if Scrapy cannot request its URL."""
        handling = self.find(url)
        return Request(
            url, callback=handling.callback, errback=handling.errback, meta={**self._meta, **handling.meta}, **named
        )

    def _final(self, callback: Callback | None, meta: Mapping[str, Any]) -> Callback | None:
        """Return the spider's own method behind that of a CrawlSpider's rule."""
        spider: Any = self._spider
        if isinstance(spider, CrawlSpider) and callback == spider._callback:  # noqa: SLF001
            found: Callback | None = spider._rules[meta["rule"]].callback  # noqa: SLF001
            return found or spider.parse
        return callback


def _method(spider: Spider, name: str) -> Callback:
    method = getattr(spider, name, None)
    if not callable(method):
        raise SettingsError("STREAMSCHED_CALLBACKS", name, f"the name of a method of the spider {spider.name}")
    found: Callback = method
    return found
