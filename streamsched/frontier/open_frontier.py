"""Opens the url-frontier API of a service: TLS, and a thread for its connections."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final

from streamsched.errors import SettingsError
from streamsched.frontier.calls import FrontierCalls
from streamsched.frontier.connections import GrpcBounds, GrpcConnection
from streamsched.http.app import HttpApp
from streamsched.http.open_http import open_service
from streamsched.http.service import Service
from streamsched.scheduler.durable import DurableScheduler
from streamsched.service.event_log import LOG
from streamsched.service.http_settings import FrontierSettings, HttpSettings

_STOP_S: Final = 5.0  # most time of the end of the thread, once calls are over


@contextmanager
def open_frontier(
    app: HttpApp[Service],
    others: Mapping[str, DurableScheduler],
    settings: FrontierSettings,
    http: HttpSettings,
    listener: socket.socket,
) -> Iterator[str]:
    """Serve the API on `listener` within the block; yield HOST:PORT.

    The crawl of `settings` is on the scheduler of `app`, beside which this is served; `others`: further crawls, by
    crawl ID. At the end of the block, streams end once what has arrived on them is acknowledged. Raises SettingsError
    for TLS files that cannot be read.
    """
    context = None if settings.certificate is None else _make_context(settings, http)
    bounds = GrpcBounds(
        http.max_body,
        http.connections,
        http.connections_per_address,
        float(http.write_timeout),
        float(http.body_timeout),
    )
    host, port = listener.getsockname()[:2]
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    with ExitStack() as stack:
        services = {settings.crawl: app.service}
        for name, scheduler in others.items():
            services[name] = stack.enter_context(open_service(scheduler, http, app.service.clock))
        calls = FrontierCalls(app, services, keeps_dates=settings.earliest_dates)
        server = _Server(calls, bounds, listener, context, float(http.drain_timeout))
        server.start()
        try:
            LOG.info("serving url-frontier", address=address, crawls=" ".join(services))
            yield address
        finally:
            app.service.is_stopping = True
            server.stop()


class _Server:
    """Accepts connections in a thread of its own."""

    def __init__(
        self,
        calls: FrontierCalls,
        bounds: GrpcBounds,
        listener: socket.socket,
        context: ssl.SSLContext | None,
        drain_s: float,
    ) -> None:
        self._open: set[GrpcConnection] = set()
        self._connect = partial(GrpcConnection, bounds, calls.handle, self._open)
        self._listener = listener
        self._context = context
        self._drain_s = drain_s
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="streamsched frontier", daemon=True)

    def start(self) -> None:
        """Serve from now on."""
        self._thread.start()

    def stop(self) -> None:
        """End all calls, and close all connections."""
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(self._drain_s + _STOP_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except Exception as error:  # noqa: BLE001  a thread has nobody to raise to
            LOG.error("the url-frontier server has failed", exc_info=error)
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await self._loop.create_server(self._connect, sock=self._listener, ssl=self._context)
        await self._stopping.wait()
        server.close()
        calls = [call for connection in self._open for call in connection.calls.values()]
        for call in calls:
            call.stop()
        tasks = [call.task for call in calls if call.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=self._drain_s)
        for connection in list(self._open):
            connection.close()
        await asyncio.sleep(0)


def _make_context(settings: FrontierSettings, http: HttpSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["h2"])
    try:
        context.load_cert_chain(str(settings.certificate), str(settings.key))
        if settings.client_ca is not None:
            context.load_verify_locations(str(settings.client_ca))
            context.verify_mode = ssl.CERT_REQUIRED if http.tokens is None else ssl.CERT_OPTIONAL
    except (OSError, ssl.SSLError) as error:
        expected = f"PEM files that can be read ({error.strerror or error})"
        raise SettingsError("frontier.certificate", str(settings.certificate), expected) from error
    return context
