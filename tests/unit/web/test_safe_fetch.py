"""`SafeClient`: the ways in are closed before a socket is opened, and each answer is bounded."""

from __future__ import annotations

import asyncio
import gzip
import random
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address

import pytest

from streamsched.errors import FetchError, SettingsError
from streamsched.web.reach import ANYWHERE, Reach, is_public, read_networks
from streamsched.web.safe_fetch import Answer, FetchLimits, SafeClient
from tests.support.raw_server import always, local_reach, raw_server, respond

WAYS_IN = [
    "http://127.0.0.1/",
    "http://[::1]/",
    "http://localhost/",
    "http://0.0.0.0/",
    "http://2130706433/",
    "http://0x7f.1/",
    "http://017700000001/",
    "http://[::ffff:127.0.0.1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://169.254.169.254/latest/meta-data",
    "http://100.100.100.200/",
    "http://10.1.2.3/",
    "http://[fe80::1%25lo]/",
    "http://224.0.0.1/",
    "http://255.255.255.255/",
    "http://168.63.129.16/",
    "http://[::]/",
    "http://[::127.0.0.1]/",
    "http://[fd00:ec2::254]/",
    "http://127.1/",
    "http://0/",
    "http://127。0。0。1/",  # full stops of another script, which IDNA maps to dots
    "http://①②⑦.0.0.1/",
]
NOT_URLS = [
    *("file:///etc/passwd", "gopher://127.0.0.1/", "ftp://9.9.9.9/", "//9.9.9.9/", "http:///", "", "http://[::1"),
    *(
        "http://user:secret@9.9.9.9/",
        "unix:/run/docker.sock",
        "http+unix://%2Frun/x",
        "http://a\n.example/",
        "http://9.9.9.9:0/",
    ),
]


async def get(url: str, client: SafeClient, limits: FetchLimits | None = None) -> Answer:
    async with client.fetch(url, limits=limits) as answer:
        return answer


async def fail(url: str, client: SafeClient, limits: FetchLimits | None = None) -> str:
    with pytest.raises(FetchError) as caught:
        await get(url, client, limits)
    return caught.value.kind


def run_fetch(url: str, **settings: object) -> str:
    async def fetch() -> str:
        async with SafeClient(**settings) as client:  # type: ignore[arg-type]
            return await fail(url, client, FetchLimits(seconds=5.0))

    return asyncio.run(fetch())


