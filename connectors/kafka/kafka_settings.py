"""Settings of a Kafka source or sink, read from a ``kafka://`` URL, a mapping, or both.

::

    kafka://broker-1:9093,broker-2:9093/outcomes?group=crawl&security.protocol=SSL&ssl.ca.location=/etc/ca.pem

Settings without a dot in their name are this library's (`KafkaSettings`); those with a dot go to the client, by the
names in librdkafka's and Kafka's documentation (`streamsched.connectors.kafka.clients.options`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from streamsched.errors import SettingsError, SettingsErrors
from streamsched.numerics.argument_checks import check_type
from streamsched.numerics.durations import parse_duration

SCHEME: Final = "kafka://"
CLIENTS: Final = ("auto", "kafka-python", "confluent")
_STARTS: Final = ("earliest", "latest")
_LOSSES: Final = ("fail", "earliest", "latest")
_VERSIONS: Final = ("reject", "stop")
_SECRETS: Final = ("sasl.password", "ssl.key.password")
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_WITH_PASSWORD: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")  # mechanisms of SASL
_START: Final = "auto.offset.reset"  # the clients' name of `start`
_RESERVED: Final = {  # client settings that the source controls, and what to set instead
    "bootstrap.servers": "the URL's host",
    "enable.auto.commit": "no such setting: offsets are committed after snapshots",
    "enable.auto.offset.store": "no such setting: offsets are committed after snapshots",
    "enable.idempotence": "no such setting: it is always on",
    "enable.partition.eof": "no such setting: it is always on",
    "group.id": "group",
    "partition.assignment.strategy": "no such setting: partitions are revoked all at once, after one snapshot",
}


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """A topic, and how it is read or written.

    - ``servers``: bootstrap brokers, ``host:port``, separated by commas;
    - ``group``: the consumer group; None reads ``partitions``, by default all of them, and commits nothing;
    - ``start``: "earliest" or "latest", used without a position and without a committed offset;
    - ``lost``: what to do if the offset to continue at is no longer in the log: "fail", or continue at the log's
      "earliest" or "latest" offset;
    - ``until_end``: stop at the ends that the partitions have at the start;
    - ``dead_letters``: a topic for rejected messages;
    - ``versions``: "reject" messages of an unknown schema version, or "stop" before the first;
    - ``client``: "kafka-python", "confluent", or "auto", the faster of those installed;
    - ``patience_s``: timeout of requests to the brokers; reading waits for them without a limit;
    - ``options``: settings for the client.
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
    """Return the settings in `url` and `settings`; `settings` overrides the URL.

    `settings` has the names of the URL's query, the library's own with a hyphen or an underscore; ``auto.offset.reset``
    is another name of ``start``. A secret may be read from a file: ``sasl.password.file``, ``ssl.key.password.file``.
    Raises SettingsError that names the setting.

    >>> read_settings("kafka://localhost:9092/outcomes?group=crawl&partitions=0,2-4").partitions
    (0, 2, 3, 4)
    """
    check_type("url", url, str, "a text kafka://HOST:PORT/TOPIC")
    check_type("settings", settings, Mapping | None, "settings by name, or None")
    parts = urlsplit(url)
    topic = unquote(parts.path.strip("/"))
    if parts.scheme != "kafka" or not parts.netloc or not topic or "/" in topic or "@" in parts.netloc:
        shown = parts._replace(query="", netloc=parts.netloc.rpartition("@")[2]).geturl()
        raise SettingsError("source", shown, "kafka://HOST:PORT[,HOST:PORT]/TOPIC[?…], no user or password before HOST")
    for server in parts.netloc.split(","):
        host, colon, port = server.rpartition(":")
        if (
            colon
            and not port.endswith("]")
            and not (host and re.fullmatch("[0-9]{1,5}", port) and 0 < int(port) < 1 << 16)
        ):
            raise SettingsError("source", server, "HOST:PORT, with a port from 1 to 65535")
    given: dict[str, object] = {**dict(parse_qsl(parts.query, keep_blank_values=True)), **(settings or {})}
    own: dict[str, Any] = {}
    options: dict[str, str] = {}
    for setting, value in given.items():
        if setting == _START:
            start = given.get("start", value)
            if value not in _STARTS:
                raise SettingsError(_START, value, f"one of {', '.join(_STARTS)}")
            if start != value:
                raise SettingsError(_START, value, f"{start}, as start has it: set only one of the two")
            own["start"] = str(value)
            continue
        if "." in setting:
            options |= _read_option(setting, str(value))
            continue
        name = setting.replace("-", "_")
        read = _READERS.get(name.removesuffix("_s"))
        if read is None:
            known = ", ".join(sorted(known.replace("_", "-") for known in _READERS))
            # Neither the value nor an unusual name is shown: either may be a password, or a part of one.
            name = setting if re.fullmatch(r"[a-z][a-z_-]{0,30}", setting) else "source"
            raise SettingsError(name, "…", f"one of {known}, or a setting of the client, with a dot in its name")
        own["patience_s" if name == "patience" else name] = read(setting, value)
    return KafkaSettings(parts.netloc, topic, options=options, **own)


