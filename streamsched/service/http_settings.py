"""Settings of the HTTP service."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from streamsched.errors import NOTHING, SettingsError
from streamsched.numerics.argument_checks import check_type, check_whole
from streamsched.numerics.durations import parse_duration
from streamsched.web.reach import read_networks

DEFAULT_ADDRESS: Final = "127.0.0.1:8080"
DEFAULT_CRAWL: Final = "DEFAULT"  # the crawl of URLs without a crawl ID
_EXPECTED: Final = "HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080"
_ADDRESS: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+)):([0-9]{1,5})")
_MOST_PORT: Final = 0xFFFF
_LEAST_BODY: Final = 1024


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Where the service listens and what it accepts. Durations are ``"10s"`` or seconds, stored as seconds.

    - ``address``: HOST:PORT to serve at, port 0 for any free one;
    - ``tokens``: file of tokens, required unless the host is a loopback address;
    - ``audit``: file of the audit log, None for ``audit.jsonl`` in the state directory;
    - ``snapshots``: directory in which ``POST /v1/snapshot`` makes copies of the state, None for no copies;
    - ``max_body``: the most bytes of a request's body;
    - ``rate``: the most requests a second of one token, or without tokens of one client's address;
    - ``connections``: the most connections at once; further ones wait;
    - ``connections_per_address``: the most connections of one client's address; further ones are answered with 503.
      Behind a proxy, which has one address, set it to ``connections``;
    - ``queue``: the most requests that wait for the scheduler; further ones are answered with 503;
    - ``body_timeout``: the longest time in which a body must arrive;
    - ``idle_timeout``: how long a connection may be open without a request, or a request's head incomplete;
    - ``write_timeout``: how long a client may leave an answer unread;
    - ``drain_timeout``: how long a stop waits for the requests under way;
    - ``indexnow``: whether everybody may announce changed pages at ``/indexnow``;
    - ``indexnow_allow``: networks, such as ``"10.0.0.0/8 fd00::/8"``, from which key files of IndexNow are fetched
      though their addresses are not public, None for none;
    - ``sample_every``: time between two samples of the service's figures.

    Raises SettingsError if a value is invalid.

    >>> HttpSettings("localhost:8080", rate=50).port
    8080
    """

    address: str = DEFAULT_ADDRESS
    tokens: str | Path | None = None
    audit: str | Path | None = None
    snapshots: str | Path | None = None
    max_body: int = 8 << 20
    rate: int = 1_000
    connections: int = 512
    connections_per_address: int = 128
    queue: int = 256
    body_timeout: str | float = "10s"
    idle_timeout: str | float = "30s"
    write_timeout: str | float = "30s"
    drain_timeout: str | float = "30s"
    indexnow: bool = False
    indexnow_allow: str | None = None
    sample_every: str | float = "5s"

    def __post_init__(self) -> None:
        split_address(self.address)
        check_whole("max_body", self.max_body, _LEAST_BODY, f"{_LEAST_BODY:,} or more bytes")
        for name in ("rate", "connections", "connections_per_address", "queue"):
            check_whole(name, getattr(self, name), 1, "1 or more")
        for name in ("body_timeout", "idle_timeout", "write_timeout", "drain_timeout", "sample_every"):
            object.__setattr__(self, name, parse_duration(getattr(self, name), name))
        check_type("indexnow", self.indexnow, bool, "True or False")
        read_networks((self.indexnow_allow or "").split(), "indexnow_allow")
        if self.tokens is None and not self.is_loopback:
            raise SettingsError("tokens", NOTHING, "a file of tokens: without one only loopback addresses are served")

    @property
    def host(self) -> str:
        """The host to listen on."""
        return split_address(self.address)[0]

    @property
    def port(self) -> int:
        """The port to listen on, 0 for any free one."""
        return split_address(self.address)[1]

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of an address, HOST:PORT. Raises SettingsError."""
    found = _ADDRESS.fullmatch(address) if isinstance(address, str) else None
    if found is None or int(found[3]) > _MOST_PORT:
        raise SettingsError("address", address, _EXPECTED)
    return found[1] or found[2], int(found[3])


@dataclass(frozen=True, slots=True)
class FrontierSettings:
    """The url-frontier API of `serve`, over gRPC, beside HTTP, with the tokens and bounds of HTTP.

    - ``address``: HOST:PORT to serve the url-frontier API at, port 0 for any free one; None for not at all;
    - ``crawl``: the crawl ID that the state is served as;
    - ``crawls``: further crawls, each with a state of its own: crawl IDs and state directories, such as
      ``"news=news.state docs=docs.state"``; all others are refused;
    - ``earliest_dates``: whether pages are visited no earlier than the ``refetchable_from_date`` that clients send;
    - ``certificate``, ``key``: PEM files of the server's certificate chain and its private key, for TLS;
    - ``client_ca``: PEM file of the authority whose certificates let clients in without a token.

    Raises SettingsError if a value is invalid.

    >>> FrontierSettings("127.0.0.1:7071", crawls="news=news.state").others
    {'news': PosixPath('news.state')}
    """

    address: str | None = None
    crawl: str = DEFAULT_CRAWL
    crawls: str | None = None
    earliest_dates: bool = False
    certificate: str | Path | None = None
    key: str | Path | None = None
    client_ca: str | Path | None = None

    def __post_init__(self) -> None:
        if self.address is not None:
            split_address(self.address)
        if len({self.crawl, *self.others}) <= len((self.crawls or "").split()):
            raise SettingsError("crawls", self.crawls, "each crawl ID once, and not that of crawl")
        check_type("earliest_dates", self.earliest_dates, bool, "True or False")
        if (self.certificate is None) != (self.key is None):
            raise SettingsError("key", self.key or NOTHING, "certificate and key, or none of them")
        if self.client_ca is not None and self.certificate is None:
            raise SettingsError("certificate", NOTHING, "a certificate, if there is client_ca")

    @property
    def others(self) -> dict[str, Path]:
        """The state directories of the further crawls, by crawl ID. Raises SettingsError."""
        found = {}
        for word in (self.crawls or "").split():
            name, _, directory = word.partition("=")
            if not name or not directory:
                raise SettingsError("crawls", word, "ID=DIR, such as news=news.state")
            found[name] = Path(directory)
        return found

    def listening(self, http: HttpSettings) -> HttpSettings:
        """Return where to listen; raises SettingsError for an address that needs tokens or `client_ca`."""
        address = http.address if self.address is None else self.address
        return replace(http, address=address, tokens=http.tokens or self.client_ca)