@pytest.mark.parametrize("url", WAYS_IN)
def test_no_socket_is_opened_to_an_address_that_is_not_public(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr("httpcore.AnyIOBackend.connect_tcp", refuse)
    assert run_fetch(url) in {"address", "url", "name"}


@pytest.mark.parametrize("url", NOT_URLS)
def test_other_schemes_and_passwords_are_refused(url: str) -> None:
    assert run_fetch(url) == "url"


@pytest.mark.parametrize("port", [22, 25, 6379, 8080, 65535])
def test_other_ports_are_refused(port: int) -> None:
    assert run_fetch(f"http://9.9.9.9:{port}/") == "port"


def test_further_ports_are_those_of_allowed_networks_only() -> None:
    reach = Reach(read_networks(["10.0.0.0/8"]), allow_ports=frozenset([8080]))
    assert run_fetch("http://9.9.9.9:8080/", reach=reach) == "address"
    assert reach.allows(ip_address("::ffff:10.0.0.1"), 8080)


def test_one_bad_address_among_good_ones_refuses_the_name() -> None:
    async def both(_host: str, _port: int) -> list[str]:
        return ["9.9.9.9", "10.0.0.1"]

    assert run_fetch("http://a.example/", resolve=both) == "address"


def test_a_name_server_that_changes_its_answer_gains_nothing() -> None:
    async def fetch() -> None:
        asked: list[str] = []

        async def rebind(host: str, _port: int) -> list[str]:
            asked.append(host)
            return ["127.0.0.1"] if len(asked) % 2 else ["10.0.0.1"]

        server = raw_server(always(respond(body=b"x")))
        async with server as (port, heads), SafeClient(local_reach(port), resolve=rebind) as client:
            url = f"http://a.example:{port}/"
            assert (await get(url, client)).body == b"x"
            assert asked == ["a.example"], "one look-up a connection"
            assert await fail(url, client) == "address"
            assert len(heads) == 1

    asyncio.run(fetch())


@pytest.mark.parametrize("host", ["10.0.0.1", "169.254.169.254", "[::1]", "localhost.localdomain"])
def test_a_redirect_is_checked_as_a_request(host: str) -> None:
    async def fetch() -> None:
        async with raw_server(always(respond(302, headers={"Location": f"http://{host}/"}))) as (port, _):
            reach = Reach(read_networks(["127.0.0.1/32"]), allow_ports=frozenset([port]))

            async def look_up(name: str, _port: int) -> list[str]:
                return {"a.example": ["127.0.0.1"]}.get(name) or [
                    name.strip("[]").replace("localhost.localdomain", "::1")
                ]

            async with SafeClient(reach, resolve=look_up) as client:
                assert await fail(f"http://a.example:{port}/", client) == "address"

    asyncio.run(fetch())


@pytest.mark.parametrize("location", ["file:///etc/passwd", "http://127.0.0.1:22/", "gopher://127.0.0.1/", "http://["])
def test_a_redirect_to_what_may_not_be_fetched(location: str) -> None:
    async def fetch() -> None:
        async with raw_server(always(respond(301, headers={"Location": location}))) as (port, heads):
            async with SafeClient(local_reach(port)) as client:
                assert await fail(f"http://127.0.0.1:{port}/", client) in {"url", "port", "name"}
            assert len(heads) == 1

    asyncio.run(fetch())


def test_redirects_are_counted_and_permanence_is_of_all() -> None:
    async def talk(head: bytes, writer: asyncio.StreamWriter) -> None:
        number = int(head.split()[1][1:])
        writer.write(
            respond(307 if number == 1 else 308, headers={"Location": f"/{number - 1}"}) if number else respond()
        )

    async def fetch() -> None:
        async with raw_server(talk) as (port, _), SafeClient(local_reach(port)) as client:
            answer = await get(f"http://127.0.0.1:{port}/5", client)
            assert (answer.status, answer.url, answer.moved) == (200, f"http://127.0.0.1:{port}/0", False)
            assert not (await get(f"http://127.0.0.1:{port}/0", client)).moved
            assert await fail(f"http://127.0.0.1:{port}/6", client) == "redirects"

    asyncio.run(fetch())


def test_the_environment_names_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fetch() -> None:
        async with (
            raw_server(always(respond(body=b"direct"))) as (port, _),
            raw_server(always(respond())) as (proxy, seen),
        ):
            for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
                monkeypatch.setenv(name, f"http://127.0.0.1:{proxy}")
            async with SafeClient(local_reach(port)) as client:
                assert (await get(f"http://127.0.0.1:{port}/", client)).body == b"direct"
            assert seen == []

    asyncio.run(fetch())


BOMB = gzip.compress(bytes(60 << 20), mtime=0)
SMALL = FetchLimits(seconds=20.0, body_bytes=4 << 20)


@pytest.mark.parametrize(
    ("body", "encoding", "kind"),
    [
        (BOMB, "gzip", "ratio"),
        (bytes(5 << 20), "", "bytes"),
        (gzip.compress(bytes(5 << 20), 0, mtime=0), "gzip", "bytes"),
        (gzip.compress(b"x" * 1000, mtime=0)[:-6], "gzip", "encoding"),
        (b"no gzip", "gzip", "encoding"),
        (zlib.compress(b"x"), "deflate", "encoding"),
        (b"x", "br", "encoding"),
        (gzip.compress(BOMB, mtime=0), "gzip, gzip", "encoding"),
    ],
)
def test_bodies_that_are_refused(body: bytes, encoding: str, kind: str) -> None:
    async def fetch() -> None:
        headers = {"Content-Encoding": encoding} if encoding else {}
        async with (
            raw_server(always(respond(200, body, headers))) as (port, _),
            SafeClient(local_reach(port)) as client,
        ):
            limits = FetchLimits() if kind == "ratio" else SMALL
            assert await fail(f"http://127.0.0.1:{port}/", client, limits) == kind

    asyncio.run(fetch())


def test_bodies_that_are_read() -> None:
    text = random.Random(1).randbytes(1 << 20)
    bodies = {
        b"/gzip": (gzip.compress(text, mtime=0), {"Content-Encoding": "gzip"}),
        b"/members": (gzip.compress(text[:77], mtime=0) + gzip.compress(text[77:]), {"Content-Encoding": "GZIP"}),
        b"/plain": (text, {}),
    }

    async def talk(head: bytes, writer: asyncio.StreamWriter) -> None:
        body, headers = bodies[head.split()[1]]
        writer.write(respond(200, body, headers))

    async def fetch() -> None:
        async with raw_server(talk) as (port, _), SafeClient(local_reach(port)) as client:
            for path in bodies:
                assert (await get(f"http://127.0.0.1:{port}{path.decode()}", client)).body == text
            cut = FetchLimits(body_bytes=100, cut=True)
            for path in bodies:
                assert (await get(f"http://127.0.0.1:{port}{path.decode()}", client, cut)).body == text[:100]

    asyncio.run(fetch())


@asynccontextmanager
async def dripping(first: bytes, drop: bytes) -> AsyncIterator[int]:
    async def talk(_head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        while True:
            writer.write(drop)
            await writer.drain()
            await asyncio.sleep(0.01)

    async with raw_server(talk) as (port, _):
        yield port


@pytest.mark.parametrize(
    ("first", "drop"),
    [
        (b"HTTP/1.1 200 x\r\n", b"X-Drop: 1\r\n"),
        (b"HTTP/1.1 200 x\r\nX: ", b"y"),
        (b"", b"HTTP/1.1 103 early\r\n\r\n"),
        (b"HTTP/1.1 200 x\r\n\r\n", b"z"),
        (b"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nz\r\n"),
        (b"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"e"),
    ],
)
def test_slow_drops_of_headers_and_bodies_end(first: bytes, drop: bytes) -> None:
    async def fetch() -> None:
        async with dripping(first, drop) as port, SafeClient(local_reach(port)) as client:
            assert await fail(f"http://127.0.0.1:{port}/", client, FetchLimits(seconds=0.3)) == "time"

    asyncio.run(fetch())


def test_a_name_server_that_never_answers_ends() -> None:
    async def never(_host: str, _port: int) -> list[str]:
        await asyncio.sleep(3600.0)
        return []

    async def fetch() -> None:
        async with SafeClient(resolve=never) as client:
            assert await fail("http://a.example/", client, FetchLimits(seconds=0.1)) == "time"

    asyncio.run(fetch())


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"no http\r\n\r\n",
        b"HTTP/1.1 200 x\r\nContent-Length: 10\r\n\r\nshort",
        b"HTTP/1.1 200 x\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        b"HTTP/1.1 200 x\r\n" + b"X: " + b"y" * 300_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    ],
)
def test_answers_that_are_none(answer: bytes) -> None:
    async def fetch() -> None:
        async with raw_server(always(answer)) as (port, _), SafeClient(local_reach(port)) as client:
            assert await fail(f"http://127.0.0.1:{port}/", client) in {"connection", "protocol"}

    asyncio.run(fetch())


def test_few_large_bodies_are_held_at_a_time() -> None:
    async def fetch() -> None:
        async with (
            raw_server(always(respond(200, bytes(1 << 20)))) as (port, _),
            SafeClient(local_reach(port)) as client,
        ):
            url, held, most = f"http://127.0.0.1:{port}/", 0, 0

            async def hold() -> None:
                nonlocal held, most
                async with client.fetch(url) as answer:
                    assert len(answer.body) == 1 << 20
                    held, most = held + 1, max(most, held + 1)
                    await asyncio.sleep(0.01)
                    held -= 1

            await asyncio.gather(*(hold() for _ in range(8)))
            assert most <= 2

    asyncio.run(fetch())


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        *[(text, True) for text in ("1.1.1.1", "100.128.0.1", "172.32.0.1", "2606:4700::1", "::ffff:8.8.8.8")],
        *[
            (text, False)
            for text in ("100.64.0.1", "192.0.0.192", "198.19.0.1", "240.0.0.1", "2001::1", "2002:808:808::")
        ],
        *[(text, False) for text in ("fec0::1", "ff02::1", "4000::1", "100::1", "64:ff9b:1::1", "::ffff:10.0.0.1")],
    ],
)
def test_public_addresses(address: str, expected: bool) -> None:
    assert is_public(ip_address(address)) is expected


def test_networks_as_they_are_written() -> None:
    assert [str(network) for network in read_networks(["10.0.0.0/8", "fd00::/8"])] == ["10.0.0.0/8", "fd00::/8"]
    assert ANYWHERE.allows(ip_address("127.0.0.1"), 9)
    for wrong in ("10.0.0.1/8", "intranet", "", "10.0.0.0/33"):
        with pytest.raises(SettingsError):
            read_networks([wrong])
