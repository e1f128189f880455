"""Settings of a Kafka source or sink: a ``kafka://`` URL, a mapping, or both, read into one record.

::

    kafka://broker-1:9093,broker-2:9093/outcomes?group=crawl&security.protocol=SSL&ssl.ca.location=/etc/ca.pem

Words without a dot are this library's own (`KafkaSettings`); words with a dot go to the client, by the names that
librdkafka and Kafka's own documentation give them (`streamsched.connectors.kafka.clients.options`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from streamsched.errors import SettingsError
from streamsched.numerics.durations import parse_duration

__all__ = ["CLIENTS", "SCHEME", "KafkaSettings", "read_settings"]

SCHEME: Final = "kafka://"
CLIENTS: Final = ("auto", "kafka-python", "confluent")
_STARTS: Final = ("earliest", "latest")
_LOSSES: Final = ("fail", "earliest", "latest")
_VERSIONS: Final = ("reject", "stop")
_SECRETS: Final = ("sasl.password", "ssl.key.password")
_OWN: Final = {  # what the source keeps in its own hands, and the word that says it
    "auto.offset.reset": "start",
    "bootstrap.servers": "the URL's host",
    "enable.auto.commit": "no setting: offsets follow the snapshots",
    "enable.auto.offset.store": "no setting: offsets follow the snapshots",
    "enable.idempotence": "no setting: it is always on",
    "enable.partition.eof": "no setting",
    "group.id": "group",
    "partition.assignment.strategy": "no setting: partitions go all at once, one snapshot holds them",
}


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """Where a topic is and how it is read or written.

    ``servers``: brokers to ask first, ``host:port``, separated by commas. ``group``: the consumer group; None reads
    ``partitions``, all of them where None, and commits nothing. ``start``: "earliest" or "latest", where neither a
    position nor a committed offset says where. ``lost``: what to do where the offset to go on at is no longer in the
    log: "fail", or go on at its "earliest" or "latest". ``until_end``: stop at the ends that the partitions have at the
    start. ``dead_letters``: a topic for what is rejected. ``versions``: "reject" messages of an unknown schema version
    or "stop" before the first. ``client``: "kafka-python", "confluent", or "auto", the faster of those installed.
    ``patience_s``: how long the brokers may leave a question unanswered; reading waits for them without end.
    ``options``: settings for the client.
    """

    servers: str
    topic: str
    group: str | None = None
    partitions: tuple[int, ...] | None = None
    start: str = "earliest"
    lost: str = "fail"
    until_end: bool = False
    dead_letters: str | None = None
    versions: str = "reject"
    client: str = "auto"
    patience_s: float = 30.0
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # passwords are among them


def read_settings(url: str, settings: Mapping[str, object] | None = None) -> KafkaSettings:
    """Return what `url` and `settings` say; where both do, `settings` counts.

    `settings` has the words of the URL's query, those of the library with a hyphen or an underscore. A secret may
    stand in a file instead: ``sasl.password.file``, ``ssl.key.password.file``. Raises SettingsError naming the word.

    >>> read_settings("kafka://localhost:9092/outcomes?group=crawl&partitions=0,2-4").partitions
    (0, 2, 3, 4)
    """
    parts = urlsplit(url)
    topic = unquote(parts.path.strip("/"))
    if parts.scheme != "kafka" or not parts.netloc or not topic or "/" in topic or "@" in parts.netloc:
        shown = parts._replace(query="", netloc=parts.netloc.rpartition("@")[2]).geturl()
        raise SettingsError("source", shown, "kafka://HOST:PORT[,HOST:PORT]/TOPIC[?…], no user or password before HOST")
    words: dict[str, object] = {**dict(parse_qsl(parts.query, keep_blank_values=True)), **(settings or {})}
    own: dict[str, Any] = {}
    options: dict[str, str] = {}
    for word, value in words.items():
        if "." in word:
            options |= _read_option(word, str(value))
            continue
        name = word.replace("-", "_")
        read = _READERS.get(name.removesuffix("_s"))
        if read is None:
            known = ", ".join(sorted(known.replace("_", "-") for known in _READERS))
            # Neither its value nor what is no word is shown: either may be a password, or a part of one.
            name = word if re.fullmatch(r"[a-z][a-z_-]{0,30}", word) else "source"
            raise SettingsError(name, "…", f"one of {known}, or a client's setting, which has a dot in its name")
        own["patience_s" if name == "patience" else name] = read(word, value)
    return KafkaSettings(parts.netloc, topic, options=options, **own)


def _read_option(word: str, value: str) -> dict[str, str]:
    if word in _OWN:
        raise SettingsError(word, value, _OWN[word])
    secret = word.removesuffix(".file")
    if secret == word or secret not in _SECRETS:
        return {word: value}
    try:
        with open(value, encoding="utf-8") as file:  # noqa: PTH123  the word is a file's name
            return {secret: file.read().rstrip("\r\n")}
    except OSError as error:
        raise SettingsError(word, value, f"a file that can be read ({error.strerror})") from error


def _read_text(word: str, value: object) -> str:
    if isinstance(value, str) and value:
        return value
    raise SettingsError(word, value, "a name")


def _read_choice(*choices: str) -> Callable[[str, object], str]:
    def read(word: str, value: object) -> str:
        if value in choices:
            return str(value)
        raise SettingsError(word, value, f"one of {', '.join(choices)}")

    return read


def _read_flag(word: str, value: object) -> bool:
    flags = {"true": True, "yes": True, "1": True, "": True, "false": False, "no": False, "0": False}
    flag = flags.get(str(value).lower())
    if flag is None:
        raise SettingsError(word, value, "true or false")
    return flag


def _read_partitions(word: str, value: object) -> tuple[int, ...]:
    if isinstance(value, list | tuple) and all(type(one) is int and one >= 0 for one in value):
        return tuple(sorted(set(value)))
    try:
        chosen = {one for part in str(value).split(",") for one in _read_range(part)}
    except ValueError:
        raise SettingsError(word, value, "numbers and ranges, as 0,2-4") from None
    return tuple(sorted(chosen))


def _read_range(text: str) -> range:
    first, _, last = text.partition("-")
    found = range(int(first), int(last or first) + 1)
    if not found:
        raise ValueError(text)
    return found


def _read_patience(word: str, value: object) -> float:
    return parse_duration(value if isinstance(value, int | float) else str(value), word)


_READERS: Final[dict[str, Callable[[str, object], object]]] = {
    "client": _read_choice(*CLIENTS),
    "dead_letters": _read_text,
    "group": _read_text,
    "lost": _read_choice(*_LOSSES),
    "partitions": _read_partitions,
    "patience": _read_patience,
    "start": _read_choice(*_STARTS),
    "until_end": _read_flag,
    "versions": _read_choice(*_VERSIONS),
}
