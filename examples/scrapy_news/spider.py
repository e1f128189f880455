"""The spider: it saves a page at its first visit, and when it has changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scrapy import Spider
from scrapy.http import Response

__all__ = ["NewsSpider"]


class NewsSpider(Spider):
    """Everything else is settings: ``ADDONS`` and ``STREAMSCHED_URL``."""

    name = "news"

    def parse(self, response: Response, **_: Any) -> Iterator[dict[str, Any]]:
        """Save a page unless it is known to be unchanged."""
        if response.meta["streamsched"]["changed"] is not False:
            yield {"url": response.url, "title": response.css("h1::text").get()}
