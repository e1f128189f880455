"""``streamsched run``: crawl outcomes from a file or a topic into a saved state."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext, suppress
from functools import partial
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from streamsched.cli.exits import DONE, Cancelled, Interruption, after_drain
from streamsched.cli.output import name_rejections
from streamsched.cli.service_options import (
    compile_for_requests,
    given_settings,
    log_run,
    needs_http,
    print_counts,
    service_clock,
    service_options,
    setting,
)
from streamsched.connectors.kafka.kafka_settings import SCHEME, read_settings
from streamsched.errors import SettingsError
from streamsched.persistence.state_directory import lock_state
from streamsched.service.arrivals import Arrival, arrivals
from streamsched.service.event_log import LOG
from streamsched.service.http_settings import HttpSettings
from streamsched.service.ingest_loop import IngestLoop
from streamsched.service.run_settings import RunSettings
from streamsched.service.setting_sources import read_run_settings
from streamsched.service.setup import (
    open_run_batches,
    open_run_changes,
    open_run_hooks,
    open_run_signals,
    open_run_source,
    open_run_state,
    resume_source,
)

if TYPE_CHECKING:
    from streamsched.connectors.source import AnySource
    from streamsched.errors import SourceError
    from streamsched.http.server import HttpServer
    from streamsched.scheduler.durable import DurableScheduler


_TICK_S: Final = 0.25  # most time of a wait for messages before signals are checked
_SPEED_S: Final = 0.2  # interval of speed measurements
_WEIGHT: Final = 0.3  # of the newest measurement in the moving average
_PROGRESS_S: Final = 10.0  # interval of progress events in the log
_NO_FRONTIER: Final = "none: `streamsched serve` has the url-frontier API, `streamsched run` has not"
_NO_GROUP: Final = (
    "none: `streamsched run` reads all partitions of a topic and keeps their positions in its state; "
    "several hosts share a topic by `streamsched cluster host` (docs/cluster.md)"
)
_EPILOG: Final = """
\b
Examples:
  streamsched run --source outcomes.jsonl.gz --state state/
  streamsched run --source kafka://localhost:9092/outcomes --state state/
  streamsched run --source kafka://localhost:9092/outcomes --state state/ --until-end --json
  streamsched run --config run.toml --set politeness.delay=2s
  streamsched run --source kafka://localhost:9092/outcomes --state state/ --batches-to kafka://localhost:9092/visits
  streamsched run --source outcomes.jsonl --state state/ --changes-to changes.jsonl
  streamsched run --source outcomes.jsonl --signals signals.jsonl --state state/
  streamsched run --source kafka://localhost:9092/outcomes --state state/ --http 127.0.0.1:8080
  crawler | streamsched run --source - --format jsonl --state state/

The first SIGTERM or Ctrl-C saves the state and ends the run; a second one ends it at once, without a save.

