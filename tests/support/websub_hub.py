"""A WebSub hub: ``python -m tests.support.websub_hub`` prints its port and serves until its standard input ends.

``POST /`` is the hub. Tests speak to it beside that: ``POST /control`` with JSON sets how it behaves, ``POST /forget``
begins again, ``GET /known`` returns what it knows of subscribers, ``POST /publish?topic=…`` sends its body to them.
"""

from __future__ import annotations

import hmac
import json
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import Request, urlopen

import httpx


@dataclass
class Known:
    """A subscriber. ``answer``: status and body of its answer to the verification, None before one."""

    callback: str
    topic: str
    secret: str
    lease_s: float
    answer: tuple[int, str] | None = None
    is_verified: bool = False
    until_s: float = 0.0


@dataclass
class Behaviour:
    """``mode``: verify, deny, silent or refuse; what the verification says beside that."""

    mode: str = "verify"
    lease_s: float = 864_000.0
    topic: str | None = None  # in place of the right one
    method: str = "sha256"


@dataclass
class State:
    behaviour: Behaviour = field(default_factory=Behaviour)
    known: list[Known] = field(default_factory=list)


class _Handler(BaseHTTPRequestHandler):
    state = State()

    def do_GET(self) -> None:
        self._respond(200, json.dumps([asdict(one) for one in self.state.known]))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        place = urlsplit(self.path)
        if place.path == "/control":
            self.state.behaviour = Behaviour(**json.loads(body))
            self._respond(200)
        elif place.path == "/forget":
            self.state.behaviour, self.state.known = Behaviour(), []
            self._respond(200)
        elif place.path == "/publish":
            (topic,) = parse_qs(place.query)["topic"]
            self._respond(200, json.dumps(self._publish(topic, body)))
        else:
            self._subscribe({name: values[0] for name, values in parse_qs(body.decode()).items()})

    def _subscribe(self, form: dict[str, str]) -> None:
        behaviour = self.state.behaviour
        if behaviour.mode == "refuse":
            self._respond(400, "no")
            return
        one = Known(form["hub.callback"], form["hub.topic"], form["hub.secret"], float(form["hub.lease_seconds"]))
        self.state.known.append(one)
        self._respond(202)
        if behaviour.mode in ("verify", "deny"):
            threading.Thread(target=verify, args=(one, behaviour), daemon=True).start()

    def _publish(self, topic: str, body: bytes) -> list[int]:
        now_s, statuses = time.monotonic(), []
        for one in self.state.known:
            if one.topic == topic and one.is_verified and one.until_s > now_s:
                status = send(one.callback, body, sign(one.secret, body, self.state.behaviour.method))
                one.is_verified = status != 410
                statuses.append(status)
        return statuses

    def _respond(self, status: int, text: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def verify(one: Known, behaviour: Behaviour) -> None:
    """Verify the intent of a subscriber, or deny it."""
    challenge = secrets.token_hex(16)
    query = {"hub.mode": "subscribe", "hub.topic": behaviour.topic or one.topic, "hub.challenge": challenge}
    query["hub.lease_seconds"] = f"{behaviour.lease_s:.0f}"
    if behaviour.mode == "deny":
        query = {"hub.mode": "denied", "hub.topic": behaviour.topic or one.topic, "hub.reason": "no"}
    one.answer = ask(one.callback, query)
    one.is_verified = one.answer == (200, challenge)
    one.until_s = time.monotonic() + behaviour.lease_s


def ask(callback: str, query: dict[str, str]) -> tuple[int, str]:
    """GET the callback with a query; return status and body."""
    return _open(Request(f"{callback}?{urlencode(query)}"))


def send(callback: str, body: bytes, signature: str | None) -> int:
    """POST `body` to the callback; return the status."""
    headers = {"Content-Type": "application/rss+xml"} | ({} if signature is None else {"X-Hub-Signature": signature})
    return _open(Request(callback, data=body, headers=headers))[0]


def sign(secret: str, body: bytes, method: str = "sha256") -> str:
    return f"{method}={hmac.new(secret.encode(), body, method).hexdigest()}"


def _open(request: Request) -> tuple[int, str]:
    try:
        with urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, ""
    except (URLError, OSError):
        return 0, ""


@dataclass(frozen=True)
class Hub:
    """A hub in another process."""

    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def behave(self, **behaviour: Any) -> None:
        httpx.post(f"{self.url}control", json=behaviour).raise_for_status()

    def forget(self) -> None:
        """Make it a new hub, for another test."""
        httpx.post(f"{self.url}forget").raise_for_status()

    def known(self) -> list[Known]:
        return [Known(**one) for one in httpx.get(f"{self.url}known").json()]

    def publish(self, topic: str, body: bytes) -> list[int]:
        """Send `body` to the subscribers of `topic`; return their answers' statuses."""
        found: list[int] = httpx.post(f"{self.url}publish", params={"topic": topic}, content=body, timeout=60).json()
        return found


@contextmanager
def running_hub() -> Iterator[Hub]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.websub_hub"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Hub(int(process.stdout.readline()))
        finally:
            process.stdin.close()
            process.wait(60.0)


def main() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        sys.stdout.write(f"{server.server_address[1]}\n")
        sys.stdout.flush()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sys.stdin.read()
        server.shutdown()


if __name__ == "__main__":
    main()
