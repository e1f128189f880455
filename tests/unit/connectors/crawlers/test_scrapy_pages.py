"""Which requests of a spider are pages, and the settings of the add-on."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytest.importorskip("scrapy")

from scrapy import Request, Spider
from scrapy.linkextractors import LinkExtractor
from scrapy.settings import Settings
from scrapy.spiders import CrawlSpider, Rule

from streamsched.connectors.crawlers.scrapy_pages import SpiderPages
from streamsched.connectors.crawlers.scrapy_settings import read_settings
from streamsched.errors import SettingsError

ITEM, OTHER = "https://a.example/item/1", "https://a.example/other"


class Plain(Spider):
    name = "plain"

    def parse(self, response: Any, **_: Any) -> None: ...

    def parse_item(self, response: Any) -> None: ...


class Ruled(CrawlSpider):
    name = "ruled"
    rules = (Rule(LinkExtractor(restrict_css="nav")), Rule(LinkExtractor(allow="/item/"), callback="parse_item"))

    def parse_item(self, response: Any) -> None: ...


def made(spider: Spider, **callbacks: str) -> SpiderPages:
    return SpiderPages(spider, [(re.compile(url), name) for name, url in callbacks.items()], {"playwright": True})


def test_a_request_is_a_page_if_its_lease_makes_the_same_request() -> None:
    spider = Plain()
    pages = made(spider, parse_item="/item/")
    assert pages.is_page(Request(OTHER))
    assert pages.is_page(Request(OTHER, spider.parse))
    assert pages.is_page(Request(ITEM, spider.parse_item))
    for other in (
        Request(ITEM),
        Request(OTHER, spider.parse_item),
        Request(OTHER, method="POST"),
        Request(OTHER, body="x"),
        Request(OTHER, cb_kwargs={"a": 1}),
        Request(OTHER, meta={"streamsched": False}),
        Request("ftp://a.example/"),
    ):
        assert not pages.is_page(other)
    request = pages.make_request(ITEM)
    assert (request.callback, request.meta) == (spider.parse_item, {"playwright": True})


def test_rules_for_urls_come_before_rules_for_places_on_a_page() -> None:
    spider: Any = Ruled()
    pages = made(spider)
    assert pages.make_request(ITEM).meta["rule"] == 1
    assert pages.make_request(OTHER).meta["rule"] == 0
    for number, url in ((1, ITEM), (0, OTHER)):
        assert pages.is_page(Request(url, spider._callback, meta={"rule": number}))
    assert not pages.is_page(Request(OTHER, spider._callback, meta={"rule": 1}))


def test_a_callback_that_the_spider_lacks_is_refused() -> None:
    with pytest.raises(SettingsError, match="STREAMSCHED_CALLBACKS"):
        made(Plain(), parse_nothing="x")


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({}, "URL"),
        ({"URL": "http://a.example", "STATE": "state"}, "URL"),
        ({"URL": "http://a.example", "BATCH": 0}, "BATCH"),
        ({"URL": "http://a.example", "BATCH": "many"}, "BATCH"),
        ({"URL": "http://a.example", "LEASE": "soon"}, "LEASE"),
        ({"URL": "http://a.example", "PAGES": -1}, "PAGES"),
        ({"URL": "http://a.example", "IDLE_CLOSE": "x"}, "IDLE_CLOSE"),
        ({"URL": "http://a.example", "CALLBACKS": {"(": "parse"}}, "CALLBACKS"),
        ({"URL": "http://a.example", "IGNORE": {"a.example": ["("]}}, "IGNORE"),
        ({"URL": "http://a.example", "CLOCK_SPEED": 0}, "CLOCK_SPEED"),
        ({"URL": "http://a.example", "CLOCK_SPEED": "fast"}, "CLOCK_SPEED"),
        ({"URL": "a.example"}, "URL"),
        ({"URL": "http://a.example", "DISCOVER": "maybe"}, "DISCOVER"),
        ({"URL": "http://a.example", "META": "{"}, "META"),
        ({"URL": "http://a.example", "IDEL_CLOSE": "5s"}, "IDEL_CLOSE"),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_settings(Settings({f"STREAMSCHED_{name}": value for name, value in settings.items()}))
    assert caught.value.setting == f"STREAMSCHED_{named}"


def test_settings_may_be_texts_of_the_command_line() -> None:
    given = {"URL": "http://a.example", "BATCH": "7", "HOSTS": "a.example,*.b.example", "DISCOVER": "0", "LEASE": "1h"}
    found = read_settings(Settings({f"STREAMSCHED_{name}": value for name, value in given.items()}))
    assert (found.batch, found.hosts, found.discover, found.lease_s) == (7, ("a.example", "*.b.example"), False, 3600.0)
