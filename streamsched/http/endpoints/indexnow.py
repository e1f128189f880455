"""IndexNow: sites announce their changed pages, and prove by a file of their host that they may speak of them.

Everybody may call it, so what a caller can cause is bounded: a few bodies at a time, a few key files, and one a second
of a host. A key file is fetched in the loop of the server: neither the scheduler nor another request waits for it.
Source: the protocol at indexnow.org.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.responses import Response

from streamsched.api.operations import Operation
from streamsched.connectors.signals.entry_columns import EntryScope, find_host
from streamsched.errors import FetchError
from streamsched.http.gate import RateLimit
from streamsched.http.protocol.bodies import JSON, BodyReader
from streamsched.http.protocol.problems import HttpError, shorten_text
from streamsched.http.protocol.routes import Route
from streamsched.http.service import Service
from streamsched.numerics.packed_urls import MAX_URL_BYTES
from streamsched.scheduler.durable import DurableScheduler
from streamsched.service.event_log import LOG
from streamsched.signals import SignalBatch
from streamsched.web.safe_fetch import FetchLimits, SafeClient

MOST_URLS: Final = 10_000
MOST_UNDER_WAY: Final = 16  # notices whose key file is being fetched
WAIT_S: Final = 5.0  # for a key file; then the notice is accepted, and applied once the file has come
KEY_AGE_S: Final = 3_600.0  # for which a key file is believed
_HOST_RATE: Final = 1  # key files a second of one host
_MOST_KEYS: Final = 10_000
_LIMITS: Final = FetchLimits(seconds=20.0, body_bytes=1_024, cut=True, redirects=0)
_KEY: Final = re.compile(r"[A-Za-z0-9-]{8,128}")
_URL: Final = "an absolute http or https URL"
_SOURCE: Final = "indexnow"


class Notice(msgspec.Struct):
    """What a site says: the pages ``url_list`` of ``host`` have changed. ``key_location``: of the key file."""

    host: str
    key: str
    url_list: list[str] = msgspec.field(name="urlList")
    key_location: str | None = msgspec.field(name="keyLocation", default=None)


class OneUrl(msgspec.Struct):
    """The parameters of a notice of one page."""

    url: str = ""
    key: str = ""
    key_location: str | None = msgspec.field(name="keyLocation", default=None)


class NoticeReader(BodyReader):
    """Reads the body of a notice. What is no notice is answered with 400, as the protocol has it."""

    def __init__(self) -> None:
        super().__init__(Notice)
        self.media_types = (JSON,)

    def read(self, body: bytes, media_type: str) -> Notice:  # noqa: ARG002  there is one
        """Return the notice. O(bytes). Raises HttpError."""
        try:
            return msgspec.json.decode(body, type=Notice)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise _refuse(HTTPStatus.BAD_REQUEST, "malformed", "body", str(error), "a notice of IndexNow") from None


class IndexNow:
    """Takes notices for `service`; `client` fetches their key files.

    A key file is fetched once an hour, and no redirect of it is followed: whoever can redirect within a host need not
    own it.
    """

    def __init__(self, service: Service, client: SafeClient) -> None:
        self._service = service
        self._client = client
        self._right: OrderedDict[tuple[str, str], float] = OrderedDict()  # key files and keys, and until when
        self._host_rate = RateLimit(_HOST_RATE, time.monotonic)
        self._under_way: set[asyncio.Task[None]] = set()

    def routes(self) -> list[Route]:
        """Return the routes of these endpoints, which clients of the service do not call."""
        one: Operation[Any] = Operation("indexnow_url", "GET /indexnow", None, None, OneUrl, is_described=False)
        several: Operation[Any] = Operation("indexnow", "POST /indexnow", None, None, Notice, is_described=False)
        return [Route.of(one, self.take_url), Route(several, self.take, NoticeReader())]

    async def take_url(self, asked: OneUrl) -> Response:
        """Take the notice of one page."""
        host = find_host(asked.url)
        if host is None:
            raise _refuse(HTTPStatus.BAD_REQUEST, "invalid", "url", asked.url, _URL)
        return await self.take(Notice(host, asked.key, [asked.url], asked.key_location))

    async def take(self, notice: Notice) -> Response:
        """Take a notice: 200 if its key is right, 202 if that is not known yet."""
        place = _check(notice)
        if self._is_known(place, notice.key):
            await self._apply(notice.url_list)
            return Response(status_code=HTTPStatus.OK)
        if len(self._under_way) >= MOST_UNDER_WAY or self._host_rate.wait_s(find_host(place) or ""):
            detail = "too many key files are being fetched, or one of this host a moment ago"
            raise HttpError(HTTPStatus.TOO_MANY_REQUESTS, "too_many_key_files", detail, headers={"retry-after": "10"})
        task = asyncio.create_task(self._prove(place, notice))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        done, _ = await asyncio.wait((task,), timeout=WAIT_S)
        if not done:
            task.add_done_callback(_log_failure)
            return Response(status_code=HTTPStatus.ACCEPTED)
        task.result()
        return Response(status_code=HTTPStatus.OK)

    async def _prove(self, place: str, notice: Notice) -> None:
        """Fetch the key file at `place`; apply the notice if it has the key. Raises HttpError if not."""
        try:
            async with self._client.fetch(place, limits=_LIMITS) as answer:
                status, found, reason = answer.status, answer.body, f"answers with status {answer.status}"
        except FetchError as error:
            status, found, reason = 0, b"", str(error)
        if status != HTTPStatus.OK:  # why is for the log: addresses behind a firewall are no business of callers
            LOG.info("key file not fetched", url=place, reason=reason)
            raise _refuse(HTTPStatus.FORBIDDEN, "no_key_file", "keyLocation", place, "a key file that can be fetched")
        if found.removeprefix(b"\xef\xbb\xbf").strip() != notice.key.encode():
            raise _refuse(HTTPStatus.FORBIDDEN, "wrong_key", "key", notice.key, "the text of the key file")
        self._right[place, notice.key] = time.monotonic() + KEY_AGE_S
        while len(self._right) > _MOST_KEYS:
            self._right.popitem(last=False)
        await self._apply(notice.url_list)

    def _is_known(self, place: str, key: str) -> bool:
        return self._right.get((place, key), 0.0) > time.monotonic()

    async def _apply(self, urls: Sequence[str]) -> None:
        def notice(scheduler: DurableScheduler, now: float) -> None:
            scheduler.notice(SignalBatch(urls, [now] * len(urls), _SOURCE))

        await self._service.call(notice)


def _check(notice: Notice) -> str:
    """Return where the key file of `notice` is. Raises HttpError if the notice cannot be right."""
    if not 1 <= len(notice.url_list) <= MOST_URLS:
        found = f"{len(notice.url_list)} URLs"
        raise _refuse(HTTPStatus.BAD_REQUEST, "too_many_urls", "urlList", found, f"1 to {MOST_URLS:,} URLs")
    host = find_host(f"https://{notice.host}/")
    if host is None or "/" in notice.host or "@" in notice.host:
        raise _refuse(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", "host", notice.host, "a host, such as a.example")
    if not _KEY.fullmatch(notice.key):
        expected = "8 to 128 letters, digits and dashes"
        raise _refuse(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", "key", notice.key, expected)
    is_plain = all(url[:7].lower() == "http://" for url in notice.url_list)
    place = notice.key_location or f"{'http' if is_plain else 'https'}://{notice.host}/{notice.key}.txt"
    if find_host(place) != host or "?" in place or "#" in place or "@" in place or len(place) > MAX_URL_BYTES:
        expected = f"the URL of a file of {shorten_text(host)}, without a query"
        raise _refuse(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", "keyLocation", place, expected)
    scope = EntryScope.of_sitemap(place)
    for url in notice.url_list:
        if len(url) > MAX_URL_BYTES or not scope.covers_url(url):
            expected = f"a URL below {shorten_text(''.join(scope.directory or ()))}, where the key file is"
            raise _refuse(HTTPStatus.UNPROCESSABLE_ENTITY, "foreign_url", "urlList", url, expected)
    return place


def _refuse(status: HTTPStatus, code: str, field: str, found: str, expected: str) -> HttpError:
    fields = {"field": field, "found": shorten_text(found), "expected": expected}
    return HttpError(status, code, f"{field}: expected {expected}", fields=fields)


def _log_failure(task: asyncio.Task[None]) -> None:
    """Log that a notice that was accepted is not applied."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        LOG.warning("notice not applied", reason=str(error))
