"""Where the service is, and the token."""

from __future__ import annotations

import subprocess
import sys

import httpx
import pytest

from streamsched.client import Client
from streamsched.client.replies import check_token, check_url, request_headers
from streamsched.errors import ServiceError, SettingsError
from tests.support.paths import ROOT


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("https://crawl.example/below/", "https://crawl.example/below"),
        ("http://[::1]:8080/", "http://[::1]:8080"),
    ],
)
def test_urls_of_services(url: str, found: str) -> None:
    assert check_url(url) == found


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8080",
        "ftp://a.example",
        "http://",
        "http://a.example/?q=1",
        "http://me:pw@a.example",
        "http://a:b",
        3,
    ],
)
def test_other_urls_are_refused(url: object) -> None:
    with pytest.raises(SettingsError, match="url"):
        check_url(url)  # type: ignore[arg-type]


@pytest.mark.parametrize("token", ["", " ", "secret\n", "a b", "ä", 3])
def test_a_wrong_token_is_refused_and_not_shown(token: object) -> None:
    with pytest.raises(SettingsError, match="token") as caught:
        check_token(token)  # type: ignore[arg-type]
    assert "ä" not in str(caught.value)


def test_requests_carry_the_token_and_accept_no_compression() -> None:
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200, headers={"content-type": "application/msgpack"}, content=b"\x81\xa5known\x00")

    with Client("http://a.example/below/", token="secret", transport=httpx.MockTransport(answer)) as client:
        assert client.release([]).known == 0
    assert str(sent[0].url) == "http://a.example/below/v1/release"
    assert sent[0].headers["authorization"] == "Bearer secret"
    assert sent[0].headers["accept-encoding"] == "identity"
    assert "authorization" not in request_headers(None)


def test_a_redirect_is_not_followed() -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(307, headers={"location": "http://b.example/"}))
    with (
        Client("http://a.example", token="secret", transport=transport) as client,
        pytest.raises(ServiceError) as caught,
    ):
        client.stats()
    assert caught.value.status == 307


def test_the_client_does_not_need_numba() -> None:
    program = """
import sys
from streamsched.client import Outcome
from streamsched.client.calls import encode_outcomes
encode_outcomes([Outcome("https://a.example/ä", 1.7e12, moved_to="https://a.example/")])
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "streamsched.client" in loaded
    assert loaded.isdisjoint({"numba", "streamsched.connectors", "streamsched.scheduler", "streamsched.http"})