def check_credentials(settings: KafkaSettings) -> None:
    """Raise SettingsErrors that name what is missing of a mechanism, a user name and a password, if SASL is asked for.

    It is for settings that are complete: a URL and a table may each have a part of them.
    """
    options = settings.options
    if not options.get("security.protocol", "").startswith("SASL_"):
        return
    mechanism = options.get("sasl.mechanism") or options.get("sasl.mechanisms")
    if mechanism is not None and mechanism.upper() not in _WITH_PASSWORD:
        return
    expected = {
        "sasl.mechanism": f"{', '.join(_WITH_PASSWORD)} or another that the client has",
        "sasl.username": "the user name for SASL",
        "sasl.password": "the password for SASL, or sasl.password.file, a file with it",
    }
    found = {"sasl.mechanism": mechanism} | {name: options.get(name) for name in ("sasl.username", "sasl.password")}
    missing = [SettingsError(name, found[name], expected[name]) for name in expected if not found[name]]
    if missing:
        raise SettingsErrors(missing)


def _read_option(setting: str, value: str) -> dict[str, str]:
    if setting in _RESERVED:
        raise SettingsError(setting, value, _RESERVED[setting])
    if setting == "security.protocol":  # kafka-python connects in plain text if it does not know the protocol
        return {setting: _read_choice(*_PROTOCOLS)(setting, value.upper())}
    secret = setting.removesuffix(".file")
    if secret == setting or secret not in _SECRETS:
        return {setting: value}
    try:
        with open(value, encoding="utf-8-sig") as file:  # noqa: PTH123  the value is a file's name
            return {secret: file.read().rstrip("\r\n")}
    except OSError as error:
        raise SettingsError(setting, value, f"a file that can be read ({error.strerror})") from error


def _read_text(setting: str, value: object) -> str:
    if isinstance(value, str) and value:
        return value
    raise SettingsError(setting, value, "a name")


def _read_choice(*choices: str) -> Callable[[str, object], str]:
    def read(setting: str, value: object) -> str:
        if value in choices:
            return str(value)
        raise SettingsError(setting, value, f"one of {', '.join(choices)}")

    return read


def _read_flag(setting: str, value: object) -> bool:
    flags = {"true": True, "yes": True, "1": True, "": True, "false": False, "no": False, "0": False}
    flag = flags.get(str(value).lower())
    if flag is None:
        raise SettingsError(setting, value, "true or false")
    return flag


def _read_partitions(setting: str, value: object) -> tuple[int, ...]:
    if isinstance(value, list | tuple) and all(type(one) is int and one >= 0 for one in value):
        return tuple(sorted(set(value)))
    try:
        chosen = {one for part in str(value).split(",") for one in _read_range(part)}
    except ValueError:
        raise SettingsError(setting, value, "numbers and ranges, such as 0,2-4") from None
    return tuple(sorted(chosen))


def _read_range(text: str) -> range:
    first, _, last = text.partition("-")
    found = range(int(first), int(last or first) + 1)
    if not found:
        raise ValueError(text)
    return found


def _read_patience(setting: str, value: object) -> float:
    return parse_duration(value if isinstance(value, int | float) else str(value), setting)


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
