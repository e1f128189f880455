"""Opens a host with its HTTP service: its shards below ``/shards/``, and a front that answers for the whole cluster."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from streamsched.client.async_client import AsyncClient
from streamsched.cluster.front import ShardMissing, open_front
from streamsched.cluster.group import GroupOwners
from streamsched.cluster.host import SHARDS, Host, HostApp
from streamsched.cluster.partition import ShardSettings
from streamsched.connectors.kafka.kafka_settings import KafkaSettings
from streamsched.errors import SettingsError
from streamsched.http.server import HttpServer
from streamsched.service.event_log import LOG


class GroupShards:
    """The shards of the cluster, asked at the hosts that the group names. ``count``: partitions. For one event loop."""

    def __init__(self, owners: GroupOwners, token: str | None) -> None:
        self.count = owners.count
        self._owners = owners
        self._token = token
        self._clients: dict[tuple[str, int], AsyncClient] = {}

    def client(self, partition: int) -> AsyncClient:
        """Return the client of the partition's owner. Raises ShardMissing if it has none."""
        owner = self._owners.owner(partition)
        if owner is None:
            raise ShardMissing(partition)
        client = self._clients.get((owner, partition))
        if client is None:
            client = self._clients[owner, partition] = AsyncClient(
                f"http://{owner}{SHARDS}{partition}", token=self._token
            )
        return client

    def lost(self, partition: int) -> None:
        """Note that its owner did not answer as one."""
        self._owners.lost(partition)


@contextmanager
def open_host(settings: ShardSettings, topic: KafkaSettings, listener: socket.socket) -> Iterator[Host]:
    """Yield a host that is a member of the group of `topic` and serves HTTP on `listener` until the block ends.

    Raises SourceError if the brokers cannot be reached, SettingsError for an invalid file of tokens.
    """
    cluster, http = settings.run.cluster, settings.http
    token = None if cluster.token is None else _read_token(cluster.token)
    with ExitStack() as stack:
        owners = stack.enter_context(GroupOwners(topic, settings.calls.partitions))
        front = stack.enter_context(
            open_front(GroupShards(owners, token), http, settings.wall, answer_s=float(cluster.answer))
        )
        app = HostApp(front)
        server = HttpServer(http, app, listener)
        address = cluster.advertise or server.address
        host = Host(settings, topic, address)
        app.partitions = host.partitions
        stack.callback(server.stop)
        stack.callback(host.close)
        server.start()
        LOG.info("serving http", address=server.address, advertised=address)
        yield host


def _read_token(path: Path) -> str:
    """Return the token in the file at `path`."""
    try:
        return path.read_text().strip()
    except OSError as error:
        raise SettingsError("cluster.token", str(path), f"a file with a token ({error.strerror})") from error
