"""The queue of calls of the scheduler, and the clock of the service."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.errors import SnapshotError
from streamsched.http.scheduler_thread import QueueFull, SchedulerThread
from streamsched.http.service_clock import ServiceClock
from streamsched.scheduler.durable import DurableScheduler


class Disk:
    """In place of a scheduler: counts the groups that are written; ``pause``: waits before it writes one."""

    def __init__(self, *, fails: bool = False) -> None:
        self.groups = 0
        self.fails = fails
        self.pause = threading.Event()
        self.pause.set()

    @contextmanager
    def together(self) -> Iterator[None]:
        yield
        self.pause.wait()
        self.groups += 1
        if self.fails:
            raise SnapshotError("state", "no space")


def thread_of(disk: Disk, most: int = 100) -> SchedulerThread:
    return SchedulerThread(cast(DurableScheduler, disk), most, clock=lambda: 0.0)


def hold(thread: SchedulerThread) -> threading.Event:
    """Make the thread busy until the event that is returned."""
    begun, free = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        free.wait()

    thread.submit(wait)
    begun.wait()
    return free


def submit_together(thread: SchedulerThread, calls: list[Callable[[], Any]]) -> list[Future[Any]]:
    """Submit `calls` while another one is done, so that they wait together."""
    free = hold(thread)
    submitted = [thread.submit(call) for call in calls]
    free.set()
    return submitted


class Noted:
    """The numbers of the calls that were done, in their order."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def note(self, number: int) -> int:
        self.numbers.append(number)
        return number


def test_what_waits_is_done_in_turn_and_written_together() -> None:
    disk, done = Disk(), Noted()
    with thread_of(disk) as thread:
        results = submit_together(thread, [partial(done.note, number) for number in range(50)])
        assert [one.result() for one in results] == list(range(50))
    assert done.numbers == list(range(50))
    assert disk.groups <= 3  # some threads find nothing left


def test_no_result_is_handed_out_before_its_group_is_written() -> None:
    disk, done = Disk(), Noted()
    with thread_of(disk) as thread:
        disk.pause.clear()
        first = thread.submit(partial(done.note, 1))
        second = thread.submit(partial(done.note, 2))
        while done.numbers != [1, 2]:  # the second is done while the first is written
            time.sleep(0.001)
        assert not first.done()
        assert not second.done()
        disk.pause.set()
        assert (first.result(), second.result()) == (1, 2)


def test_calls_are_done_one_at_a_time_and_in_turn() -> None:
    done, inside = Noted(), threading.Lock()

    def call(number: int) -> None:
        assert inside.acquire(blocking=False)
        done.note(number)
        time.sleep(0.001)
        inside.release()

    with SchedulerThread(cast(DurableScheduler, Disk()), 1_000, clock=time.perf_counter) as thread:
        results = [thread.submit(partial(call, number)) for number in range(60)]
        for one in results:
            one.result()
    assert done.numbers == list(range(60))


def test_an_error_belongs_to_its_call_alone() -> None:
    disk = Disk()
    with thread_of(disk) as thread:
        good, bad, last = submit_together(thread, [lambda: 1, lambda: 1 // 0, lambda: 3])
        assert (good.result(), last.result()) == (1, 3)
        with pytest.raises(ZeroDivisionError):
            bad.result()
        assert thread.is_alive


def test_what_cannot_be_written_is_acknowledged_to_nobody() -> None:
    disk = Disk(fails=True)
    with thread_of(disk) as thread:
        for future in (thread.submit(lambda: 1), thread.submit(lambda: 2)):
            with pytest.raises(SnapshotError):
                future.result()
        disk.fails = False
        assert thread.submit(lambda: 3).result() == 3


def test_what_changes_nothing_is_answered_though_its_group_cannot_be_written() -> None:
    with thread_of(Disk(fails=True)) as thread:
        free = hold(thread)
        change, read = thread.submit(lambda: 1), thread.submit(lambda: 2, reads=True)
        failed = thread.submit(lambda: 1 // 0, reads=True)
        free.set()
        assert read.result() == 2
        with pytest.raises(SnapshotError):
            change.result()
        with pytest.raises(ZeroDivisionError):
            failed.result()


def test_a_full_queue_refuses() -> None:
    with thread_of(Disk(), most=2) as thread:
        free = hold(thread)
        waiting = [thread.submit(lambda: 1), thread.submit(lambda: 2)]
        with pytest.raises(QueueFull):
            thread.submit(lambda: 3)
        assert thread.length == 2
        free.set()
        assert [one.result() for one in waiting] == [1, 2]
    with pytest.raises(QueueFull):  # it has ended
        thread.submit(lambda: 4)


def test_a_call_whose_caller_gave_up_is_not_done() -> None:
    done = Noted()
    with thread_of(Disk()) as thread:
        free = hold(thread)
        given_up, kept = thread.submit(partial(done.note, 1)), thread.submit(partial(done.note, 2))
        assert given_up.cancel()
        free.set()
        kept.result()
    assert done.numbers == [2]


def test_what_waits_at_the_end_is_done() -> None:
    with thread_of(Disk()) as thread:
        results = [thread.submit(partial(int, number)) for number in range(20)]
    assert [one.result() for one in results] == list(range(20))


def test_a_stream_lets_requests_pass() -> None:
    done = Noted()
    with thread_of(Disk()) as thread:
        thread.let_pass()  # nothing waits
        results = [thread.submit(partial(done.note, number)) for number in range(20)]
        thread.let_pass()
        assert done.numbers == list(range(20))
        assert all(one.done() for one in results)


@given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(0.0, 10.0)), min_size=1, max_size=30))
def test_the_time_of_the_service_never_goes_back(steps: list[tuple[float, float]]) -> None:
    """Each step moves the wall clock by its first number and the steady one by its second."""
    wall_s, steady_s, last_s = 1.7e9, 0.0, 0.0
    clock = ServiceClock(lambda: wall_s, lambda: steady_s)
    for moved_s, passed_s in steps:
        wall_s, steady_s = wall_s + moved_s, steady_s + passed_s
        read_s = clock.read()
        assert read_s >= max(wall_s, last_s)
        if wall_s < last_s:
            assert read_s == pytest.approx(last_s + passed_s)
        last_s = read_s
