"""The changes of a shard on their way to a topic: images wait for them, and every owner gives them the same numbers."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from streamsched.api.answers import Change
from streamsched.cluster.shard import Shard, ShardChangeWriter, identify_feed
from streamsched.cluster.topic_log import CallsTopic
from streamsched.connectors.kafka.kafka_settings import KafkaSettings
from streamsched.errors import SnapshotError, SourceError
from streamsched.outcomes import Outcome, OutcomeBatch
from streamsched.persistence.change_feed import remove_feed
from streamsched.persistence.image_writer import SavePlan
from streamsched.service.change_writer import PlaceOfChanges
from tests.support.waiting import CALL_S, pause

NOW = 1_700_000_000.0
NEVER = SavePlan(every="365d", share=100.0)
URLS = [f"https://h{i % 7}.example/{i}" for i in range(50)]


class Place(PlaceOfChanges):
    """A place in memory. ``is_away``: refuse everything."""

    def __init__(self) -> None:
        self.written: list[Change] = []
        self.is_away = False

    def write(self, changes: Sequence[Change]) -> None:
        if self.is_away:
            raise SourceError("kafka://changes", "is away", retriable=True)
        self.written += changes

    def close(self) -> None:
        pass

    @property
    def found(self) -> list[tuple[int, str, float]]:
        return [(int(one.cursor.partition("-")[2]), one.url, one.fetched_at) for one in self.written]


def visits(day: int) -> OutcomeBatch:
    return OutcomeBatch.from_outcomes([Outcome(url, NOW + 86_400.0 * day, changed=day > 0) for url in URLS])


@contextmanager
def writing(shard: Shard, place: Place) -> Iterator[None]:
    with ShardChangeWriter(shard, place, "kafka://127.0.0.1:1/changes", 3) as writer:
        shard.await_written = writer.await_written
        yield


@pytest.fixture
def open_shard(tmp_path: Path) -> Iterator[Callable[..., Shard]]:
    """Opens the shard with the log and the images of a directory, as its next owner does: without a feed."""
    opened: list[Shard] = []

    def take_over(**given: Any) -> Shard:
        for one in opened:
            one.close(save=False)
        if opened:
            remove_feed(tmp_path / "state")
        opened.append(Shard.open(tmp_path / "state", {"cycle": "1d"}, plan=NEVER, keep_changes="10m", **given))
        return opened[-1]

    yield take_over
    for one in opened:
        one.close(save=False)
    shutil.rmtree(tmp_path / "state")


def test_an_image_waits_for_its_changes(open_shard: Callable[..., Shard]) -> None:
    shard, place = open_shard(), Place()
    shard.observe(visits(0))
    shard.observe(visits(1))
    with pytest.raises(SnapshotError, match="not written yet"):
        shard.snapshot()
    place.is_away = True
    before = shard.saved
    with writing(shard, place):
        with pytest.raises(SnapshotError, match="is away"):
            shard.snapshot()
        assert shard.saved is before
        assert "kafka://127.0.0.1:1/changes" in str(shard.trouble)
        shard.observe(visits(2))  # calls and leases go on
        assert shard.next_batch(3, now=NOW + 3 * 86_400.0).urls
        place.is_away = False
        shard.await_written = place_again(shard.await_written)
        shard.snapshot()
    assert shard.trouble is None
    assert [number for number, *_ in place.found] == list(range(1, 101))
    assert not shard.offers_changes


def place_again(await_written: Callable[[int], object] | None) -> Callable[[int], None]:
    """Wait until the writer has tried again."""
    assert await_written is not None

    def wait(number: int) -> None:
        while True:
            try:
                await_written(number)
                return
            except SnapshotError:
                pause(CALL_S)

    return wait


def test_a_new_owner_numbers_changes_as_the_one_before(open_shard: Callable[..., Shard]) -> None:
    """Of two streams in turns, which no image has: only those that were read cannot be numbered otherwise."""
    streams = {"a": [visits(0), visits(2)], "b": [visits(1), visits(3)]}

    def reread(path: str, position: Any) -> Iterable[OutcomeBatch]:
        return streams[path][position or 0 :]

    shard, before, after = open_shard(), Place(), Place()
    with writing(shard, before):
        for turn in range(4):
            path = "ab"[turn % 2]
            shard.take(streams[path][turn // 2], path, turn // 2 + 1)
        before.is_away = True  # the image never counts
        with pytest.raises(SnapshotError, match="is away"):
            shard.snapshot()
        before.is_away = False
        place_again(shard.await_written)(150)
        shard.take(visits(4), "a", 3)
        shard.take(visits(5), "b", 3)
    shard = open_shard(reread=reread)
    with writing(shard, after):
        shard.take(visits(5), "b", 3)  # the other way round: nobody has read them
        shard.take(visits(4), "a", 3)
        shard.snapshot()
    assert len(before.found) == 150
    assert after.found[:150] == before.found
    assert [number for number, *_ in after.found] == list(range(1, len(after.found) + 1))


def test_a_lost_buffer_ends_the_owner(open_shard: Callable[..., Shard], monkeypatch: pytest.MonkeyPatch) -> None:
    """The shard is opened again then, and finds its changes in the log."""
    shard, refused = open_shard(), list[SnapshotError]()
    monkeypatch.setattr(shard, "refuse", refused.append)
    shard.observe(visits(0))
    shard.observe(visits(1))
    remove_feed(shard.directory)
    with writing(shard, Place()), pytest.raises(SnapshotError, match="has lost changes"):
        shard.snapshot()
    assert "has lost changes" in str(refused[0])


def test_identities_of_feeds_differ() -> None:
    topic = CallsTopic(KafkaSettings("", "calls"), "crawl", 4, "5f3a")
    other = CallsTopic(KafkaSettings("", "calls"), "crawl", 4, "5f3b")
    found = [identify_feed(one, partition) for one in (topic, other) for partition in range(100)]
    assert len(set(found)) == 200
    assert {len(one) for one in found} == {8}
