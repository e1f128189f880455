"""``streamsched content``: files, a server on this machine, and what cannot be read."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import count
from pathlib import Path

import pytest

from streamsched.cli import main
from streamsched.cli.commands import content as command

PAGE = "<html><body><nav>menu {n}</nav><main><p>Seen {n} minutes ago</p><p>{n} views</p><p>kept</p></main>"


@pytest.fixture
def copies(tmp_path: Path) -> list[str]:
    paths = [tmp_path / f"{n}.html" for n in (5, 7)]
    for path in paths:
        path.write_text(PAGE.format(n=path.stem))
    return [str(path) for path in paths]


@pytest.fixture
def server() -> Iterator[str]:
    numbers = count(2)

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"x" * 6_000_000 if self.path == "/large" else PAGE.format(n=next(numbers)).encode()
            if self.path == "/headers":
                with suppress(OSError):
                    for n in range(50):
                        time.sleep(0.1)
                        self.wfile.write(b"X: y\r\n" if n else b"HTTP/1.1 200 OK\r\n")
            self.send_response(404 if self.path == "/missing" else 200)
            self.end_headers()
            self.wfile.write(body)
            if self.path == "/drips":
                with suppress(OSError):
                    for _ in range(50):
                        time.sleep(0.1)
                        self.wfile.write(b"x")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with HTTPServer(("127.0.0.1", 0), Pages) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{served.server_address[1]}"
        served.shutdown()
        thread.join()


def test_one_page(copies: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["content", copies[0]]) == 0
    assert capsys.readouterr().out.splitlines()[:3] == ["Seen 5 minutes ago", "5 views", "kept"]
    assert main(["content", copies[0], "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["text"].splitlines()[-1] == "kept"
    assert found["content"].startswith("c0e7")


def test_lines_that_differ_between_two_files(copies: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["content", *copies, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["changed"]
    assert found["pages"][0]["only"] == [
        {"text": "Seen 5 minutes ago", "removed": True},
        {"text": "5 views", "removed": False},
    ]
    assert main(["content", *copies]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line for line in shown if line.startswith("+")][1] == "+ 7 views"
    assert main(["content", *copies, "--ignore", r"\d+ views", "--json"]) == 0
    assert not json.loads(capsys.readouterr().out)["changed"]


def test_an_order_of_lines_that_differs_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = {"ab": "<p>A</p><p>B</p>", "ba": "<p>B</p><p>A</p>"}
    for name, text in pages.items():
        (tmp_path / name).write_text(text)
    assert main(["content", *(str(tmp_path / name) for name in pages)]) == 0
    shown = capsys.readouterr().out
    assert "content: other" in shown
    assert "order" in shown
    assert main(["content", str(tmp_path / "ab"), str(tmp_path / "ab")]) == 0
    assert "order" not in capsys.readouterr().out


def test_a_page_fetched_twice(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["content", f"{server}/", "--twice", "--wait", "0", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [line["text"] for page in found["pages"] for line in page["only"] if not line["removed"]] == [
        *("2 views", "3 views")
    ]


def test_a_large_page_is_cut(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["content", f"{server}/large", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["text"]) == 5_000_000


def test_what_cannot_be_read(server: str, copies: list[str], tmp_path: Path) -> None:
    for wrong in (f"{server}/missing", "http://127.0.0.1:1/", "http://[::1", str(tmp_path / "none.html")):
        assert main(["content", wrong]) == 3
    for wait in ("nan", "-1", "2h", "1e400"):
        assert main(["content", copies[0], "--twice", "--wait", wait]) == 2
    for arguments in (["--twice"], ["--ignore", "("], ["--ignore", "css:[["], ["--by", "lynx"]):
        assert main(["content", *copies, *arguments]) == 2


@pytest.mark.parametrize("path", ["headers", "drips"])
def test_a_page_that_drips_is_given_up(server: str, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(command, "_SECONDS", 0.5)
    start = time.monotonic()
    assert main(["content", f"{server}/{path}"]) == 3
    assert time.monotonic() - start < 3.0
