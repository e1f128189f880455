"""HTTP requests to hosts that strangers name, without SSRF, and bounded in time, bytes and redirects.

A name is resolved once, all of its addresses are checked, and the socket is opened to a checked address: a name server
that changes its answer between check and connection gains nothing. A redirect opens its connection in the same way.
Proxies of the environment are not used, because a proxy would resolve the name itself.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from socket import SOCK_STREAM, getaddrinfo
from types import TracebackType
from typing import Any, Final, Self, TypeAlias, cast

import httpcore
import httpx

from streamsched.errors import FetchError
from streamsched.web.reach import PUBLIC, Reach, read_address

Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""Returns the addresses of a host, as texts; raises OSError or UnicodeError if there are none."""

Permit: TypeAlias = Callable[[str], AbstractAsyncContextManager[object]]
"""Is entered before the request for a URL, a redirect's too, and left after its answer; may raise FetchError."""

AGENT: Final = f"streamsched/{version('streamsched')}"
_REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_KEEP_METHOD: Final = frozenset((307, 308))
_MOST_URL_BYTES: Final = 8_192  # as of pages: an outcome may name where a page has moved
_CONNECT_S: Final = 10.0  # for each address: behind it the next one of the host is tried
_ADDRESSES: Final = 4  # of a host that are tried
_RESOLVERS: Final = 16  # threads: a slow name server holds one for up to a minute
_LARGE_BYTES: Final = 512 << 10  # from here on a body needs a permit
_LARGE_BODIES: Final = 2  # at a time, so that memory is bounded by these and not by the number of connections
_RATIO_FROM_BYTES: Final = 1 << 20  # small texts may be compressed as well as they like
_INFLATE_BYTES: Final = 1 << 18  # decompressed at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """The most that one fetch may take.

    - ``seconds``: from the connection to the last byte of each answer, its headers included;
    - ``body_bytes``: of a body, as sent and decompressed; ``cut``: whether a longer one ends there, not as an error;
    - ``ratio``: of decompressed to sent bytes, beyond 1 MiB;
    - ``redirects``: followed.
    """

    seconds: float = 60.0
    body_bytes: int = 50 << 20
    cut: bool = False
    ratio: float = 200.0
    redirects: int = 5


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request. ``url``: after redirects; ``moved``: whether all of these are permanent.

    ``headers``: by their names in small letters, repeated ones joined by commas; ``body``: decompressed, empty unless
    the status is 200 to 299.
    """

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    moved: bool = False


