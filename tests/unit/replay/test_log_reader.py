"""Ground truth from files: change logs, crawl outcomes, and what is wrong with either."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from streamsched import Outcome, OutcomeBatch, ReplayError, SourceError
from streamsched.connectors import write_jsonl, write_msgpack, write_sample
from streamsched.replay import read_truth

LOG = b"100\tA\thttps://a/\n100\tA\thttps://b/\n250.5\tM\thttps://a/\n300\tD\thttps://b/\n400\tA\thttps://b/\n"


@pytest.mark.parametrize("name", ["log.tsv", "log.tsv.gz"])
def test_a_change_log_is_taken_at_its_word(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(LOG) if name.endswith(".gz") else LOG)
    log = read_truth(path)
    assert list(log.urls) == ["https://a/", "https://b/"]
    assert np.split(log.times_s, log.offsets[1:-1])[0].tolist() == [100.0, 250.5]
    assert np.split(log.times_s, log.offsets[1:-1])[1].tolist() == [100.0, 300.0, 400.0]
    assert log.gone.tolist() == [False, False, False, True, False]
    assert (log.first_s, log.last_s, log.rejected, log.note) == (100.0, 400.0, 0, "")
    assert log.importance is None


def test_malformed_lines_are_left_out_counted_named_and_kept(tmp_path: Path) -> None:
    path, letters = tmp_path / "log.tsv", tmp_path / "dead.jsonl"
    path.write_bytes(b"100\tA\thttps://a/\nnonsense\n200\tX\thttps://a/\n300\tM\thttps://a/\nnan\tM\thttps://a/\n")
    log = read_truth(path, dead_letters=letters)
    assert log.times_s.tolist() == [100.0, 300.0]
    assert log.rejected == 3
    assert [rejection.offset for rejection in log.rejections] == [2, 3, 5]
    assert len(letters.read_text().splitlines()) == 3


def crawl(*visits: tuple[str, float, dict[str, object]]) -> OutcomeBatch:
    return OutcomeBatch.from_outcomes(Outcome(url, when, **fields) for url, when, fields in visits)  # type: ignore[arg-type]


CRAWL = crawl(
    ("https://a/", 100.0, {"fingerprint": 0, "importance": 2.5}),
    ("https://b/", 110.0, {"changed": True}),  # a first visit is none
    ("https://a/", 200.0, {"fingerprint": 7}),  # three bits are none
    ("https://a/", 300.0, {"fingerprint": 31}),  # nor two more
    ("https://a/", 400.0, {"fingerprint": 2**32 - 1}),
    ("https://b/", 500.0, {"status": 503, "changed": True}),
    ("https://b/", 600.0, {"status": 404}),
    ("https://b/", 550.0, {"changed": True}),  # late
    ("https://b/", 700.0, {"changed": False}),
    ("https://b/", 800.0, {"changed": True}),
)


@pytest.mark.parametrize("name", ["crawl.jsonl.gz", "crawl.msgpack"])
def test_outcomes_become_changes_at_the_visits_that_saw_them(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    (write_jsonl if ".jsonl" in name else write_msgpack)([CRAWL], path)
    log = read_truth(path)
    assert np.split(log.times_s, log.offsets[1:-1])[0].tolist() == [-np.inf, 400.0]
    assert np.split(log.times_s, log.offsets[1:-1])[1].tolist() == [-np.inf, 600.0, 800.0]
    assert log.gone.tolist() == [False, False, False, True, False]
    assert log.importance is not None
    assert log.importance.tolist() == [2.5, 1.0]
    assert (log.first_s, log.last_s) == (100.0, 800.0)
    assert "placed at the visit that saw it" in log.note


def test_the_fingerprint_threshold_is_a_setting(tmp_path: Path) -> None:
    path = tmp_path / "crawl.jsonl"
    write_jsonl([CRAWL], path)
    log = read_truth(path, change_bits=5)
    assert np.split(log.times_s, log.offsets[1:-1])[0].tolist() == [-np.inf, 300.0, 400.0]  # 3 bits and 2 add up


def test_a_published_crawl_history_is_replayable(tmp_path: Path) -> None:
    log = read_truth(write_sample(tmp_path, pages=30, days=20))
    assert len(log.urls) == 30
    assert log.alive(log.first_s - 1.0).size == 30
    assert log.times_s.size > 60  # a beginning each, and at least one change each
    assert log.importance is not None


def test_the_format_can_be_said(tmp_path: Path) -> None:
    path = tmp_path / "crawl.jsonl"
    path.write_bytes(LOG)
    assert read_truth(path, format="changes").times_s.size == 5


def test_what_cannot_be_read_and_what_holds_nothing_are_errors(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="missing"):
        read_truth(tmp_path / "missing.tsv")
    (tmp_path / "empty.tsv").write_bytes(b"")
    with pytest.raises(ReplayError, match="holds no change"):
        read_truth(tmp_path / "empty.tsv")
    (tmp_path / "rejected.tsv").write_text("1700000000000\tA\thttps://a/\n")
    with pytest.raises(ReplayError, match=r"no change; records rejected: 1, one of them .*rejected.tsv, line 1"):
        read_truth(tmp_path / "rejected.tsv")


def test_outcomes_in_no_order_of_time_are_counted(tmp_path: Path) -> None:
    times = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    outcomes = [Outcome("https://a.example/", at, fingerprint=int(at)) for at in times]
    for number, order in enumerate([(0, 1, 2, 3, 4, 5), (0, 5, 1, 2, 3, 4), (0, 0, 1, 2, 3, 4)]):
        path = tmp_path / f"{number}.jsonl"
        write_jsonl([OutcomeBatch.from_events([outcomes[i] for i in order])], path)
        log = read_truth(path, change_bits=1)
        late = (0, 4, 1)[number]
        assert log.times_s.size - 1 == 5 - late
        assert (f"not used: {late}." in log.note) == (late > 0)


def test_a_log_in_reverse_says_why_it_holds_no_change(tmp_path: Path) -> None:
    path = tmp_path / "reversed.jsonl"
    outcomes = [Outcome("https://a.example/", at, changed=True) for at in (3.0, 2.0, 1.0)]
    write_jsonl([OutcomeBatch.from_events(outcomes)], path)
    with pytest.raises(ReplayError, match=r"no change\. Outcomes .* not used: 2\. .*: sort it by time$"):
        read_truth(path)
