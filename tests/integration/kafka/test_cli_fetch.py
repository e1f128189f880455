"""``streamsched signals fetch --to kafka://…``: signals become messages, and a broker that is away ends the command."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamsched.connectors.kafka import open_topic
from streamsched.connectors.records import SIGNALS
from tests.integration.kafka.topics import Topic
from tests.integration.test_cli_fetch import News, serving_news, words
from tests.support.command_line import Command


@pytest.fixture
def news() -> Iterator[News]:
    with serving_news() as server:
        yield server


def test_signals_of_a_sitemap_become_messages(streamsched: Command, topic: Topic, news: News, tmp_path: Path) -> None:
    given = [*words(news, tmp_path), "--to", topic.url(), "--once"]
    assert streamsched(*given, "--sitemap", f"{news.url}/map.xml").code == 0
    time.sleep(1.1)  # of the command's own clock
    assert streamsched(*given).code == 0
    with open_topic(SIGNALS, topic.url(until_end="true")) as source:
        found = [signal for delivery in source for signal in delivery.records]
    assert [(one.url, one.source) for one in found] == [(f"{news.url}/1", "sitemap")]


def test_a_broker_that_is_away(streamsched: Command, news: News, tmp_path: Path) -> None:
    given = [*words(news, tmp_path), "--to", "kafka://127.0.0.1:1/t?patience=1s", "--once"]
    assert streamsched(*given, "--sitemap", f"{news.url}/map.xml").code == 3