class SafeClient:
    """Sends requests to hosts within `reach`; an asynchronous context manager.

    `agent`: the User-Agent header; `connections`: the most that are open at a time; `resolve`: looks names up, by
    default as the machine does; `keeps`: whether connections stay open for the next request. Bodies beyond 512 KiB are
    read two at a time.
    """

    def __init__(
        self,
        reach: Reach = PUBLIC,
        *,
        agent: str = AGENT,
        connections: int = 64,
        resolve: Resolve | None = None,
        keeps: bool = True,
    ) -> None:
        self._agent = agent
        self._threads = ThreadPoolExecutor(_RESOLVERS, thread_name_prefix="streamsched resolver")
        self._large = asyncio.Semaphore(_LARGE_BODIES)
        context = httpcore.default_ssl_context()
        context.load_default_certs()  # those of the machine too: an intranet may have its own authority
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=context,
            max_connections=connections,
            max_keepalive_connections=connections // 4 if keeps else 0,
            keepalive_expiry=5.0,
            network_backend=CheckedBackend(reach, resolve or self._look_up),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._pool.aclose()
        self.end_lookups()

    def end_lookups(self) -> None:
        """End the threads that look names up. For a client without `keeps` there is nothing else to close."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    @asynccontextmanager
    async def fetch(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        limits: FetchLimits | None = None,
        permit: Permit | None = None,
    ) -> AsyncIterator[Answer]:
        """Yield the answer of `url`, after its redirects; the block may hold a large body while others wait.

        `permit`: entered around each request. Other methods than GET follow redirects 307 and 308 only. Raises
        FetchError.
        """
        limits, permit = limits or FetchLimits(), permit or (lambda _: nullcontext())
        moved = True
        async with AsyncExitStack() as large:
            for hop in range(limits.redirects + 1):
                target = parse_url(url)
                async with permit(str(target)):  # as it is requested: dots in its path are resolved
                    answer = await self._send(target, method, headers or {}, body, limits, large)
                location = answer.headers.get("location")
                follows = answer.status in (_REDIRECTS if method == "GET" else _KEEP_METHOD)
                if not follows or location is None:
                    moved = moved and hop > 0
                    yield Answer(answer.url, answer.status, answer.headers, answer.body, moved)
                    return
                moved = moved and answer.status in (301, 308)
                url = join_url(url, location)
        raise FetchError(url, "redirects", f"expected at most {limits.redirects} redirects")

    async def _send(
        self,
        url: httpx.URL,
        method: str,
        headers: Mapping[str, str],
        body: bytes,
        limits: FetchLimits,
        large: AsyncExitStack,
    ) -> Answer:
        """Return the answer to one request, no redirect followed."""
        own = {"host": url.netloc.decode("ascii"), "user-agent": self._agent, "accept-encoding": "gzip"}
        if body:
            own["content-length"] = str(len(body))
        target = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        sent = [(name.encode("ascii"), value.encode("latin-1")) for name, value in (own | dict(headers)).items()]
        text = str(url)
        try:
            async with asyncio.timeout(limits.seconds) as deadline:
                extensions = {"timeout": {"connect": min(_CONNECT_S, limits.seconds)}}
                async with self._pool.stream(
                    method, target, headers=sent, content=body or None, extensions=extensions
                ) as response:
                    found = read_headers(response.headers)
                    is_read = 200 <= response.status < 300
                    reading = self._read(text, response, found, limits, (deadline, large))
                    return Answer(text, response.status, found, await reading if is_read else _skip(reading))
        except TimeoutError:
            raise FetchError(text, "time", f"takes longer than {limits.seconds:g} seconds") from None
        except (httpcore.TimeoutException, httpcore.NetworkError) as error:
            raise FetchError(text, "connection", str(error) or type(error).__name__) from error
        except (httpcore.ProtocolError, httpcore.UnsupportedProtocol, ValueError) as error:
            raise FetchError(text, "protocol", str(error) or type(error).__name__) from error

    async def _read(
        self,
        url: str,
        response: httpcore.Response,
        headers: Mapping[str, str],
        limits: FetchLimits,
        waits: tuple[asyncio.Timeout, AsyncExitStack],
    ) -> bytes:
        """Return the body, decompressed, within `limits`."""
        inflate = _decoder(url, headers.get("content-encoding", ""))
        found, sent, is_large = bytearray(), 0, False
        async for chunk in response.aiter_stream():
            sent += len(chunk)
            if sent > limits.body_bytes and not limits.cut:
                raise _too_long(url, limits)
            for part in inflate(chunk):
                found += part
                if len(found) > limits.body_bytes:
                    if limits.cut:
                        return bytes(found[: limits.body_bytes])
                    raise _too_long(url, limits)
                if len(found) > max(_RATIO_FROM_BYTES, limits.ratio * sent):
                    raise FetchError(url, "ratio", f"is compressed more than {limits.ratio:g} times")
                if len(found) > _LARGE_BYTES and not is_large:
                    is_large = True
                    await self._wait_for_room(*waits)
        for part in inflate(b""):
            found += part
        return bytes(found)

    async def _wait_for_room(self, deadline: asyncio.Timeout, large: AsyncExitStack) -> None:
        """Wait until few other large bodies are held; the time does not count for the request."""
        loop = asyncio.get_running_loop()
        end, before = deadline.when(), loop.time()
        deadline.reschedule(None)
        await self._large.acquire()
        large.callback(self._large.release)
        if end is not None:
            deadline.reschedule(end + loop.time() - before)

    async def _look_up(self, host: str, port: int) -> list[str]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, partial(getaddrinfo, host, port, type=SOCK_STREAM))
        return list(dict.fromkeys(str(one[4][0]) for one in found))


class CheckedBackend(httpcore.AsyncNetworkBackend):
    """Opens sockets to checked addresses only. One bad address of a host refuses all of them."""

    def __init__(self, reach: Reach, resolve: Resolve) -> None:
        self._reach = reach
        self._resolve = resolve
        self._sockets = cast(httpcore.AsyncNetworkBackend, httpcore.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Return a connection to a checked address of `host`. Raises FetchError or httpcore's errors."""
        if not self._reach.may_serve(port):
            raise FetchError(host, "port", f"expected a port that may be connected to, found {port}")
        try:
            addresses = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise FetchError(host, "name", f"has no address: {error}") from error
        for one in addresses:
            if not self._reach.allows(read_address(one), port):
                raise FetchError(host, "address", f"is at {one}, port {port}, which may not be connected to")
        failure: Exception = FetchError(host, "name", "has no address")
        for one in addresses[:_ADDRESSES]:
            try:
                return await self._sockets.connect_tcp(one, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ARG002  httpcore's signature
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002
    ) -> httpcore.AsyncNetworkStream:
        """Refuse."""
        raise FetchError(path, "address", "is no host")

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


