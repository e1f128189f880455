"""The time of a service: that of the machine, or for rehearsals a faster one."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

import pytest

from streamsched.cli.service_options import service_clock
from streamsched.http.service_clock import ScaledClock
from streamsched.service.run_settings import RunSettings
from streamsched.service.setting_sources import Given, read_run_settings


def settings(**clock: object) -> RunSettings:
    given = {f"clock.{name}": Given(value, f"--set clock.{name}") for name, value in clock.items()}
    return read_run_settings({"source": Given("-", ""), "state": Given("s", "")} | given)[0]


def test_time_stands_still_until_it_begins() -> None:
    steady = iter([5.0, 7.5])
    clock = ScaledClock(1_000.0, 100.0, steady.__next__)
    assert [clock.read(), clock.read()] == [1_000.0, 1_000.0]
    clock.begin()
    assert clock.read() == 1_250.0


@pytest.mark.parametrize("start", ["2025-08-22", "2025-08-22T02:00:00+02:00", "1755820800", datetime(2025, 8, 22)])  # noqa: DTZ001
def test_a_run_begins_at_its_start_and_goes_at_its_speed(start: object) -> None:
    read, begin = service_clock(settings(start=start, speed="1000000"))
    assert read() == read() == 1_755_820_800.0
    begin()
    before_s = time.monotonic()
    first = read()
    second = read()
    assert 1_755_820_800.0 < first < second
    assert second - first <= (time.monotonic() - before_s) * 1_000_000


def test_without_settings_it_is_the_time_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([1_000.0, 2_000.0])
    clock: Callable[[], float] = times.__next__
    monkeypatch.setattr("streamsched.cli.options.time.time", clock)
    read, begin = service_clock(settings())
    begin()
    assert [read(), read()] == [1_000.0, 2_000.0]
