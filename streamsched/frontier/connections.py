"""gRPC calls over HTTP/2: a connection splits what arrives into messages and joins what is sent into frames.

grpcio takes 150 to 300 µs for a message of a stream. Here h2 reads frames, and all messages that have arrived go to
the handler together, as do the answers of all to the client: 20 to 40 µs.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from enum import IntEnum
from typing import Any, Final
from urllib.parse import quote

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import H2Error
from h2.settings import SettingCodes, Settings

from streamsched.frontier.data_frames import FrameJoiner
from streamsched.service.event_log import LOG

_PREFIX: Final = struct.Struct(">BI")  # whether a message is compressed, and its length
_WINDOW: Final = 1 << 20  # bytes of a call that may arrive before its handler has read them
_STREAMS: Final = 128  # calls at once on a connection
_UNFINISHED: Final = 2  # largest messages that the parts of messages on a connection may sum up to
_HEADERS: Final = 16 << 10  # bytes of a call's headers
_SETTINGS: Final = {
    SettingCodes.INITIAL_WINDOW_SIZE: _WINDOW,
    SettingCodes.MAX_CONCURRENT_STREAMS: _STREAMS,
    SettingCodes.MAX_HEADER_LIST_SIZE: _HEADERS,
}
_MOST_RESETS: Final = 1_000  # calls that a client may cancel before they are answered, on one connection
_TIMEOUT: Final = re.compile(r"([0-9]{1,8})([HMSmun])")
_UNITS: Final = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}


class Code(IntEnum):
    """Status codes of gRPC."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


class GrpcError(Exception):
    """A call that ends with a status other than OK."""

    def __init__(self, code: Code, detail: str) -> None:
        self.code = code
        super().__init__(detail)


class GrpcBounds:
    """What clients can hold. ``message``: bytes of a message; ``connections``: of one address, and in all.

    ``write_s``: for how long a client may leave what is sent unread; ``read_s``: in which a call's only message must
    arrive.
    """

    def __init__(self, message: int, most: int, most_of_address: int, write_s: float, read_s: float) -> None:
        self.message = message
        self.write_s = write_s
        self.read_s = read_s
        self._most = most
        self._most_of_address = most_of_address
        self._open: Counter[str] = Counter()

    def admit(self, address: str) -> bool:
        """Count a connection of `address`, unless there are too many."""
        if self._open.total() >= self._most or self._open[address] >= self._most_of_address:
            return False
        self._open[address] += 1
        return True

    def leave(self, address: str) -> None:
        """Count a connection less."""
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]


