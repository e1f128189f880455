"""A TCP proxy in the test's own process, so that a test can cut the network between a client and its broker."""

from __future__ import annotations

import select
import socket
import struct
import threading
from types import TracebackType
from typing import Self

PRODUCE, OFFSET_COMMIT, CREATE_TOPICS, DESCRIBE_CONFIGS = 0, 8, 19, 32  # keys of requests in Kafka's protocol


class Requests:
    """Finds the keys of the requests in the bytes that a client sends."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0  # bytes of the current request

    def feed(self, data: bytes) -> list[int]:
        """Return the keys of the requests that begin in `data`, the next bytes."""
        keys = []
        while data:
            if self._left:
                cut = min(self._left, len(data))
                self._left -= cut
            else:
                cut = min(6 - len(self._head), len(data))
                self._head += data[:cut]
                if len(self._head) == 6:
                    size, key = struct.unpack(">ih", self._head)
                    self._head, self._left = b"", size - 2
                    keys.append(key)
            data = data[cut:]
        return keys


class Proxy:
    """Passes on what comes to port `front` to port `behind`; `cut` drops all connections until `mend`."""

    def __init__(self, front: int, behind: int) -> None:
        self._target = ("127.0.0.1", behind)
        self._listener = socket.create_server(("127.0.0.1", front))
        self.servers = f"127.0.0.1:{front}"
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._requests: dict[socket.socket, Requests] = {}  # by the connections of clients
        self._held: int | None = None  # the key of requests that are not answered
        self._arrives = self._silent = False
        self._has_come = threading.Event()
        self._lock = threading.Lock()
        self._is_cut = self._closed = False
        self.passed = 0  # bytes
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        self._thread.join()
        self.cut()
        self._listener.close()

    def cut(self) -> None:
        """Drop every connection, and each new one at once."""
        with self._lock:
            self._is_cut = True
            for one in list(self._pairs):
                one.close()
            self._pairs.clear()
            self._requests.clear()
            self._held, self._silent = None, False

    def hold(self, request: int, *, arrives: bool) -> threading.Event:
        """From the next request of this key on pass no answers on, nor requests unless it `arrives`, until `cut`.

        Returns the event of its coming.
        """
        with self._lock:
            self._held, self._arrives, self._has_come = request, arrives, threading.Event()
            return self._has_come

    def mend(self) -> None:
        """Let connections through again."""
        with self._lock:
            self._is_cut = False

    def _run(self) -> None:
        while not self._closed:
            with self._lock:
                watched = [self._listener, *self._pairs]
            try:
                ready, _, _ = select.select(watched, [], [], 0.02)
            except (OSError, ValueError):  # closed by `cut` meanwhile
                continue
            with self._lock:
                for one in ready:
                    self._accept() if one is self._listener else self._pass(one)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        try:
            broker = None if self._is_cut else socket.create_connection(self._target)
        except OSError:  # it was killed
            broker = None
        if broker is None:
            client.close()
            return
        self._pairs |= {client: broker, broker: client}
        self._requests[client] = Requests()

    def _pass(self, one: socket.socket) -> None:
        if one not in self._pairs:
            return
        other = self._pairs[one]
        try:
            data = one.recv(1 << 16)
            if self._passes(one, data):
                other.sendall(data)
        except OSError:
            data = b""
        self.passed += len(data)
        if not data:
            for end in (one, other):
                del self._pairs[end]
                self._requests.pop(end, None)
                end.close()

    def _passes(self, one: socket.socket, data: bytes) -> bool:
        """Return whether `data`, which came from `one`, is passed on."""
        requests = self._requests.get(one)
        if requests is None:
            return not self._silent
        if self._held in requests.feed(data):
            self._silent = True
            self._has_come.set()
        return self._arrives or not self._silent
