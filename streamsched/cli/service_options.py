"""Options of the commands that run until they are stopped, and the settings that options, environment and file make."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from rich.console import Console

from streamsched.cli.exits import Interruption
from streamsched.cli.options import FILE, Parsed, current_time
from streamsched.cli.output import echo, echo_json
from streamsched.errors import NOTHING, SettingsError
from streamsched.http.service_clock import ScaledClock, ServiceClock
from streamsched.numerics.durations import parse_duration
from streamsched.scheduler.settings import DEFAULT_FORMULA
from streamsched.scheduler.warm import WarmProgress, warm
from streamsched.service.event_log import LOG, log_to
from streamsched.service.run_settings import SETTINGS, RunSettings
from streamsched.service.setting_sources import Given, read_assignments

Function = TypeVar("Function", bound=Callable[..., Any])

_NAME_WIDTH: Final = 14  # of a count


class SettingOption(click.Option):
    """An option that gives a setting of `run_settings.SETTINGS`, by default the first of its name, with its help."""

    def __init__(self, *names: Any, setting: str = "", **attributes: Any) -> None:
        super().__init__(*names, **attributes)
        self.setting = setting or next(one for one in SETTINGS if one.rpartition(".")[2] == self.name)
        described = SETTINGS[self.setting]
        self.help = self.help or f"{described.doc[:1].upper()}{described.doc[1:]}.".replace("``", "")
        if not self.show_default and isinstance(described.default, str):
            self.show_default = described.default


setting: Final = partial(click.option, cls=SettingOption)
_OPTIONS: Final = (
    setting("--state", metavar="DIR"),
    setting("--http", setting="http.address", metavar="HOST:PORT", help="Serve HTTP at this address."),
    setting("--tokens", metavar="FILE"),
    click.option("--config", type=FILE, help="TOML file with settings."),
    click.option("--set", multiple=True, metavar="NAME=VALUE", help="Set any setting of such a file. Can be repeated."),
    setting("--cycle", metavar="TIME"),
    setting("--objective", metavar="NAME", show_default="in a new state changes"),
    setting("--formula", metavar="FORMULA", show_default=f"in a new state {DEFAULT_FORMULA}"),
    setting("--save-every", setting="save.every", metavar="TIME"),
    setting(
        "--evolve-every",
        setting="evolution.every",
        metavar="N",
        show_default="never",
        help="Evolve the formula every N cycles, of a file's timestamps or of the clock for a topic.",
    ),
    setting(
        "--max-ahead",
        metavar="TIME",
        show_default="1d for topics, pipes and HTTP, 100d for files",
        help="Reject outcomes further ahead of the clock, or in a file of its newest outcome; none accepts all.",
    ),
    setting(
        "--log-level", setting="log.level", metavar="LEVEL", show_default="info for topics and HTTP, warning for files"
    ),
    setting("--log-format", setting="log.format", metavar="FORMAT"),
    click.option("--json", is_flag=True, help="Print JSON."),
)


def _read_rehearsal(text: str) -> float:
    """Return how many times as fast as the machine's clock a rehearsal runs. Raises SettingsError.

    >>> _read_rehearsal("1d=3s")
    28800.0
    """
    time_, equals, machine_time = text.partition("=")
    if not equals:
        raise SettingsError("rehearse", text, "TIME=TIME, such as 1d=3s")
    return parse_duration(time_, "rehearse") / parse_duration(machine_time, "rehearse")


rehearse_option: Final = setting(
    "--rehearse",
    setting="clock.speed",
    type=Parsed("TIME=TIME", _read_rehearsal),
    metavar="TIME=TIME",
    help="Let the first time pass in the second, such as a day in 1d=3s, for rehearsals with a state of their own.",
)


frontier_option: Final = setting(
    "--frontier",
    setting="frontier.address",
    metavar="HOST:PORT",
    help="Also serve the url-frontier API, for StormCrawler, at this address.",
)


def service_options(command: Function) -> Function:
    """Give `command` the options that are settings of a service, ``--config``, ``--set`` and ``--json``."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def given_settings(given: Mapping[str, Any]) -> tuple[dict[str, Given], Path | None]:
    """Return the settings in `given`, what click has read, by dotted name, and the file with further ones.

    Raises SettingsError for an invalid ``--set``.
    """
    found = {
        option.setting: Given(given[str(option.name)], option.opts[0])
        for option in click.get_current_context().command.params
        if isinstance(option, SettingOption) and given[str(option.name)] is not None
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
    scaled = ScaledClock(current_time(None) if start is None else float(start), speed, time.monotonic)
    return ServiceClock(scaled.read, time.monotonic).read, scaled.begin


def compile_for_requests(interruption: Interruption) -> None:
    """Compile what requests need, so that none waits for a compiler, and say so if there is something to compile.

    Raises Cancelled if a signal comes meanwhile.
    """
    has_begun = False

    def note(progress: WarmProgress) -> None:
        nonlocal has_begun
        if progress.kernel is not None and not has_begun:
            has_begun = True
            LOG.info("compiling for this machine", until_done="requests are refused, /readyz answers 503")

    with interruption.cancelling():
        done = warm(note)
    if has_begun:
        LOG.info("compiled", kernels=done.compiled, seconds=round(done.seconds, 1))


def print_counts(counts: Mapping[str, int | str], *, as_json: bool) -> None:
    """Print the counts of a run that has ended."""
    if as_json:
        echo_json(counts)
        return
    width = max(_NAME_WIDTH, *map(len, counts))
    for name, value in counts.items():
        echo(f"{name:<{width}} {value:,}" if isinstance(value, int) else f"{name:<{width}} {value}")


@contextmanager
def needs_http(extra: str = "http") -> Iterator[None]:
    """Context manager for the imports of the service: SettingsError if a package of the extra is missing."""
    try:
        yield
    except ImportError as error:
        expected = f"an installed package: pip install 'streamsched[{extra}]'"
        raise SettingsError(error.name or extra, NOTHING, expected) from error
