"""``python -m tests.support.scrapy_crawl CRAWLS``: crawls in one process; prints their figures and items as JSON."""

from __future__ import annotations

import faulthandler
import json
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import Request, Spider, signals
from scrapy.crawler import CrawlerProcess
from scrapy.http import Response, TextResponse
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule, SitemapSpider

ADDON = "streamsched.connectors.scrapy.StreamschedAddon"


class Links(Spider):
    """Follows all links of all pages."""

    name = "links"

    def __init__(self, start: list[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_urls = start

    def parse(self, response: Response, **_: Any) -> Iterator[Any]:
        yield {"url": response.url, "changed": response.meta["streamsched"]["changed"], "by": "parse"}
        if isinstance(response, TextResponse):
            for link in response.css("a::attr(href)").getall():
                yield response.follow(link)


class Rules(CrawlSpider):
    """Has a rule for items."""

    name = "rules"
    rules = (
        Rule(LinkExtractor(restrict_css="nav", deny="/item/")),
        Rule(LinkExtractor(allow="/item/"), callback="parse_item"),
    )

    def __init__(self, start: list[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_urls = start

    def parse_item(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url, "by": "parse_item"}


class Sitemaps(SitemapSpider):
    """Reads a sitemap."""

    name = "sitemaps"
    sitemap_rules = (("/item/", "parse_item"), ("", "parse"))

    def __init__(self, start: list[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.sitemap_urls = start

    def parse(self, response: Response, **_: Any) -> Iterator[Any]:
        yield {"url": response.url, "by": "parse"}

    def parse_item(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url, "by": "parse_item"}


class Items(Spider):
    """Yields links with a callback of their own, and one that it keeps for itself."""

    name = "items"

    def __init__(self, start: list[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._start = start

    async def start(self) -> AsyncIterator[Any]:
        for url in self._start:
            yield Request(url)

    def parse(self, response: Response, **_: Any) -> Iterator[Any]:
        yield {"url": response.url, "by": "parse"}
        if isinstance(response, TextResponse):
            for link in response.css("a::attr(href)").getall():
                yield response.follow(link, self.parse_item)
            yield Request(response.urljoin("/own"), self.parse_item, cb_kwargs={"mark": 1})

    def parse_item(self, response: Response, mark: int = 0) -> Iterator[Any]:
        yield {"url": response.url, "by": "parse_item", "mark": mark}


SPIDERS: dict[str, type[Spider]] = {spider.name: spider for spider in (Links, Rules, Sitemaps, Items)}


def main() -> None:
    faulthandler.enable()  # a crash shows its stacks
    crawls = json.loads(sys.argv[1])
    shared = {"ADDONS": {ADDON: 500}, "LOG_LEVEL": "INFO", "TELNETCONSOLE_ENABLED": False, "RETRY_BACKOFF_BASE": 0}
    process: Any = None
    found = []
    for crawl in crawls:
        settings = {**shared, **crawl["settings"]}
        process = CrawlerProcess(settings) if process is None else process
        crawler = process.create_crawler(SPIDERS[crawl["spider"]])
        crawler.settings.setdict(settings, "cmdline")
        items: list[Any] = []
        crawler.signals.connect(lambda item, items=items: items.append(dict(item)), signals.item_scraped, weak=False)
        found.append((crawler, items))
        process.crawl(crawler, start=crawl["start"], allowed_domains=crawl["allowed"] or [])
    process.start()
    print(json.dumps([{"stats": one.stats.get_stats(), "items": items} for one, items in found], default=str))  # noqa: T201


if __name__ == "__main__":
    main()
