"""What a document announces, beside the slow twin, in every format."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.connectors.signals import DocumentMemory, Reading, read_document
from tests.reference.document_changes import DatedEntry, TwinMemory
from tests.support.signal_documents import HOST, WRITERS, index_now, sitemap_index

START = 1_700_000_000
FATES = ("new", "changed", "unchanged", "remembered", "repeated")
NAMES = [f"{HOST}/{name}" for name in ("a", "b", "c", "d", "é", "f?x=1&y=2")]


def read(document: bytes, read_at: float, memory: DocumentMemory | None, since: float | None = None) -> Reading:
    return read_document(document, url=f"{HOST}/list", read_at=read_at, memory=memory, since=since)


def listed(contents: bool) -> st.SearchStrategy[list[DatedEntry]]:
    seconds = st.none() | st.integers(-5, 5).map(lambda step: START + step * 40_000)
    texts = st.sampled_from(["x", "y", "<b>&"]) if contents else st.just("")
    entries = st.builds(DatedEntry, st.sampled_from(NAMES), seconds, st.booleans(), texts)
    return st.lists(entries, max_size=8)


def signals_of(reading: Reading) -> list[tuple[str, float]]:
    assert reading.signals.problems() == []
    assert {signal.source for signal in reading.signals} <= {reading.kind}
    return [(signal.url, signal.at) for signal in reading.signals]


def fates_of(reading: Reading) -> dict[str, int]:
    return {fate: getattr(reading, fate) for fate in FATES}


@pytest.mark.parametrize("name", WRITERS)
@given(data=st.data())
def test_readings_announce_what_the_twin_does(name: str, data: st.DataObject) -> None:
    documents = data.draw(st.lists(listed(name != "sitemap"), min_size=1, max_size=4))
    since = data.draw(st.none() | st.integers(START - 100_000, START + 100_000).map(float))
    memory, twin, read_at = DocumentMemory(), TwinMemory(), float(START)
    for entries in documents:
        reading, expected = read(WRITERS[name](entries), read_at, memory, since), twin.read(entries, read_at, since)
        assert (signals_of(reading), fates_of(reading)) == (expected.signals, expected.fates)
        assert reading.entries == sum(expected.fates.values())
        read_at += data.draw(st.integers(1, 100_000))


@pytest.mark.parametrize("name", WRITERS)
@given(data=st.data())
def test_the_same_document_again_announces_nothing(name: str, data: st.DataObject) -> None:
    document = WRITERS[name](data.draw(listed(name != "sitemap")))
    memory = DocumentMemory()
    read(document, START, memory)
    again = read(document, START, memory)
    assert (len(again.signals), again.unchanged) == (0, again.entries - again.repeated)


@given(listed(False), st.sets(st.integers(0, 7)))
def test_a_changed_document_announces_exactly_its_changed_entries(entries: list[DatedEntry], rows: set[int]) -> None:
    before = [DatedEntry(f"{HOST}/{i}", START - 1_000 - i) for i in range(len(entries) + 2)]
    after = [DatedEntry(entry.url, START + i) if i in rows else entry for i, entry in enumerate(before)]
    memory = DocumentMemory()
    read(WRITERS["sitemap"](before), START, memory)
    reading = read(WRITERS["sitemap"](after), START + 100, memory)
    assert signals_of(reading) == [(after[i].url, after[i].second) for i in sorted(rows) if i < len(after)]


@given(listed(False), listed(False))
def test_a_memory_that_was_saved_announces_the_same(first: list[DatedEntry], second: list[DatedEntry]) -> None:
    memory = DocumentMemory()
    read(WRITERS["sitemap"](first), START, memory)
    with TemporaryDirectory() as folder:
        memory.save(Path(folder) / "memory")
        loaded = DocumentMemory.load(Path(folder) / "memory")
    document = WRITERS["sitemap"](second)
    assert signals_of(read(document, START + 1, loaded)) == signals_of(read(document, START + 1, memory))


@given(listed(False), listed(False))
def test_an_index_lists_what_is_announced_or_cannot_be_known(first: list[DatedEntry], second: list[DatedEntry]) -> None:
    memory, twin = DocumentMemory(), TwinMemory()
    reading = read(sitemap_index(first), START, memory)
    assert reading.documents == list(dict.fromkeys(_kept(first, reading)))
    twin.read(first, START)
    reading, expected = read(sitemap_index(second), START + 50_000, memory), twin.read(second, START + 50_000)
    announced = {url for url, _ in expected.signals}
    for entry in second:
        if (
            entry.url in announced
            or reading.one_time
            or all(other.second is None for other in second if other.url == entry.url)
        ):
            assert entry.url in reading.documents
    assert len(reading.signals) == 0
    assert announced <= set(reading.documents) <= {entry.url for entry in second}


def _kept(entries: list[DatedEntry], reading: Reading) -> list[str]:
    """The URLs of an index in the order of the entries that count: the newest of each."""
    times = {
        url: max((entry.span()[0] if entry.states(START) else float("-inf")) for entry in entries if entry.url == url)
        for url in {entry.url for entry in entries}
    }
    assert reading.kind == "sitemap"
    return [
        entry.url
        for entry in entries
        if (entry.span()[0] if entry.states(START) else float("-inf")) == times[entry.url]
    ]


@given(listed(False))
def test_a_notice_announces_all_of_its_pages_each_time(entries: list[DatedEntry]) -> None:
    memory = DocumentMemory()
    for _ in range(2):
        reading = read(index_now(entries), START, memory)
        assert signals_of(reading) == [(url, START) for url in dict.fromkeys(entry.url for entry in entries)]
    assert len(memory) == 0
