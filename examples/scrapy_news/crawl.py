"""``python -m examples.scrapy_news.crawl SETTINGS``: the crawl as a process; prints Scrapy's stats as JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

from scrapy.crawler import CrawlerProcess

from examples.scrapy_news.spider import NewsSpider


def main() -> None:
    """Run the spider."""
    process: Any = CrawlerProcess(json.loads(sys.argv[1]))
    crawler = process.create_crawler(NewsSpider)
    process.crawl(crawler)
    process.start()
    print(json.dumps(crawler.stats.get_stats(), default=str))  # noqa: T201


if __name__ == "__main__":
    main()
