"""Ground truth by hand: who is alive when, what a window holds, and logs that hold nothing."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched import PackedUrls, ReplayError
from streamsched.replay import ChangeLog, Window

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
