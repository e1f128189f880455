"""Kernels as parts and as wholes, what users hear of their compilation, and forks while it goes on."""

from __future__ import annotations

import logging
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from streamsched.numerics.compilation.code_libraries import signals_deferred
from streamsched.numerics.compilation.machine_operations import call, call_for_float, call_for_int
from streamsched.numerics.compilation.notices import Compilation, on_compile
from streamsched.numerics.jit import address_of, bare_kernel, kernel
from tests.unit.numerics.test_kernel_cache import MODULE, finish, start

FORK = (
    MODULE
    + """
    import os, threading
    late = threading.Thread(target=double, args=(1.5,))
    late.start()
    while not double.is_compiling and late.is_alive():
        pause()
    child = os.fork()
    if child == 0:
        os._exit(int(double(2j) == 4j and add(1.5, 1.5) == 3.0))
    late.join()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), int(double(1.5)))
"""
)
SILENT = MODULE.replace(
    "import sys", "import sys, logging\nlogging.getLogger('streamsched.compile').setLevel('ERROR')", 1
)


@kernel
def thrice(value: float) -> float:
    return value * 3


@kernel
def nine_times(value: float) -> float:
    return thrice(thrice(value))


@bare_kernel
def first_or_fail(values: np.ndarray, least: int) -> int:
    if values[0] < least:
        raise ValueError("too small")
    return values[0]  # type: ignore[no-any-return]


@bare_kernel
def checked(values: np.ndarray) -> int:
    return first_or_fail(values, 3)


@bare_kernel
def doubled(values: np.ndarray) -> None:
    values[0] *= 2


@bare_kernel
def ratio(values: np.ndarray, by: float) -> float:
    return values[0] / by  # type: ignore[no-any-return]


@bare_kernel
def through_addresses(values: np.ndarray, doubling: int, checking: int, dividing: int) -> float:
    call(doubling, (values,))
    return call_for_int(checking, (values, 3)) + call_for_float(dividing, (values, 4.0))


def test_kernels_are_called_at_their_addresses() -> None:
    values = np.array([5])
    found = address_of(doubled, values), address_of(first_or_fail, values, 3), address_of(ratio, values, 4.0)
    assert through_addresses(values, *found) == 10 + 2.5
    assert found == (address_of(doubled, values), address_of(first_or_fail, values, 3), address_of(ratio, values, 4.0))
    with pytest.raises(ValueError, match="too small"):
        through_addresses(np.array([1]), *found)
    with pytest.raises(AssertionError):
        through_addresses(values, found[0], 0, found[2])


@pytest.mark.parametrize("value", [2, 2.5, np.float32(0.5), True])
def test_a_kernel_may_be_called_by_kernels_and_by_python_in_any_order(value: float) -> None:
    assert nine_times(value) == 9 * value
    assert thrice(value) == 3 * value
    assert nine_times(value) == 9 * value


def test_an_error_of_a_part_is_raised_by_the_kernel_that_python_called() -> None:
    assert checked(np.array([5])) == 5
    with pytest.raises(ValueError, match="too small"):
        checked(np.array([2]))


def compile_afresh() -> None:
    @kernel
    def fresh(value: int) -> int:
        return value + 1

    fresh._cache.disable()  # type: ignore[attr-defined]
    assert fresh(1) == 2


def test_reports_name_the_kernel_and_how_far_the_compilation_is() -> None:
    reports: list[Compilation] = []
    with on_compile(reports.append):
        compile_afresh()
    begin, end = reports
    assert (begin.kernel, begin.done, end.kernel, end.done) == ("fresh", False, "fresh", True)
    assert end.count == begin.count + 1
    assert end.seconds > begin.seconds


def test_who_asks_for_reports_gets_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "streamsched.compile")
    with on_compile(lambda _compilation: None):
        compile_afresh()
    assert not [record for record in caplog.records if record.name == "streamsched.compile"]
    compile_afresh()
    assert "streamsched.compile" in {record.name for record in caplog.records}


def test_the_first_compilation_of_a_process_is_a_warning_once_and_loading_is_none(tmp_path: Path) -> None:
    module = MODULE.replace("    print(", "    double(1.5); double(2j)\n    print(")
    process = start(tmp_path, 1, module)
    _, err = process.communicate(timeout=300)
    assert err.count("compiling kernels") == 1
    assert len(err.splitlines()) == 1
    _, err = start(tmp_path, 1, module).communicate(timeout=300)
    assert not err


def test_the_logger_silences_it(tmp_path: Path) -> None:
    out, err = start(tmp_path, 1, SILENT).communicate(timeout=300)
    assert (out.split()[0], err) == ("2", "")


def test_a_child_forked_while_its_parent_compiles_can_compile_too(tmp_path: Path) -> None:
    assert finish(start(tmp_path, 1, FORK))[-2:] == [1, 3]


def test_an_interrupt_while_code_is_handed_over_waits_for_its_end() -> None:
    handed_over: list[bool] = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            _hand_over(handed_over)
        assert handed_over
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_take_no_signals() -> None:
    before = signal.getsignal(signal.SIGINT)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(_handler_meanwhile).result() is before


def _hand_over(handed_over: list[bool]) -> None:
    with signals_deferred():
        os.kill(os.getpid(), signal.SIGINT)
        handed_over.append(True)


def _handler_meanwhile() -> object:
    with signals_deferred():
        return signal.getsignal(signal.SIGINT)
