"""The server: granian in a thread of its own, from its start to the last answer."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from typing import Final

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.server.embed import Server

from streamsched.errors import SettingsError
from streamsched.http.app import HttpApp
from streamsched.http.service_figures import ServiceFigures
from streamsched.service.event_log import LOG
from streamsched.service.http_settings import HttpSettings

_START_S: Final = 10.0  # most time until connections are accepted
_STOP_S: Final = 10.0  # most time of the server's own end, once every request is answered
_QUIET_S: Final = 0.2  # without a request before connections are closed
_REFUSE_S: Final = 2.0  # most time in which requests are only refused: callers that ask at once again never end
_LOOK_S: Final = 0.01  # between two looks at whether it has started, or the last request is answered
_BACKLOG: Final = 1024  # connections that wait for one of those that are served to end


class HttpServer:
    """Serves `app` according to `settings`. ``address``: HOST:PORT where it listens, once it has started.

    It speaks HTTP/1.1 only: granian closes a connection without a first byte in that mode alone. Connections beyond
    ``settings.connections`` wait.
    """

    def __init__(self, settings: HttpSettings, app: HttpApp) -> None:
        self.address = ""
        self._settings = settings
        self._app = app
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: Server | None = None
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="streamsched http", daemon=True)

    def start(self) -> None:
        """Return once connections are accepted. Raises SettingsError if it cannot listen on the address."""
        host, port = self._claim()
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._thread.start()
        end_s = time.monotonic() + _START_S
        while not _accepts(host, port):
            if not self._thread.is_alive() or time.monotonic() > end_s:
                raise self._cannot_listen(self._failure or "it does not accept connections")
            time.sleep(_LOOK_S)
        LOG.info("serving http", address=self.address)

    def stop(self) -> None:
        """Refuse new requests, answer those under way, and close all connections."""
        self._app.refuse_requests()
        begun_s = time.monotonic()
        end_s = begun_s + float(self._settings.drain_timeout)
        while not self._is_quiet(begun_s) and time.monotonic() < end_s:
            time.sleep(_LOOK_S)
        if self._app.under_way:
            LOG.error("requests not answered before the stop", requests=self._app.under_way)
        if self._loop is not None and self._server is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._server.stop)
            self._thread.join(_STOP_S)

    def _is_quiet(self, begun_s: float) -> bool:
        """Return whether connections may be closed after a stop that began at `begun_s`.

        No request is under way, and none has come for a while: what comes is refused, not lost.
        """
        until_s = min(self._app.quiet_since_s + _QUIET_S, begun_s + _REFUSE_S)
        return not self._app.under_way and time.monotonic() > until_s

    @property
    def figures(self) -> ServiceFigures:
        """Figures of the service."""
        return self._app.service.figures

    @property
    def requests_under_way(self) -> int:
        """The number of requests that are not answered yet."""
        return self._app.under_way

    def let_pass(self) -> None:
        """Return once no request waits for the scheduler; see `SchedulerThread.let_pass`."""
        self._app.service.thread.let_pass()

    def _claim(self) -> tuple[str, int]:
        """Return the numeric address and the port to listen on. Raises SettingsError if another process has them.

        granian's own socket would share the port with any other that allows it, and so with a second service.
        """
        try:
            found = socket.getaddrinfo(self._settings.host, self._settings.port, type=socket.SOCK_STREAM)
            family, kind, protocol, _, address = found[0]
            with socket.socket(family, kind, protocol) as trial:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                trial.bind(address)
                host, port = trial.getsockname()[:2]
        except OSError as error:
            raise self._cannot_listen(error) from error
        return str(host), int(port)

    def _cannot_listen(self, reason: Exception | str) -> SettingsError:
        text = getattr(reason, "strerror", None) or str(reason)
        return SettingsError("http.address", self._settings.address, f"an address that can be listened on ({text})")

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:  # noqa: BLE001  `start` reports it
            self._failure = error
            LOG.error("the http server has failed", exc_info=error)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        host, _, port = self.address.rpartition(":")
        idle_ms = int(float(self._settings.idle_timeout) * 1_000)
        self._server = Server(
            self._app,
            address=host.strip("[]"),
            port=int(port),
            interface=Interfaces.ASGINL,
            http=HTTPModes.http1,
            http1_settings=HTTP1Settings(header_read_timeout=max(idle_ms, 1)),
            websockets=False,
            backlog=_BACKLOG,
            backpressure=self._settings.connections,
            log_enabled=False,
        )
        await self._server.serve()


def _accepts(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=1.0):
            return True
    except OSError:
        return False
