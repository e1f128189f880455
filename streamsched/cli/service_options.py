"""Options of the commands that run until they are stopped, and the settings that options, environment and file make."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from rich.console import Console

from streamsched.cli.options import FILE, current_time
from streamsched.cli.output import echo, echo_json
from streamsched.http.service_clock import ScaledClock, ServiceClock
from streamsched.scheduler.scheduler import DEFAULT_FORMULA
from streamsched.service.event_log import LOG, log_to
from streamsched.service.setting_sources import Given, read_assignments
from streamsched.service.setting_tables import LOG_FORMATS, LOG_LEVELS

if TYPE_CHECKING:
    from streamsched.service.run_settings import RunSettings

__all__ = ["SERVICE_OPTIONS", "given_settings", "log_run", "print_counts", "service_clock", "service_options"]

Function = TypeVar("Function", bound=Callable[..., Any])

_NAME_WIDTH: Final = 14  # of a count

SERVICE_OPTIONS: Final[Mapping[str, str]] = {
    "state": "state",
    "http": "http.address",
    "tokens": "http.tokens",
    "cycle": "scheduler.cycle",
    "objective": "scheduler.objective",
    "formula": "scheduler.formula",
    "save_every": "save.every",
    "evolve_every": "evolve_every",
    "max_ahead": "max_ahead",
    "log_level": "log.level",
    "log_format": "log.format",
}
"""The settings that have an option in each of these commands, by the option."""

_OPTIONS: Final = (
    click.option("--state", metavar="DIR", help="Directory of the saved state; created if it does not exist."),
    click.option("--http", metavar="HOST:PORT", help="Serve HTTP at this address."),
    click.option("--tokens", metavar="FILE", help="File of the tokens of HTTP; needed beyond loopback addresses."),
    click.option("--config", type=FILE, help="TOML file with settings."),
    click.option("--set", multiple=True, metavar="NAME=VALUE", help="Set any setting of such a file. Can be repeated."),
    click.option("--cycle", metavar="TIME", show_default="1d", help="Unit of t in formulas; only for a new state."),
    click.option(
        "--objective",
        metavar="NAME",
        show_default="in a new state changes",
        help="What visits are for, from now on: changes, freshness, or balanced(D) with a dial D from 0 to 1.",
    ),
    click.option(
        "--formula",
        metavar="FORMULA",
        show_default=f"in a new state {DEFAULT_FORMULA}",
        help="Score formula to use from now on.",
    ),
    click.option(
        "--save-every", metavar="TIME", show_default="30s", help="Time between two saves of what has changed."
    ),
    click.option(
        "--evolve-every",
        metavar="N",
        show_default="never",
        help="Evolve the formula every N cycles, of a file's timestamps or of the clock for a topic.",
    ),
    click.option(
        "--max-ahead",
        metavar="TIME",
        show_default="1d for topics, pipes and HTTP, 100d for files",
        help="Reject outcomes further ahead of the clock, or in a file of its newest outcome; none accepts all.",
    ),
    click.option(
        "--log-level",
        metavar="LEVEL",
        show_default="info for topics and HTTP, warning for files",
        help=f"Least level of log lines: {', '.join(LOG_LEVELS)}.",
    ),
    click.option(
        "--log-format", metavar="FORMAT", show_default="text", help=f"Format of log lines: {' or '.join(LOG_FORMATS)}."
    ),
    click.option("--json", is_flag=True, help="Print JSON."),
)


def service_options(command: Function) -> Function:
    """Give `command` the options that are settings of a service, ``--config``, ``--set`` and ``--json``."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def given_settings(given: Mapping[str, Any], options: Mapping[str, str]) -> tuple[dict[str, Given], Path | None]:
    """Return the settings in `given`, what click has read, by dotted name, and the file with further ones.

    `options`: the settings by their options. Raises SettingsError for an invalid ``--set``.
    """
    found = {
        name: Given(given[option], f"--{option.replace('_', '-')}")
        for option, name in options.items()
        if given[option] is not None
    }
    file = given["config"] or os.environ.get("STREAMSCHED_CONFIG")
    return read_assignments(given["set"]) | found, Path(file) if file is not None else None


@contextmanager
def log_run(settings: RunSettings, unknown: Iterable[str], console: Console, *, level: str) -> Iterator[None]:
    """Log to `console` within the block, from `level` on unless the settings have another; first the `unknown`
    variables of the environment.
    """
    with log_to(console, settings.log.level or level, settings.log.format):
        for variable in unknown:
            LOG.warning("unknown setting in the environment", variable=variable)
        yield


def service_clock(settings: RunSettings) -> tuple[Callable[[], float], Callable[[], None]]:
    """Return what reads the time of the service, which never goes back, and what begins it once the service serves."""
    start, speed = settings.clock.start, settings.clock.speed
    if start is None and speed == 1.0:
        return ServiceClock(partial(current_time, None), time.monotonic).read, lambda: None
    scaled = ScaledClock(current_time(None) if start is None else start.timestamp(), speed, time.monotonic)
    return ServiceClock(scaled.read, time.monotonic).read, scaled.begin


def print_counts(counts: Mapping[str, int | str], *, as_json: bool) -> None:
    """Print the counts of a run that has ended."""
    if as_json:
        echo_json(counts)
        return
    width = max(_NAME_WIDTH, *map(len, counts))
    for name, value in counts.items():
        echo(f"{name:<{width}} {value:,}" if isinstance(value, int) else f"{name:<{width}} {value}")
