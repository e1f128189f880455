"""Arguments of a client: where the service is, the token, the headers of each request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import httpx

from streamsched.client.protocol.bodies import MSGPACK
from streamsched.errors import SettingsError

if TYPE_CHECKING:
    from streamsched.client.protocol.calls import Call

__all__ = ["check_token", "check_url", "describe_request", "request_headers"]

_TOKEN: Final = re.compile("[!-~]+")


def check_url(url: str) -> str:
    """Return the URL of a service without a slash at its end. Raises SettingsError.

    >>> check_url("http://127.0.0.1:8080/")
    'http://127.0.0.1:8080'
    """
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        parsed = None
    plain = parsed is not None and not (parsed.query or parsed.fragment or parsed.userinfo)
    if parsed is None or not plain or parsed.scheme not in {"http", "https"} or not parsed.host:
        raise SettingsError("url", url, "the URL of a service, such as http://127.0.0.1:8080")
    return str(parsed).rstrip("/")


def check_token(token: str | None) -> str | None:
    """Return the token. Raises SettingsError, without showing it, if no header can hold it."""
    if token is None or (isinstance(token, str) and _TOKEN.fullmatch(token)):
        return token
    raise SettingsError("token", "one that is not shown here", "visible ASCII characters")


def request_headers(token: str | None) -> Mapping[str, str]:
    """Return the headers of all requests of a client."""
    headers = {"accept": MSGPACK, "accept-encoding": "identity", "user-agent": "streamsched"}
    return headers if token is None else {**headers, "authorization": f"Bearer {token}"}


def describe_request(url: str, call: Call[Any]) -> str:
    """Return the method and URL of a call, as errors name it.

    >>> from streamsched.client.protocol.calls import Call
    >>> describe_request("http://127.0.0.1:8080", Call("GET", "/v1/stats", dict))
    'GET http://127.0.0.1:8080/v1/stats'
    """
    return f"{call.method} {url}{call.path}"
