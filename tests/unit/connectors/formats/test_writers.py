"""Writing outcomes: read back the same, whole or not at all, the same bytes each time."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.connectors import open_source, write_jsonl, write_msgpack
from streamsched.errors import InvalidOutcome, SourceError
from streamsched.outcomes import Outcome, OutcomeBatch
from tests.support.crawl_outcomes import make_outcomes, outcomes, read_out


def write_maps(batches: list[OutcomeBatch], path: Path) -> int:
    return write_msgpack(batches, path, frames=False)


Writer = Callable[[list[OutcomeBatch], Path], int]
every = pytest.mark.parametrize(
    ("write", "name"),
    [
        (write_jsonl, "a.jsonl"),
        (write_jsonl, "a.jsonl.gz"),
        (write_msgpack, "a.msgpack"),
        (write_msgpack, "a.msgpack.gz"),
        (write_maps, "b.msgpack"),
        (write_maps, "b.msgpack.gz"),
    ],
    ids=["jsonl", "jsonl.gz", "frames", "frames.gz", "maps", "maps.gz"],
)


@every
@given(groups=st.lists(st.lists(outcomes, max_size=4), max_size=3))
def test_reading_undoes_writing(
    tmp_path_factory: pytest.TempPathFactory, write: Writer, name: str, groups: list[list[Outcome]]
) -> None:
    path = tmp_path_factory.getbasetemp() / name
    rows = [row for group in groups for row in group]
    assert write([OutcomeBatch.from_outcomes(group) for group in groups], path) == len(rows)
    with open_source(path) as source:
        assert read_out(source) == rows
        assert source.rejected == 0


@every
def test_the_same_batches_give_the_same_bytes(tmp_path: Path, write: Writer, name: str) -> None:
    batch = OutcomeBatch.from_outcomes(make_outcomes(30))
    files = []
    for folder in ("one", "two"):
        path = tmp_path / folder / name
        path.parent.mkdir()
        write([batch], path)
        files.append(path.read_bytes())
    assert files[0] == files[1]
    assert files[0].startswith(b"\x1f\x8b") == name.endswith(".gz")


@every
def test_a_file_is_whole_or_as_it_was(tmp_path: Path, write: Writer, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"before")

    def batches() -> Iterator[OutcomeBatch]:
        yield OutcomeBatch.from_outcomes(make_outcomes(3))
        raise KeyError("the source broke")

    with pytest.raises(KeyError):
        write(batches(), path)  # type: ignore[arg-type]
    assert path.read_bytes() == b"before"
    assert [file.name for file in tmp_path.iterdir()] == [name]


@every
def test_invalid_outcomes_are_not_written(tmp_path: Path, write: Writer, name: str) -> None:
    batch = OutcomeBatch.from_outcomes(make_outcomes(3))
    batch.fetched_at[1] = np.nan
    with pytest.raises(InvalidOutcome, match="record 1: fetched_at"):
        write([batch], tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be written"):
        write_jsonl([], tmp_path / "none" / "a.jsonl")


def test_a_source_that_breaks_is_named_as_it_is(tmp_path: Path) -> None:
    truncated = tmp_path / "cut.jsonl.gz"
    truncated.write_bytes(gzip.compress(b'{"url":"u","fetched_at":1}\n')[:-4])
    with open_source(truncated) as source, pytest.raises(SourceError, match="truncated gzip"):
        write_jsonl((delivery.records for delivery in source), tmp_path / "b.jsonl")


def test_large_batches_become_several_frames(tmp_path: Path) -> None:
    count = 10_000
    batch = OutcomeBatch([f"https://a.example/{i}" for i in range(count)], np.arange(1.0, 1.0 + count))
    write_msgpack([batch], tmp_path / "a.msgpack")
    with open_source(tmp_path / "a.msgpack") as source:
        assert [len(delivery.records) for delivery in source] == [4096, 4096, 1808]
