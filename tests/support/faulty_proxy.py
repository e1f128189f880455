"""A proxy before a service that fails in each way in which a network or a server can."""

from __future__ import annotations

import re
import socket
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from typing import Final

from tests.support.http_service import exchange

_LENGTH: Final = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_PATH: Final = re.compile(rb"(?P<line>\w+ /[^ ?]*)")


class Fault(Enum):
    """What happens to a request, in the order in which it could."""

    NONE = auto()
    CLOSED_BEFORE_REQUEST = auto()
    CLOSED_AFTER_REQUEST = auto()
    BUSY = auto()  # 503, as a service says it whose queue is full
    TOO_MANY = auto()  # 429
    # The service applies the request:
    ANSWER_LOST = auto()
    HALF_A_HEAD = auto()
    HALF_A_BODY = auto()
    GATEWAY = auto()  # 502, with a page for people
    NO_GATEWAY = auto()  # 504 without a body
    SILENCE = auto()
    TRICKLE = auto()  # a byte at a time, for ever
    WRONG_TYPE = auto()
    GIBBERISH = auto()


NOT_APPLIED: Final = (Fault.CLOSED_BEFORE_REQUEST, Fault.CLOSED_AFTER_REQUEST, Fault.BUSY, Fault.TOO_MANY)
APPLIED: Final = (
    Fault.ANSWER_LOST,
    Fault.HALF_A_HEAD,
    Fault.HALF_A_BODY,
    Fault.GATEWAY,
    Fault.NO_GATEWAY,
    Fault.SILENCE,
)
MENDED: Final = (*NOT_APPLIED, *APPLIED)
"""Faults after which the client tries again, if the call may be repeated."""

_PROBLEM: Final = b'{"title": "", "status": %d, "code": "%s", "detail": "not now"}'
_CANNED: Final = {
    Fault.BUSY: (503, b"application/problem+json", _PROBLEM % (503, b"queue_full"), b"retry-after: 0\r\n"),
    Fault.TOO_MANY: (429, b"application/problem+json", _PROBLEM % (429, b"too_many_requests"), b""),
    Fault.GATEWAY: (502, b"text/html", b"<h1>Bad Gateway</h1>", b""),
    Fault.NO_GATEWAY: (504, b"", b"", b""),
    Fault.WRONG_TYPE: (200, b"text/html", b"<h1>Please log in</h1>", b""),
    Fault.GIBBERISH: (200, b"application/msgpack", b"\xc1\xc1", b""),
}


class FaultyProxy:
    """Forwards requests to the service at `upstream`, one in a connection, with the faults of a script.

    ``script``: of the next connections; none once it is empty. ``forwarded``: method and path of each request that the
    service has answered. ``upstream`` can be set anew, when the service has moved.
    """

    def __init__(self, upstream: tuple[str, int]) -> None:
        self.script: deque[Fault] = deque()
        self.forwarded: list[str] = []
        self.upstream = upstream
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []

    @property
    def url(self) -> str:
        """Where the proxy is."""
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def fail(self, faults: Iterable[Fault]) -> None:
        """Let the next requests fail."""
        self.script.extend(faults)

    def serve(self) -> None:
        """Accept connections until the proxy is closed."""
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._handle, args=(connection,), daemon=True)
            thread.start()
            self._threads.append(thread)  # started: `close` joins it

    def close(self) -> None:
        """Stop, once all connections are closed."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for thread in self._threads:
            thread.join(timeout=10.0)
            assert not thread.is_alive()

    def _handle(self, connection: socket.socket) -> None:
        fault = self.script.popleft() if self.script else Fault.NONE
        with connection:
            connection.settimeout(10.0)
            try:
                self._answer(connection, fault)
            except OSError:  # the client has gone
                return

    def _answer(self, connection: socket.socket, fault: Fault) -> None:
        if fault is Fault.CLOSED_BEFORE_REQUEST:
            return
        request = _read_request(connection)
        if not request or fault is Fault.CLOSED_AFTER_REQUEST:
            return
        answer = b"" if fault in NOT_APPLIED else self._forward(request)
        if fault not in NOT_APPLIED and b"\r\n\r\n" not in answer:  # the service has died
            return
        if fault in _CANNED:
            connection.sendall(_canned(fault))
        elif fault in {Fault.NONE, Fault.HALF_A_HEAD, Fault.HALF_A_BODY}:
            head = answer.index(b"\r\n\r\n") + 4
            ends = {Fault.HALF_A_HEAD: head // 2, Fault.HALF_A_BODY: head + (len(answer) - head) // 2}
            connection.sendall(answer[: ends.get(fault, len(answer))])
        elif fault is Fault.SILENCE:
            connection.recv(1)  # returns when the client has given up
        elif fault is Fault.TRICKLE:
            connection.sendall(answer[: answer.index(b"\r\n\r\n")] + b"\r\ncontent-length: 99999999\r\n\r\n")
            while True:
                connection.sendall(b" ")
                threading.Event().wait(0.01)

    def _forward(self, request: bytes) -> bytes:
        head, _, body = request.partition(b"\r\n\r\n")
        head = re.sub(rb"(?i)\r\nconnection: *[^\r]*", b"", head) + b"\r\nconnection: close"
        answer = exchange(self.upstream, head + b"\r\n\r\n" + body)
        line = _PATH.match(request)
        assert line is not None
        self.forwarded.append(line["line"].decode())
        return answer


@contextmanager
def proxy_before(upstream: tuple[str, int]) -> Iterator[FaultyProxy]:
    """Yield a proxy that runs within the block."""
    proxy = FaultyProxy(upstream)
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join(timeout=10.0)


def _read_request(connection: socket.socket) -> bytes:
    """Return a whole request; nothing if the client closes the connection before."""
    received = b""
    while True:
        head, end, body = received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if end and len(body) >= (int(length[1]) if length else 0):
            return received
        part = connection.recv(1 << 16)
        if not part:
            return b""
        received += part


def _canned(fault: Fault) -> bytes:
    status, media_type, body, headers = _CANNED[fault]
    return b"HTTP/1.1 %d X\r\nconnection: close\r\ncontent-type: %s\r\n%scontent-length: %d\r\n\r\n%s" % (
        status,
        media_type,
        headers,
        len(body),
        body,
    )
