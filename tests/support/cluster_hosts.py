"""Hosts of a cluster as processes of their own, on a real broker, and what outside of them can be seen."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from streamsched.client import Client
from streamsched.connectors.kafka import open_sink
from streamsched.errors import ServiceError, ServiceUnavailable, SettingsError
from streamsched.outcomes import Outcome, OutcomeBatch
from tests.integration.kafka.broker import free_ports

SESSION_MS = 3_000
CLASSIC = f"session.timeout.ms={SESSION_MS}&heartbeat.interval.ms=500"
CONSUMER = "group.protocol=consumer"
_READY_S = 60.0
_STOP_S = 30.0


@dataclass
class HostProcess:
    """A running ``streamsched cluster host`` at `address`."""

    process: subprocess.Popen[bytes]
    address: str
    log: Path

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """End it as an operator does; return its exit code."""
        self.process.terminate()
        return self.process.wait(_STOP_S)

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def shard(self, partition: int, timeout_s: float = 2.0) -> Client:
        """A client of one of its shards."""
        return Client(f"http://{self.address}/shards/{partition}", timeout_s=timeout_s)

    def front(self, timeout_s: float = 20.0) -> Client:
        """A client of the whole cluster."""
        return Client(f"http://{self.address}", timeout_s=timeout_s)

    def events(self, event: str) -> list[dict[str, object]]:
        """The lines of its log with that event."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line.get("event") == event]


@dataclass
class Cluster:
    """A topic, and the hosts that serve it. `more`: settings of the topic's URL, of the group's protocol."""

    servers: str
    topic: str
    images: str
    folder: Path
    more: str = CLASSIC
    save_every: str = "2s"
    environment: dict[str, str] = field(default_factory=dict)
    hosts: list[HostProcess] = field(default_factory=list)

    @property
    def source(self) -> str:
        return f"kafka://{self.servers}/{self.topic}?group=g-{self.topic}&{self.more}"

    @property
    def place(self) -> tuple[str, ...]:
        """The options that name the cluster."""
        return "--source", self.source, "--calls", f"calls-{self.topic}"

    def start(self) -> HostProcess:
        """Start a host; it may not serve yet."""
        number, (port,) = len(self.hosts), free_ports(1)
        address, log = f"127.0.0.1:{port}", self.folder / f"host-{number}.log"
        words = (
            *(sys.executable, "-m", "streamsched", "cluster", "host", *self.place, "--images", self.images),
            *("--local", str(self.folder / f"host-{number}"), "--http", address, "--save-every", self.save_every),
            *("--log-format", "json"),
        )
        with log.open("wb") as file:
            environment = os.environ | self.environment
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=file, stdout=file, env=environment)
        self.hosts.append(HostProcess(process, address, log))
        return self.hosts[-1]

    def publish(self, outcomes: Sequence[Outcome]) -> None:
        """Add outcomes to the topic."""
        with open_sink(f"kafka://{self.servers}/{self.topic}?client=confluent") as sink:
            sink.send_outcomes(OutcomeBatch.from_outcomes(outcomes), rows=64)
            sink.flush()

    def owners(self, partitions: int, *, within_s: float = _READY_S) -> dict[int, HostProcess]:
        """Wait until each partition is served, and leases; return by whom."""
        end, found = time.monotonic() + within_s, dict[int, HostProcess]()
        while len(found) < partitions:
            assert time.monotonic() < end, f"served after {within_s} s: {sorted(found)}\n{self.logs()}"
            found = {}
            for host in self.hosts:
                if host.process.poll() is None:
                    found |= {number: host for number in range(partitions) if _serves(host, number)}
        return found

    def logs(self) -> str:
        """The ends of the hosts' logs."""
        return "\n".join(f"{one.log.name}: {one.log.read_text()[-3000:]}" for one in self.hosts)

    def close(self) -> None:
        for host in self.hosts:
            if host.process.poll() is None:
                host.wake()
                host.kill()


def _serves(host: HostProcess, partition: int) -> bool:
    with host.shard(partition, timeout_s=0.5) as client:
        try:
            client.offer(1)
        except (ServiceUnavailable, ServiceError, SettingsError):
            return False
    return True


@contextmanager
def running(cluster: Cluster) -> Iterator[Cluster]:
    try:
        yield cluster
    finally:
        cluster.close()
