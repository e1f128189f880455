"""``streamsched cluster``: what it refuses before it begins, and what it shows of a cluster without hosts."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.integration.kafka.broker import Address
from tests.integration.kafka.topics import Topic
from tests.support.command_line import Command

NOWHERE = "kafka://127.0.0.1:1/outcomes?group=crawl&patience=1s"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--source", "outcomes.jsonl"], "--source"),
        (["--source", "kafka://127.0.0.1:1/outcomes"], "group"),
        (["--source", f"{NOWHERE}&client=kafka-python"], "confluent"),
        (["--source", NOWHERE, "--set", "optimiser.policy=mirrorsync"], "optimiser"),
        (["--source", NOWHERE, "--set", "batches.to=kafka://127.0.0.1:1/visits"], "batches.to"),
        (["--source", NOWHERE, "--set", "changes.keep=1d"], "changes.keep"),
        (["--source", NOWHERE, "--set", "changes.to=changes.jsonl"], "a topic: kafka://"),
        (["--source", NOWHERE, "--images", "i", "--set", "changes.to=kafka://a:1/outcomes"], "a topic of its own"),
        (["--source", NOWHERE], "--images"),
        (["--source", NOWHERE, "--images", "ftp://a.example/"], "a folder, or s3://"),
        (["--source", NOWHERE, "--images", "images", "--calls", "a/b"], "calls"),
    ],
)
def test_what_a_host_refuses(streamsched: Command, tmp_path: Path, words: Sequence[str], says: str) -> None:
    local = tmp_path / "local"
    done = streamsched("cluster", "host", *words, "--local", local, "--http", "127.0.0.1:0")
    assert (done.code, says in done.err) == (2, True), done.err
    assert not local.exists()


def test_a_host_without_brokers(streamsched: Command, tmp_path: Path) -> None:
    place = ("--source", NOWHERE, "--calls", "calls", "--images", tmp_path / "images")
    done = streamsched("cluster", "host", *place, "--local", tmp_path / "local", "--http", "127.0.0.1:0")
    assert (done.code, "127.0.0.1:1" in done.err) == (3, True), done.err


def test_a_host_without_its_topic_of_changes(streamsched: Command, real: Address, tmp_path: Path) -> None:
    topic = Topic(real, "confluent", f"t-{uuid.uuid4().hex[:12]}")
    topic.create(1, {})
    place = ("--source", f"kafka://{real.servers}/{topic.name}?group=g", "--calls", f"calls-{topic.name}")
    words = (*place, "--images", tmp_path / "images", "--set", f"changes.to=kafka://{real.servers}/none-{topic.name}")
    done = streamsched("cluster", "host", *words, "--local", tmp_path / "local", "--http", "127.0.0.1:0")
    assert (done.code, "has no such topic: create it" in done.err) == (3, True), done.err


def test_a_cluster_that_was_never_started(streamsched: Command, real: Address, tmp_path: Path) -> None:
    topic = Topic(real, "confluent", f"t-{uuid.uuid4().hex[:12]}")
    topic.create(2, {})
    place = ("--source", f"kafka://{real.servers}/{topic.name}?group=g", "--calls", f"calls-{topic.name}")
    done = streamsched("cluster", "verify", *place, "--images", tmp_path / "none")
    assert (done.code, (tmp_path / "none").exists()) == (2, False), done.err
    (tmp_path / "images").mkdir()
    for command, images in (("status", ()), ("verify", ("--images", tmp_path / "images"))):
        done = streamsched("cluster", command, *place, *images)
        assert (done.code, f"calls-{topic.name}" in done.err) == (3, True), done.err
