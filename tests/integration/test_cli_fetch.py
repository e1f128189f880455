"""``streamsched signals fetch``: its arguments, its sinks, signals that end it, and kill -9."""

from __future__ import annotations

import json
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from streamsched import DurableScheduler
from streamsched.cli import main
from tests.support.cases import how_many
from tests.support.child_processes import child_process
from tests.support.http_service import TOKENS, Clock, clock_now, running
from tests.support.websub_hub import Hub, running_hub

KILLS = how_many(1, 12)


class News(ThreadingHTTPServer):
    """A site whose sitemap has a new page after each request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.pages: list[tuple[str, str]] = []
        self.served = 0  # pages that a whole answer had
        self.link = ""  # a header

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def add(self) -> None:
        now = datetime.now(UTC).isoformat()  # noqa: TID251  the command reads the clock too
        self.pages.append((f"{self.url}/{len(self.pages)}", now))


class _Handler(BaseHTTPRequestHandler):
    @property
    def news(self) -> News:
        assert isinstance(self.server, News)
        return self.server

    def do_GET(self) -> None:
        is_map = self.path == "/map.xml"
        entries = "".join(f"<url><loc>{url}</loc><lastmod>{at}</lastmod></url>" for url, at in self.news.pages)
        body = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>'.encode()
        count = len(self.news.pages)
        self.send_response(200 if is_map else 404)
        self.send_header("Content-Length", str(len(body) if is_map else 0))
        self.send_header("ETag", f'"{count}"')
        if self.news.link:
            self.send_header("Link", self.news.link)
        self.end_headers()
        if is_map:
            self.wfile.write(body)
            self.news.served = count
            self.news.add()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@contextmanager
def serving_news() -> Iterator[News]:
    with News() as server:
        server.add()
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def news() -> Iterator[News]:
    with serving_news() as server:
        yield server


def words(news: News, folder: Path) -> list[str]:
    port = str(news.server_address[1])
    folder.mkdir(exist_ok=True)
    words = [
        "signals",
        "fetch",
        "--to",
        str(folder / "signals.jsonl"),
        "--state",
        str(folder / "state"),
        "--every",
        "1s",
    ]
    return [*words, "--allow", "127.0.0.0/8", "--allow-port", port, "--delay", "10ms", "--log-level", "error"]


def announced(folder: Path) -> set[str]:
    lines = (folder / "signals.jsonl").read_text().splitlines()
    return {json.loads(line)["url"] for line in lines}


def test_once_twice(news: News, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = ["--sitemap", f"{news.url}/map.xml"]
    assert main([*words(news, tmp_path), *named, "--once", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["visits"] == 1
    time.sleep(1.1)  # of the command's own clock
    assert main([*words(news, tmp_path), "--once"]) == 0
    assert "signals" in capsys.readouterr().out
    assert announced(tmp_path) == {f"{news.url}/1"}


def test_a_service_gets_the_signals(news: News, tmp_path: Path) -> None:
    with running(tmp_path, tokens=True, clock=Clock(clock_now())) as service:
        (tmp_path / "token").write_text(TOKENS["all"])
        sink = ["--to", f"http://{service.server.address}", "--token-file", str(tmp_path / "token"), "--once"]
        given = [*words(news, tmp_path / "fetcher"), *sink]
        assert main([*given, "--sitemap", f"{news.url}/map.xml"]) == 0
        time.sleep(1.1)  # of the command's own clock
        assert main(given) == 0
        assert service.scheduler.page(f"{news.url}/1", now=clock_now()) is not None
        time.sleep(1.1)
        (tmp_path / "token").write_text("wrong")
        assert main(given) == 6
        (tmp_path / "token").write_text(TOKENS["all"])
        assert main(given) == 0
        assert service.scheduler.page(f"{news.url}/2", now=clock_now()) is not None, "what was refused is found again"


def test_when_documents_are_due_next(news: News, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [*words(news, tmp_path), "--every", "2h", "--once", "--json"]
    assert main([*given, "--sitemap", f"{news.url}/map.xml"]) == 0
    capsys.readouterr()
    assert main(given) == 0
    found = capsys.readouterr()
    counts = json.loads(found.out)
    assert counts["visits"] == 0
    assert 0 < counts["next_due_s"] <= 2 * 3_600
    assert "the next one is in" in found.err


@pytest.mark.parametrize("page", ["missing.xml", "map.xml"])
def test_exit_codes_of_documents_and_sinks(news: News, tmp_path: Path, page: str) -> None:
    named = ["--sitemap", f"{news.url}/{page}", "--once"]
    assert main([*words(news, tmp_path / "a"), *named]) == (3 if page == "missing.xml" else 0)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert main([*words(news, tmp_path / "b"), *named, "--to", f"http://127.0.0.1:{port}"]) == 6
    assert main([*words(news, tmp_path / "c"), *named, "--to", str(tmp_path / "none" / "s.jsonl")]) == 3


def test_lines_on_standard_output(news: News, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [*words(news, tmp_path), "--to", "-", "--once"]
    assert main([*given, "--sitemap", f"{news.url}/map.xml"]) == 0
    time.sleep(1.1)  # of the command's own clock
    assert main(given) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["url"] == f"{news.url}/1"


@pytest.mark.parametrize(
    "wrong",
    [
        ["--sitemap", "a.example"],
        ["--discover", "https://a.example/x"],
        ["--allow", "10.0.0.1/8"],
        ["--allow-port", "65536"],
        ["--agent", "a\nb"],
        ["--to", "signals.csv"],
        ["--delay", "x"],
        ["--websub-callback", "crawler.example"],
        ["--websub-callback", "https://crawler.example/?a"],
        ["--websub-callback", "https://crawler.example/", "--once"],
        ["--websub-callback", "https://crawler.example/", "--websub-listen", "x"],
        [],
    ],
)
def test_what_cannot_work(tmp_path: Path, wrong: list[str]) -> None:
    words = ["signals", "fetch", "--to", str(tmp_path / "s.jsonl"), "--state", str(tmp_path / "state"), *wrong]
    assert main(words) == 2


def test_private_addresses_need_a_word(news: News, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["signals", "fetch", "--to", "-", "--state", str(tmp_path), "--once", "--sitemap", f"{news.url}/map.xml"]
    assert main(words) == 3
    assert "may be connected to" in capsys.readouterr().err
    assert news.served == 0


def run_until(news: News, folder: Path, named: list[str], number: signal.Signals) -> int:
    """Run the command until it has asked for the sitemap again, and send it a signal."""
    before = len(news.pages)
    with child_process([sys.executable, "-m", "streamsched", *words(news, folder), *named]) as process:
        end = time.monotonic() + 120.0
        while len(news.pages) < before + 2:
            assert time.monotonic() < end
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(number)
        return process.wait(60.0)


@pytest.mark.longer
def test_kill_9_loses_no_signal(news: News, tmp_path: Path) -> None:
    for count in range(KILLS):
        named = ["--sitemap", f"{news.url}/map.xml"] if count == 0 else []
        assert run_until(news, tmp_path, named, signal.SIGKILL) == -signal.SIGKILL
    assert run_until(news, tmp_path, [], signal.SIGTERM) == 0
    time.sleep(1.1)  # of the command's own clock
    before = news.served
    assert main([*words(news, tmp_path), "--once"]) == 0
    assert news.served > before
    assert announced(tmp_path) >= {f"{news.url}/{n}" for n in range(1, news.served)}


@pytest.mark.longer
def test_subscriptions_after_kill_9_and_restart(news: News, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    topic = f"{news.url}/map.xml"

    def wait_for(holds: Callable[[], bool]) -> None:
        end = time.monotonic() + 300.0
        while not holds():
            assert time.monotonic() < end
            time.sleep(0.02)

    def publish(hub: Hub, name: str) -> list[int]:
        entry = f"<url><loc>{news.url}/{name}</loc></url>"
        body = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entry}</urlset>'
        return hub.publish(topic, body.encode())

    with running_hub() as hub:
        news.link = f'<{hub.url}>; rel="hub", <{topic}>; rel="self"'
        own = [*words(news, tmp_path), "--allow-port", str(hub.port), "--every", "5s"]
        own += ["--websub-callback", f"http://127.0.0.1:{port}/", "--websub-listen", f"127.0.0.1:{port}"]
        command = [sys.executable, "-m", "streamsched", *own]
        with child_process([*command, "--sitemap", topic]) as process:
            wait_for(lambda: any(one.is_verified for one in hub.known()))
            process.kill()
            process.wait(60.0)
        assert publish(hub, "a") == [0], "nobody is there"
        with child_process(command) as process:
            wait_for(lambda: publish(hub, f"b{time.monotonic_ns()}")[-1:] == [202])
            wait_for(lambda: any("/b" in url for url in announced(tmp_path)))
            process.terminate()
            assert process.wait(60.0) == 0
        count = len(hub.known())
        with child_process(command) as process:
            wait_for(lambda: publish(hub, f"c{time.monotonic_ns()}")[-1:] == [202])
            wait_for(lambda: any("/c" in url for url in announced(tmp_path)))
            process.terminate()
            assert process.wait(60.0) == 0
        assert len(hub.known()) == count, "the subscription was kept"


def test_the_state_of_a_crawl_is_not_one_of_documents(news: News, tmp_path: Path) -> None:
    with DurableScheduler.open(tmp_path / "state") as scheduler:
        scheduler.discover(["https://a.example/"], now=1.0)
        politeness = scheduler.politeness
    before = sorted((path.name, path.read_bytes()) for path in (tmp_path / "state").iterdir())
    assert main([*words(news, tmp_path), "--sitemap", f"{news.url}/map.xml", "--once"]) == 2
    assert sorted((path.name, path.read_bytes()) for path in (tmp_path / "state").iterdir()) == before
    with DurableScheduler.open(tmp_path / "state") as scheduler:
        assert (scheduler.count(), scheduler.politeness) == (1, politeness)
