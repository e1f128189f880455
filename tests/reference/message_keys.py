"""The slow, obvious twins of the kernels that look at Kafka messages and choose their partitions."""

from __future__ import annotations

from streamsched.connectors.formats.msgpack_boundaries import FRAME
from streamsched.connectors.kafka.decoding import BROKEN, EMPTY, FRAME_MAP, JSON, MAP, OTHER
from tests.reference.estimators import MsgpackMap


def classify_message(value: bytes, limit: int) -> int:
    """What a message is, by its first byte and, where that begins a map, by whether the map is all of it."""
    if not value:
        return EMPTY
    if value[:1] in (b"{", b" ", b"\t", b"\r", b"\n"):
        return JSON
    if not (0x80 <= value[0] <= 0x8F or value[0] in (0xDE, 0xDF)):
        return OTHER
    found = MsgpackMap(value, 0, limit)
    if found.end != len(value):
        return BROKEN
    return FRAME_MAP if found.kind == FRAME else MAP


def host_of(url: str) -> str:
    """The host of a URL, in lower case, with its port unless the scheme implies it."""
    scheme, there, rest = url.partition("://")
    if not there or any(mark in scheme for mark in "/?#"):
        scheme, rest = "", url
    for mark in "/?#":
        rest = rest.partition(mark)[0]
    host = "".join(letter.lower() if letter.isascii() else letter for letter in rest.rpartition("@")[2])
    implied = {4: ":80", 5: ":443"}.get(len(scheme.encode()), "")  # `http` and `https`, whatever their case
    return host.removesuffix(implied) if host != implied else host
