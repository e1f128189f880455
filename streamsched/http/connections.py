"""One client's connection: uvicorn's HTTP protocol, with bounds on what a client can hold.

uvicorn bounds neither how long a request's head may take, nor how long a client may leave an answer unread, nor how
many connections an address may have. A client that sends or reads nothing costs a timer and a few kilobytes here, and
is gone when the timer ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

import msgspec
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from streamsched.http.protocol.bodies import PROBLEM
from streamsched.http.protocol.problems import HttpError

_MOST_HEAD: Final = 1 << 16  # bytes of a request's head: a URL of 16,384 characters, percent-encoded
_LOG: Final = logging.getLogger("streamsched.http.connections")
_LOG.setLevel(logging.ERROR)  # a client that sends no HTTP must not fill the log


@dataclass(slots=True)
class ConnectionBounds:
    """What clients may hold, and the connections that they have.

    ``most``: connections that are served at once, further ones wait; ``most_of_address``: connections of one address,
    further ones are refused; ``idle_s``: the longest time without a request, or for a request's head; ``write_s``: the
    longest time in which a client must read what waits for it; ``statuses``: counts of answers by status.
    """

    most: int
    most_of_address: int
    idle_s: float
    write_s: float
    statuses: Counter[int]
    serving: int = 0
    by_address: Counter[str] = field(default_factory=Counter)
    waiting: deque[Connection] = field(default_factory=deque)


class Connection(HttpToolsProtocol):
    """A connection within `bounds`, as uvicorn makes it for each client."""

    def __init__(
        self,
        bounds: ConnectionBounds,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.logger = _LOG
        self._bounds = bounds
        self._address = ""
        self._is_served = False
        self._head_bytes: int | None = 0  # received of a head that is not complete, None within a body
        self._head_timer: asyncio.TimerHandle | None = None
        self._client_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Serve the connection, let it wait or refuse it."""
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self._bounds.by_address[self._address] += 1
        if self._bounds.by_address[self._address] > self._bounds.most_of_address:
            detail = f"this address has {self._bounds.most_of_address} connections, the most that it may have"
            headers = {"retry-after": "1"}
            self._refuse(HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "too_many_connections", detail, headers=headers))
        elif self._bounds.serving < self._bounds.most:
            self._serve()
        else:
            self._bounds.waiting.append(self)
            transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Free what the connection held; the one that has waited longest takes its place."""
        super().connection_lost(exc)
        for timer in (self._head_timer, self._client_timer):
            if timer is not None:
                timer.cancel()
        bounds = self._bounds
        bounds.by_address[self._address] -= 1
        if not bounds.by_address[self._address]:
            del bounds.by_address[self._address]
        if not self._is_served:
            return
        bounds.serving -= 1
        while bounds.waiting and bounds.serving < bounds.most:
            following = bounds.waiting.popleft()
            if not following.transport.is_closing():
                following.transport.resume_reading()
                following._serve()  # noqa: SLF001  of the same class

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived, unless the head is too long."""
        if self.transport.is_closing():
            return
        if self._head_bytes is not None:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes is None or self.transport.is_closing():
            return
        if self._head_bytes > _MOST_HEAD:
            detail = f"the head of a request has at most {_MOST_HEAD} bytes"
            self._refuse(HttpError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large", detail))
        elif self._head_timer is None and (self.cycle is None or self.cycle.response_complete):
            self._expect_head()

    def on_headers_complete(self) -> None:
        """Let the body come: the application bounds its size and its time."""
        self._head_bytes = None
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Expect another head."""
        super().on_message_complete()
        self._head_bytes = 0
        self._stop_waiting_for_client()

    def on_response_complete(self) -> None:
        """Expect the rest of a body that was refused before it had come: its client reads the answer afterwards."""
        super().on_response_complete()
        if self.cycle.more_body and not self.transport.is_closing():
            self._wait_for_client()

    def pause_writing(self) -> None:
        """Expect that the client reads what waits for it."""
        super().pause_writing()
        self._wait_for_client()

    def resume_writing(self) -> None:
        """Send on: the client reads."""
        super().resume_writing()
        if not self.transport.is_closing():
            self._stop_waiting_for_client()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  uvicorn's words for all that is no HTTP
        """Refuse bytes that are no HTTP."""
        self._refuse(HttpError(HTTPStatus.BAD_REQUEST, "malformed", "the request is not valid HTTP/1.1"))

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection without a further request."""
        self._close()

    def shutdown(self) -> None:
        """Close the connection, after the answer that is under way."""
        super().shutdown()
        if self.transport.is_closing():
            self._wait_for_client()

    def _serve(self) -> None:
        self._is_served = True
        self._bounds.serving += 1
        self._expect_head()

    def _expect_head(self) -> None:
        self._head_timer = self.loop.call_later(self._bounds.idle_s, self._close)

    def _wait_for_client(self) -> None:
        if self._client_timer is None:
            self._client_timer = self.loop.call_later(self._bounds.write_s, self.transport.abort)

    def _stop_waiting_for_client(self) -> None:
        if self._client_timer is not None:
            self._client_timer.cancel()
            self._client_timer = None

    def _close(self) -> None:
        """Close the connection once the client has read the last answer, or at once if it does not read."""
        if not self.transport.is_closing():
            self.transport.close()
        self._wait_for_client()

    def _refuse(self, error: HttpError) -> None:
        """Answer with `error`, and close the connection. A request that the application answers is left to it."""
        cycle = self.cycle
        if cycle is not None and cycle.response_started and not cycle.response_complete:
            self.transport.abort()  # in the middle of an answer
            return
        status = HTTPStatus(error.problem.status)
        if cycle is None or cycle.response_complete:  # else the application counts the request
            self._bounds.statuses[status.value] += 1
        body = msgspec.json.encode(error.problem)
        fields = {"content-type": PROBLEM, "content-length": str(len(body)), "connection": "close", **error.headers}
        head = [f"HTTP/1.1 {status.value} {status.phrase}", *(f"{name}: {value}" for name, value in fields.items())]
        self.transport.write("\r\n".join([*head, "", ""]).encode() + body)
        self._close()
