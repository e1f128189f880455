"""Opens a host with its HTTP service: its shards below ``/shards/``, and a front that answers for the whole cluster."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from streamsched.client.async_client import AsyncClient
from streamsched.client.retries import RetryPolicy
from streamsched.cluster.common_formula import CommonFormula
from streamsched.cluster.front import open_front
from streamsched.cluster.group import GroupOwners
from streamsched.cluster.host import SHARDS, Host, HostApp
from streamsched.cluster.image_store import ImageStore
from streamsched.cluster.partition import ShardSettings
from streamsched.cluster.shard_calls import ShardMissing
from streamsched.cluster.topic_log import CallsTopic
from streamsched.connectors.kafka.kafka_settings import read_settings
from streamsched.errors import SettingsError
from streamsched.http.server import AppServer
from streamsched.persistence.state_directory import lock_state
from streamsched.service.event_log import LOG
from streamsched.service.http_settings import HttpSettings
from streamsched.service.run_settings import RunSettings

_ONCE: Final = RetryPolicy(attempts=1)  # batches do not wait for more


class GroupShards:
    """The shards of the cluster, asked at the hosts that the group names. ``count``: partitions. For one event loop."""

    def __init__(self, owners: GroupOwners, token: str | None) -> None:
        self.count = owners.count
        self._owners = owners
        self._token = token
        self._clients: dict[str, AsyncClient] = {}

    def url(self, partition: int) -> str | None:
        """Return where the partition is served, None if it is not. For any thread."""
        owner = self._owners.owner(partition)
        return None if owner is None else f"http://{owner}{SHARDS}{partition}"

    def client(self, partition: int) -> AsyncClient:
        """Return the client of the partition's owner. Raises ShardMissing if it has none."""
        url = self.url(partition)
        if url is None:
            raise ShardMissing(partition)
        if url not in self._clients:
            self._clients[url] = AsyncClient(url, token=self._token, retries=_ONCE)
        return self._clients[url]

    def lost(self, partition: int) -> None:
        """Note that its owner did not answer as one."""
        self._owners.lost(partition)


@contextmanager
def open_host(
    settings: RunSettings,
    calls: CallsTopic,
    store: ImageStore,
    wall: Callable[[], float],
    listener: socket.socket,
) -> Iterator[Host]:
    """Yield a host that is a member of the group of the source and serves HTTP on `listener` until the block ends.

    Raises SourceError if the brokers cannot be reached, SettingsError for an invalid file of tokens, StateInUse if
    another host has the local directory.
    """
    cluster, http = settings.cluster, HttpSettings(**settings.http)
    topic = replace(calls.settings, topic=read_settings(settings.source).topic, group=calls.group)
    token = None if cluster.token is None else _read_token(cluster.token)
    with ExitStack() as stack:
        stack.enter_context(lock_state(settings.state, make=True))  # another host would empty its directories
        owners = stack.enter_context(GroupOwners(topic, calls.partitions))
        shards = GroupShards(owners, token)
        front = stack.enter_context(open_front(shards, http, wall, settings.state, deadline_s=float(cluster.answer)))
        app = HostApp(front, calls.partitions)
        server = AppServer(http, app, listener, front.service.statuses)
        address = cluster.advertise or server.address
        shard_settings = ShardSettings(settings, http, calls, store, wall, shards.url, token)
        host = Host(shard_settings, topic, address)
        app.partitions = host.partitions
        formula = CommonFormula(shard_settings, host.partitions)
        stack.callback(server.stop)
        stack.callback(host.close)
        server.start()
        stack.callback(formula.close)
        LOG.info("serving http", address=server.address, advertised=address)
        yield host


def _read_token(path: Path) -> str:
    """Return the token in the file at `path`."""
    try:
        return path.read_text().strip()
    except OSError as error:
        raise SettingsError("cluster.token", str(path), f"a file with a token ({error.strerror})") from error
