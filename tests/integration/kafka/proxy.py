"""A TCP proxy in the test's own process, so that a test can cut the network between a client and its broker."""

from __future__ import annotations

import select
import socket
import threading
from types import TracebackType
from typing import Self


class Proxy:
    """Passes on what comes to port `front` to port `behind`; `cut` drops all connections until `mend`."""

    def __init__(self, front: int, behind: int) -> None:
        self._target = ("127.0.0.1", behind)
        self._listener = socket.create_server(("127.0.0.1", front))
        self.servers = f"127.0.0.1:{front}"
        self._pairs: dict[socket.socket, socket.socket] = {}
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
        if self._is_cut:
            client.close()
            return
        broker = socket.create_connection(self._target)
        self._pairs |= {client: broker, broker: client}

    def _pass(self, one: socket.socket) -> None:
        if one not in self._pairs:
            return
        other = self._pairs[one]
        try:
            data = one.recv(1 << 16)
            other.sendall(data)
        except OSError:
            data = b""
        self.passed += len(data)
        if not data:
            for end in (one, other):
                del self._pairs[end]
                end.close()
