"""Settings of either client, by their names in librdkafka's and Kafka's documentation.

====================================  ==================================================================
``security.protocol``                 PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL
``ssl.ca.location``                   file of the trusted authorities
``ssl.certificate.location``          file of the client's certificate
``ssl.key.location``                  file of its key
``ssl.key.password``                  the key's password; ``ssl.key.password.file``: a file with it
``ssl.crl.location``                  file of revoked certificates
``ssl.cipher.suites``                 in OpenSSL's notation
``ssl.endpoint.identification...``    ``...algorithm``: https checks the brokers' names, none does not
``sasl.mechanism``                    PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, GSSAPI, OAUTHBEARER
``sasl.username``                     for PLAIN and SCRAM
``sasl.password``                     likewise; ``sasl.password.file``: a file with it
``sasl.kerberos.service.name``        for GSSAPI
====================================  ==================================================================

Others are passed to the client unchanged, for kafka-python with underscores in place of dots. A setting that only
consumers have is left out for producers, and the other way round, so that one table of settings serves both.
``api.version`` (2.3) is kafka-python's, for brokers that do not report their version.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import Any, Final

from streamsched.errors import SettingsError

_CONFLUENT_NAMES: Final = {  # by Kafka's names; librdkafka knows all but the first, and names its own in errors
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "compression.type": "compression.codec",
    "delivery.timeout.ms": "message.timeout.ms",
    "linger.ms": "queue.buffering.max.ms",
    "max.partition.fetch.bytes": "fetch.message.max.bytes",
    "sasl.mechanism": "sasl.mechanisms",
}
_PYTHON_NAMES: Final = {own: name.replace(".", "_") for name, own in _CONFLUENT_NAMES.items()} | {
    "sasl.password": "sasl_plain_password",
    "sasl.username": "sasl_plain_username",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.cipher.suites": "ssl_ciphers",
    "ssl.crl.location": "ssl_crlfile",
    "ssl.endpoint.identification.algorithm": "ssl_check_hostname",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
}
_SECRET: Final = re.compile("password|secret|token|jaas|pem|key$")  # in names of settings: their values are not shown
_SIZES: Final = ("receive_buffer_bytes", "send_buffer_bytes")  # whole numbers whose default is None
_FLAGS: Final = {"true": True, "false": False, "https": True, "none": False, "": False}


def shown_value(option: str, value: str | None) -> str | None:
    """Return `value` as errors may show it: a secret's is hidden.

    >>> shown_value("sasl.password", "s3cret"), shown_value("session.timeout.ms", "soon")
    ('…', 'soon')
    """
    return "…" if value is not None and _SECRET.search(option) else value


def to_confluent(options: Mapping[str, str]) -> dict[str, str]:
    """Return `options` by librdkafka's names. It ignores those of consumers in a producer, and the other way round.

    >>> to_confluent({"fetch.max.wait.ms": "100"})
    {'fetch.wait.max.ms': '100'}
    """
    return {_CONFLUENT_NAMES.get(option, option): value for option, value in options.items()}


def name_in(options: Mapping[str, str], named: str) -> str:
    """Return the name in `options` of the setting that librdkafka calls `named`.

    >>> name_in({"linger.ms": "soon"}, "queue.buffering.max.ms"), name_in({}, "client.id")
    ('linger.ms', 'client.id')
    """
    return next((option for option in options if _CONFLUENT_NAMES.get(option) == named), named)


def python_name(option: str) -> str:
    """Return kafka-python's name of a setting.

    >>> python_name("linger.ms"), python_name("queue.buffering.max.ms")
    ('linger_ms', 'linger_ms')
    """
    return _PYTHON_NAMES.get(option, option.replace(".", "_"))


def to_python(options: Mapping[str, str], defaults: Mapping[str, Any], others: Container[str] = ()) -> dict[str, Any]:
    """Return `options` by kafka-python's names, each converted to the type of its entry in `defaults`.

    Those that only other clients of the library have, with names in `others`, are left out. Raises SettingsError if
    none has such a setting or its value has the wrong type.

    >>> to_python({"session.timeout.ms": "6000", "linger.ms": "5"}, {"session_timeout_ms": 45000}, {"linger_ms"})
    {'session_timeout_ms': 6000}
    """
    converted: dict[str, Any] = {}
    for option, value in options.items():
        name = python_name(option)
        if name in defaults:
            converted[name] = _convert(option, value, name, defaults[name])
        elif name not in others:
            raise SettingsError(option, "…", "a setting of kafka-python")  # the value may be a misspelt password's
    return converted


def _convert(option: str, value: str, name: str, default: object) -> object:
    if isinstance(default, bool):
        flag = _FLAGS.get(value.lower())
        if flag is None:
            raise SettingsError(option, value, "true or false")
        return flag
    if option == "api.version":
        if not re.fullmatch(r"\d+(\.\d+)*", value):
            raise SettingsError(option, value, "a version, such as 2.3")
        return tuple(map(int, value.split(".")))
    if isinstance(default, int | float) or name in _SIZES:
        try:
            return int(value)
        except ValueError:
            raise SettingsError(option, value, "a whole number") from None
    return value
