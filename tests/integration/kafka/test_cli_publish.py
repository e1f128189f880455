"""``streamsched publish``: a log becomes a topic, all of it or an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamsched.connectors import write_jsonl
from streamsched.outcomes import OutcomeBatch
from tests.integration.kafka.topics import Topic
from tests.support.command_line import Command
from tests.support.crawl_outcomes import make_outcomes, put

OUTCOMES = make_outcomes(60)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    write_jsonl([OutcomeBatch.from_outcomes(OUTCOMES)], tmp_path / "log.jsonl")
    return tmp_path / "log.jsonl"


@pytest.mark.parametrize("shape", ["frames", "msgpack", "json"])
def test_a_log_becomes_a_topic(streamsched: Command, topic: Topic, log: Path, shape: str) -> None:
    answer = streamsched("publish", log, "--to", topic.url(), "--as", shape, "--rows", "9")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == f"sent 60 outcomes to topic {topic.name}; rejected 0 records\n"
    assert sorted(topic.read(), key=lambda one: one.fetched_at) == OUTCOMES


def test_what_is_rejected_is_named_and_not_sent(streamsched: Command, topic: Topic, log: Path, tmp_path: Path) -> None:
    spoilt = put(tmp_path / "spoilt.jsonl.gz", log.read_bytes() + b'{}\n{"url": "no URL", "fetched_at": 1}\n')
    answer = streamsched("publish", spoilt, "--to", topic.url(), "--json", "--dead-letters", tmp_path / "dead.jsonl")
    assert answer.code == 0
    assert answer.json == {"outcomes": 60, "rejected": 2, "topic": topic.name, "created": False}
    assert "line 61: url: expected 1 to 8192 bytes" in answer.err
    assert "line 62: url: expected an absolute URL" in answer.err
    assert len((tmp_path / "dead.jsonl").read_text().splitlines()) == 2
    assert len(topic.read()) == 60


@pytest.mark.parametrize(("schemes", "sent"), [("http https", 1), ("https ftp", 2), ("any", 3), ("none", 4)])
def test_urls_are_of_the_schemes_of_those_who_read_the_topic(
    streamsched: Command, topic: Topic, tmp_path: Path, schemes: str, sent: int
) -> None:
    urls = ["https://a.example/", "ftp://a.example/", "gopher://a.example/", "a page"]
    events = "".join(f'{{"url": "{url}", "at": 1, "source": "feed"}}\n' for url in urls)
    words = ("publish", put(tmp_path / "log.jsonl", events.encode()), "--signals", "--to", topic.url(), "--json")
    answer = streamsched(*words, "--schemes", schemes)
    assert (answer.code, answer.json["signals"], answer.json["rejected"]) == (0, sent, 4 - sent)
    assert answer.err.count("expected an absolute URL") == 4 - sent


@pytest.mark.usefixtures("real")
def test_it_makes_the_topic(streamsched: Command, topic: Topic, log: Path) -> None:
    url = topic.url().replace(topic.name, f"{topic.name}-new")
    for new in (True, False):
        answer = streamsched("publish", log, "--to", url, "--partitions", "3", "--json")
        assert answer.code == 0
        assert answer.json["created"] is new


def test_errors_have_their_exit_codes(streamsched: Command, topic: Topic, log: Path, tmp_path: Path) -> None:
    assert streamsched("publish", tmp_path / "none.jsonl", "--to", topic.url()).code == 3
    assert streamsched("publish", log, "--to", "elsewhere").code == 2
    answer = streamsched("publish", put(tmp_path / "wrong.jsonl", b"{}\n[]\n"), "--to", topic.url(), "--json")
    assert (answer.code, answer.json["outcomes"], answer.json["rejected"]) == (3, 0, 2)
    answer = streamsched("publish", log, "--to", topic.url(colour="red"))
    assert answer.code == 2
    assert "colour: expected one of client, dead-letters" in answer.err
    answer = streamsched("publish", log, "--to", "kafka://127.0.0.1:1/t?patience=1s")
    assert answer.code == 3
    assert answer.err.startswith("streamsched: kafka://t: 127.0.0.1:1: ")
