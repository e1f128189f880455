"""``python -m benchmarks.scrapy_crawl JSON``: a crawl of Scrapy, with or without the add-on; prints its CPU time.

It is counted from the 200th page on: until then modules are imported, and the first connections made.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
from typing import Any, Final

from scrapy import Spider, signals
from scrapy.crawler import CrawlerProcess
from scrapy.http import Response

from streamsched.content import content_hash, page_text, simhash

_WARM: Final = 200


class Reader(Spider):
    """Visits pages; without the add-on it makes the same hashes of their texts itself."""

    name = "reader"

    def __init__(self, start: list[str], *, hashes: bool, freeze: bool, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_urls = start
        self._hashes = hashes
        self._freezes = freeze
        self.pages = 0
        self.began_s = 0.0  # CPU time

    def parse(self, response: Response, **_: Any) -> None:
        """Count a page."""
        self.pages += 1
        if self.pages == _WARM:
            if self._freezes:
                gc.collect()
                gc.freeze()
            self.began_s = _cpu_s()
        if self._hashes:
            text = page_text(response.body, response.url)
            content_hash(text)
            simhash(text)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Crawl as the first argument says."""
    asked = json.loads(sys.argv[1])
    process: Any = CrawlerProcess({"LOG_LEVEL": "ERROR", "TELNETCONSOLE_ENABLED": False, **asked["settings"]})
    crawler = process.create_crawler(Reader)
    ended_s: list[float] = []
    crawler.signals.connect(lambda: ended_s.append(_cpu_s()), signals.spider_closed, weak=False)
    process.crawl(crawler, start=asked["start"], hashes=not asked["settings"].get("ADDONS"), freeze=asked["freeze"])
    process.start()
    stats = crawler.stats.get_stats()
    found = {"cpu_s": ended_s[0] - crawler.spider.began_s, "pages": crawler.spider.pages - _WARM, "stats": stats}
    print(json.dumps(found, default=str))


if __name__ == "__main__":
    main()
