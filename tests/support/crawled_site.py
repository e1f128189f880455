"""A web site on this machine that answers as its pages are described, and counts its visits."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

PROSE = "The ferry left the harbour an hour late because of the fog, and nobody on the quay seemed to mind. " * 3


@dataclass(frozen=True)
class Reply:
    """What the site answers. ``body``: None breaks the connection; ``wait_s``: before the answer."""

    status: int = 200
    body: bytes | None = b""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    wait_s: float = 0.0


def html(text: str, *links: str) -> Reply:
    """Return a page of HTML with links."""
    anchors = "".join(f'<a href="{link}">{link}</a> ' for link in links)
    body = f"<html><body><main><h1>{text}</h1><p>{PROSE}</p></main><nav>{anchors}</nav></body></html>"
    return Reply(body=body.encode(), headers={"content-type": "text/html; charset=utf-8"})


class Site:
    """``replies``: by path, or a list of them for one visit after another, whose last stays; else 404."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.replies: dict[str, Reply | list[Reply]] = {}
        self.visits: Counter[str] = Counter()
        self._lock = threading.Lock()

    def url(self, path: str) -> str:
        return f"http://{self.address}{path}"

    def answer(self, path: str) -> Reply:
        with self._lock:
            number = self.visits[path]
            self.visits[path] += 1
            found = self.replies.get(path, Reply(404))
            return found[min(number, len(found) - 1)] if isinstance(found, list) else found


Kind = TypeVar("Kind", bound=Site)


@contextmanager
def serving(make: Callable[[str], Kind]) -> Iterator[Kind]:
    """Serve the site that `make` returns for its address, on a free port within the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            reply = site.answer(self.path)
            time.sleep(reply.wait_s)
            if reply.body is None:
                self.close_connection = True
                return
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002  the names are the library's

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None: ...  # a crawler may be killed

    with Server(("127.0.0.1", 0), Handler) as server:
        site = make(f"127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield site
        finally:
            server.shutdown()
            thread.join()
