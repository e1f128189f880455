"""A host: a member of the group that serves the partitions it is given."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final

from starlette.responses import RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from streamsched.cluster.group import GroupMember
from streamsched.cluster.partition import Partition, ShardSettings
from streamsched.connectors.kafka.kafka_settings import KafkaSettings
from streamsched.http.app import HttpApp, refuse, unknown_path
from streamsched.http.protocol.problems import HttpError
from streamsched.http.service import ServiceState
from streamsched.service.event_log import LOG

SHARDS: Final = "/shards/"
_POLL_S: Final = 0.2
_COMMIT_S: Final = 5.0


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
