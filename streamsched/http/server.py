"""The server: uvicorn in a thread of its own, from its start to the last answer, or in a loop that runs already."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Final, Protocol

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn import Config, Server

from streamsched.errors import SettingsError
from streamsched.http.app import HttpApp
from streamsched.http.connections import Connection, ConnectionBounds
from streamsched.http.service import Service
from streamsched.http.service_figures import ServiceFigures
from streamsched.service.event_log import LOG
from streamsched.service.http_settings import HttpSettings, split_address

_STOP_S: Final = 10.0  # most time of the server's own end, once every request is answered
_QUIET_S: Final = 0.2  # without a request before connections are closed
_REFUSE_S: Final = 2.0  # most time in which requests are only refused: callers that ask at once again never end
_LOOK_S: Final = 0.01  # between two looks at whether the last request is answered
_BACKLOG: Final = 1024  # connections that wait to be accepted


def listen(settings: HttpSettings) -> socket.socket:
    """Return a socket that listens on the address of `settings`. Raises SettingsError if it cannot."""
    return listen_on(settings.address, "http.address")


def listen_on(place: str, setting: str) -> socket.socket:
    """Return a socket that listens on `place`, HOST:PORT. Raises SettingsError naming `setting` if it cannot."""
    host, port = split_address(place)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        expected = f"an address that can be listened on ({error.strerror or error})"
        raise SettingsError(setting, place, expected) from error
    return listener


_CALLBACKS: Final = HttpSettings(connections=256, connections_per_address=256)  # all of them may come from one proxy


@asynccontextmanager
async def serving(app: ASGIApp, listener: socket.socket) -> AsyncIterator[None]:
    """Serve `app` on `listener`, in the loop that runs, within the block. `Connection` bounds what clients can hold."""
    server = _Server(_configure(_CALLBACKS, app, Counter()))
    task = asyncio.create_task(server.serve([listener]))
    try:
        yield
    finally:
        server.should_exit = True
        await task


class _Server(Server):
    """A server within a program that has handlers of signals."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the handlers as they are."""
        yield


class ServedApp(Protocol):
    """An application that can be served. ``under_way``: requests that are not answered yet."""

    @property
    def under_way(self) -> int: ...  # noqa: D102
    @property
    def quiet_since_s(self) -> float:
        """When the last request was answered, by the monotonic clock."""
        ...

    def refuse_requests(self) -> None:
        """Refuse requests from now on."""
        ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""


class AppServer:
    """Serves `app` according to `settings` on `listener`. ``address``: HOST:PORT where it listens.

    `statuses`: counts answers of connections that are refused. HTTP/1.1 only; `Connection` bounds what a client can
    hold.
    """

    def __init__(self, settings: HttpSettings, app: ServedApp, listener: socket.socket, statuses: Counter[int]) -> None:
        host, port = listener.getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._drain_s = float(settings.drain_timeout)
        self._served = app
        self._listener = listener
        self._server = Server(_configure(settings, app, statuses))
        self._thread = threading.Thread(target=self._run, name="streamsched http", daemon=True)

    def start(self) -> None:
        """Serve from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Refuse new requests, answer those under way, and close all connections."""
        self._served.refuse_requests()
        begun_s = time.monotonic()
        end_s = begun_s + self._drain_s
        while not _is_quiet(self._served, begun_s) and time.monotonic() < end_s:
            time.sleep(_LOOK_S)
        if self._served.under_way:
            LOG.error("requests not answered before the stop", requests=self._served.under_way)
        self._server.should_exit = True
        self._thread.join(_STOP_S)

    @property
    def requests_under_way(self) -> int:
        """The number of requests that are not answered yet."""
        return self._served.under_way

    def _run(self) -> None:
        try:
            asyncio.run(self._server.serve([self._listener]))
        except Exception as error:  # noqa: BLE001  a thread has nobody to raise to
            LOG.error("the http server has failed", exc_info=error)


class HttpServer(AppServer):
    """Serves the application of a scheduler."""

    def __init__(self, settings: HttpSettings, app: HttpApp[Service], listener: socket.socket) -> None:
        super().__init__(settings, app, listener, app.service.statuses)
        self.app = app

    @property
    def figures(self) -> ServiceFigures:
        """Figures of the service."""
        return self.app.service.figures

    def let_pass(self) -> None:
        """Return once no request waits for the scheduler; see `SchedulerThread.let_pass`."""
        self.app.service.thread.let_pass()


def _is_quiet(app: ServedApp, begun_s: float) -> bool:
    """Return whether connections may be closed after a stop that began at `begun_s`.

    No request is under way, and none has come for a while: what comes is refused, not lost.
    """
    until_s = min(app.quiet_since_s + _QUIET_S, begun_s + _REFUSE_S)
    return not app.under_way and time.monotonic() > until_s


def _configure(settings: HttpSettings, app: ASGIApp, statuses: Counter[int]) -> Config:
    bounds = ConnectionBounds(
        most=settings.connections,
        most_of_address=settings.connections_per_address,
        idle_s=float(settings.idle_timeout),
        write_s=float(settings.write_timeout),
        statuses=statuses,
    )
    connect: Any = partial(Connection, bounds)  # which uvicorn calls as it calls a class
    return Config(
        app,
        http=connect,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # any client of this machine could claim another address
        server_header=False,
        timeout_keep_alive=float(settings.idle_timeout),  # type: ignore[arg-type]  # it takes any seconds
        timeout_graceful_shutdown=1,
    )
