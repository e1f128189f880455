"""Ground truth by hand: who is alive when, what a window holds, and logs that hold nothing."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from streamsched import PackedUrls, ReplayError, SourceError
from streamsched.replay import ChangeLog, SyntheticSettings, Window, read_truth, synthesize, write_changes

URLS = PackedUrls.pack(["https://steady/", "https://returns/", "https://late/", "https://dies/"])
# page, time, gone: steady from 0; returns dies at 5 and is back at 25; late appears at 12; dies goes at 30.
CHANGES = [(0, 0, 0), (0, 10, 0), (0, 20, 0), (1, 0, 0), (1, 5, 1), (1, 25, 0), (1, 27, 0), (2, 12, 0), (2, 13, 0)]
CHANGES += [(3, 0, 0), (3, 30, 1)]


def make_log(changes: list[tuple[int, int, int]] = CHANGES) -> ChangeLog:
    pages, times, gone = zip(*changes, strict=True)
    return ChangeLog.collect(URLS, np.array(pages), np.array(times, float), np.array(gone, bool))


def held(window: Window) -> dict[str, list[float]]:
    parts = np.split(window.times_s, window.offsets[1:-1])
    return {url: part.tolist() for url, part in zip(window.urls, parts, strict=True)}


def test_a_log_is_sorted_by_page_and_time_whatever_order_it_comes_in() -> None:
    log, shuffled = make_log(), make_log(CHANGES[::-1])
    assert log.times_s.tolist() == shuffled.times_s.tolist() == [float(when) for _, when, _ in CHANGES]
    assert shuffled.gone.tolist() == log.gone.tolist()
    assert (log.first_s, log.last_s) == (0.0, 30.0)


@pytest.mark.parametrize(
    ("when", "expected"), [(-1, []), (0, [0, 1, 3]), (5, [0, 3]), (24, [0, 2, 3]), (25, [0, 1, 2, 3]), (30, [0, 1, 2])]
)
def test_a_page_lives_from_its_first_change_until_it_is_gone_and_again(when: float, expected: list[int]) -> None:
    assert make_log().alive(when).tolist() == expected


def test_a_window_holds_the_pages_alive_at_its_start_and_their_changes_within() -> None:
    window = make_log().window(0.0, 10.0, 2)
    assert held(window) == {"https://steady/": [10.0], "https://returns/": [5.0], "https://dies/": []}
    assert window.changes().tolist() == [1, 1, 0]
    assert window.edge(2) == 20.0


def test_the_windows_end_is_not_in_it_and_its_start_is_before_it() -> None:
    assert held(make_log().window(10.0, 10.0, 1)) == {"https://steady/": [], "https://dies/": []}


def test_later_pages_follow_as_they_appear_and_appearing_is_no_change_of_theirs() -> None:
    window = make_log().window(6.0, 10.0, 3, later_pages=True)
    assert list(held(window)) == ["https://steady/", "https://dies/", "https://late/", "https://returns/"]
    assert held(window)["https://late/"] == [13.0]
    assert held(window)["https://returns/"] == [27.0]
    assert window.appears_s.tolist() == [-np.inf, -np.inf, 12.0, 25.0]
    assert [window.known(cycle) for cycle in range(3)] == [2, 3, 4]


def test_a_later_page_that_appears_on_an_edge_is_known_from_the_next_cycle_on() -> None:
    window = make_log().window(2.0, 10.0, 3, later_pages=True)
    assert window.edge(1) == 12.0
    assert [window.known(cycle) for cycle in range(3)] == [3, 3, 4]


def test_pages_alive_at_the_measured_start_are_met_as_they_appear() -> None:
    window = make_log().window(1.0, 10.0, 3, measured_s=14.0)
    assert held(window) == {"https://steady/": [10.0, 20.0], "https://dies/": [30.0], "https://late/": [13.0]}
    assert window.appears_s.tolist() == [-np.inf, -np.inf, 12.0]
    assert [window.known(cycle) for cycle in range(3)] == [2, 2, 3]


def test_pages_gone_at_the_measured_start_are_left_out_unless_they_return_later() -> None:
    assert "https://returns/" not in held(make_log().window(1.0, 10.0, 3, measured_s=6.0))
    window = make_log().window(1.0, 10.0, 3, measured_s=6.0, later_pages=True)
    assert list(held(window)) == ["https://steady/", "https://dies/", "https://late/", "https://returns/"]
    assert window.appears_s.tolist() == [-np.inf, -np.inf, 12.0, 25.0]
    with pytest.raises(ReplayError, match="no page is alive at epoch 1 and at epoch 31"):
        make_log([(3, 0, 0), (3, 30, 1), (2, 31, 0)]).window(1.0, 10.0, 4, measured_s=31.0)


def test_a_crawl_on_an_edge_sees_what_lies_before_it() -> None:
    window = make_log().window(0.0, 10.0, 3)
    before, after = window.before(10.0), window.before(np.nextafter(10.0, 11.0))
    assert (after - before).tolist() == [1, 0, 0]
    assert window.change_at(before).tolist() == [10.0, 25.0, np.inf]


def test_importance_goes_with_its_page() -> None:
    log = make_log()
    weighed = ChangeLog(
        log.urls, log.times_s, log.offsets, log.gone, np.array([1.0, 2.0, 3.0, 4.0]), log.first_s, log.last_s
    )
    importance = weighed.window(6.0, 10.0, 3, later_pages=True).importance
    assert importance is not None
    assert importance.tolist() == [1.0, 4.0, 3.0, 2.0]


def test_a_log_without_changes_and_a_window_without_pages_are_errors() -> None:
    with pytest.raises(ReplayError, match="holds no change"):
        ChangeLog.collect(URLS, np.arange(4), np.full(4, -np.inf), np.zeros(4, bool))
    with pytest.raises(ReplayError, match="no page is alive"):
        make_log().window(-20.0, 10.0, 5, later_pages=True)


FILED = PackedUrls.pack(["https://a/", "https://b/ä", "https://c/"])


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
    log = ChangeLog.collect(FILED, pages, times_s, gone)
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
        FILED.take(np.arange(2)), pages, times_s, np.zeros(3, np.bool_), np.array([1.0, 1 / 3, 1e-7])
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
    log = ChangeLog.collect(FILED, np.array([0, 0, 1, 2]), np.array([-np.inf, 7.0, 5.0, 6.5]), np.zeros(4, np.bool_))
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
