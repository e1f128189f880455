"""A real Kafka broker for the tests: its jars fetched once by Maven, one Java process in KRaft mode on free ports.

``KAFKA_HOME``: an installation whose ``libs`` are used in place of fetched jars. ``STREAMSCHED_CACHE``: where fetched
jars are kept, ``~/.cache/streamsched`` unless set.
"""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from streamsched.numerics.compilation.code_libraries import signals_deferred
from tests.support.child_processes import run_to_end

POM = Path(__file__).with_name("pom.xml")
USER, PASSWORD = "crawler", "s3cret"
_START_S = 60.0
_FETCH_S = 240.0
# Little memory, no optimising compiler: up in three seconds, and out of the way of the tests beside it.
_JAVA = ("java", "-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAIN://127.0.0.1:{plain},SECURE://127.0.0.1:{secure},CUT://127.0.0.1:{behind},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAIN://127.0.0.1:{plain},SECURE://127.0.0.1:{secure},CUT://127.0.0.1:{front}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAIN:PLAINTEXT,CUT:PLAINTEXT,SECURE:SASL_SSL
inter.broker.listener.name=PLAIN
listener.name.secure.sasl.enabled.mechanisms=PLAIN
listener.name.secure.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
 user_{user}="{password}";
listener.name.secure.ssl.keystore.location={folder}/keys.p12
listener.name.secure.ssl.keystore.password={password}
log.dirs={folder}/data
num.partitions=4
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=1000
broker.heartbeat.interval.ms=200
group.min.session.timeout.ms=1000
group.consumer.min.session.timeout.ms=1000
group.consumer.session.timeout.ms=3000
group.consumer.min.heartbeat.interval.ms=500
group.consumer.heartbeat.interval.ms=500
log.cleaner.backoff.ms=100
log.retention.check.interval.ms=200
log.initial.task.delay.ms=200
num.io.threads=2
num.network.threads=1
"""


class NoBroker(Exception):
    """There can be no real broker here, and why."""


@dataclass(frozen=True)
class Address:
    """Where a broker is: plainly, by TLS and SASL, and by way of a proxy that a test may put at port `front`."""

    servers: str
    secure: str = ""
    certificate: str = ""
    front: int = 0
    behind: int = 0
    is_real: bool = True


class Broker:
    """A broker in `folder`; the ports stay its own over a restart."""

    def __init__(self, jars: Path, folder: Path) -> None:
        self._jars = f"{jars}/*"
        self._folder = folder
        folder.mkdir(parents=True)
        names = ("plain", "secure", "front", "behind", "controller")
        ports = dict(zip(names, free_ports(len(names)), strict=True))
        local = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
        certificate = folder / "ca.pem"
        self.address = Address(local["plain"], local["secure"], str(certificate), ports["front"], ports["behind"])
        self._settings = folder / "server.properties"
        self._settings.write_text(_SETTINGS.format(folder=folder, user=USER, password=PASSWORD, **ports))
        self._log = folder / "broker.log"
        self.pid = 0
        self.is_running = False
        self._make_keys(certificate)
        words = ("kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", str(self._settings))
        _run(*_JAVA, "-cp", self._jars, *words)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        words = (*_JAVA, "-cp", self._jars, "kafka.Kafka", str(self._settings))
        log = (os.POSIX_SPAWN_OPEN, 1, str(self._log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        # No Popen, which wants to see the end of what it started: another worker of the run may be the last to use it.
        with signals_deferred():
            self.pid = os.posix_spawnp("java", words, os.environ, file_actions=[log, (os.POSIX_SPAWN_DUP2, 1, 2)])
        host, port = self.address.servers.split(":")
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline and os.waitpid(self.pid, os.WNOHANG) == (0, 0):
            try:
                socket.create_connection((host, int(port)), 1).close()
                self.is_running = True
                return
            except OSError:
                time.sleep(0.05)
        raise NoBroker(f"the broker did not start: {self._log.read_text()[-2000:]}")

    def kill(self) -> None:
        """End it at once, as a power cut does."""
        if not self.is_running:
            return
        self.is_running = False
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def _make_keys(self, certificate: Path) -> None:
        store = ("-keystore", str(self._folder / "keys.p12"), "-storepass", PASSWORD, "-alias", "broker")
        name = ("-dname", "CN=localhost", "-ext", "SAN=IP:127.0.0.1", "-validity", "2")
        _run("keytool", "-genkeypair", "-keyalg", "EC", "-groupname", "secp256r1", *name, *store)
        _run("keytool", "-exportcert", "-rfc", "-file", str(certificate), *store)


def stop_process(pid: int) -> None:
    """End the broker whose process is `pid`, started by another process of the same test run."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def find_jars() -> Path:
    """Return the folder of the broker's jars, fetched if need be; raises NoBroker where there is no way to it."""
    if shutil.which("java") is None or shutil.which("keytool") is None:
        raise NoBroker("no Java on this machine")
    home = os.environ.get("KAFKA_HOME")
    if home:
        return Path(home) / "libs"
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "streamsched"
    cache = Path(os.environ.get("STREAMSCHED_CACHE") or default)
    cache.mkdir(parents=True, exist_ok=True)
    version = POM.read_text().split("<version>")[2].split("<")[0]
    jars = cache / f"kafka-{version}"
    with locked(cache / "kafka.lock"):
        if not jars.is_dir():
            _fetch(jars)
    return jars


def _fetch(jars: Path) -> None:
    """Have Maven fetch what the broker needs, from wherever it is set up to."""
    if shutil.which("mvn") is None:
        raise NoBroker(f"no broker in {jars}, no KAFKA_HOME, and no Maven to fetch one")
    partial = jars.with_name(f"{jars.name}.{os.getpid()}")
    folder = partial / "jars"
    words = ("mvn", "--batch-mode", "--quiet", "--file", str(POM), "dependency:copy-dependencies")
    try:
        _run(*words, "-DincludeScope=runtime", f"-DoutputDirectory={folder}", timeout=_FETCH_S)
        folder.replace(jars)
    except (subprocess.SubprocessError, OSError) as error:
        raise NoBroker(f"Maven cannot fetch a broker: {str(error)[-300:]}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _run(*words: str, timeout: float = 60.0) -> None:
    done = run_to_end(words, timeout)
    if done.returncode:
        raise subprocess.SubprocessError(f"{words[0]}: {done.stdout}{done.stderr}")


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on, all different, below those that the system gives out by itself.

    So they stay free until they are used, also if a test leaves and takes them again.
    """
    ports: list[int] = []
    while len(ports) < count:
        port = random.SystemRandom().randrange(10_000, 30_000)  # other processes of the tests choose too
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            ports += [port] if port not in ports else []
    return ports


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of the file `path` against other processes."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
