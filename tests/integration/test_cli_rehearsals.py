"""`serve --rehearse`: time that passes faster."""

from __future__ import annotations

import click
import pytest

from streamsched.cli.commands.serve import serve_command
from streamsched.cli.service_options import given_settings, service_clock
from streamsched.service.run_settings import NO_STREAM
from streamsched.service.setting_sources import Given, read_run_settings


def test_rehearsal_is_a_speed_of_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    machine_s = [10.0]
    monkeypatch.setattr("streamsched.cli.service_options.time.monotonic", lambda: machine_s[0])
    with serve_command.make_context("serve", ["--state", "x", "--rehearse", "1d=3s"]) as context:
        options, file = given_settings(context.params)
    settings, _ = read_run_settings(
        options | {"source": Given(NO_STREAM, "serve"), "clock.start": Given("1970-01-02", "--set")}, file
    )
    assert settings.clock.speed == 28_800.0
    read, begin = service_clock(settings)
    begin()
    machine_s[0] += 3.0
    assert read() == 86_400.0 * 2


@pytest.mark.parametrize("text", ["", "1d", "=3s", "1d=", "1d=0s", "0s=3s", "3s=1d=2d", "day=3s"])
def test_rehearsals_that_are_none(text: str) -> None:
    with pytest.raises(click.UsageError, match="expected"):
        serve_command.make_context("serve", ["--state", "x", "--rehearse", text])
