"""The processes of the demonstration: a Kafka broker and the service. Each ends with its block."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.integration.kafka.broker import Broker, find_jars, stop_process
from tests.support.child_processes import child_process, run_to_end

__all__ = ["ServiceFailed", "compile_kernels", "open_broker", "open_service", "read_to_the_end"]

_STOP_S = 20.0  # most time of the service's stop
_COMMAND = (sys.executable, "-m", "streamsched")


class ServiceFailed(Exception):
    """The service has ended by itself; the message is the end of its log."""


@contextmanager
def open_broker(folder: Path) -> Iterator[str]:
    """Yield the address of a broker with its data in `folder`, or of that which KAFKA_BOOTSTRAP_SERVERS names.

    Raises NoBroker where none can be started.
    """
    named = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if named:
        yield named
        return
    broker = Broker(find_jars(), folder)
    try:
        broker.start()
        yield broker.address.servers
    finally:
        if broker.pid:
            stop_process(broker.pid)


def compile_kernels() -> None:
    """Compile what the service needs, unless it is compiled already: it should not do so while its clock goes fast."""
    _run("warm")


def read_to_the_end(topic: str, state: Path) -> int:
    """Read all outcomes of the URL `topic` into a new state; return how many it has. Raises ServiceFailed."""
    said = _run("run", "--source", topic, "--state", str(state), "--until-end", "--log-level", "error", "--json")
    return int(json.loads(said)["applied"])


@contextmanager
def open_service(topic: str, state: Path, address: str, settings: list[str]) -> Iterator[str]:
    """Run the service on the outcomes of `topic` within the block; yield the address where it serves HTTP.

    Raises ServiceFailed if it does not start.
    """
    words = ["run", "--source", topic, "--state", str(state), "--http", address, "--log-format", "json"]
    for setting in settings:
        words += ["--set", setting]
    log = state.with_name("service.log")
    with (
        log.open("wb") as errors,
        child_process((*_COMMAND, *words), stdout=subprocess.DEVNULL, stderr=errors) as process,
    ):
        try:
            yield _wait_for_address(process, log)
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_S)


def _run(*words: str) -> str:
    """Return what a command prints. Raises ServiceFailed."""
    done = run_to_end((*_COMMAND, *words))
    if done.returncode:
        raise ServiceFailed(done.stderr)
    return done.stdout


def _wait_for_address(process: subprocess.Popen[str], log: Path) -> str:
    while True:
        has_ended = process.poll() is not None  # looked at before the log, which is then whole
        for line in log.read_text().splitlines():
            if '"serving http"' in line:
                return str(json.loads(line)["address"])
        if has_ended:
            raise ServiceFailed(log.read_text()[-2_000:])
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