class Call:
    """A call under way: what arrives for it, and how it is answered.

    ``path``, ``headers``: of its request; ``most``: bytes of a message; ``is_stopped``: whether the service stops.
    """

    def __init__(self, connection: GrpcConnection, number: int, headers: Iterable[tuple[Any, Any]]) -> None:
        self.connection = connection
        self.number = number
        self.headers: list[tuple[str, str]] = list(headers)  # texts, as the connection's header_encoding is
        named = dict(self.headers)
        self.path = named.get(":path", "")
        self.method = named.get(":method", "")
        self.media_type = named.get("content-type", "")
        self.timeout_s = _read_timeout(named.get("grpc-timeout"))
        self.most = connection.bounds.message
        self.task: asyncio.Task[None] | None = None
        self.may_send = asyncio.Event()
        self._arrived = asyncio.Event()
        self._buffer = bytearray()
        self._held = 0  # bytes of flow control that the client has not got back
        self._ended = False
        self.is_stopped = False
        self._began = False

    def feed(self, data: bytes, held: int) -> None:
        """Take what has arrived; `held`: its bytes with padding."""
        self._buffer += data
        self._held += held
        self._arrived.set()

    @property
    def unfinished(self) -> int:
        """Bytes that have arrived and not been received."""
        return len(self._buffer)

    def feed_end(self) -> None:
        """Note that nothing more arrives."""
        self._ended = True
        self._arrived.set()

    def stop(self) -> None:
        """Let `receive` end the call once it has no message left."""
        self.is_stopped = True
        self._arrived.set()

    async def receive(self) -> list[bytes]:
        """Return all messages that have arrived, at least one; none after the last.

        The client may send as many bytes again. Raises GrpcError for what is no message.
        """
        while True:
            self.give_back()
            messages = self._split()
            if messages:
                return messages
            if self.is_stopped:
                raise GrpcError(Code.UNAVAILABLE, "the service stops")
            if self.connection.unfinished > _UNFINISHED * self.connection.bounds.message:
                raise GrpcError(Code.RESOURCE_EXHAUSTED, "too many messages of this connection are not whole")
            if self._ended:
                if self._buffer:
                    raise GrpcError(Code.INVALID_ARGUMENT, "the last message is not whole")
                return []
            self._arrived.clear()
            await self._arrived.wait()

    async def receive_one(self) -> bytes:
        """Return the only message of a call. Raises GrpcError if it has none, or several."""
        messages: list[bytes] = []
        try:
            async with asyncio.timeout(self.connection.bounds.read_s):
                while more := await self.receive():
                    messages += more
                    if len(messages) > 1:
                        break
        except TimeoutError:
            raise GrpcError(Code.DEADLINE_EXCEEDED, "the message has not arrived in time") from None
        if len(messages) != 1:
            raise GrpcError(Code.INVALID_ARGUMENT, "expected one message")
        return messages[0]

    async def send(self, messages: Iterable[bytes]) -> None:
        """Send messages, as fast as the client reads. Raises GrpcError if it reads none for too long."""
        data = memoryview(b"".join(part for one in messages for part in (_PREFIX.pack(0, len(one)), one)))
        self.begin()
        http2, bounds = self.connection.http2, self.connection.bounds
        while data:
            room = min(http2.local_flow_control_window(self.number), http2.max_outbound_frame_size)
            if room > 0 and not self.connection.is_full:
                http2.send_data(self.number, bytes(data[:room]))
                data = data[room:]
                self.connection.flush()
                continue
            self.may_send.clear()
            try:
                async with asyncio.timeout(bounds.write_s):
                    await self.may_send.wait()
            except TimeoutError:
                self.connection.drop_unread()
                raise GrpcError(Code.CANCELLED, "the client does not read") from None

    def begin(self) -> None:
        """Send the headers of the answer, once."""
        if not self._began:
            self._began = True
            headers = [(":status", "200"), ("content-type", "application/grpc")]
            self.connection.http2.send_headers(self.number, headers)

    def finish(self, code: Code = Code.OK, detail: str = "") -> None:
        """Send the status of the call, and take nothing more of it."""
        headers = [] if self._began else [(":status", "200"), ("content-type", "application/grpc")]
        headers.append(("grpc-status", str(int(code))))
        if detail:
            headers.append(("grpc-message", quote(detail, safe=" !#$&'()*+,-./:;<=>?@[]^_`{|}~")))
        http2 = self.connection.http2
        with suppress(H2Error):  # the client has gone
            http2.send_headers(self.number, headers, end_stream=True)
            self.give_back()
            if not self._ended:
                http2.reset_stream(self.number, ErrorCodes.NO_ERROR)
        self.connection.flush()

    def give_back(self) -> None:
        """Let the client send as many bytes again as have been taken."""
        if self._held:
            held, self._held = self._held, 0
            with suppress(H2Error):
                self.connection.http2.acknowledge_received_data(held, self.number)
            self.connection.flush()

    def _split(self) -> list[bytes]:
        """Return the whole messages of the buffer, and leave the rest in it."""
        buffer, messages, at = self._buffer, [], 0
        size, most = len(buffer), self.most
        while size - at >= _PREFIX.size:
            compressed, length = _PREFIX.unpack_from(buffer, at)
            if compressed:
                raise GrpcError(Code.UNIMPLEMENTED, "compressed messages are not accepted")
            if length > most:
                raise GrpcError(Code.RESOURCE_EXHAUSTED, f"expected messages of at most {most:,} bytes")
            end = at + _PREFIX.size + length
            if end > size:
                break
            messages.append(bytes(buffer[at + _PREFIX.size : end]))
            at = end
        del buffer[:at]
        return messages


Handler = Callable[[Call], Awaitable[None]]


