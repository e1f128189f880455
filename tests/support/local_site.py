"""A web site on this machine, for crawlers: its pages, what it answers badly, and which requests it has got."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import urlsplit

_ANSWERS: Final[dict[str, tuple[int, bytes, str]]] = {
    "/robots.txt": (200, b"User-agent: *\nDisallow: /private", "text/plain"),
    "/file": (200, b"%PDF-1.7\0\xff", "application/pdf"),
    "/empty": (200, b"", "text/html"),
    "/big": (200, b"<p>" + b"word " * 1_500_000, "text/html"),  # 7.5 MB: more than is read of a page
    "/gone": (404, b"no such page", "text/html"),
    "/script": (200, b"<body><script>document.body.append('The text of a script')</script></body>", "text/html"),
}
_REDIRECTS: Final = {
    "/moved": (302, "/reached"),
    "/moved-out": (301, "{other}/reached-out"),
    "/loop": (302, "/loop?again"),
}


class LocalSite:
    """A site at ``url``; ``requests``: how many it has got of each path. The path says what the answer is.

    ``edition``: part of most pages, so that they change with it; ``storm``: answers 503 and 429 in turn while it is
    above 0; ``delay_s``: how long each answer takes.
    """

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.edition = 1
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
        if self.storm and path != "/robots.txt":
            self.storm -= 1
            send(request, 503 if self.storm % 2 else 429, b"not now", **{"Retry-After": "7"})
        elif path in ("/broken", "/closed"):
            if path == "/broken":
                request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nContent-Type: text/html\r\n\r\n<p>half")
            request.close_connection = True
        elif path in _ANSWERS:
            status, body, kind = _ANSWERS[path]
            send(request, status, body, kind)
        elif path in _REDIRECTS:
            status, target = _REDIRECTS[path]
            send(request, status, b"", Location=target.format(other=self.other))
        else:
            text = f"<html><nav>Menu</nav><p>Edition {self.edition} of {path}, and <a href='/more#end'>more</a>"
            send(request, 200, text.encode())


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
