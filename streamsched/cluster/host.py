"""A host: a member of the group that serves the partitions it is given, and a front that answers for the cluster."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from starlette.responses import RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from streamsched.client.async_client import AsyncClient
from streamsched.client.retries import RetryPolicy
from streamsched.cluster.common_formula import CommonFormula
from streamsched.cluster.front import open_front
from streamsched.cluster.group import GroupMember, GroupOwners
from streamsched.cluster.image_store import ImageStore
from streamsched.cluster.partition import Partition, ShardSettings, remove_left
from streamsched.cluster.shard_calls import ShardMissing
from streamsched.cluster.topic_log import CallsTopic
from streamsched.connectors.kafka.kafka_settings import KafkaSettings, read_settings
from streamsched.errors import SettingsError
from streamsched.http.app import HttpApp, refuse, unknown_path
from streamsched.http.protocol.problems import HttpError
from streamsched.http.server import AppServer
from streamsched.http.service import ServiceState
from streamsched.persistence.state_directory import lock_state
from streamsched.service.event_log import LOG
from streamsched.service.http_settings import HttpSettings
from streamsched.service.run_settings import RunSettings

SHARDS: Final = "/shards/"
_POLL_S: Final = 0.2
_COMMIT_S: Final = 5.0
_ONCE: Final = RetryPolicy(attempts=1)  # batches do not wait for more


class Host:
    """Serves the partitions that the group gives to `address`; `run_once` is to be called again and again."""

    def __init__(self, settings: ShardSettings, topic: KafkaSettings, address: str) -> None:
        self.partitions: dict[int, Partition] = {}
        self._settings = settings
        self._give_up_s = float(settings.run.cluster.give_up)
        self._commit_at = time.monotonic() + _COMMIT_S
        self._member = GroupMember(topic, address, self._take, self._give_up, self._lose)

    def run_once(self) -> None:
        """Keep the membership for a while. Raises SourceError if it cannot be kept."""
        self._member.poll(_POLL_S)
        if time.monotonic() >= self._commit_at:
            self._commit_at = time.monotonic() + _COMMIT_S
            self._commit(self.partitions.values())

    def close(self) -> None:
        """Give all partitions up, and leave the group."""
        self._member.close()
        self._give_up(list(self.partitions))

    def _take(self, numbers: list[int]) -> None:
        for number in numbers:
            self.partitions[number] = Partition(self._settings, number)
        if numbers:
            LOG.info("partitions assigned", partitions=_show(numbers), owned=len(self.partitions))

    def _give_up(self, numbers: list[int]) -> None:
        given = [self.partitions.pop(number) for number in numbers if number in self.partitions]
        for one in given:
            one.begin_to_give_up()
        end = time.monotonic() + self._give_up_s
        for one in given:
            one.wait(end - time.monotonic())
        self._commit(given)
        if given:
            LOG.info("partitions revoked", partitions=_show(numbers), owned=len(self.partitions))

    def _lose(self, numbers: list[int]) -> None:
        for number in numbers:
            one = self.partitions.pop(number, None)
            if one is not None:
                one.lose()
        LOG.warning("partitions lost", partitions=_show(numbers), owned=len(self.partitions))

    def _commit(self, partitions: Iterable[Partition]) -> None:
        positions = {one.number: one.position for one in partitions}
        self._member.commit({number: position for number, position in positions.items() if position is not None})


class HostApp:
    """An ASGI application: what is below ``/shards/3`` goes to that shard, anything else to `front`."""

    def __init__(self, front: HttpApp[ServiceState], count: int) -> None:
        self.partitions: Mapping[int, Partition] = {}  # those of the host
        self._front = front
        self._known = {str(number).encode(): number for number in range(count)}

    @property
    def under_way(self) -> int:
        """The number of requests that are not answered yet."""
        return sum(app.under_way for app in self._apps())

    @property
    def quiet_since_s(self) -> float:
        """When the last request was answered, by the monotonic clock."""
        return max(app.quiet_since_s for app in self._apps())

    def refuse_requests(self) -> None:
        """Refuse requests from now on, but for those of monitors."""
        for app in self._apps():
            app.refuse_requests()

    def _apps(self) -> list[HttpApp[Any]]:
        shards = [one.app for one in list(self.partitions.values())]
        return [self._front, *(app for app in shards if app is not None)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        raw = scope.get("raw_path", b"").partition(b"?")[0]
        if scope["type"] != "http" or not raw.startswith(SHARDS.encode()):
            await self._front(scope, receive, send)
            return
        number, slash, path = raw[len(SHARDS) :].partition(b"/")
        if number not in self._known:
            await refuse(unknown_path())(scope, receive, send)
            return
        if not slash:  # the files of its console are below it
            await RedirectResponse(f"{SHARDS}{number.decode()}/")(scope, receive, send)
            return
        partition = self.partitions.get(self._known[number])
        app = None if partition is None else partition.app
        if app is None:
            await _refuse_shard(self._known[number])(scope, receive, send)
            return
        inner = b"/" + path
        await app({**scope, "raw_path": inner, "path": inner.decode("latin-1")}, receive, send)


def _refuse_shard(number: int) -> Response:
    detail = f"partition {number} is not served here now"
    unavailable, headers = HTTPStatus.SERVICE_UNAVAILABLE, {"retry-after": "1"}
    return refuse(HttpError(unavailable, "not_owned", detail, headers=headers))


def _show(numbers: Iterable[int]) -> str:
    return ",".join(map(str, sorted(numbers)))


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
    prepare: Callable[[], object],
) -> Iterator[Host]:
    """Yield a host that is a member of the group of the source and serves HTTP on `listener` until the block ends.

    `prepare`: called before it joins the group, while only monitors are answered. Raises what `prepare` raises,
    SourceError if the brokers cannot be reached, SettingsError for an invalid file of tokens, StateInUse if
    another host has the local directory.
    """
    cluster, http = settings.cluster, HttpSettings(**settings.http)
    topic = replace(calls.settings, topic=read_settings(settings.source).topic, group=calls.group)
    token = None if cluster.token is None else _read_token(cluster.token)
    with ExitStack() as stack:
        stack.enter_context(lock_state(settings.state, make=True))
        remove_left(settings.state)
        owners = stack.enter_context(GroupOwners(topic, calls.partitions))
        shards = GroupShards(owners, token)
        front = stack.enter_context(open_front(shards, http, wall, settings.state, deadline_s=float(cluster.answer)))
        app = HostApp(front, calls.partitions)
        server = AppServer(http, app, listener, front.service.statuses)
        address = cluster.advertise or server.address
        shard_settings = ShardSettings(settings, http, calls, store, wall, shards.url, token)
        front.service.is_starting = True
        server.start()
        stack.callback(server.stop)
        prepare()
        front.service.is_starting = False
        host = Host(shard_settings, topic, address)
        stack.callback(host.close)
        app.partitions = host.partitions
        formula = CommonFormula(shard_settings, host.partitions)
        stack.callback(formula.close)
        LOG.info("serving http", address=server.address, advertised=address)
        yield host


def _read_token(path: Path) -> str:
    """Return the token in the file at `path`."""
    try:
        return path.read_text().strip()
    except OSError as error:
        raise SettingsError("cluster.token", str(path), f"a file with a token ({error.strerror})") from error
