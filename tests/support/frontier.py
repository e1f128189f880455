"""A url-frontier service in this process, and calls of it by grpcio's client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from streamsched import DurableScheduler
from streamsched.frontier.messages import FRONTIER, METHODS, message
from streamsched.frontier.open_frontier import open_frontier
from streamsched.http.server import listen
from streamsched.service.http_settings import FrontierSettings, HttpSettings
from streamsched.state.stream_clock import WallClock
from tests.support.http_service import TOKENS, Running, running

OK, SKIPPED, FAIL = 0, 1, 2
LATER = 4_000_000_000


class Client:
    """Calls of the API by their names; what they send may be bytes."""

    def __init__(self, channel: grpc.Channel, token: str | None = None) -> None:
        self.channel = channel
        self.metadata = () if token is None else (("authorization", f"Bearer {token}"),)

    def open(self, name: str, asked: Any, service: str = FRONTIER, *, timeout: float = 60.0) -> Any:
        """Begin a call; return its answers to come. `asked`: a message or, for PutURLs, several."""
        path = f"/{service}/{name}"
        answer = METHODS[path].answer if path in METHODS else message("urlfrontier.Empty")
        kind = self.channel.stream_stream if name == "PutURLs" else self.channel.unary_stream
        call = kind(path, request_serializer=_encode, response_deserializer=answer.FromString)
        return call(asked, metadata=self.metadata, timeout=timeout)

    def __call__(self, name: str, asked: Any = None, service: str = FRONTIER, **fields: Any) -> Any:
        """Return the only answer of a call."""
        method = METHODS[f"/{service}/{name}"]
        (answer,) = list(self.open(name, method.asked(**fields) if asked is None else asked, service))
        return answer

    def get(self, **fields: Any) -> list[Any]:
        """Return the pages that GetURLs leases."""
        return list(self.open("GetURLs", message("urlfrontier.GetParams")(**fields)))

    def put(self, items: Iterable[Any]) -> list[tuple[str, int]]:
        """Return the acknowledgements of PutURLs."""
        return [(ack.ID, ack.status) for ack in self.open("PutURLs", iter(items))]


def _encode(asked: Any) -> bytes:
    return asked if isinstance(asked, bytes) else bytes(asked.SerializeToString())


def discovered(url: str, *, crawl: str = "", name: str = "") -> Any:
    item = message("urlfrontier.URLItem")(ID=name)
    item.discovered.info.url = url
    item.discovered.info.crawlID = crawl
    return item


def known(url: str, date: int = LATER, *, crawl: str = "", **metadata: str) -> Any:
    """Return a known item; in names of `metadata`, two underscores stand for a dot."""
    item = message("urlfrontier.URLItem")()
    item.known.info.url = url
    item.known.info.crawlID = crawl
    item.known.refetchable_from_date = date
    for name, text in metadata.items():
        item.known.info.metadata[name.replace("__", ".")].values.append(text)
    return item


def fails(call: Any) -> grpc.StatusCode:
    """Return the status of a call that fails."""
    try:
        list(call)
    except grpc.RpcError as error:
        return error.code()
    raise AssertionError("the call has not failed")


@dataclass(frozen=True)
class Frontier:
    """A service that answers. ``address``: HOST:PORT; ``client``: calls it with the token "all", if it has tokens."""

    http: Running
    address: str
    client: Client

    @property
    def place(self) -> tuple[str, int]:
        host, _, port = self.address.rpartition(":")
        return host, int(port)


@contextmanager
def serving(folder: Path, *, tokens: bool = False, bounds: Any = None, **settings: Any) -> Iterator[Frontier]:
    """Serve the state in `folder` over both within the block; `bounds`: settings of HTTP.

    Further crawls of the settings are new.
    """
    given = FrontierSettings("127.0.0.1:0", **settings)
    limits: dict[str, Any] = dict(bounds or {})
    http = HttpSettings("127.0.0.1:0", tokens=folder / "tokens.toml" if tokens else None, **limits)
    with ExitStack() as stack:
        service = stack.enter_context(running(folder, tokens=tokens, **limits))
        listener = stack.enter_context(listen(given.listening(http)))
        clock = WallClock(service.server.app.service.clock)
        others = {
            name: stack.enter_context(DurableScheduler.open(directory, clock=clock))
            for name, directory in given.others.items()
        }
        address = stack.enter_context(open_frontier(service.server.app, others, given, http, listener))
        channel = stack.enter_context(grpc.insecure_channel(address))
        yield Frontier(service, address, Client(channel, TOKENS["all"] if tokens else None))
