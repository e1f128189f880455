"""A web site on this machine, for crawlers: its pages, what it answers badly, and which requests it has got."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

BIG = b"<p>" + b"word " * 1_500_000  # 7.5 MB: more than is read of a page


class LocalSite:
    """A site at ``url``; ``requests``: how many it has got of each path. The path says what the answer is.

    ``storm``: answers 503 and 429 in turn while it is above 0; ``delay_s``: how long each answer takes.
    """

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.storm = 0
        self.delay_s = 0.0
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                site.answer(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  likewise
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        port = self.server.server_address[1]
        self.url, self.other = f"http://127.0.0.1:{port}", f"http://localhost:{port}"  # two hosts

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        path = urlsplit(request.path).path
        self.requests[path] += 1
        time.sleep(self.delay_s)
        if path == "/robots.txt":
            send(request, 200, b"User-agent: *\nDisallow: /private", "text/plain")
        elif self.storm:
            self.storm -= 1
            send(request, 503 if self.storm % 2 else 429, b"not now", **{"Retry-After": "7"})
        elif path.startswith("/moved-out"):
            send(request, 301, b"", Location=f"{self.other}/reached-out")
        elif path.startswith("/moved"):
            send(request, 302, b"", Location="/reached")
        elif path.startswith("/loop"):
            send(request, 302, b"", Location=path + "?again")
        elif path.startswith("/file"):
            send(request, 200, b"%PDF-1.7\0\xff", "application/pdf")
        elif path.startswith("/empty"):
            send(request, 200, b"")
        elif path.startswith("/big"):
            send(request, 200, BIG)
        elif path.startswith("/gone"):
            send(request, 404, b"no such page")
        elif path.startswith("/broken"):
            request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nContent-Type: text/html\r\n\r\n<p>half")
            request.close_connection = True
        elif path.startswith("/closed"):
            request.close_connection = True
        else:
            send(request, 200, b"<html><nav>Menu</nav><p>The page " + path.encode() + b" and <a href='/more'>more</a>")


def send(request: BaseHTTPRequestHandler, status: int, body: bytes, kind: str = "text/html", **headers: str) -> None:
    """Send an answer."""
    request.send_response(status)
    for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
        request.send_header(name, value)
    request.end_headers()
    try:
        request.wfile.write(body)
    except ConnectionError:
        request.close_connection = True


@contextmanager
def local_site() -> Iterator[LocalSite]:
    """Serve a site within the block."""
    site = LocalSite()
    thread = threading.Thread(target=site.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield site
    finally:
        site.server.shutdown()
        site.server.server_close()
        thread.join()
