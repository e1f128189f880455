"""Look-ups on a second thread: the same state as alone, whichever thread is faster; no thread for small batches."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched import OutcomeBatch, Scheduler
from streamsched.records.url_index import LOOKUP_CHUNK
from streamsched.state import look_ahead
from tests.support.cases import examples

_START_S = 1_700_000_000.0


class EagerThread(threading.Thread):
    """A thread that has finished before the other one begins."""

    def start(self) -> None:
        super().start()
        super().join()


class LateThread(threading.Thread):
    """A thread that begins after the other one has finished."""

    def start(self) -> None:
        pass

    def join(self, timeout: float | None = None) -> None:
        super().start()
        super().join(timeout)


class RefusedThread(threading.Thread):
    """A thread that the system does not grant."""

    def start(self) -> None:
        raise RuntimeError("can't start new thread")


def batch_of(numbers: list[int], day: int) -> OutcomeBatch:
    """Return one visit each to the pages of these numbers, which may repeat."""
    urls = [f"https://host{number % 7}.example/a/{number}" for number in numbers]
    times = _START_S + 86_400.0 * day + np.arange(len(urls))
    return OutcomeBatch(urls, times, changed=[number % 3 == 0 for number in numbers])


def state_after(days: list[list[int]], threads: int) -> tuple[str, list[str]]:
    """Return the digest of a scheduler that observed one batch a day, and what `observe` returned."""
    scheduler = Scheduler(seed=1, threads=threads)
    observed = [str(scheduler.observe(batch_of(numbers, day))) for day, numbers in enumerate(days)]
    assert scheduler.core.pages.faults() == []
    return scheduler.digest(), observed


def many(seed: int) -> list[int]:
    """Return the numbers of pages of a batch of several chunks, the last one short."""
    numbers: list[int] = np.random.default_rng(seed).integers(0, 3_000 * (seed + 1), 3 * LOOKUP_CHUNK + 17).tolist()
    return numbers


@pytest.mark.parametrize("thread", [threading.Thread, EagerThread, LateThread, RefusedThread])
def test_the_state_is_that_of_one_thread(monkeypatch: pytest.MonkeyPatch, thread: type[threading.Thread]) -> None:
    days = [many(seed) for seed in range(3)]
    alone = state_after(days, 1)
    monkeypatch.setattr(look_ahead, "FEWEST", 1)
    monkeypatch.setattr(threading, "Thread", thread)
    assert state_after(days, 2) == alone


@examples(ordinary=9, whole=30)
@given(st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=60), min_size=1, max_size=4))
def test_any_batches_have_the_state_of_one_thread(days: list[list[int]]) -> None:
    alone = state_after(days, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(look_ahead, "FEWEST", 1)
        patch.setattr(threading, "Thread", EagerThread)
        assert state_after(days, 2) == alone


def counting(starts: list[str]) -> Callable[..., threading.Thread]:
    """Return a replacement of `threading.Thread` that notes the names of the threads."""

    def make(*args: Any, **options: Any) -> threading.Thread:
        starts.append(options["name"])
        return real(*args, **options)

    real = threading.Thread
    return make


def test_threads_are_for_large_batches_alone_and_end_with_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[str] = []
    monkeypatch.setattr(threading, "Thread", counting(starts))
    scheduler = Scheduler(threads=2)
    scheduler.observe(batch_of(list(range(look_ahead.FEWEST - 1)), 0))
    assert starts == []
    scheduler.observe(batch_of(list(range(look_ahead.FEWEST)), 1))
    assert starts == ["streamsched look-up"]
    assert not [thread for thread in threading.enumerate() if thread.name in starts]


def test_one_thread_of_the_settings_starts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[str] = []
    monkeypatch.setattr(threading, "Thread", counting(starts))
    Scheduler(threads=1).observe(batch_of(list(range(look_ahead.FEWEST)), 0))
    assert starts == []