class GrpcConnection(asyncio.Protocol):
    """A connection of a client, whose calls `handle` answers. ``address``: the client's."""

    def __init__(self, bounds: GrpcBounds, handle: Handler, all_open: set[GrpcConnection]) -> None:
        self.bounds = bounds
        self.http2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self.calls: dict[int, Call] = {}
        self.address = ""
        self.is_full = False  # what is sent waits for the client
        self._handle = handle
        self._open = all_open
        self._resets = 0
        self._joiner = FrameJoiner()
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        """Begin HTTP/2, unless there are too many connections."""
        self._transport = transport
        self.address = str((transport.get_extra_info("peername") or ("",))[0])
        if not self.bounds.admit(self.address):
            transport.abort()
            return
        self._open.add(self)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # hosts vanish
        self.http2.local_settings = Settings(client=False, initial_values=_SETTINGS)
        self.http2.initiate_connection()
        self.http2.increment_flow_control_window(4 * _WINDOW)
        self.flush()

    @property
    def unfinished(self) -> int:
        """Bytes that its calls have not received. O(calls)."""
        return sum(call.unfinished for call in self.calls.values())

    @property
    def peer_name(self) -> str | None:
        """The name in the client's certificate, None if it has shown none."""
        certificate = self._transport.get_extra_info("peercert")
        if not certificate:
            return None
        subject = {key: value for part in certificate.get("subject", ()) for key, value in part}
        return str(subject.get("commonName", "certificate"))

    def data_received(self, data: bytes) -> None:
        """Read frames."""
        try:
            for event in self.http2.receive_data(self._joiner.join(data)):
                self._take(event)
        except (H2Error, UnicodeDecodeError):  # h2 has said why to the client
            self.close()
            return
        self.flush()

    def _take(self, event: events.Event) -> None:
        if isinstance(event, events.DataReceived):
            call = self.calls.get(event.stream_id)
            if call is not None:
                call.feed(event.data, event.flow_controlled_length)
            else:
                self.http2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, events.RequestReceived):
            call = Call(self, event.stream_id, event.headers)
            self.calls[event.stream_id] = call
            call.task = asyncio.get_running_loop().create_task(self._answer(call))
        elif isinstance(event, events.StreamEnded):
            if event.stream_id in self.calls:
                self.calls[event.stream_id].feed_end()
        elif isinstance(event, events.StreamReset):
            self._resets += 1
            call = self.calls.get(event.stream_id)
            if call is not None and call.task is not None:
                call.task.cancel()
            if self._resets > _MOST_RESETS:
                self.close(ErrorCodes.ENHANCE_YOUR_CALM)
        elif isinstance(event, events.WindowUpdated | events.RemoteSettingsChanged):
            self._wake()
        elif isinstance(event, events.ConnectionTerminated):
            self.close()

    async def _answer(self, call: Call) -> None:
        try:
            async with asyncio.timeout(call.timeout_s):
                await self._handle(call)
            call.begin()
            call.finish()
            self._resets = 0
        except GrpcError as error:
            call.finish(error.code, str(error))
        except TimeoutError:
            call.finish(Code.DEADLINE_EXCEEDED, "the call's deadline has passed")
        except H2Error:  # the client has ended the call or the connection
            pass
        except Exception as error:  # noqa: BLE001  no call may end the service
            LOG.error("call failed", path=call.path, exc_info=error)
            call.finish(Code.INTERNAL, "the service has failed; its log says why")
        finally:
            self.calls.pop(call.number, None)
            call.give_back()  # to the connection

    def flush(self) -> None:
        """Send what h2 has made."""
        if data := self.http2.data_to_send():
            self._transport.write(data)

    def pause_writing(self) -> None:
        """Read nothing more of a client that does not read."""
        self.is_full = True
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on."""
        self.is_full = False
        self._transport.resume_reading()
        self._wake()

    def _wake(self) -> None:
        for call in self.calls.values():
            call.may_send.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  asyncio calls it
        """End its calls."""
        if self in self._open:
            self._open.discard(self)
            self.bounds.leave(self.address)
        for call in self.calls.values():
            if call.task is not None:
                call.task.cancel()

    def drop_unread(self) -> None:
        """Close at once, if what has been sent is not read: it would hold the connection's place for ever."""
        if self.is_full:
            self._transport.abort()

    def close(self, code: ErrorCodes = ErrorCodes.NO_ERROR) -> None:
        """Tell the client that no further call is answered, and close."""
        with suppress(H2Error):
            self.http2.close_connection(code)
        self.flush()
        self._transport.close()


def _read_timeout(text: str | None) -> float | None:
    """Return the seconds of a header grpc-timeout, None if there is none.

    >>> _read_timeout("1500m")
    1.5
    """
    found = _TIMEOUT.fullmatch(text or "")
    return None if found is None else int(found[1]) * _UNITS[found[2]]
