"""Change logs written and read back."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from streamsched import PackedUrls, SourceError
from streamsched.replay import ChangeLog, SyntheticSettings, read_truth, synthesize, write_changes

URLS = PackedUrls.pack(["https://a/", "https://b/ä", "https://c/"])


def same(one: ChangeLog, other: ChangeLog) -> bool:
    arrays = ("times_s", "offsets", "gone")
    return (
        list(one.urls) == list(other.urls)
        and all(np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays)
        and (one.first_s, one.last_s) == (other.first_s, other.last_s)
    )


@pytest.mark.parametrize("name", ["log.tsv", "log.tsv.gz"])
def test_a_generated_log_is_read_back_equal(tmp_path: Path, name: str) -> None:
    """70,000 changes and more: what is written and compressed in several pieces is in order."""
    log = synthesize(SyntheticSettings(pages=2_500, days=40), 1)
    calls: list[tuple[int, int]] = []
    count = write_changes(log, tmp_path / name, lambda done, total: calls.append((done, total)))
    assert count == log.times_s.size > 70_000
    assert calls[-1] == (count, count)
    assert len(calls) == -(-count // 65_536)
    found = read_truth(tmp_path / name)
    assert same(found, log)
    assert (found.rejected, found.note) == (0, "")


def test_lines_are_oldest_first_with_ops(tmp_path: Path) -> None:
    pages = np.array([0, 1, 0, 2, 0, 0, 1])
    times_s = np.array([100.0, 100.0, 300.0, 200.0, 400.0, 500.0, 600.25])
    gone = np.array([False, False, True, False, False, False, False])
    log = ChangeLog.collect(URLS, pages, times_s, gone)
    assert write_changes(log, tmp_path / "log.tsv") == 7
    assert (tmp_path / "log.tsv").read_text(encoding="utf-8").splitlines() == [
        "100\tA\thttps://a/",
        "100\tA\thttps://b/ä",
        "200\tA\thttps://c/",
        "300\tD\thttps://a/",
        "400\tA\thttps://a/",
        "500\tM\thttps://a/",
        "600.25\tM\thttps://b/ä",
    ]
    assert same(read_truth(tmp_path / "log.tsv"), log)


def test_significance_is_a_fourth_field(tmp_path: Path) -> None:
    pages, times_s = np.array([0, 0, 1]), np.array([1.0, 2.0, 3.0])
    log = ChangeLog.collect(
        URLS.take(np.arange(2)), pages, times_s, np.zeros(3, np.bool_), np.array([1.0, 1 / 3, 1e-7])
    )
    write_changes(log, tmp_path / "log.tsv")
    found = read_truth(tmp_path / "log.tsv")
    assert same(found, log)
    assert found.significance is not None
    assert found.significance.tolist() == [1.0, 1 / 3, 1e-7]
    assert (tmp_path / "log.tsv").read_text(encoding="utf-8").splitlines()[2] == "3\tA\thttps://b/ä\t0.0000001"


def test_changes_without_a_significance_have_the_mean_of_the_others(tmp_path: Path) -> None:
    lines = "1\tA\thttps://a/\n2\tM\thttps://a/\t0.25\n3\tM\thttps://a/\t0.75\n"
    (tmp_path / "log.tsv").write_text(lines, encoding="utf-8")
    found = read_truth(tmp_path / "log.tsv").significance
    assert found is not None
    assert found.tolist() == [0.5, 0.25, 0.75]


def test_pages_from_before_the_log_appear_at_its_begin(tmp_path: Path) -> None:
    log = ChangeLog.collect(URLS, np.array([0, 0, 1, 2]), np.array([-np.inf, 7.0, 5.0, 6.5]), np.zeros(4, np.bool_))
    write_changes(log, tmp_path / "log.tsv")
    lines = (tmp_path / "log.tsv").read_text(encoding="utf-8").splitlines()
    assert lines == ["5\tA\thttps://a/", "5\tA\thttps://b/ä", "6.5\tA\thttps://c/", "7\tM\thttps://a/"]


def test_the_same_log_gives_the_same_bytes(tmp_path: Path) -> None:
    log = synthesize(SyntheticSettings(pages=500, days=9))
    for name in ("one.tsv.gz", "two.tsv.gz", "plain.tsv"):
        write_changes(log, tmp_path / name)
    assert (tmp_path / "one.tsv.gz").read_bytes() == (tmp_path / "two.tsv.gz").read_bytes()
    assert gzip.decompress((tmp_path / "one.tsv.gz").read_bytes()) == (tmp_path / "plain.tsv").read_bytes()


def test_a_file_that_cannot_be_written_leaves_none(tmp_path: Path) -> None:
    log = synthesize(SyntheticSettings(pages=50, days=3))
    with pytest.raises(SourceError, match="cannot be written"):
        write_changes(log, tmp_path / "missing" / "log.tsv")

    def stop(*_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_changes(log, tmp_path / "log.tsv.gz", stop)
    assert list(tmp_path.iterdir()) == []
