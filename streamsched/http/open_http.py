"""Opens the HTTP service of a scheduler: its thread, its access checks, its endpoints and its server."""

from __future__ import annotations

import gc
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from streamsched.errors import NOTHING, SettingsError
from streamsched.http.app import BodyBounds, HttpApp, Served
from streamsched.http.console import CONTENT_POLICY, Console, read_files
from streamsched.http.console.documentation import Documentation
from streamsched.http.endpoints.administration import Administration, Monitoring
from streamsched.http.endpoints.crawling import Crawling
from streamsched.http.endpoints.reading import Reading
from streamsched.http.gate import AUDIT_NAME, AuditLog, Gate, RateLimit
from streamsched.http.prometheus_metrics import PrometheusMetrics
from streamsched.http.protocol.openapi import describe_routes
from streamsched.http.protocol.routes import Route, find_routes
from streamsched.http.scheduler_thread import SchedulerThread
from streamsched.http.server import HttpServer
from streamsched.http.service import Service
from streamsched.http.service_figures import Sampler, ServiceFigures
from streamsched.http.tokens import TokenFile
from streamsched.scheduler.durable import DurableScheduler
from streamsched.service.event_log import LOG
from streamsched.service.http_settings import HttpSettings
from streamsched.web.reach import Reach, read_networks


@contextmanager
def open_http(
    scheduler: DurableScheduler,
    settings: HttpSettings,
    wall: Callable[[], float],
    listener: socket.socket,
    prepare: Callable[[], object] | None = None,
) -> Iterator[HttpServer]:
    """Serve `scheduler` over HTTP within the block; at its end requests under way are answered.

    `wall`: the present time, UTC epoch seconds, which never goes back; `listener`: an address is claimed before a state
    is opened, by `streamsched.http.server.listen`; `prepare`: called before the block, while only monitors are
    answered, who learn that the service is not ready. Raises SettingsError for an invalid file of tokens, SnapshotError
    if the audit log cannot be written, and what `prepare` raises.
    """
    with open_app(scheduler, settings, wall) as app:
        server = HttpServer(settings, app, listener)
        app.service.is_starting = prepare is not None
        had_frozen = gc.get_freeze_count() > 0
        server.start()
        try:
            if prepare is not None:
                prepare()
            app.service.is_starting = False
            LOG.info("serving http", address=server.address)
            gc.freeze()  # else each full collection looks at all that compilers have left, for a tenth of a second
            yield server
        finally:
            if not had_frozen:  # else the process is ours, and ends
                gc.unfreeze()
            server.stop()


@contextmanager
def open_app(
    scheduler: DurableScheduler, settings: HttpSettings, wall: Callable[[], float]
) -> Iterator[HttpApp[Service]]:
    """Yield the application of `scheduler`, for any ASGI server or a test. The arguments are those of `open_http`."""
    with ExitStack() as stack:
        service = stack.enter_context(open_service(scheduler, settings, wall))
        routes = make_routes(service) + _open_indexnow(stack, service, settings)
        yield stack.enter_context(open_routes(service, routes, settings, scheduler.directory))


@contextmanager
def open_routes(
    service: Served, routes: Sequence[Route], settings: HttpSettings, directory: Path
) -> Iterator[HttpApp[Served]]:
    """Yield the application of `service`; `directory`: of its audit log, unless `settings` name another file."""
    tokens = None if settings.tokens is None else TokenFile(Path(settings.tokens), service.clock, time.monotonic)
    gate = Gate(tokens, RateLimit(settings.rate, time.monotonic), settings.host)
    bounds = BodyBounds(settings.max_body, float(settings.body_timeout))
    with (
        AuditLog(Path(settings.audit or directory / AUDIT_NAME), service.clock) as audit,
        ThreadPoolExecutor(1, "streamsched decoder") as decoder,
    ):
        yield HttpApp(service, routes, gate, audit, bounds, decoder)


@contextmanager
def open_service(scheduler: DurableScheduler, settings: HttpSettings, wall: Callable[[], float]) -> Iterator[Service]:
    """Yield what answers calls of `scheduler`, in threads of its own. The arguments are those of `open_http`."""
    with SchedulerThread(scheduler, settings.queue) as thread:
        figures = ServiceFigures(scheduler, thread, wall, float(settings.sample_every))
        with Sampler(figures):
            snapshots = None if settings.snapshots is None else Path(settings.snapshots)
            yield Service(scheduler, thread, wall, figures, snapshots)


def _open_indexnow(stack: ExitStack, service: Service, settings: HttpSettings) -> list[Route]:
    """Return the routes of IndexNow if the setting asks for them. Raises SettingsError if a package is missing."""
    if not settings.indexnow:
        return []
    try:
        from streamsched.http.endpoints.indexnow import MOST_UNDER_WAY, IndexNow  # noqa: PLC0415  httpx is an extra
        from streamsched.web.safe_fetch import SafeClient  # noqa: PLC0415
    except ImportError as error:
        expected = "an installed package: pip install 'streamsched[fetch,http]'"
        raise SettingsError(error.name or "httpx", NOTHING, expected) from error
    networks = read_networks((settings.indexnow_allow or "").split(), "indexnow_allow")
    reach = Reach(networks, allow_ports=range(1, 1 << 16))
    client = SafeClient(reach, connections=MOST_UNDER_WAY, keeps=False)
    stack.callback(client.end_lookups)
    return IndexNow(service, client).routes()


def make_routes(service: Service) -> list[Route]:
    """Return all routes of the service."""
    routes = list(find_routes([Crawling(service), Reading(service), Administration(service)]))
    routes += Monitoring(service, PrometheusMetrics(service), lambda: describe_routes(routes, service.version)).routes()
    return routes + Console(read_files()).routes() + Documentation(CONTENT_POLICY).routes()