Settings can also be in a TOML file or in environment variables (docs/run.md); options override both.
"""


@click.command("run", epilog=_EPILOG)
@setting("--source", metavar="SOURCE")
@setting("--signals", setting="signals.source", metavar="SOURCE")
@setting("--format", metavar="FORMAT", show_default="detected by name and content")
@setting("--until-end", is_flag=True, default=None)
@setting("--from-start", is_flag=True, default=None)
@setting("--dead-letters", metavar="FILE")
@setting("--batches-to", setting="batches.to", metavar="URL")
@setting("--changes-to", setting="changes.to", metavar="URL")
@service_options
def run_command(**given: Any) -> int:
    """Read crawl outcomes into a saved state.

    The outcomes come from a file or a Kafka topic. Reading starts where the last run on this state stopped. A file is
    read to its end, a topic until SIGTERM or Ctrl-C. With --http crawlers ask this process for pages, and it continues
    after a file's end.
    """
    settings, unknown = read_run_settings(*given_settings(given))
    if settings.frontier.address is not None:
        raise SettingsError("frontier.address", settings.frontier.address, _NO_FRONTIER)
    topics = [url for url in (settings.source, settings.signals.source) if url is not None and url.startswith(SCHEME)]
    for group in (settings.kafka.get("group"), *(read_settings(url).group for url in topics)):
        if group is not None:
            raise SettingsError("group", group, _NO_GROUP)
    console = Console(stderr=True)
    is_service = settings.is_topic or "address" in settings.http
    with log_run(settings, unknown, console, level="info" if is_service else "warning"):
        return _serve(settings, ProgressLine(console), as_json=given["json"])


def _serve(settings: RunSettings, display: ProgressLine, *, as_json: bool) -> int:
    with ExitStack() as stack:
        with lock_state(settings.state, make=True):
            pass  # nothing is read from a pipe if the state is in use
        http = HttpSettings(**settings.http) if "address" in settings.http else None
        listener = None if http is None else stack.enter_context(_listen(http))
        source = stack.enter_context(open_run_source(settings))
        signals = open_run_signals(settings)
        sources: list[AnySource] = [source]
        if signals is not None:
            sources.append(stack.enter_context(signals))
        is_live = settings.is_topic or "address" in settings.http or not source.is_replayable
        wall, begin = service_clock(settings)
        scheduler = stack.enter_context(open_run_state(settings, wall, is_live=is_live))
        for one in sources:
            resume_source(one, scheduler, settings)
        waits = not all(one.is_replayable for one in sources)
        interruption = stack.enter_context(Interruption(waits=waits))
        is_beside = settings.is_topic and not settings.until_end
        # What a pipe has delivered must be applied, as nothing delivers it again.
        cancelling = interruption.cancelling if source.is_replayable else nullcontext
        hooks = stack.enter_context(open_run_hooks(settings, scheduler, wall, is_live=is_beside, cancelling=cancelling))
        batches = open_run_batches(settings, scheduler, wall)
        if batches is not None:
            stack.enter_context(batches)
        changes = open_run_changes(settings, scheduler)
        if changes is not None:
            stack.enter_context(changes)
        server: HttpServer | None = None
        if http is not None and listener is not None:
            with needs_http():
                from streamsched.http.open_http import open_http  # noqa: PLC0415  an extra that other runs do without
            prepare = partial(compile_for_requests, interruption)
            with suppress(Cancelled):  # nothing is read then
                server = stack.enter_context(open_http(scheduler, http, wall, listener, prepare))
        begin()
        loop = IngestLoop(
            scheduler,
            source,
            signals=signals,
            hooks=hooks,
            batches=batches,
            pause=None if server is None else server.let_pass,
            progress_s=None if display.is_shown else _PROGRESS_S,
        )
        LOG.info("started", source=_without_query(settings.source), state=str(settings.state), pages=len(scheduler))
        if source.is_replayable:  # it may have a backlog; what a pipe holds is new
            _show(display, server, loop)
        failure: SourceError | None = None
        with display, suppress(Cancelled):
            failure = loop.run(_arrivals(loop, scheduler, settings, interruption), partial(_show, display, server))
        if interruption.number is not None:
            LOG.info("stopping", signal=interruption.number)
        loop.finish()
        for one in sources:
            if not one.is_partitioned and settings.log.format == "text":
                name_rejections(one.rejections, one.rejected)
        counts: dict[str, int | str] = {**loop.counts(), "pages": len(scheduler), "state": str(scheduler.saved.path)}
        LOG.info("stopped", **counts)
    print_counts(counts, as_json=as_json)
    if failure is not None:
        raise failure
    return DONE if interruption.number is None else after_drain(interruption.number)


def _listen(settings: HttpSettings) -> socket.socket:
    with needs_http():
        from streamsched.http.server import listen  # noqa: PLC0415  an extra that other runs do without
    return listen(settings)


def _show(display: ProgressLine, server: HttpServer | None, loop: IngestLoop) -> None:
    """Show the progress of the loop on the terminal and in the figures of the service."""
    display.show(loop)
    if server is not None:
        server.figures.note_stream(loop.progress)
        server.figures.drifted = loop.drifted


def _arrivals(
    loop: IngestLoop, scheduler: DurableScheduler, settings: RunSettings, interruption: Interruption
) -> Iterator[Arrival | None]:
    """Yield what arrives, None whenever nothing does for a while, until the streams end or SIGTERM or SIGINT comes."""
    taken = {} if settings.from_start else scheduler.core.reached.beyond
    arriving = arrivals(loop.streams, taken, scheduler.latest_time, _TICK_S)
    if "address" in settings.http and not settings.until_end:
        arriving = chain(arriving, _wait(loop))
    for (arrival,) in interruption.until(zip(arriving, strict=False)):  # in tuples, because `until` ends at None
        yield arrival


def _wait(loop: IngestLoop) -> Iterator[None]:
    """Yield None at intervals, for ever, after the end of the streams."""
    loop.streams_ended = True
    while True:
        yield None
        time.sleep(_TICK_S)


def _without_query(source: str) -> str:
    """Return `source` without its query, which may hold passwords."""
    return source.partition("?")[0] if source.startswith("kafka://") else source


class ProgressLine:
    """Shows the progress of an ingest loop while its block runs, if `console` is a terminal: ``is_shown``."""

    def __init__(self, console: Console) -> None:
        self.is_shown = console.is_terminal
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self._bar = Progress(*columns, console=console, transient=True, disable=not self.is_shown)
        self._task = self._bar.add_task("", total=None)
        self._since = time.monotonic()
        self._applied = 0
        self._speed = 0.0

    def show(self, loop: IngestLoop) -> None:
        """Update the line from `loop`."""
        if not self.is_shown:
            return
        now, applied = time.monotonic(), loop.total.applied
        if now >= self._since + _SPEED_S:
            self._speed += (applied - self._applied) / (now - self._since) * _WEIGHT - self._speed * _WEIGHT
            self._applied, self._since = applied, now
        lag = "" if loop.lag is None else f", {loop.lag:,} messages behind"
        text = f"{applied:,} outcomes, {loop.pages:,} pages, {self._speed:,.0f} a second{lag}"
        self._bar.update(self._task, description=text)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