def parse_url(url: str) -> httpx.URL:
    """Return an absolute http or https URL without user information. Raises FetchError."""
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, ValueError, TypeError) as error:
        raise FetchError(url, "url", f"is no URL: {error}") from error
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.userinfo or parsed.port == 0:
        raise FetchError(url, "url", "expected an http or https URL with a host and without a password")
    plain = parsed.copy_with(fragment=None)
    if len(str(plain)) > _MOST_URL_BYTES:
        raise FetchError(url, "url", f"expected a URL of at most {_MOST_URL_BYTES} bytes")
    return plain


def join_url(base: str, reference: str) -> str:
    """Return the URL that `reference` names in a document at `base`. Raises FetchError."""
    try:
        return str(parse_url(base).join(reference))
    except (httpx.InvalidURL, ValueError) as error:
        raise FetchError(base, "url", f"redirects or links to no URL: {error}") from error


def read_headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers by name in small letters, repeated ones joined by commas, as RFC 9110, 5.2, has it.

    >>> read_headers([(b"Link", b"<a>"), (b"LINK", b"<b>")])
    {'link': '<a>, <b>'}
    """
    found: dict[str, str] = {}
    for raw, value in pairs:
        name, text = raw.decode("latin-1").lower(), value.decode("latin-1").strip()
        found[name] = f"{found[name]}, {text}" if name in found else text
    return found


def _skip(reading: Any) -> bytes:
    """Close what would read a body: nobody asks for that of a redirect or an error."""
    reading.close()
    return b""


def _too_long(url: str, limits: FetchLimits) -> FetchError:
    return FetchError(url, "bytes", f"expected at most {limits.body_bytes} bytes")


def _decoder(url: str, encoding: str) -> Callable[[bytes], Iterable[bytes]]:
    """Return what decompresses pieces of a body; an empty piece is its end."""
    match encoding.strip().lower():
        case "" | "identity":
            return lambda piece: (piece,)
        case "gzip" | "x-gzip":
            return partial(_inflate, url, [zlib.decompressobj(zlib.MAX_WBITS | 16)])
        case _:
            raise FetchError(url, "encoding", f"expected gzip or no content encoding, found {encoding[:40]!r}")


def _inflate(url: str, inflater: list[Any], piece: bytes) -> Iterable[bytes]:
    """Yield the decompressed parts of the next `piece`, of bounded size. `inflater`: of the present gzip member."""
    if not piece and not inflater[0].eof:
        raise FetchError(url, "encoding", "its gzip is cut off")
    try:
        while piece:
            if inflater[0].eof:
                inflater[0] = zlib.decompressobj(zlib.MAX_WBITS | 16)
            yield inflater[0].decompress(piece, _INFLATE_BYTES)
            piece = inflater[0].unconsumed_tail or inflater[0].unused_data
    except zlib.error as error:
        raise FetchError(url, "encoding", f"its gzip is damaged: {error}") from error
