"""``streamsched serve``: a saved state over HTTP, without a stream."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console

from streamsched.cli.exits import DONE, Cancelled, Interruption, after_drain
from streamsched.cli.service_options import (
    compile_for_requests,
    frontier_option,
    given_settings,
    log_run,
    needs_http,
    print_counts,
    rehearse_option,
    service_clock,
    service_options,
)
from streamsched.errors import SettingsError
from streamsched.scheduler.durable import DurableScheduler
from streamsched.service.event_log import LOG
from streamsched.service.http_settings import HttpSettings
from streamsched.service.ingest_loop import SaveLog
from streamsched.service.run_settings import NO_STREAM, RunSettings
from streamsched.service.setting_sources import Given, read_run_settings
from streamsched.service.setup import open_run_changes, open_run_hooks, open_run_state
from streamsched.service.stream_hooks import StreamHook, find_drift

_TICK_S: Final = 1.0  # between two looks at saves and hooks
_EPILOG: Final = """
\b
Examples:
  streamsched serve --state state/
  streamsched serve --state state/ --http 0.0.0.0:8080 --tokens tokens.toml
  streamsched serve --state state/ --frontier 127.0.0.1:7071
  streamsched serve --config service.toml --set http.rate=100
  streamsched serve --state rehearsal/ --rehearse 1d=3s

The first SIGTERM or Ctrl-C refuses new requests, answers those under way and saves the state; a second one ends the
service at once. docs/service.md describes requests, tokens and settings.
"""


@click.command("serve", epilog=_EPILOG)
@rehearse_option
@frontier_option
@service_options
def serve_command(**given: Any) -> int:
    """Serve a saved state over HTTP.

    Crawlers ask for pages and report outcomes; there is no other stream. `run --http` serves beside a stream.
    """
    options, file = given_settings(given)
    settings, unknown = read_run_settings(options | {"source": Given(NO_STREAM, "serve")}, file)
    with log_run(settings, unknown, Console(stderr=True), level="info"):
        return _serve(settings, as_json=given["json"])


def _check_directories(settings: RunSettings) -> None:
    directories = [
        Path(one).resolve() for one in (settings.state, *settings.frontier.others.values()) if one is not None
    ]
    if len(set(directories)) < len(directories):
        expected = "a directory of its own for each crawl, none of them that of state"
        raise SettingsError("frontier.crawls", settings.frontier.crawls, expected)


def _serve(settings: RunSettings, *, as_json: bool) -> int:
    with needs_http():
        from streamsched.http.open_http import open_http  # noqa: PLC0415  an extra
        from streamsched.http.server import listen, listen_on  # noqa: PLC0415
    wall, begin = service_clock(settings)
    http = HttpSettings(**settings.http)
    with ExitStack() as stack:
        listener = stack.enter_context(listen(http))
        frontier, open_beside = settings.frontier, None
        if frontier.address is not None:
            with needs_http("frontier,http"):
                from streamsched.frontier.open_frontier import open_frontier  # noqa: PLC0415  an extra
            beside = stack.enter_context(listen_on(frontier.listening(http).address, "frontier.address"))
            open_beside = partial(open_frontier, settings=frontier, http=http, listener=beside)
            _check_directories(settings)
        scheduler = stack.enter_context(open_run_state(settings, wall, is_live=True))
        interruption = stack.enter_context(Interruption(waits=True))
        hooks = stack.enter_context(open_run_hooks(settings, scheduler, wall, is_live=True))
        others: dict[str, DurableScheduler] = {}
        other_hooks: list[StreamHook] = []
        for name, directory in frontier.others.items() if open_beside is not None else ():
            own = replace(settings, state=directory)
            others[name] = stack.enter_context(open_run_state(own, wall, is_live=True))
            other_hooks += stack.enter_context(open_run_hooks(own, others[name], wall, is_live=True))
        changes = open_run_changes(settings, scheduler)
        if changes is not None:
            stack.enter_context(changes)
        LOG.info("started", state=str(settings.state), pages=len(scheduler))
        with suppress(Cancelled):
            prepare = partial(compile_for_requests, interruption)
            server = stack.enter_context(open_http(scheduler, http, wall, listener, prepare))
            if open_beside is not None:
                stack.enter_context(open_beside(server.app, others))
            begin()
            saves = [SaveLog(one) for one in (scheduler, *others.values())]
            for _ in interruption.until(_ticks()):
                for one in saves:
                    one.note()
                for hook in (*hooks, *other_hooks):
                    hook.tick()
                server.figures.drifted = find_drift(hooks)
        assert interruption.number is not None
        LOG.info("stopping", signal=interruption.number)
    counts: dict[str, int | str] = {"pages": len(scheduler), "state": str(scheduler.saved.path)}
    LOG.info("stopped", **counts)
    print_counts(counts, as_json=as_json)
    return DONE if interruption.number is None else after_drain(interruption.number)


def _ticks() -> Iterator[float]:
    while True:
        time.sleep(_TICK_S)
        yield time.monotonic()
