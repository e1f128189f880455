"""The url-frontier API by the project's own Java classes: discoveries, leases and outcomes, on one stream.

The rival is url-frontier's own server, its service in memory, if URLFRONTIER_SERVICE is a class path that has it;
else a server on grpcio that acknowledges and sends without a scheduler or a disk. URLFRONTIER_JARS names a folder with
the jars of url-frontier's API.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from benchmarks.report import ROOT, Row, digits

_CRAWLER: Final = ROOT / "tests" / "support" / "FrontierCrawler.java"
_HOSTS: Final = 1_000
_RATES: Final = {
    "discovered": "PutURLs, discovered URLs acknowledged a second",
    "leased": "GetURLs, URLs leased and received a second",
    "known": "PutURLs, known URLs with status and signature acknowledged a second",
}
_FEWER: Final = 10  # times fewer URLs for the rival on grpcio, which takes so much longer
_MAIN: Final = "crawlercommons.urlfrontier.service.URLFrontierServer"
_MEMORY: Final = "implementation=crawlercommons.urlfrontier.service.memory.MemoryFrontierService"
_START_S: Final = 30.0  # most time in which a rival begins to listen
_TICKS: Final = os.sysconf("SC_CLK_TCK")  # of processor time in a second
_RIVAL: Final = """
import sys
from concurrent.futures import ThreadPoolExecutor
import grpc
from streamsched.frontier.messages import FRONTIER, message

sent = message("urlfrontier.URLInfo")(url="https://h0.example/0/0", key="h0.example").SerializeToString()
acknowledge = message("urlfrontier.AckMessage")
left = [int(sys.argv[1])]

def put(items, context):
    left[0] = int(sys.argv[1])
    for item in items:
        yield acknowledge(ID=item.ID).SerializeToString()

def get(asked, context):
    count, left[0] = min(left[0], 10_000), max(left[0] - 10_000, 0)
    for _ in range(count):
        yield sent

decode = message("urlfrontier.URLItem").FromString
methods = {
    "PutURLs": grpc.stream_stream_rpc_method_handler(put, decode),
    "GetURLs": grpc.unary_stream_rpc_method_handler(get),
}
server = grpc.server(ThreadPoolExecutor(8))
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(FRONTIER, methods),))
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
server.wait_for_termination()
"""


def measure(size: int, repeats: int) -> list[Row]:
    """Return the rows of `size` URLs a round, the best of `repeats` rounds."""
    jars = os.environ.get("URLFRONTIER_JARS")
    if not jars or shutil.which("javac") is None:
        raise SystemExit("expected a Java compiler, and URLFRONTIER_JARS with the jars of url-frontier's API")
    with tempfile.TemporaryDirectory() as folder, _serving(Path(folder)) as (process, address):
        before_s = _processor_s(process)
        ours = _crawl(jars, address, size, repeats)
        used_s = _processor_s(process) - before_s
    path = os.environ.get("URLFRONTIER_SERVICE")
    rival_size = size if path else size // _FEWER
    with _reference(path) if path else _rival(rival_size) as address:
        rival = _crawl(jars, address, rival_size, repeats)
    rows = [
        Row(what, f"{digits(ours[name])} /s", f"{digits(rival[name])} /s", f"{digits(ours[name] / rival[name], 2)}×")
        for name, what in _RATES.items()
    ]
    return [*rows, Row("processor time of the service, a URL", f"{digits(used_s / (3 * size * repeats) * 1e6)} µs")]


def _crawl(jars: str, address: str, size: int, repeats: int) -> dict[str, float]:
    """Return the best rates of the client's rounds, by name."""
    words = ["java", "-cp", f"{jars}/*", str(_CRAWLER), address, "measure", *map(str, (size, _HOSTS, repeats))]
    best = dict.fromkeys(_RATES, 0.0)
    for line in subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines():
        name, count, seconds = line.split()
        best[name] = max(best[name], int(count) / float(seconds))
    return best


@contextmanager
def _serving(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    words = ["serve", "--state", str(folder / "state"), "--http", "127.0.0.1:0", "--frontier", "127.0.0.1:0"]
    command = [sys.executable, "-m", "streamsched", *words, "--log-format", "json"]
    with (folder / "log").open("w+") as log, subprocess.Popen(command, stderr=log, text=True) as process:
        try:
            yield process, _wait_for_address(process, folder / "log")
        finally:
            process.terminate()


def _wait_for_address(process: subprocess.Popen[str], log: Path) -> str:
    while process.poll() is None:
        for line in log.read_text().splitlines():
            event: dict[str, Any] = json.loads(line) if line.endswith("}") else {}
            if event.get("event") == "serving url-frontier":
                return str(event["address"])
    raise SystemExit(log.read_text())


@contextmanager
def _reference(path: str) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with subprocess.Popen(["java", "-cp", path, _MAIN, "-p", str(port), _MEMORY]) as process:
        try:
            end = time.monotonic() + _START_S
            while process.poll() is None and time.monotonic() < end:
                with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
                    break
                time.sleep(0.1)
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()


@contextmanager
def _rival(size: int) -> Iterator[str]:
    command = [sys.executable, "-c", _RIVAL, str(size)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.terminate()


def _processor_s(process: subprocess.Popen[str]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
