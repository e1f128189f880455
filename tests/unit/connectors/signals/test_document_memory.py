"""What is remembered of documents: bounds, the file, and processes that are killed."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import msgspec
import numpy as np
import pytest
from crc32c import crc32c

from streamsched.connectors.signals import DocumentMemory, document_memory, read_document
from streamsched.connectors.signals.document_memory import RememberedDocument
from streamsched.errors import SettingsError, SnapshotError
from tests.support.killed_reader import PAGES, kill_after, read_version


def remembered(entries: int, read_at: float = 1.0) -> RememberedDocument:
    keys = np.arange(entries, dtype=np.uint64)
    return RememberedDocument(read_at, keys, keys.astype(np.float64), keys)


def filled(*sizes: int, **bounds: int) -> DocumentMemory:
    memory = DocumentMemory(**bounds)
    for i, size in enumerate(sizes):
        memory.remember(f"d{i}", remembered(size, float(i)))
    return memory


def of_keys(*keys: int, time: float = 1.0) -> RememberedDocument:
    column = np.array(sorted(keys), dtype=np.uint64)
    return RememberedDocument(time, column, np.full(column.size, time), column)


def test_what_a_reading_of_a_part_lacks_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = DocumentMemory()
    memory.keep_too("d", of_keys(1))
    assert "d" not in memory
    memory.remember("d", of_keys(3, 1, 7, time=2.0))
    memory.keep_too("d", of_keys(1, 2, 9))
    found = memory.recall("d")
    assert found is not None
    assert found.read_at == 2.0
    assert found.keys.tolist() == found.contents.tolist() == [1, 2, 3, 7, 9]
    assert found.times.tolist() == [2.0, 1.0, 2.0, 2.0, 1.0]
    monkeypatch.setattr(document_memory, "MAX_ENTRIES", 5)
    memory.keep_too("d", of_keys(4))
    found = memory.recall("d")
    assert found is not None
    assert (found.keys.tolist(), memory.entries) == ([4], 1)


def test_a_document_takes_the_place_of_its_last_reading() -> None:
    memory = filled(3, 4)
    memory.remember("d0", remembered(5))
    assert (list(memory), len(memory), memory.entries, memory.forgotten) == (["d1", "d0"], 2, 9, 0)
    memory.forget("d1")
    memory.forget("unknown")
    assert ("d1" in memory, memory.entries, memory.recall("d1")) == (False, 5, None)


@pytest.mark.parametrize(
    ("bounds", "kept", "forgotten"),
    [
        ({"max_entries": 9}, ["d1", "d2"], 1),
        ({"max_entries": 5}, ["d2"], 2),
        ({"max_entries": 4}, ["d1"], 2),
        ({"max_documents": 1}, ["d2"], 2),
    ],
)
def test_beyond_its_bounds_it_forgets_what_was_not_read_for_longest(
    bounds: dict[str, int], kept: list[str], forgotten: int
) -> None:
    memory = filled(3, 4, 5, **bounds)
    assert (list(memory), memory.forgotten) == (kept, forgotten)
    assert memory.entries == sum(len(memory.recall(url) or ()) for url in memory)


def test_a_document_that_is_too_large_takes_nobodys_place() -> None:
    memory = filled(3, 10, max_entries=9)
    assert (list(memory), memory.entries, memory.forgotten) == (["d0"], 3, 1)
    memory.remember("d0", remembered(10))
    assert (len(memory), memory.entries) == (0, 0)


@pytest.mark.parametrize("bounds", [{"max_entries": 0}, {"max_documents": -1}, {"max_entries": 1.5}])
def test_bounds_are_whole_numbers_from_1(bounds: dict[str, int]) -> None:
    with pytest.raises(SettingsError, match=next(iter(bounds))):
        DocumentMemory(**bounds)


def test_a_saved_memory_comes_back(tmp_path: Path) -> None:
    memory = filled(3, 0, 5)
    memory.save(tmp_path / "memory")
    loaded = DocumentMemory.load(str(tmp_path / "memory"))
    assert (list(loaded), loaded.entries, loaded.forgotten) == (list(memory), 8, 0)
    for url in memory:
        for one, other in zip(_columns(memory, url), _columns(loaded, url), strict=True):
            np.testing.assert_array_equal(one, other, strict=True)
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "memory").read_bytes()
    assert list(DocumentMemory.load(tmp_path / "memory", max_documents=1)) == ["d2"]


def _columns(memory: DocumentMemory, url: str) -> list[object]:
    document = memory.recall(url)
    assert document is not None
    return [document.read_at, document.keys, document.times, document.contents]


def test_an_entry_takes_24_bytes(tmp_path: Path) -> None:
    filled(100_000).save(tmp_path / "memory")
    assert (tmp_path / "memory").stat().st_size < 100_000 * 24 + 200


def test_every_damage_is_found(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    filled(2, 1).save(path)
    raw = path.read_bytes()
    damaged = [raw[:i] for i in range(len(raw))]
    damaged += [raw[:i] + bytes([raw[i] ^ 1]) + raw[i + 1 :] for i in range(len(raw))]
    for document in damaged:
        path.write_bytes(document)
        with pytest.raises(SnapshotError, match="memory"):
            DocumentMemory.load(path)


def saved(**fields: object) -> dict[str, object]:
    return {"url": "d", "read_at": 1.0, "keys": b"", "times": b"", "contents": b"", **fields}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({}, "not its contents"),
        ([{"url": "d", "read_at": 1.0, "keys": b"", "times": b""}], "not its contents"),
        ([saved(keys=b"12345678")], "different lengths"),
        ([saved(keys=b"1", times=b"1", contents=b"1")], "different lengths"),
        ([saved(read_at=float("nan"))], "no finite time"),
        ([saved(keys=bytes(8), times=np.array([np.inf]).tobytes(), contents=bytes(8))], "no finite time"),
        ([saved(keys=bytes(16), times=bytes(16), contents=bytes(16))], "out of order"),
    ],
)
def test_a_file_with_another_content_is_refused(tmp_path: Path, content: object, reason: str) -> None:
    documents = msgspec.msgpack.encode(content)
    path = tmp_path / "memory"
    whole = {"format": "streamsched documents 2", "crc32c": crc32c(documents), "documents": msgspec.Raw(documents)}
    path.write_bytes(msgspec.msgpack.encode(whole))
    with pytest.raises(SnapshotError, match=reason):
        DocumentMemory.load(path)


def test_a_file_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        DocumentMemory.load(tmp_path / "none")
    with pytest.raises(SnapshotError, match="is a directory"):
        DocumentMemory.load(tmp_path)
    with pytest.raises(SnapshotError, match="none/memory: cannot be written: No such file"):
        DocumentMemory().save(tmp_path / "none" / "memory")


def test_a_save_that_fails_leaves_the_former_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(3).save(tmp_path / "memory")

    def fail(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(SnapshotError, match="No space left"):
        filled(3, 4).save(tmp_path / "memory")
    assert list(DocumentMemory.load(tmp_path / "memory")) == ["d0"]


def test_a_killed_process_leaves_a_whole_memory(tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.killed_reader"])
    path, version = tmp_path / "memory", 0
    for attempt in range(12):
        kill_after(context, path, version + 1, attempt * 0.011)
        memory = DocumentMemory.load(path)
        ballast = memory.recall("ballast")
        assert ballast is not None
        assert ballast.read_at >= version
        version = int(ballast.read_at)
        assert np.all(ballast.times == version)
        again = read_version(version, memory)
        assert (len(again.signals), again.unchanged) == (0, PAGES)
        assert [signal.at for signal in read_version(version + 1, memory).signals] == [version + 1]
    assert version >= 12
    assert [name.name for name in tmp_path.iterdir() if not name.name.startswith(".")] == ["memory"]


def test_documents_are_remembered_each_for_itself() -> None:
    memory = DocumentMemory()
    for name in ("a", "b"):
        reading = read_document(b"<urlset/>", url=f"https://a.example/{name}", read_at=1.0, memory=memory)
        assert reading.entries == 0
    assert list(memory) == ["https://a.example/a", "https://a.example/b"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("url", "a.example"), ("url", None), ("read_at", float("nan")), ("read_at", 1.7e12), ("since", float("inf")),
     ("document", "<urlset/>")],
)  # fmt: skip
def test_wrong_arguments_are_named(name: str, value: object) -> None:
    arguments: dict[str, object] = {"document": b"<urlset/>", "url": "https://a.example/", "read_at": 1.0, name: value}
    with pytest.raises(SettingsError, match=name):
        read_document(**arguments)  # type: ignore[arg-type]
